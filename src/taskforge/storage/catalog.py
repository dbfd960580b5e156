"""What one process remembers of the queues of a project, and which lanes a worker may take.

Each project has a version of its own, which every change to its queues, assignments or workers
raises. Claims and inserts prove inside their own transaction that the version they remember is
still in force, so whatever is computed here may be remembered for as long as it stands; a process
that is behind asks for the queues whose stamp is younger than what it knows. A lane never changes:
it has no version and is looked up by its number when it is first met.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from taskforge.domain.eligibility import Hindrance, hindrance_to_run, hindrance_to_serve
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.urgency import Urgency
from taskforge.domain.worker import Worker
from taskforge.storage.circuits import NO_CIRCUITS, ProjectCircuits

# What a process remembers at most, twice over: about 1.5 KB a queue with its lane. A server that
# many tenants ask keeps those that were asked for lately.
MOST_QUEUES = 20_000
MOST_LANES = 50_000
MOST_PROJECTS = 1_000
# More changes than this are not read one by one: what is remembered is dropped.
MOST_CHANGES = 1_000


class Lane(msgspec.Struct, frozen=True):
    number: int
    project: int
    queue: int
    job_type: str
    priority: int
    requires: str

    @property
    def key(self) -> "LaneKey":
        return self.queue, self.job_type, self.priority, self.requires


LaneKey = tuple[int, str, int, str]
"""(queue, job type, priority, requires)"""
# A spot is a lane, or what it holds of one fairness key, as one number: lanes come first, then
# (lane, key) in their order, which is the order in which surveys walk.
_FIRST_KEYED = 2**64


def spot_of(lane: int, key: int) -> int:
    return lane if key == NO_KEY else lane * _FIRST_KEYED + key


def lane_of(spot: int) -> int:
    return spot if spot < _FIRST_KEYED else spot // _FIRST_KEYED


def key_of_spot(spot: int) -> int:
    return NO_KEY if spot < _FIRST_KEYED else spot % _FIRST_KEYED


class Card(msgspec.Struct, frozen=True):
    """A queue, with what else decides who may take its jobs."""

    queue: Queue
    servants: frozenset[UUID] = frozenset()  # the workers that are actively assigned to it
    buries: bool = False  # other queues send their dead letters there

    @property
    def names_workers(self) -> bool:
        """Whether workers of one kind may not all take the same of it."""
        return bool(self.servants) or self.queue.settings.is_balanced

    @property
    def is_open(self) -> bool:
        return self.queue.is_active and self.queue.deleted_at is None


class Taker(msgspec.Struct, frozen=True):
    """A worker as far as claims depend on it."""

    worker: UUID
    incarnation: UUID
    project: int
    worker_type: str
    role: str | None
    capabilities: dict[str, Any]
    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    accepts: bool  # neither draining nor unhealthy

    @property
    def kind(self) -> tuple[object, ...]:
        """Workers of one kind may take the same, but where queues name their workers."""
        offers = [self.capabilities, self.worker_type, self.role]
        return self.queues, self.types, msgspec.json.encode(offers, order="deterministic")


def taker_of(worker: Worker) -> Taker:
    return Taker(
        worker.id,
        worker.incarnation,
        worker.project,
        worker.worker_type,
        worker.role,
        worker.capabilities,
        worker.queues,
        worker.types,
        worker.accepts_jobs,
    )


class OpenLane(msgspec.Struct, frozen=True):
    """A lane that one worker may take, with all that a claim from it needs."""

    number: int
    tier: int  # lower first
    queue: int
    queue_name: str
    job_type: str
    priority: int
    settings: QueueSettings
    key: int = NO_KEY  # of the jobs that are meant, where a lane holds some by their key
    most: int | None = None  # how many of them it is their turn to give
    guarded: bool = False  # a circuit counts what comes of them
    probing: tuple[int, ...] = ()  # half-open circuits that let some of them through
    urgency: Urgency | None = None  # what waiting means to its jobs, if it means anything
    until: int | None = None  # the last turn that is meant

    @property
    def spot(self) -> int:
        return spot_of(self.number, self.key)

    def of_key(self, key: int, most: int) -> "OpenLane":
        """What it holds of this key, of which it is asked for so many."""
        return OpenLane(
            self.number,
            self.tier,
            self.queue,
            self.queue_name,
            self.job_type,
            self.priority,
            self.settings,
            key,
            most,
            self.guarded,
            self.probing,
            self.urgency,
        )


def tier_of(queue: Queue, lane: Lane) -> int:
    """Lower ones go first."""
    return 99 - (queue.priority * 10 + lane.priority)


def open_lane(queue: Queue, lane: Lane, circuits: ProjectCircuits = NO_CIRCUITS) -> OpenLane:
    return OpenLane(
        number=lane.number,
        tier=tier_of(queue, lane),
        queue=queue.number,
        queue_name=queue.name,
        job_type=lane.job_type,
        priority=lane.priority,
        settings=queue.settings,
        guarded=circuits.is_counted(queue, lane.job_type),
        probing=circuits.probing(queue, lane.job_type),
        urgency=queue.settings.urgency(lane.priority),
    )


def hindrance(taker: Taker, card: Card, lane: Lane) -> Hindrance | None:
    """What keeps a worker of the project from the jobs of a lane, were its queue not paused."""
    graves = (card.queue.id,) if card.buries else ()
    to_serve = hindrance_to_serve(taker.worker, taker.queues, card.queue, card.servants, graves)
    offered = taker.capabilities | {"worker_type": taker.worker_type, "role": taker.role}
    return to_serve or hindrance_to_run(lane.job_type, lane.requires, taker.types, offered)


def may_take(taker: Taker, card: Card, lane: Lane) -> bool:
    """The rule of eligibility, pause included; limits and skips come later."""
    if card.queue.project != taker.project or not card.is_open:
        return False
    return hindrance(taker, card, lane) is None


def judge_lanes(
    taker: Taker,
    numbers: Iterable[int],
    lanes: Mapping[int, Lane],
    cards: Mapping[int, Card],
    circuits: ProjectCircuits,
) -> Iterator[tuple[Lane, OpenLane | None]]:
    """Of these lanes those of which something is known, each with what a claim from it needs where
    the worker may take it and no circuit is shut."""
    for number in numbers:
        lane = lanes.get(number)
        card = None if lane is None else cards.get(lane.queue)
        if lane is None or card is None:
            continue
        lets = circuits.lets_through(card.queue, lane.job_type) and may_take(taker, card, lane)
        yield lane, open_lane(card.queue, lane, circuits) if lets else None


K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """What was asked for lately: two generations, of which the older one goes when the younger is
    full. Whatever is met again in time moves to the younger."""

    __slots__ = ("_most", "_old", "_young")

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        value = self._young.get(key)
        if value is None and key in self._old:
            value = self._old.pop(key)
            self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._most and key not in self._young:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def drop(self, key: K) -> None:
        self._young.pop(key, None)
        self._old.pop(key, None)

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def values(self) -> list[V]:
        return [*self._young.values(), *self._old.values()]


class Catalog:
    """What is remembered of one project, as of one version."""

    __slots__ = ("_cards", "_numbers", "circuits", "project", "takers", "version")

    def __init__(self, project: int, version: int) -> None:
        self.project = project
        self.version = version
        # None: they have to be read
        self.circuits: ProjectCircuits | None = NO_CIRCUITS
        self.takers: dict[UUID, Taker] = {}
        self._cards: Remembered[int, Card] = Remembered(MOST_QUEUES)
        self._numbers: Remembered[str, int] = Remembered(2 * MOST_QUEUES)  # by name and by id

    def card(self, number: int) -> Card | None:
        return self._cards.get(number)

    def card_named(self, name: str) -> Card | None:
        """The live queue with this name, else the one whose id this is: no queue can be named like
        another's id."""
        number = self._numbers.get(name) or self._numbers.get(name.lower())
        card = None if number is None else self._cards.get(number)
        if card is None or card.queue.deleted_at is not None:
            return None
        return card if card.queue.name == name or str(card.queue.id) == name.lower() else None

    def learn(self, cards: Iterable[Card]) -> None:
        for card in cards:
            queue = card.queue
            self._cards.put(queue.number, card)
            if queue.deleted_at is None:
                self._numbers.put(queue.name, queue.number)
                self._numbers.put(str(queue.id), queue.number)

    def change(self, version: int, changed: Iterable[Card]) -> list[int]:
        """Go on to this version, with the queues that changed since; returns their numbers. Of
        queues that were never met nothing is kept."""
        numbers = []
        for card in changed:
            number = card.queue.number
            numbers.append(number)
            before = self._cards.get(number)
            if before is not None:
                self._numbers.drop(before.queue.name)
                self._numbers.drop(str(before.queue.id))
                self.learn([card])
        self.version = version
        self.takers.clear()
        return numbers
