"""What both engines need to explain a job that waits: who may take it, and which lanes go first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.explanation import Judged, hindrance_now
from taskforge.domain.urgency import Urgency
from taskforge.domain.worker import Worker, WorkerStatus
from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import Card, Lane, Taker, hindrance, taker_of, tier_of
from taskforge.storage.circuits import ProjectCircuits

MOST_KINDS = 100
MOST_LANES = 5_000  # that are looked at for what goes before a job
NEVER, ALWAYS = -1, 2**63 - 1  # as last turns


class Stand(msgspec.Struct, frozen=True):
    """A job that is ready: its lane, its turn, what waiting means to it, and as of when."""

    lane: Lane
    turn: int
    urgency: Urgency | None
    moment: Moment

    @property
    def steps(self) -> int:
        """By how many it has risen for having waited."""
        return 0 if self.urgency is None else self.urgency.steps(self.moment.now - self.turn)

    @property
    def opens_at(self) -> int | None:
        """When pacing no longer holds it back; None: it does not."""
        held = self.moment.held_behind(self.urgency)
        if held is None or self.urgency is None or self.turn <= held:
            return None
        return self.turn + self.urgency.pace

    @property
    def once_open(self) -> "Stand":
        """The same when pacing no longer holds it back."""
        if self.opens_at is None:
            return self
        moment = Moment(self.opens_at, self.moment.is_loaded)
        return msgspec.structs.replace(self, moment=moment)


class Ahead(msgspec.Struct, frozen=True):
    """Lanes of which jobs go before one: all of them, those with an earlier turn, and those up to
    some turn."""

    better: list[int] = []
    beside: list[int] = []
    part: list[tuple[int, int]] = []

    def put(self, lane: Lane, urgency: Urgency | None, tier: int, own: int, stand: Stand) -> None:
        """`tier`: of the lane; `own`: as of which the job goes."""
        last = _last_before(urgency, tier - own, stand)
        held = stand.moment.held_behind(urgency)
        if held is not None:
            last = min(last, held)
        if last == ALWAYS:
            self.better.append(lane.number)
        elif last == stand.turn:
            self.beside.append(lane.number)
        elif last > NEVER:
            self.part.append((lane.number, last))


class Before(msgspec.Struct, frozen=True):
    """Of its own queue and of others."""

    here: Ahead
    elsewhere: Ahead


def verdicts(card: Card, lane: Lane | None, workers: Sequence[Worker]) -> list[Judged]:
    return [
        (worker, None if lane is None else hindrance(taker_of(worker), card, lane))
        for worker in workers
    ]


def _last_before(urgency: Urgency | None, behind: int, stand: Stand) -> int:
    """The last turn of the jobs of a lane that go before one, whose own turn counts as that of an
    earlier job. `behind`: by how many steps they must rise to go as of its tier."""
    if behind < 0:
        return ALWAYS
    if urgency is None:
        return stand.turn if behind == 0 else NEVER
    above = urgency.risen_until(behind + 1, stand.moment.now)
    beside = ALWAYS if behind == 0 else urgency.risen_until(behind, stand.moment.now)
    return max(
        NEVER if above is None else above, NEVER if beside is None else min(beside, stand.turn)
    )


def lanes_before(
    stand: Stand,
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
    lane, stand = stand.lane, stand.once_open
    tier = tier_of(cards[lane.queue].queue, lane) - stand.steps
    before = Before(Ahead([], [], []), Ahead([], [], []))
    for other in occupied:
        card = cards[other.queue]
        others_tier = tier_of(card.queue, other)
        urgency = card.queue.settings.urgency(other.priority)
        elsewhere = other.queue != lane.queue
        if (others_tier > tier and urgency is None) or (elsewhere and not _is_open(card)):
            continue
        if (elsewhere or other.job_type != lane.job_type) and not circuits.lets_through(
            card.queue, other.job_type
        ):
            continue
        if all(hindrance(taker, card, other) is None for taker in takers) and (
            takers or not elsewhere
        ):
            ahead = before.elsewhere if elsewhere else before.here
            ahead.put(other, urgency, others_tier, tier, stand)
    return before


def are_paced(cards: Iterable[Card]) -> bool:
    """Whether it matters if their project is loaded."""
    return any(card.queue.settings.priority_pacing is not None for card in cards)


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
