"""Prunes what retention has passed over: job by job in every process, whole days by the leader."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from taskforge.domain.finding import PartitionUpkeep
from taskforge.domain.ids import first_id_at
from taskforge.domain.query import Pruned
from taskforge.domain.queue import longest_retention
from taskforge.domain.worker import FORMER_SECONDS
from taskforge.storage.postgres import partitions
from taskforge.storage.postgres.connections import PostgresConnections, count_affected
from taskforge.storage.postgres.rollups import PostgresRollups


class PostgresPruning:
    def __init__(self, connections: PostgresConnections, rollups: PostgresRollups) -> None:
        self._connections = connections
        self._rollups = rollups
        # days that were left as they are, and when they were looked at
        self._kept: dict[str, datetime] = {}

    async def prune(self, retention_days: float, limit: int) -> Pruned:
        now = await self._connections.now()
        own = await self._connections.fetch("retentions")
        keeps = {row["number"]: timedelta(days=row["days"] or retention_days) for row in own}
        longest = _longest(own, retention_days)
        count = 0
        old: dict[int, list[UUID]] = {}
        if keeps:
            cutoffs = [now - keep for keep in keeps.values()]
            below = [first_id_at(cutoff) for cutoff in cutoffs]
            for row in await self._connections.fetch(
                "prunable", list(keeps), below, cutoffs, limit
            ):
                old.setdefault(row["queue"], []).append(row["job"])
        for number, jobs in old.items():
            async with self._connections.connection() as connection:
                status = await connection.execute(
                    self._connections.sql("remove"),
                    jobs,
                    [number],
                    now - keeps[number],
                    self._connections.bound_now(),
                )
            count += count_affected(status)
        async with self._connections.connection() as connection:
            await connection.execute(
                self._connections.sql("prune_rest"),
                limit,
                self._connections.bound_now(),
                longest + timedelta(seconds=FORMER_SECONDS),
            )
            if count:
                await connection.execute(
                    self._connections.sql("raise_pruned_before"),
                    now - min(keeps.values()),
                )
        await self._rollups.prune(now, limit)
        return Pruned(count, count >= limit)

    async def keep_partitions(self, retention_days: float, term: int | None) -> PartitionUpkeep:
        now = await self._connections.now()
        own = await self._connections.fetch("retentions")
        cutoff = now - _longest(own, retention_days)
        missing = await partitions.make_ahead(self._connections, now, term)
        jobs = await partitions.drop_old(self._connections, now, cutoff, self._kept, term)
        if jobs:
            shortest = min((row["days"] or retention_days for row in own), default=retention_days)
            async with self._connections.connection() as connection:
                await connection.execute(
                    self._connections.sql("raise_pruned_before"), now - timedelta(days=shortest)
                )
        return PartitionUpkeep(jobs, tuple(missing))


def _longest(own: Sequence[asyncpg.Record], retention_days: float) -> timedelta:
    return timedelta(days=longest_retention((row["days"] for row in own), retention_days))
