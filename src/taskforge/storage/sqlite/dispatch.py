"""Places jobs on workers, in queues that are balanced, under the leader's term."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from uuid import UUID

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
from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.term import Deposed
from taskforge.storage.catalog import Card, Lane, tier_of
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction

MOST_QUEUES = 1_000
_position = msgspec.json.Decoder(Position).decode


def look(snapshot: ReadSnapshot, after: int, jobs: int) -> BalancedQueues | None:
    rows = snapshot.execute(sql("balanced_queues"), (after, MOST_QUEUES)).fetchall()
    if not rows and not after:
        return None
    found: list[BalancedQueue] = []
    rows.sort(key=itemgetter(1))
    for project, some in groupby(rows, key=itemgetter(1)):
        found += _of_project(snapshot, project, {one[0]: one[2] for one in some}, jobs)
    last = max(row[0] for row in rows) if len(rows) == MOST_QUEUES else None
    return BalancedQueues(found, last)


def _of_project(
    snapshot: ReadSnapshot, project: int, positions: dict[int, str | None], most: int
) -> list[BalancedQueue]:
    cache = snapshot.catalog_cache
    rows = snapshot.execute(sql("balanced_lanes"), (codec.json(list(positions)),)).fetchall()
    held = sorted((cache.lane(number) for (number,) in rows), key=lambda lane: lane.queue)
    catalog = cache.of(project)
    found = []
    for queue, some in groupby(held, key=lambda lane: lane.queue):
        card = cache.card(catalog, queue)
        if card.is_open and card.queue.settings.is_balanced:
            found.append(_read(snapshot, card, list(some), positions[queue], most))
    return found


def _read(
    snapshot: ReadSnapshot, card: Card, lanes: Sequence[Lane], position: str | None, most: int
) -> BalancedQueue:
    queue = card.queue
    is_sticky = queue.settings.load_balancing == "sticky"
    jobs, placed = [], {}
    for lane in lanes:
        where = (queue.project, lane.number)
        for fence, turn, skipped, stays_with in snapshot.execute(
            sql("unplaced_jobs"), (*where, most, is_sticky)
        ):
            job = UnplacedJob(
                uuid_from_bytes(fence),
                lane.number,
                turn,
                frozenset(UUID(one) for one in codec.texts(skipped) or ()),
                stays_with or lane.job_type,
            )
            jobs.append((tier_of(queue, lane), turn, fence, job))
        for key, count in snapshot.execute(sql("placed_jobs"), where):
            placed[lane.number, key] = count
    jobs.sort(key=itemgetter(0, 1, 2))
    return BalancedQueue(
        queue=queue,
        servants=card.servants,
        buries=card.buries,
        position=Position() if position is None else _position(position),
        lanes=tuple(BalancedLane(one.number, one.job_type, one.requires) for one in lanes),
        jobs=tuple(job for *_, job in jobs[:most]),
        placed=placed,
    )


def place(transaction: Transaction, placements: Sequence[QueuePlacements], term: int) -> int:
    if not transaction.execute(sql("hold_term"), (term,)).fetchall():
        raise Deposed(term)
    count = 0
    for one in placements:
        for lane, key in one.adrift:
            transaction.execute(sql("take_back"), (one.project, lane, key))
        if not one.placements:
            continue
        count += transaction.executemany(
            sql("place_job"),
            [(each.fence.bytes, key_of_worker(each.worker)) for each in one.placements],
        ).rowcount
        for each in one.placements:
            key = key_of_worker(each.worker)
            transaction.catalog_cache.tell(one.project, each.lane, each.turn, key)
        position = msgspec.json.encode(one.position).decode()
        transaction.execute(sql("keep_position"), (one.queue, position))
    transaction.wakes = count > 0
    return count
