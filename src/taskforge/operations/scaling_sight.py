"""What a scaling policy goes by: its queue and the workers of it, as they are now."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment
from taskforge.domain.eligibility import hindrance_to_serve
from taskforge.domain.metrics import Period, Subject
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import Queue
from taskforge.domain.queue_scaling import AskedFor, QueueScaling, asked_workers
from taskforge.domain.scaling import SCALED_BY, AskedWorkers, ScalingSight
from taskforge.domain.worker import Worker
from taskforge.operations.metrics import read_metrics
from taskforge.ports.engine import Engine

RECENT_SECONDS = 60.0  # over which arrivals are counted
RATE_SECONDS = 300.0  # over which the duration of a job is measured
RATE_LOOK_SECONDS = 15.0
MANY_POLICIES = 100  # of one project on one page
WHOLE_SECONDS = 5.0


class SeenQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its workers. Own ones are those that the policy may stop."""

    scaling: QueueScaling
    queue: Queue
    stats: QueueStats
    serving: tuple[Worker, ...]  # online and accepting, that may take its jobs
    own: tuple[Worker, ...]  # whatever their status
    started: tuple[Worker, ...]  # by the provider, and thus what fills its wishes
    servants: frozenset[UUID]  # who is actively assigned to it
    unassigned: tuple[Worker, ...]  # started, online, and would take its jobs if they were assigned
    figures: ScalingSight
    slots: int  # of one worker

    def worker(self, identifier: UUID) -> Worker | None:
        return next((one for one in self.own if one.id == identifier), None)


class Arrivals:
    """How many jobs came lately, told from how a queue's total grows between looks."""

    def __init__(self) -> None:
        self._totals: dict[UUID, deque[tuple[datetime, int]]] = {}

    def per_second(self, stats: QueueStats, now: datetime) -> float | None:
        """None at the first look."""
        seen = self._totals.setdefault(stats.queue_id, deque())
        seen.append((now, stats.total))
        while len(seen) > 2 and (now - seen[1][0]).total_seconds() >= RECENT_SECONDS:
            seen.popleft()
        came = sum(
            max(0, after[1] - before[1])  # what was pruned is no arrival
            for before, after in zip(seen, list(seen)[1:], strict=False)
        )
        passed = (now - seen[0][0]).total_seconds()
        return came / max(passed, RECENT_SECONDS) if passed > 0 else None

    def keep_only(self, queues: set[UUID]) -> None:
        for queue in set(self._totals) - queues:
            del self._totals[queue]


class Rates:
    """How long a job of a queue runs, from rollups; looked up now and then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[UUID, tuple[datetime, float | None, float]] = {}

    async def of(self, queue: Queue, now: datetime) -> tuple[float | None, float]:
        """Seconds of a job, or None where none has ended lately; and arrivals per second."""
        known = self._known.get(queue.id)
        if known is not None and (now - known[0]).total_seconds() < RATE_LOOK_SECONDS:
            return known[1], known[2]
        subject, period = Subject(queue=queue.id), Period(last_seconds=RATE_SECONDS)
        totals = (await read_metrics(self._engine, [queue.project], subject, period)).totals
        average = totals.duration_ms.avg
        seconds = None if average is None else max(average, 0.1) / 1_000
        self._known[queue.id] = (now, seconds, totals.arrived / RATE_SECONDS)
        return self._known[queue.id][1:]

    def keep_only(self, queues: set[UUID]) -> None:
        for queue in set(self._known) - queues:
            del self._known[queue]


class ProjectSight:
    """The queues and workers of one project, read once."""

    def __init__(
        self,
        queues: Sequence[Queue],
        stats: Mapping[UUID, QueueStats],
        workers: Sequence[Worker],
        assignments: Sequence[Assignment],
        now: datetime,
        project: int,
    ) -> None:
        self.now = now
        self.project = project
        self._queues = {queue.id: queue for queue in queues}
        self._stats = stats  # by queue, of other projects too
        # of each the newest life
        self._workers = list({worker.id: worker for worker in workers}.values())
        self._servants: dict[UUID, set[UUID]] = {}
        for assignment in assignments:
            if assignment.is_active:
                self._servants.setdefault(assignment.queue, set()).add(assignment.worker)
        self._dead_letters = {queue.settings.dead_letter_queue_id for queue in queues}
        self._by_mark: dict[str, list[Worker]] = {}
        for worker in self._workers:
            mark = worker.capabilities.get(SCALED_BY)
            if isinstance(mark, str):
                self._by_mark.setdefault(mark, []).append(worker)
        # those that accept jobs: of all queues, and of the queues that they name
        self._of_all = [one for one in self._workers if one.accepts_jobs and one.queues is None]
        self._of_queue: dict[str, list[Worker]] = {}
        for worker in self._workers:
            for name in worker.queues or () if worker.accepts_jobs else ():
                self._of_queue.setdefault(name, []).append(worker)

    async def see(
        self, scaling: QueueScaling, rates: Rates, arrivals: Arrivals | None = None
    ) -> SeenQueue | None:
        """None where the queue is gone."""
        queue, stats = self._queues.get(scaling.queue_id), self._stats.get(scaling.queue_id)
        if queue is None or stats is None:
            return None
        servants = self._servants.get(queue.id, set())
        able = [*self._of_all, *self._of_queue.get(queue.name, ())]
        # those that a leader chose to drain, and of whom this sight cannot tell that they were told
        leaving = {
            one.worker
            for one in scaling.state.draining
            if one.told_at is None or self.now <= one.told_at
        }
        serving = [
            one for one in able if one.id not in leaving and self._may_serve(one, queue, servants)
        ]
        marked = (*self._by_mark.get(queue.name, ()), *self._by_mark.get(str(scaling.id), ()))
        started = list({one.id: one for one in marked}.values())
        unassigned = [
            one
            for one in started
            if servants and one.accepts_jobs and one.id not in servants
            if self._may_serve(one, queue, {one.id})
        ]
        own = [*started, *serving] if scaling.policy.may_stop_any_worker else [*started]
        if draining := {one.worker for one in scaling.state.draining}:
            # until they are gone, although they serve nothing any more
            own += [one for one in self._workers if one.id in draining]
        own = list({one.id: one for one in own}.values())
        slots = sum(one.max_concurrent_jobs for one in serving)
        each = round(slots / len(serving)) if serving else scaling.state.slots
        seconds, arrived = None, 0.0
        recent = None if arrivals is None else arrivals.per_second(stats, self.now)
        # a queue may be empty just now although jobs come all the time
        is_used = stats.pending or stats.processing or recent or (recent is None and serving)
        if is_used:
            seconds, arrived = await rates.of(queue, self.now)
        figures = ScalingSight(
            pending=stats.pending if queue.is_active else 0,
            processing=stats.processing,
            workers=len(serving),
            busy_slots=sum(one.active_jobs for one in serving),
            slots=slots,
            asked=still_asked(scaling.state.asked, started),
            jobs_per_second=None if seconds is None or not each else each / seconds,
            arrivals_per_second=round(arrived if recent is None else recent, 3),
            last_up=scaling.state.last_up,
            last_down=scaling.state.last_down,
        )
        return SeenQueue(
            scaling=scaling,
            queue=queue,
            stats=stats,
            serving=tuple(serving),
            own=tuple(own),
            started=tuple(started),
            servants=frozenset(servants),
            unassigned=tuple(unassigned),
            figures=figures,
            slots=each,
        )

    def _may_serve(self, worker: Worker, queue: Queue, servants: set[UUID]) -> bool:
        hindrance = hindrance_to_serve(
            worker.id, worker.queues, queue, servants, self._dead_letters
        )
        return hindrance is None


async def read_sights(
    engine: Engine, projects: Sequence[int], queues: Sequence[UUID] | None = None
) -> dict[int, ProjectSight]:
    """Of several projects at once; `queues`: those whose stats are wanted, else all."""
    now = await engine.now()
    listed = _by_project(await engine.queues(projects))
    stats = {one.queue_id: one for one in await engine.stats(projects, of=queues)}
    workers = _by_project(await engine.workers(projects))
    assigned = _by_project(await engine.assignments(projects))
    return {
        project: ProjectSight(
            listed.get(project, []),
            stats,
            workers.get(project, []),
            assigned.get(project, []),
            now,
            project,
        )
        for project in projects
    }


class _OfProject(Protocol):
    @property
    def project(self) -> int: ...


T = TypeVar("T", bound=_OfProject)


def _by_project(found: Sequence[T]) -> dict[int, list[T]]:
    parts: dict[int, list[T]] = {}
    for one in found:
        parts.setdefault(one.project, []).append(one)
    return parts


class Sights:
    """Of one round. Policies of one page are seen together, with the stats of their queues alone;
    a project with many is read whole, and kept for its next pages."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._whole: dict[int, tuple[float, ProjectSight]] = {}

    async def of(self, policies: Mapping[int, Sequence[QueueScaling]]) -> dict[int, ProjectSight]:
        """By project."""
        sights: dict[int, ProjectSight] = {}
        few: dict[int, Sequence[QueueScaling]] = {}
        for project, some in policies.items():
            read_at, sight = self._whole.get(project, (0.0, None))
            if sight is not None and time.monotonic() - read_at < WHOLE_SECONDS:
                sights[project] = sight
            elif len(some) < MANY_POLICIES:
                few[project] = some
            else:
                found = await read_sights(self._engine, [project])
                self._whole = {project: (time.monotonic(), found[project])}
                sights |= found
        if few:
            queues = [one.queue_id for some in few.values() for one in some]
            sights |= await read_sights(self._engine, list(few), queues)
        return sights


def still_asked(asked: Sequence[AskedFor], started: Sequence[Worker]) -> tuple[AskedWorkers, ...]:
    """Those that have not come: whoever registered since fills the oldest wish first."""
    return asked_workers(fill_wishes(asked, started))


def fill_wishes(asked: Sequence[AskedFor], started: Sequence[Worker]) -> tuple[AskedFor, ...]:
    come = sorted(one.registered_at for one in started)
    left: list[AskedFor] = []
    for wish in sorted(asked, key=lambda one: one.at):
        fitting = [at for at in come if at >= wish.at][: wish.count]
        for at in fitting:
            come.remove(at)
        open_ones = wish.count - wish.given_up - len(fitting)
        if open_ones > 0:
            left.append(msgspec.structs.replace(wish, count=open_ones))
    return tuple(left)
