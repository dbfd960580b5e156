"""The statements of records on PostgreSQL."""

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec

from taskforge.domain.ids import uuid_from_int
from taskforge.ports.records import Step
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.records.rows import row_reader

T = TypeVar("T")


class PostgresRecords:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections

    async def look(self, shape: type[T], statement: str, *values: Any) -> list[T]:
        async with self._connections.connection() as connection:
            rows = await connection.fetch(self._connections.sql(statement), *values)
        read = row_reader(cast("Any", shape), _converter)
        return [read(row) for row in rows]

    async def write(self, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]:
        async def once() -> list[list[tuple[Any, ...]]]:
            answers = []
            async with self._connections.transaction() as connection:
                for step in steps:
                    prepared = await connection.prepare(self._connections.sql(step.statement))
                    rows = await prepared.fetch(*step.values)
                    # Without `returning`, the command's tag tells how many rows it touched.
                    if (
                        step.otherwise is not None
                        and not rows
                        and str(prepared.get_statusmsg()).endswith(" 0")
                    ):
                        raise step.otherwise()
                    answers.append([tuple(row) for row in rows])
            return answers

        return await self._connections.until_undisturbed(once)


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    if kind is UUID:
        return lambda value: uuid_from_int(value.int)
    if kind is msgspec.Raw:
        return lambda value: msgspec.Raw(value.encode())
    if kind is frozenset:
        return lambda value: frozenset(value.split())
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    return None
