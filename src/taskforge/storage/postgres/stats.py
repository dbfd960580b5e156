"""Counts the jobs of queues: places up to a bound, beyond it as they were counted last; finished
jobs come from tallies."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain.query import QueueStats
from taskforge.storage import depths
from taskforge.storage.depths import NAMES, Depth, Depths, PlaceCount, settle
from taskforge.storage.postgres.connections import PostgresConnections


class PostgresStats:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._depths = Depths(self._count_in_full)

    async def close(self) -> None:
        await self._depths.close()

    async def stats(
        self, projects: Sequence[int], *, exact: bool, of: Sequence[UUID] | None
    ) -> list[QueueStats]:
        now, owners = await self._connections.now(), list(dict.fromkeys(projects))
        depth = self._count_in_full if exact else self._depths.of
        async with self._connections.searches:
            # Not behind the wall, which would count no rows but those it shows; what is told goes
            # by the queues that are read behind it.
            rows = await self._connections.fetch("places", owners, depths.COUNTED)
            queues = (
                await self._connections.read(projects, "stats", owners)
                if of is None
                else await self._connections.read(projects, "stats_of", owners, list(of))
            )
        held, made = await settle([PlaceCount(*row) for row in rows], owners, depth)
        places: dict[int, dict[str, int]] = {}
        turns: dict[int, int] = {}
        for one in held:
            places.setdefault(one.queue, {})[NAMES[one.place]] = one.jobs
            if one.turn is not None:
                turns[one.queue] = one.turn
        return [
            QueueStats(
                queue=row["name"],
                queue_id=row["id"],
                is_active=row["is_active"],
                succeeded=row["succeeded"],
                failed=row["failed"],
                cancelled=row["cancelled"],
                oldest_pending_seconds=max(0.0, now.timestamp() - turns[row["number"]] / 1e6)
                if row["number"] in turns
                else None,
                counted_at=made.get(row["project"]),
                **places.get(row["number"], {}),
            )
            for row in queues
        ]

    async def _count_in_full(self, project: int) -> Depth:
        now = await self._connections.now()
        async with self._connections.searches:
            rows = await self._connections.fetch("places_in_full", project)
        return Depth([PlaceCount(*row) for row in rows], now)
