"""What both engines need to explain a job that waits: who may take it, and which lanes go first."""

from collections.abc import Sequence

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.worker import Worker
from taskforge.storage.catalog import Catalog, Lane, taker_of

Verdicts = list[tuple[Worker, Hindrance | None]]


def verdicts(catalog: Catalog, lane: Lane | None, workers: Sequence[Worker]) -> Verdicts:
    return [(worker, None if lane is None else catalog.hindrance(taker_of(worker), lane)) for worker in workers]


def lanes_before(catalog: Catalog, lane: Lane, given: Verdicts) -> tuple[list[int], list[int]]:
    """Lanes of its queue whose jobs all go before those of this one, and those (itself among them) where the turn decides. What
    none of its workers takes holds up nothing."""
    takers = [taker_of(worker) for worker, hindrance in given if hindrance is None]
    beside = [
        other
        for other in catalog.lanes.values()
        if other.queue == lane.queue and (not takers or any(catalog.hindrance(taker, other) is None for taker in takers))
    ]
    better = [other.number for other in beside if other.priority > lane.priority]
    return better, [other.number for other in beside if other.priority == lane.priority]
