"""What both engines need to explain a job that waits: who may take it, and which lanes go first."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.worker import Worker
from taskforge.storage.catalog import Catalog, Lane, Taker, taker_of

Verdicts = list[tuple[Worker, Hindrance | None]]


class Before(msgspec.Struct, frozen=True):
    """Lanes whose jobs all go before those of one, and those where the turn decides; of its own queue and of others."""

    better: list[int]
    beside: list[int]
    better_elsewhere: list[int]
    beside_elsewhere: list[int]


def verdicts(catalog: Catalog, lane: Lane | None, workers: Sequence[Worker]) -> Verdicts:
    return [(worker, None if lane is None else catalog.hindrance(taker_of(worker), lane)) for worker in workers]


def lanes_before(catalog: Catalog, lane: Lane, given: Verdicts) -> Before:
    """What none of its workers takes holds up nothing, nor does another queue that is paused. Whether one with a limit does, a
    claim alone can tell: it is left out."""
    takers = _different(catalog, [taker_of(worker) for worker, hindrance in given if hindrance is None])
    tier = catalog.opened(lane).tier
    found: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
    for other in catalog.lanes.values():
        its_tier, elsewhere = catalog.opened(other).tier, other.queue != lane.queue
        if other.project != lane.project or its_tier > tier or (elsewhere and not _is_open(catalog, other)):
            continue
        if any(catalog.hindrance(taker, other) is None for taker in takers) or not (takers or elsewhere):
            found[2 * elsewhere + (its_tier == tier)].append(other.number)
    return Before(*found)


def _is_open(catalog: Catalog, lane: Lane) -> bool:
    queue = catalog.queues[lane.queue]
    return queue.is_active and queue.deleted_at is None and not queue.settings.is_gated


def _different(catalog: Catalog, takers: Sequence[Taker]) -> list[Taker]:
    """One of each kind: a thousand workers of one fleet are one."""
    assigned: dict[UUID, set[UUID]] = {}
    for (queue, worker), assignment in catalog.assignments.items():
        if assignment.is_active:
            assigned.setdefault(worker, set()).add(queue)
    kinds = {}
    for taker in takers:
        offers = msgspec.json.encode([taker.capabilities, taker.worker_type, taker.role], order="deterministic")
        kinds[taker.queues, taker.types, offers, frozenset(assigned.get(taker.worker, ()))] = taker
    return list(kinds.values())
