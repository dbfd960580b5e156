"""Load balancing of a queue: on which worker each of its jobs is placed. Pure choices; the leader's
dispatcher reads what they need and has the store write what they say.

A placed job stands in `ready` under a key that stands for its worker, as jobs stand under their
fairness keys, and only the ordinary claim of that worker takes it. That a job is placed says who
may take it, never who holds it: the fence does that.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.balancer import (
    Contender,
    Experience,
    Record,
    adaptive,
    least_load,
    round_robin,
    sticky,
    weighted,
)
from taskforge.domain.fairness import FIRST_PLACED, key_of
from taskforge.domain.queue import Queue

# Rotations go by their own order, whoever is slow: a worker may be this far behind.
MOST_PLACED = 1_000
# Where load decides, a worker gets its slots and so many times as many again, in advance. Workers
# that were found with nothing left are given more.
LEAST_DEPTH, MOST_DEPTH = 2, 64
# A choice looks at every worker, in the event loop of whoever leads: with many workers a round
# places fewer jobs. A round then takes 3 to 7 ms with 3 workers, 5 to 27 with 100, 12 to 67 with
# 1,000.
MOST_CHOICES, LEAST_AT_ONCE = 20_000, 50
_ENDLESS = 10**9


def key_of_worker(worker: UUID) -> int:
    """What stands for a worker in the places of jobs that are placed on it."""
    return FIRST_PLACED + (key_of(worker.hex) & (FIRST_PLACED - 1))


class UnplacedJob(msgspec.Struct, frozen=True):
    fence: UUID
    lane: int
    turn: int
    refused_by: frozenset[UUID] = frozenset()  # workers and incarnations that skipped it
    stays_with: str = ""  # what `sticky` goes by: its fairness key, else its type


class ServingWorker(msgspec.Struct, frozen=True):
    """A worker that accepts jobs."""

    id: UUID
    incarnation: UUID
    slots: int
    running: int
    placed: int  # on it, in all queues that are balanced
    weight: int = 1


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a queue's balancing remembers from one choice to the next; kept in the store, so that
    the next leader goes on where the last one was."""

    last: str | None = None
    credits: dict[str, int] = {}
    choices: int = 0
    chosen: dict[str, int] = {}  # as of which choice each was chosen last


class Pace(msgspec.Struct, frozen=True):
    """How jobs of a queue went on one worker lately."""

    seconds: float | None
    failed: float  # the share


class BalancedLane(msgspec.Struct, frozen=True):
    number: int
    job_type: str
    requires: str


class BalancedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that is balanced, as the store has it."""

    queue: Queue
    servants: frozenset[UUID]  # the workers that are actively assigned to it
    buries: bool  # other queues send their dead letters there
    position: Position
    lanes: tuple[BalancedLane, ...]  # that hold jobs
    jobs: tuple[UnplacedJob, ...]  # best first
    placed: Mapping[tuple[int, int], int]  # how many, by lane and key


class BalancedQueues(msgspec.Struct, frozen=True):
    """A page of them."""

    items: list[BalancedQueue]  # that hold jobs
    last: int | None = None  # behind this queue there may be more


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one queue that wait to be placed, best first, and who may take them."""

    queue: int
    project: int
    name: str
    policy: str
    position: Position
    jobs: tuple[UnplacedJob, ...]
    workers: tuple[ServingWorker, ...]
    takers: Mapping[int, frozenset[UUID]]  # by lane
    adrift: tuple[tuple[int, int], ...] = ()  # lane and key of what must be placed anew


class PlacedJob(msgspec.Struct, frozen=True):
    fence: UUID
    lane: int
    turn: int
    worker: UUID


class QueuePlacements(msgspec.Struct, frozen=True):
    """What is to be written for one queue."""

    queue: int
    project: int
    placements: tuple[PlacedJob, ...]
    position: Position
    adrift: tuple[tuple[int, int], ...] = ()


def place_jobs(
    backlog: Backlog,
    paces: Mapping[UUID, Pace] | None = None,
    depth: int = LEAST_DEPTH,
    already: Mapping[UUID, int] | None = None,
) -> QueuePlacements:
    """A worker for each job, as far as there is room. `already`: placed on workers just now, by
    other queues."""
    chooser = _Chooser(backlog, paces or {}, depth, already or {})
    placements = []
    for job in backlog.jobs[: max(LEAST_AT_ONCE, MOST_CHOICES // max(1, len(backlog.workers)))]:
        worker, goes_on = chooser.choose(job)
        if worker is not None:
            placements.append(PlacedJob(job.fence, job.lane, job.turn, worker))
        elif not goes_on:
            break
    return QueuePlacements(
        backlog.queue, backlog.project, tuple(placements), chooser.position, backlog.adrift
    )


class _Chooser:
    def __init__(
        self,
        backlog: Backlog,
        paces: Mapping[UUID, Pace],
        depth: int,
        already: Mapping[UUID, int],
    ) -> None:
        self._backlog = backlog
        self._by_name = {worker.id.hex: worker for worker in backlog.workers}
        self._held = {
            name: worker.running + worker.placed + already.get(worker.id, 0)
            for name, worker in self._by_name.items()
        }
        self._most = {
            name: worker.slots * depth
            if backlog.policy in ("least_load", "adaptive")
            else worker.slots + MOST_PLACED
            for name, worker in self._by_name.items()
        }
        self._paces = paces
        self._takers: dict[int, list[str]] = {}  # by lane
        self.position = backlog.position

    def choose(self, job: UnplacedJob) -> tuple[UUID | None, bool]:
        """The worker; without one, whether jobs behind it may still have one."""
        able = self._able(job)
        if not able:
            return None, True
        position = self.position
        match self._backlog.policy:
            case "sticky":
                chosen = sticky(job.stays_with, self._contenders(able, _ENDLESS))
            case "least_load" | "adaptive":
                chosen, position = self._by_load(able)
            case _:
                chosen, position = self._next_in_turn(able)
        if chosen is None or self._held[chosen] >= self._most[chosen]:
            # Other keys may stay with others; but a turn is somebody's, who is far behind.
            return None, self._backlog.policy == "sticky"
        self.position = position
        self._held[chosen] += 1
        return self._by_name[chosen].id, True

    def _able(self, job: UnplacedJob) -> list[str]:
        """Who may take it."""
        if job.lane not in self._takers:
            takers = self._backlog.takers.get(job.lane, ())
            self._takers[job.lane] = [
                name for name, worker in self._by_name.items() if worker.id in takers
            ]
        able = self._takers[job.lane]
        if not job.refused_by:
            return able
        return [
            name
            for name in able
            if not job.refused_by & {self._by_name[name].id, self._by_name[name].incarnation}
        ]

    def _contenders(self, able: Sequence[str], most: int | None = None) -> list[Contender]:
        return [
            Contender(name, self._held[name], most or self._most[name], self._by_name[name].weight)
            for name in able
        ]

    def _by_load(self, able: Sequence[str]) -> tuple[str | None, Position]:
        contenders, position = self._contenders(able), self.position
        if self._backlog.policy == "least_load":
            chosen = least_load(position.last, contenders)
            return chosen, msgspec.structs.replace(position, last=chosen)
        records = {name: self._record(name) for name in able}
        experience, chosen = adaptive(Experience(records, position.choices), contenders)
        if chosen is None:
            return None, position
        choices = experience.choices
        latest = position.chosen | {chosen: choices}
        return chosen, msgspec.structs.replace(position, choices=choices, chosen=latest)

    def _record(self, name: str) -> Record:
        pace = self._paces.get(self._by_name[name].id, Pace(None, 0.0))
        chosen = self.position.chosen.get(name, 0)
        return Record(pace.seconds, pace.failed, self.position.choices, chosen)

    def _next_in_turn(self, able: Sequence[str]) -> tuple[str | None, Position]:
        """Whoever is next, and the position once it has a job. Of workers that are gone nothing is
        kept."""
        contenders, position = self._contenders(able, _ENDLESS), self.position
        if self._backlog.policy == "round_robin":
            chosen = round_robin(position.last, contenders)
            return chosen, msgspec.structs.replace(position, last=chosen)
        owed, chosen = weighted(position.credits, contenders)
        absent = {
            name: credit
            for name, credit in position.credits.items()
            if name in self._by_name and name not in owed
        }
        return chosen, msgspec.structs.replace(position, credits={**absent, **owed})


def next_depth(depth: int, backlog: Backlog, placed: Sequence[PlacedJob], *, was_full: bool) -> int:
    """How far ahead workers are given jobs next time: more where one has nothing left of what was
    placed last time, when there was no room for all (`was_full`); less where all have plenty."""
    if not backlog.workers or not backlog.jobs:
        return LEAST_DEPTH
    if len(placed) == len(backlog.jobs) or all(
        worker.placed > worker.slots * depth // 2 for worker in backlog.workers
    ):
        return max(LEAST_DEPTH, depth - 1)
    if was_full and any(worker.placed == 0 for worker in backlog.workers):
        return min(MOST_DEPTH, 2 * depth)
    return depth
