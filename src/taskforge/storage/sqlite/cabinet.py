"""The accounts' statements on SQLite: ids are blobs, times microseconds, sets of words text."""

import enum
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec

from taskforge.domain.ids import uuid_from_bytes
from taskforge.storage.cabinet import Step, reader
from taskforge.storage.sqlite.codec import micros, moment
from taskforge.storage.sqlite.transaction import Transaction

T = TypeVar("T")


def look(connection: sqlite3.Connection, shape: type[T], statement: str, values: Sequence[Any]) -> list[T]:
    read = reader(cast("Any", shape), _converter)
    return [read(row) for row in _execute(connection, statement, values)]


def write(transaction: Transaction, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]:
    answers = []
    for step in steps:
        cursor = _execute(transaction.connection, step.statement, step.values)
        rows = cursor.fetchall()
        if step.otherwise is not None and not rows and cursor.rowcount < 1:
            raise step.otherwise()
        answers.append([tuple(row) for row in rows])
    return answers


def _execute(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
    named = {str(place): _column(value) for place, value in enumerate(values, 1)}
    return connection.execute(statement.replace("taskforge.", ""), named)


def _column(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
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
