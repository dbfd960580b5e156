"""Places jobs on workers, in queues that are balanced, under the leader's term."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import asyncpg
import msgspec

from taskforge.domain.dispatch import (
    BalancedLane,
    BalancedQueue,
    BalancedQueues,
    Position,
    QueuePlacements,
    UnplacedJob,
    key_of_worker,
)
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.term import Deposed
from taskforge.storage.catalog import Card, Lane, spot_of, tier_of
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.signals import Arrival, Signals

MOST_QUEUES = 1_000
_position = msgspec.json.Decoder(Position).decode


class PostgresDispatch:
    def __init__(
        self, connections: PostgresConnections, catalog_cache: CatalogCache, signals: Signals
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals

    async def balanced_queues(self, after: int, jobs: int) -> BalancedQueues | None:
        rows = await self._connections.fetch("balanced_queues", after, MOST_QUEUES)
        if not rows and not after:
            return None
        found: list[BalancedQueue] = []
        rows.sort(key=itemgetter("project"))
        for project, some in groupby(rows, key=itemgetter("project")):
            found += await self._of_project(project, {one["number"]: one for one in some}, jobs)
        last = max(row["number"] for row in rows) if len(rows) == MOST_QUEUES else None
        return BalancedQueues(found, last)

    async def _of_project(
        self, project: int, queues: dict[int, asyncpg.Record], most: int
    ) -> list[BalancedQueue]:
        rows = await self._connections.fetch("balanced_lanes", list(queues))
        if not rows:
            return []
        await self._catalog_cache.newest(project)
        lanes = await self._catalog_cache.lanes([one["number"] for one in rows])
        cards = await self._catalog_cache.cards(project, {lane.queue for lane in lanes.values()})
        found = []
        for queue, some in groupby(
            sorted(lanes.values(), key=lambda lane: lane.queue), key=lambda lane: lane.queue
        ):
            card, held = cards[queue], list(some)
            if card.is_open and card.queue.settings.is_balanced:
                found.append(await self._read(card, held, queues[queue]["position"], most))
        return found

    async def _read(
        self, card: Card, lanes: Sequence[Lane], position: str | None, most: int
    ) -> BalancedQueue:
        queue, numbers = card.queue, [lane.number for lane in lanes]
        by_number = {lane.number: lane for lane in lanes}
        is_sticky = queue.settings.load_balancing == "sticky"
        jobs = await self._connections.fetch(
            "unplaced_jobs", queue.project, numbers, most, is_sticky
        )
        jobs.sort(key=lambda row: (tier_of(queue, by_number[row["lane"]]), row["turn"]))
        placed = await self._connections.fetch("placed_jobs", queue.project, numbers)
        return BalancedQueue(
            queue=queue,
            servants=card.servants,
            buries=card.buries,
            position=Position() if position is None else _position(position),
            lanes=tuple(BalancedLane(one.number, one.job_type, one.requires) for one in lanes),
            jobs=tuple(
                UnplacedJob(
                    row["fence"],
                    row["lane"],
                    row["turn"],
                    frozenset(row["skipped"] or ()),
                    row["stays_with"] or by_number[row["lane"]].job_type,
                )
                for row in jobs[:most]
            ),
            placed={(row["lane"], row["key"]): row["jobs"] for row in placed},
        )

    async def place(self, placements: Sequence[QueuePlacements], term: int) -> int:
        told: list[Arrival] = []

        async def once() -> None:
            told.clear()
            async with self._connections.transaction() as connection:
                sql = self._connections.sql
                if not await connection.fetch(sql("hold_term"), term):
                    raise Deposed(term)
                for one in placements:
                    if one.adrift:
                        lanes, keys = map(list, zip(*one.adrift, strict=True))
                        await connection.execute(sql("take_back"), one.project, lanes, keys)
                    if not one.placements:
                        continue
                    # In one order, so that two leaders' writes cannot wait for each other.
                    made = sorted(one.placements, key=lambda each: each.fence.int)
                    rows = await connection.fetch(
                        sql("place_jobs"),
                        [each.fence for each in made],
                        [key_of_worker(each.worker) for each in made],
                    )
                    told.extend(
                        (row["project"], spot_of(row["lane"], row["key"] or NO_KEY), row["turn"])
                        for row in rows
                    )
                    position = msgspec.json.encode(one.position).decode()
                    await connection.execute(sql("keep_position"), one.queue, position)

        await self._connections.until_undisturbed(once)
        spots: dict[tuple[int, int], int] = {}
        for project, spot, turn in told:
            spots[project, spot] = min(turn, spots.get((project, spot), turn))
        if spots:
            self._signals.send([(project, spot, turn) for (project, spot), turn in spots.items()])
        return len(told)
