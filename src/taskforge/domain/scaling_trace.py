"""What a scaling policy would have made of a trace: its own rule in virtual time."""

import heapq
import itertools
from collections import deque
from datetime import UTC, datetime, timedelta

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.scaling import (
    AskedWorkers,
    ScalingAction,
    ScalingPolicy,
    ScalingSight,
    evaluate,
)

MOST_TRACED_JOBS = 1_000_000
MOST_TRACED_SECONDS = 31 * 86_400.0
RECENT_SECONDS = 60.0  # over which arrivals are counted
_START = datetime(2000, 1, 1, tzinfo=UTC)
_ARRIVE, _COME, _FINISH, _LOOK = range(4)


class TracedJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many jobs from this second on, all at once or evenly over some seconds."""

    at_seconds: float
    jobs: int
    job_seconds: float  # how long one of them runs
    over_seconds: float = 0.0


class ScalingTrace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    arrivals: tuple[TracedJobs, ...]
    slots: int = 1  # of one worker
    start_seconds: float = 5.0  # from the wish for a worker until it takes jobs
    look_seconds: float = 5.0  # how often the policy is evaluated


class TracedPoint(msgspec.Struct, frozen=True):
    """What there was at one look of the policy."""

    at_seconds: float
    desired: int
    workers: int  # those that drain included
    length: int


class ScalingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    jobs: int
    worker_hours: float
    wait_p50_seconds: float
    wait_p95_seconds: float
    most_workers: int
    direction_changes: int  # from more workers to fewer, or back
    done_seconds: float  # from the first arrival until the last job has ended
    has_finished: bool  # false: jobs are left that the policy gives no workers
    series: tuple[TracedPoint, ...] = ()


def check_trace(trace: ScalingTrace) -> ScalingTrace:
    if not trace.arrivals:
        raise Invalid("arrivals", "is empty", "name at least one arrival of jobs")
    for place, one in enumerate(trace.arrivals):
        field = f"arrivals[{place}]"
        rules.number(f"{field}.at_seconds", one.at_seconds, 0, MOST_TRACED_SECONDS)
        rules.number(f"{field}.over_seconds", one.over_seconds, 0, MOST_TRACED_SECONDS)
        rules.number(f"{field}.job_seconds", one.job_seconds, 0.001, MOST_TRACED_SECONDS)
        rules.integer(f"{field}.jobs", one.jobs, 1, MOST_TRACED_JOBS)
    rules.integer("arrivals", sum(one.jobs for one in trace.arrivals), 1, MOST_TRACED_JOBS)
    rules.integer("slots", trace.slots, 1, 1_000)
    rules.number("start_seconds", trace.start_seconds, 0, 86_400)
    rules.number("look_seconds", trace.look_seconds, 0.1, 3_600)
    return trace


def simulate(policy: ScalingPolicy, trace: ScalingTrace) -> ScalingOutcome:
    """Until all jobs have ended and the policy has settled."""
    return _Run(policy, trace).play()


class _TracedWorker(msgspec.Struct, eq=False):
    since: float
    busy: int = 0
    is_draining: bool = False


class _Run:
    def __init__(self, policy: ScalingPolicy, trace: ScalingTrace) -> None:
        self.policy, self.trace = policy, trace
        self.order = itertools.count()
        self.events: list[tuple[float, int, int, object]] = []
        self.waiting: deque[tuple[float, float]] = deque()
        self.workers: list[_TracedWorker] = []
        self.asked: list[float] = []
        self.recent: deque[float] = deque()
        self.waits: list[float] = []
        self.worked = 0.0  # seconds of jobs that ended
        self.ended = 0
        self.hours = 0.0
        self.steps: list[ScalingAction] = []
        self.last: dict[ScalingAction, datetime] = {}
        self.most = 0
        self.done_at = 0.0
        self.series: list[TracedPoint] = []

    def play(self) -> ScalingOutcome:
        total = sum(one.jobs for one in self.trace.arrivals)
        first = min(one.at_seconds for one in self.trace.arrivals)
        for one in self.trace.arrivals:
            for place in range(one.jobs):
                at = one.at_seconds + one.over_seconds * place / one.jobs
                self._plan(at, _ARRIVE, one.job_seconds)
        self._plan(0.0, _LOOK, None)
        end = max(at for at, *_ in self.events) + MOST_TRACED_SECONDS
        at = 0.0
        while self.events:
            at, kind, _, what = heapq.heappop(self.events)
            self._happen(at, kind, what)
            if kind == _LOOK and at < end and not self._is_settled(total):
                self._plan(at + self.trace.look_seconds, _LOOK, None)
        for worker in self.workers:
            self.hours += (at - worker.since) / 3600
        waits = sorted(self.waits) or [0.0]
        turns = sum(one is not other for one, other in itertools.pairwise(self.steps))
        return ScalingOutcome(
            jobs=total,
            worker_hours=round(self.hours, 4),
            wait_p50_seconds=round(waits[(len(waits) - 1) // 2], 3),
            wait_p95_seconds=round(waits[(len(waits) - 1) * 95 // 100], 3),
            most_workers=self.most,
            direction_changes=turns,
            done_seconds=round(max(0.0, self.done_at - first), 3),
            has_finished=self.ended == total,
            series=tuple(self.series),
        )

    def _plan(self, at: float, kind: int, what: object) -> None:
        heapq.heappush(self.events, (at, kind, next(self.order), what))

    def _is_settled(self, total: int) -> bool:
        """Nothing more can happen, or nothing will: no worker is allowed."""
        idle = not self.asked and len(self.workers) <= self.policy.min_workers
        return idle and (self.ended == total or self.policy.max_workers == 0)

    def _happen(self, at: float, kind: int, what: object) -> None:
        if kind == _ARRIVE:
            assert isinstance(what, float)
            self.waiting.append((at, what))
            self.recent.append(at)
        elif kind == _COME:
            self.asked.pop(0)
            self.workers.append(_TracedWorker(at))
            self.most = max(self.most, len(self.workers))
        elif kind == _FINISH:
            assert isinstance(what, tuple)
            worker, seconds = what
            worker.busy -= 1
            self.ended += 1
            self.worked += seconds
            self.done_at = at
            self._end_if_empty(worker, at)
        else:
            self._look(at)
        self._give(at)

    def _give(self, at: float) -> None:
        """Waiting jobs to free slots, the least busy worker first."""
        while self.waiting:
            free = [
                one for one in self.workers if not one.is_draining and one.busy < self.trace.slots
            ]
            if not free:
                return
            worker = min(free, key=lambda one: one.busy)
            since, seconds = self.waiting.popleft()
            worker.busy += 1
            self.waits.append(at - since)
            self._plan(at + seconds, _FINISH, (worker, seconds))

    def _end_if_empty(self, worker: _TracedWorker, at: float) -> None:
        if worker.is_draining and not worker.busy:
            self.workers.remove(worker)
            self.hours += (at - worker.since) / 3600

    def _look(self, at: float) -> None:
        while self.recent and self.recent[0] <= at - RECENT_SECONDS:
            self.recent.popleft()
        accepting = [one for one in self.workers if not one.is_draining]
        now = _START + timedelta(seconds=at)
        seen = ScalingSight(
            pending=len(self.waiting),
            processing=sum(one.busy for one in self.workers),
            workers=len(accepting),
            busy_slots=sum(one.busy for one in accepting),
            slots=self.trace.slots * len(accepting),
            asked=tuple(AskedWorkers(1, _START + timedelta(seconds=one)) for one in self.asked),
            jobs_per_second=self.trace.slots * self.ended / self.worked if self.ended else None,
            arrivals_per_second=len(self.recent) / RECENT_SECONDS,
            last_up=self.last.get(ScalingAction.UP),
            last_down=self.last.get(ScalingAction.DOWN),
        )
        advice = evaluate(self.policy, seen, now)
        self.series.append(TracedPoint(at, advice.desired, len(self.workers), seen.length))
        if advice.action is ScalingAction.HOLD:
            return
        self.steps.append(advice.action)
        self.last[advice.action] = now
        if advice.action is ScalingAction.UP:
            for _ in range(advice.count):
                self.asked.append(at)
                self._plan(at + self.trace.start_seconds, _COME, None)
            return
        for worker in sorted(accepting, key=lambda one: one.busy)[: advice.count]:
            worker.is_draining = True
            self._end_if_empty(worker, at)
