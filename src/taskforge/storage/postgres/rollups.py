"""Folds deltas into the minutes of rollups, sums minutes up to hours and hours to days, and removes
what is past its time."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from taskforge.domain.rollup import (
    ANY_WORKER,
    MINUTES,
    Cell,
    Delta,
    Grain,
    Scope,
    decode_cell,
    decode_seen,
    first_kept,
    last_settled,
    starts_of,
    sum_deltas,
    summed_up,
)
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections


class PostgresRollups:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._walked = 0  # the scope at which the next slice of pruning goes on

    async def fold(self, limit: int) -> int:
        """How many deltas there were, and hours and days that were summed up; none while another
        process is at it."""
        async with self._connections.transaction() as connection:
            if not await self._lock(connection):
                return 0
            rows = await connection.fetch(self._sql("take_rollup_deltas"), limit)
            if rows:
                await self._add(connection, [_delta(row) for row in rows])
            if len(rows) == limit:
                return limit  # an hour is summed up when nothing of it is left to be added
            now = await self._connections.now()
            summed = 0
            for step in (Grain.HOUR, Grain.DAY):
                summed += await self._sum_up(connection, step, now, limit - len(rows))
        return len(rows) + summed

    async def prune(self, now: datetime, limit: int) -> None:
        """The next slice of scopes."""
        async with self._connections.transaction() as connection:
            if not await self._lock(connection):
                return
            rows = await connection.fetch(self._sql("scopes_behind"), self._walked, limit)
            if rows:
                kept = [first_kept(now, is_pair=row["is_pair"]) for row in rows]
                await connection.execute(
                    self._sql("prune_rollups"),
                    [row["number"] for row in rows],
                    *([bounds[step] for bounds in kept] for step in Grain),
                )
            self._walked = rows[-1]["number"] if len(rows) == limit else 0

    def _sql(self, name: str) -> str:
        return self._connections.sql(name)

    async def _lock(self, connection: Connection) -> bool:
        schema = self._connections.schema
        return bool(await connection.fetchval(self._sql("lock_rollups"), schema))

    async def _add(self, connection: Connection, deltas: Iterable[Delta]) -> None:
        cells = sum_deltas(deltas)
        numbers = await self._numbers(connection, {scope for scope, _ in cells})
        keyed = {(numbers[scope], minute): (scope, cell) for (scope, minute), cell in cells.items()}
        rows = await connection.fetch(
            self._sql("minutes_of_rollups"), *codec.columns(sorted(keyed), 2)
        )
        for row in rows:
            keyed[row["scope"], row["start"]][1].merge(decode_cell(row["cell"]))
        await self._put(
            connection,
            [
                (number, Grain.MINUTE, minute, scope.project, cell)
                for (number, minute), (scope, cell) in keyed.items()
            ],
        )
        due = {
            (number, step, start, scope.project)
            for (number, minute), (scope, _) in keyed.items()
            for step, start in starts_of(minute)
        }
        await connection.execute(self._sql("make_rollups_due"), *codec.columns(sorted(due), 4))

    async def _numbers(self, connection: Connection, scopes: Collection[Scope]) -> dict[Scope, int]:
        known = await connection.fetch(
            self._sql("rollup_scopes"), *codec.columns(sorted(scopes), 4)
        )
        numbers = {_scope(row): row["number"] for row in known}
        missing = sorted(scope for scope in scopes if scope not in numbers)
        if missing:
            made = await connection.fetch(
                self._sql("add_rollup_scopes"), *codec.columns(missing, 4)
            )
            numbers |= {_scope(row): row["number"] for row in made}
        return numbers

    async def _put(
        self, connection: Connection, cells: Sequence[tuple[int, Grain, int, int, Cell]]
    ) -> None:
        rows = sorted((*key, cell.encode()) for *key, cell in cells)
        await connection.execute(self._sql("put_rollups"), *codec.columns(rows, 5))

    async def _sum_up(self, connection: Connection, step: Grain, now: datetime, limit: int) -> int:
        due = await connection.fetch(
            self._sql("due_rollups"), int(step), last_settled(now, step), limit
        )
        if not due:
            return 0
        scopes, starts = [row["scope"] for row in due], [row["start"] for row in due]
        parts: dict[tuple[int, int], list[Cell]] = {}
        for row in await connection.fetch(
            self._sql("cells_within"), scopes, starts, int(step) - 1, MINUTES[step]
        ):
            parts.setdefault((row["scope"], row["start"]), []).append(decode_cell(row["cell"]))
        await self._put(
            connection,
            [
                (row["scope"], step, row["start"], row["project"], summed_up(part))
                for row in due
                if (part := parts.get((row["scope"], row["start"])))
            ],
        )
        await connection.execute(self._sql("forget_rollups_due"), int(step), scopes, starts)
        return len(due)


def _scope(row: Any) -> Scope:
    return Scope(row["project"], row["queue"], row["job_type"], row["worker"])


def _delta(row: Any) -> Delta:
    return Delta(
        Scope(row["project"], row["queue"], row["job_type"], row["worker"] or ANY_WORKER),
        row["minute"],
        codec.EXECUTION_STATUSES[row["status"]] if row["status"] else None,
        row["count"],
        row["durations"],
        row["waits"],
        *decode_seen(row["gauges"]),
    )
