"""Prunes what retention has passed over: whole days where that can be done, else job by job."""

from datetime import datetime, timedelta
from uuid import UUID

from taskforge.domain.errors import StoreUnavailable
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
        longest = timedelta(days=longest_retention((row["days"] for row in own), retention_days))
        try:
            await partitions.make_ahead(self._connections, now)
            count = await partitions.drop_old(self._connections, now, now - longest, self._kept)
        except StoreUnavailable:
            count = 0  # a lock that was not to be had; the next slice tries again
        more = count > 0
        old: dict[int, list[UUID]] = {}
        if keeps and count < limit:
            cutoffs = [now - keep for keep in keeps.values()]
            below = [first_id_at(cutoff) for cutoff in cutoffs]
            for row in await self._connections.fetch(
                "prunable", list(keeps), below, cutoffs, limit - count
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
        return Pruned(count, more or count >= limit)
