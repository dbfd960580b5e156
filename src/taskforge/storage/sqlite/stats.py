"""Counts the jobs of queues: places up to a bound, beyond it as they were counted last; finished
jobs come from tallies."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from taskforge.domain.query import QueueStats
from taskforge.domain.queue import Queue
from taskforge.storage import depths
from taskforge.storage.depths import NAMES, WAITING, Depth, Depths, PlaceCount, settle
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import SECOND
from taskforge.storage.sqlite.queues import list_queues
from taskforge.storage.sqlite.readers import Readers
from taskforge.storage.sqlite.snapshot import ReadSnapshot


class StatsSeen(NamedTuple):
    """What one look at the store brought."""

    queues: list[Queue]
    held: list[PlaceCount]
    tallies: list[tuple[int, int, int]]
    now: int


class SqliteStats:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._depths = Depths(self._count_in_full)

    async def close(self) -> None:
        await self._depths.close()

    async def stats(
        self, projects: Sequence[int], *, exact: bool, of: Sequence[UUID] | None
    ) -> list[QueueStats]:
        owners = list(dict.fromkeys(projects))
        seen = await self._readers.search(lambda snapshot: _look(snapshot, owners, of))
        depth = self._count_in_full if exact else self._depths.of
        held, made = await settle(seen.held, owners, depth)
        counts: dict[int, dict[str, int]] = {}
        turns: dict[int, int] = {}
        for one in held:
            counts.setdefault(one.queue, {})[NAMES[one.place]] = one.jobs
            if one.turn is not None:
                turns[one.queue] = one.turn
        for queue, status, count in seen.tallies:
            counts.setdefault(queue, {})[codec.JOB_STATUSES[status].value] = count
        return [
            QueueStats(
                queue=queue.name,
                queue_id=queue.id,
                is_active=queue.is_active,
                oldest_pending_seconds=max(0.0, (seen.now - turns[queue.number]) / SECOND)
                if queue.number in turns
                else None,
                counted_at=made.get(queue.project),
                **counts.get(queue.number, {}),
            )
            for queue in seen.queues
        ]

    async def _count_in_full(self, project: int) -> Depth:
        return await self._readers.search(lambda snapshot: _count(snapshot, project))


def _look(snapshot: ReadSnapshot, projects: list[int], of: Sequence[UUID] | None) -> StatsSeen:
    held: dict[PlaceCount, None] = {}
    for number, project in enumerate(projects):
        for row in snapshot.execute(sql("places"), (project, depths.COUNTED + 1)):
            one = PlaceCount(*row)
            if number == 0 or one.place < WAITING:  # the other places are one for all projects
                held[one] = None
    if of is None:
        queues = list_queues(snapshot, projects)
        tallies = snapshot.execute(sql("tallied"), (codec.json(projects),)).fetchall()
    else:
        named = (codec.json(projects), codec.ids(of), codec.positions(len(of)))
        queues = [codec.queue(row) for row in snapshot.execute(sql("queues_of"), named)]
        numbers = codec.json([queue.number for queue in queues])
        tallies = snapshot.execute(sql("tallied_of"), (numbers,)).fetchall()
    return StatsSeen(queues, list(held), tallies, snapshot.now)


def _count(snapshot: ReadSnapshot, project: int) -> Depth:
    rows = snapshot.execute(sql("places_in_full"), (project,))
    return Depth([PlaceCount(*row) for row in rows], codec.moment(snapshot.now))
