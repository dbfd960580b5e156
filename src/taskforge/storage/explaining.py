"""What both engines need to explain a job that waits: who may take it, and which lanes go first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.explanation import Judged, hindrance_now
from taskforge.domain.worker import Worker, WorkerStatus
from taskforge.storage.catalog import Card, Lane, Taker, hindrance, taker_of, tier_of
from taskforge.storage.circuits import ProjectCircuits

MOST_KINDS = 100
MOST_LANES = 5_000  # that are looked at for what goes before a job


class Before(msgspec.Struct, frozen=True):
    """Lanes whose jobs all go before those of one, and those where the turn decides; of its own
    queue and of others."""

    better: list[int]
    beside: list[int]
    better_elsewhere: list[int]
    beside_elsewhere: list[int]


def verdicts(card: Card, lane: Lane | None, workers: Sequence[Worker]) -> list[Judged]:
    return [
        (worker, None if lane is None else hindrance(taker_of(worker), card, lane))
        for worker in workers
    ]


def lanes_before(
    lane: Lane,
    occupied: Iterable[Lane],
    cards: Mapping[int, Card],
    given: Sequence[Judged],
    skipped: Collection[UUID],
    circuits: ProjectCircuits,
) -> Before:
    """Of the lanes that hold jobs those that every worker takes first that would take a job of this
    one now, or once it is no longer busy: what one of them leaves alone, or a circuit holds back,
    holds up nothing."""
    takers = _different(cards.values(), _ready(given, skipped))
    tier = tier_of(cards[lane.queue].queue, lane)
    found: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
    for other in occupied:
        card = cards[other.queue]
        others_tier = tier_of(card.queue, other)
        elsewhere = other.queue != lane.queue
        if others_tier > tier or (elsewhere and not _is_open(card)):
            continue
        if (elsewhere or other.job_type != lane.job_type) and not circuits.lets_through(
            card.queue, other.job_type
        ):
            continue
        if all(hindrance(taker, card, other) is None for taker in takers) and (
            takers or not elsewhere
        ):
            found[2 * elsewhere + (others_tier == tier)].append(other.number)
    return Before(*found)


def _ready(given: Sequence[Judged], skipped: Collection[UUID]) -> list[Taker]:
    able = [
        (worker, hindrance_now(worker, skipped))
        for worker, kept_by in given
        if kept_by is None and worker.status is not WorkerStatus.OFFLINE
    ]
    for state in (None, Hindrance.BUSY):
        if takers := [taker_of(worker) for worker, kept_by in able if kept_by is state]:
            return takers
    return []


def _is_open(card: Card) -> bool:
    """Another queue that is paused goes before nothing; whether one with a limit does, or one whose
    jobs are placed, a claim alone can tell, and it is left out."""
    settings = card.queue.settings
    return card.is_open and not settings.is_gated and not settings.is_balanced


def _different(cards: Iterable[Card], takers: Sequence[Taker]) -> list[Taker]:
    """One of each kind, as a thousand workers of one fleet are one; of very many kinds some."""
    assigned: dict[UUID, set[UUID]] = {}
    for card in cards:
        for worker in card.servants:
            assigned.setdefault(worker, set()).add(card.queue.id)
    kinds = {}
    for taker in takers:
        kinds[taker.kind, frozenset(assigned.get(taker.worker, ()))] = taker
    return list(kinds.values())[:MOST_KINDS]
