"""The statements of records on SQLite: ids are blobs, times microseconds, sets of words text, and
lists JSON."""

import enum
import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec

from taskforge.domain.ids import uuid_from_bytes
from taskforge.ports.records import Step
from taskforge.storage.circuits import RAISE
from taskforge.storage.records.rows import row_reader
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import micros, moment
from taskforge.storage.sqlite.transaction import Transaction

T = TypeVar("T")


def look(
    connection: sqlite3.Connection, shape: type[T], statement: str, values: Sequence[Any]
) -> list[T]:
    read = row_reader(cast("Any", shape), _converter)
    return [read(row) for row in _execute(connection, statement, values)]


def write(transaction: Transaction, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]:
    answers = []
    for step in steps:
        cursor = _execute(transaction.connection, step.statement, step.values)
        rows = cursor.fetchall()
        if step.otherwise is not None and not rows and cursor.rowcount < 1:
            raise step.otherwise()
        if step.statement == RAISE:
            transaction.catalog_cache.doubt(step.values[0])
        answers.append([tuple(row) for row in rows])
    return answers


def _execute(
    connection: sqlite3.Connection, statement: str, values: Sequence[Any]
) -> sqlite3.Cursor:
    return connection.execute(text_of(statement), [_column(value) for value in values])


@cache
def text_of(name: str) -> str:
    """A text that both engines share names the schema, and its values as PostgreSQL does."""
    return re.sub(r"\$(\d)", r"?\1", sql(name).replace("taskforge.", ""))


def _column(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()
    return micros(value) if isinstance(value, datetime) else value


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    if kind is UUID:
        return uuid_from_bytes
    if kind is datetime:
        return moment
    if kind is msgspec.Raw:
        return lambda value: msgspec.Raw(value.encode())
    if kind is frozenset:
        return lambda value: frozenset(value.split())
    if kind is bool or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return kind
    return None
