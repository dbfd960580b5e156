"""Places jobs of balanced queues on workers: reads what waits and who may take it, asks the domain
for a worker for each job, and lets the store write it, under the leader's term."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID

import msgspec

from taskforge.control.leader import Term
from taskforge.domain.assignment import Assignment
from taskforge.domain.dispatch import (
    LEAST_DEPTH,
    Backlog,
    BalancedLane,
    BalancedQueue,
    Pace,
    QueuePlacements,
    ServingWorker,
    key_of_worker,
    next_depth,
    place_jobs,
)
from taskforge.domain.eligibility import hindrance_to_run, hindrance_to_serve
from taskforge.domain.metrics import Period, Subject
from taskforge.domain.worker import Worker
from taskforge.operations.metrics import read_metrics
from taskforge.ports.engine import Engine
from taskforge.services import Periodic, ServiceHealth

logger = logging.getLogger("taskforge.dispatcher")
JOBS_AT_ONCE = 1_000
# Between two rounds: none of them while something comes, this long while jobs wait for room, and so
# long while nothing is told of. Where no queue is balanced nobody need look at every arrival.
SHORTEST_REST_SECONDS = 0.005
CROWDED_REST_SECONDS = 0.02
LONGEST_REST_SECONDS = 1.0
PACE_SECONDS = 300.0  # how far back it counts how jobs went
PACE_LOOK_SECONDS = 5.0
MOST_PACES = 100


class Round(msgspec.Struct, frozen=True):
    """What one look brought."""

    placed: int = 0
    waiting: int = 0  # jobs that found no room
    is_needed: bool = True  # some queue is balanced


class Dispatcher:
    name = "dispatcher"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._paces = Paces(engine)
        self._depths: dict[int, int] = {}  # by queue
        self._full: set[int] = set()  # queues of which some found no room
        self._rounds: Periodic | None = None
        self._last = Round()

    async def run(self, term: Term) -> None:
        async def act() -> None:
            self._last = await self.once(term.number)

        self._rounds = rounds = Periodic(self.name, act, seconds=LONGEST_REST_SECONDS)
        rounds.begin()
        news = asyncio.Event()
        stop = self._engine.on_work(news.set)
        try:
            while True:
                term.check()
                news.clear()
                await rounds.run_once()
                await self._rest(news)
        finally:
            stop()

    async def _rest(self, news: asyncio.Event) -> None:
        if self._last.placed:
            await asyncio.sleep(0 if self._last.waiting else SHORTEST_REST_SECONDS)
            return
        if not self._last.is_needed:
            await asyncio.sleep(LONGEST_REST_SECONDS)
            return
        longest = CROWDED_REST_SECONDS if self._last.waiting else LONGEST_REST_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await news.wait()

    def health(self) -> list[ServiceHealth]:
        return [] if self._rounds is None else self._rounds.health()

    async def once(self, term: int) -> Round:
        """Place what waits now, at most so much of each queue."""
        after, placed, waiting = 0, 0, 0
        while (queues := await self._engine.balanced_queues(after, JOBS_AT_ONCE)) is not None:
            if queues.items:
                done, left = await self._place(queues.items, term)
                placed, waiting = placed + done, waiting + left
            if queues.last is None:
                return Round(placed, waiting)
            after = queues.last
        return Round(is_needed=False)

    async def _place(self, queues: Sequence[BalancedQueue], term: int) -> tuple[int, int]:
        projects = sorted({one.queue.project for one in queues})
        workers = await self._engine.workers(projects)
        assignments = await self._engine.assignments(projects)
        on_workers = placed_on_workers(queues)
        plans: list[QueuePlacements] = []
        already: Counter[UUID] = Counter()
        waiting = 0
        for queue in queues:
            backlog = backlog_of(queue, workers, assignments, on_workers)
            number = backlog.queue
            depth = self._depths.get(number, LEAST_DEPTH)
            paces = (
                await self._paces.of(queue, backlog.workers) if backlog.policy == "adaptive" else {}
            )
            plan = place_jobs(backlog, paces, depth, already)
            self._depths[number] = next_depth(
                depth, backlog, plan.placements, was_full=number in self._full
            )
            already.update(one.worker for one in plan.placements)
            left = len(backlog.jobs) - len(plan.placements)
            (self._full.add if left else self._full.discard)(number)
            waiting += left
            if plan.placements or plan.adrift:
                plans.append(plan)
        placed = await self._engine.place(plans, term) if plans else 0
        taken_back = sum(len(plan.adrift) for plan in plans)
        if placed or taken_back:
            logger.debug("%d jobs placed, %d spots taken back", placed, taken_back)
        return placed + taken_back, waiting


def placed_on_workers(queues: Sequence[BalancedQueue]) -> Counter[int]:
    """How many jobs are placed on each worker, by what stands for it."""
    counts: Counter[int] = Counter()
    for queue in queues:
        for (_, key), jobs in queue.placed.items():
            counts[key] += jobs
    return counts


def backlog_of(
    balanced: BalancedQueue,
    workers: Sequence[Worker],
    assignments: Sequence[Assignment],
    placed: Mapping[int, int],
) -> Backlog:
    """What waits in a queue, with the workers that may take it: the rule of eligibility, as claims
    have it. What is placed on anybody else is adrift."""
    queue = balanced.queue
    weights = {one.worker: one.weight for one in assignments if one.queue == queue.id}
    graves = (queue.id,) if balanced.buries else ()
    serving = {
        worker.id: worker
        for worker in workers
        if worker.project == queue.project
        and worker.accepts_jobs
        and hindrance_to_serve(worker.id, worker.queues, queue, balanced.servants, graves) is None
    }
    running = Counter[UUID]()
    for worker in workers:
        running[worker.id] += worker.active_jobs
    takers = {
        lane.number: frozenset(worker.id for worker in serving.values() if _may_run(worker, lane))
        for lane in balanced.lanes
    }
    keys = {lane: {key_of_worker(one) for one in able} for lane, able in takers.items()}
    return Backlog(
        queue=queue.number,
        project=queue.project,
        name=queue.name,
        policy=queue.settings.load_balancing,
        position=balanced.position,
        jobs=balanced.jobs,
        workers=tuple(
            ServingWorker(
                id=worker.id,
                incarnation=worker.incarnation,
                slots=worker.max_concurrent_jobs,
                running=running[worker.id],
                placed=placed.get(key_of_worker(worker.id), 0),
                weight=weights.get(worker.id, 1),
            )
            for worker in serving.values()
        ),
        takers=takers,
        adrift=tuple(spot for spot in balanced.placed if spot[1] not in keys[spot[0]]),
    )


def _may_run(worker: Worker, lane: BalancedLane) -> bool:
    offered = worker.capabilities | {"worker_type": worker.worker_type, "role": worker.role}
    return hindrance_to_run(lane.job_type, lane.requires, worker.types, offered) is None


class Paces:
    """How jobs of adaptive queues went on their workers lately, from rollups; looked up now and
    then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[int, tuple[float, dict[UUID, Pace]]] = {}

    async def of(
        self, balanced: BalancedQueue, workers: Sequence[ServingWorker]
    ) -> Mapping[UUID, Pace]:
        queue, now = balanced.queue, time.monotonic()
        read_at, paces = self._known.get(queue.number, (-1e9, {}))
        if now < read_at + PACE_LOOK_SECONDS:
            return paces
        paces = {}
        for worker in workers[:MOST_PACES]:
            figures = (
                await read_metrics(
                    self._engine,
                    [queue.project],
                    Subject(queue=queue.id, worker=worker.id),
                    Period(last_seconds=PACE_SECONDS),
                )
            ).totals
            average = figures.duration_ms.avg
            paces[worker.id] = Pace(
                None if average is None or not figures.succeeded else average / 1_000,
                1 - figures.success_rate / 100,
            )
        self._known[queue.number] = (now, paces)
        return paces
