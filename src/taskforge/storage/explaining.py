"""What both engines need to explain a job that waits: who may take it, and which lanes go first."""

from collections.abc import Collection, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.explanation import Verdict, hindrance_now
from taskforge.domain.worker import Worker, WorkerStatus
from taskforge.storage.catalog import Catalog, Lane, Taker, taker_of

MOST_KINDS = 100


class Before(msgspec.Struct, frozen=True):
    """Lanes whose jobs all go before those of one, and those where the turn decides; of its own queue and of others."""

    better: list[int]
    beside: list[int]
    better_elsewhere: list[int]
    beside_elsewhere: list[int]


def verdicts(catalog: Catalog, lane: Lane | None, workers: Sequence[Worker]) -> list[Verdict]:
    return [(worker, None if lane is None else catalog.hindrance(taker_of(worker), lane)) for worker in workers]


def rivals(catalog: Catalog, lane: Lane) -> list[int]:
    """Lanes that could go before this one, this one among them. Other queues that are paused cannot; whether those with a limit
    do a claim alone can tell, and they are left out."""
    tier = catalog.tier(lane)
    return [
        other.number
        for other in catalog.lanes.values()
        if other.project == lane.project and (other.queue == lane.queue or _is_open(catalog, other)) and catalog.tier(other) <= tier
    ]


def lanes_before(
    catalog: Catalog, lane: Lane, occupied: Collection[int], given: Sequence[Verdict], skipped: Collection[UUID]
) -> Before:
    """Of the rivals that hold jobs those that every worker takes first that would take this job now, or once it is no longer busy:
    what one of them leaves alone holds up nothing."""
    takers = _different(catalog, _ready(given, skipped))
    tier = catalog.tier(lane)
    found: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
    for other in map(catalog.lanes.__getitem__, occupied):
        elsewhere = other.queue != lane.queue
        if all(catalog.hindrance(taker, other) is None for taker in takers) and (takers or not elsewhere):
            found[2 * elsewhere + (catalog.tier(other) == tier)].append(other.number)
    return Before(*found)


def _ready(given: Sequence[Verdict], skipped: Collection[UUID]) -> list[Taker]:
    able = [
        (worker, hindrance_now(worker, skipped))
        for worker, hindrance in given
        if hindrance is None and worker.status is not WorkerStatus.OFFLINE
    ]
    for state in (None, Hindrance.BUSY):
        if takers := [taker_of(worker) for worker, hindrance in able if hindrance is state]:
            return takers
    return []


def _is_open(catalog: Catalog, lane: Lane) -> bool:
    queue = catalog.queues[lane.queue]
    return queue.is_active and queue.deleted_at is None and not queue.settings.is_gated


def _different(catalog: Catalog, takers: Sequence[Taker]) -> list[Taker]:
    """One of each kind, as a thousand workers of one fleet are one; of very many kinds some."""
    assigned: dict[UUID, set[UUID]] = {}
    for (queue, worker), assignment in catalog.assignments.items():
        if assignment.is_active:
            assigned.setdefault(worker, set()).add(queue)
    kinds = {}
    for taker in takers:
        offers = msgspec.json.encode([taker.capabilities, taker.worker_type, taker.role], order="deterministic")
        kinds[taker.queues, taker.types, offers, frozenset(assigned.get(taker.worker, ()))] = taker
    return list(kinds.values())[:MOST_KINDS]
