"""The engine as a few dictionaries: what a store must answer, with none of how. Compared step by
step in `test_state_machine`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from taskforge.domain.changes import (
    AskToStop,
    End,
    Erase,
    JobChange,
    Place,
    Remove,
    Standing,
    note_on,
    plan,
)
from taskforge.domain.errors import Conflict, TaskForgeError
from taskforge.domain.ids import epoch_of, fence_of, job_of
from taskforge.domain.job import JobStatus, NewJob
from taskforge.domain.limiter import BucketState, give_back, take
from taskforge.domain.outcome import (
    Ending,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToMisfit,
    ToRetry,
    ToSkipped,
    ToSnoozed,
    ToSucceeded,
    Transition,
    park_seconds,
)
from taskforge.domain.queue import QueueSettings

P, S, R, OK, F, C = JobStatus
Answer = tuple[object, ...]


@dataclass
class ModelQueue:
    settings: QueueSettings
    priority: int = 0
    is_active: bool = True
    dead_letters_to: str | None = None
    bucket: BucketState | None = None


@dataclass
class ModelWorker:
    types: tuple[str, ...] | None
    queues: tuple[str, ...] | None
    slots: int
    lease_until: datetime
    lease_seconds: float
    registered_at: datetime
    has_renewed: bool = False


@dataclass
class ModelJob:
    id: UUID
    queue: str
    job_type: str
    priority: int
    own_budget: int  # the facts' max_attempts
    max_attempts: int
    payload: bytes | None
    deadline: datetime | None
    expires: datetime | None
    unique_key: str | None
    turn: datetime
    position: int = 0
    status: JobStatus = P
    attempt: int = 0
    crashes: int = 0
    claims: int = 0  # so many epochs were given out
    due: datetime | None = None
    origin: str | None = None
    # workers, and lives of workers that it does not fit
    skipped: set[str | tuple[str, datetime]] = field(default_factory=set)
    misfit_at: datetime | None = None
    parked: bool = False
    buried: str | None = None
    cancel_reason: str | None = None
    worker: str = ""
    cancel_requested: bool = False
    claimed_at: datetime | None = None
    timeout_at: datetime | None = None
    timeout: float = 0.0
    beat_by: datetime | None = None
    started_at: datetime | None = None
    progress: float | None = None
    result: bytes | None = None
    reason: str | None = None
    completed_at: datetime | None = None
    ended_unclaimed: bool = False
    executions: list[Answer] = field(default_factory=list)

    @property
    def fence(self) -> UUID:
        return fence_of(self.id, self.claims)

    @property
    def until(self) -> datetime | None:
        """A start-by time counts until the first start."""
        times = [
            one for one in (self.deadline, None if self.claims else self.expires) if one is not None
        ]
        return min(times, default=None)

    def is_late(self, now: datetime) -> bool:
        return self.until is not None and self.until <= now

    def seen(self) -> dict[str, object]:
        return {
            "status": self.status,
            "queue": self.queue,
            "priority": self.priority,
            "attempt_count": self.attempt,
            "max_attempts": self.max_attempts,
            "crash_count": self.crashes,
            "epoch": 0 if self.ended_unclaimed else self.claims,
            "payload": self.payload,
            "scheduled_for": self.due if self.status is S else None,
            "timeout_at": self.deadline,
            "expires_at": self.expires,
            "completed_at": self.completed_at,
            "result": self.result,
            "reason": self.reason if self.status.is_final else self.buried,
            "payload_erased": self.payload is None,
            "origin_queue": self.origin,
            "cancel_requested": self.cancel_requested,
            "progress": self.progress,
            **({"started_at": self.started_at} if self.status is R else {}),
        }


class Model:
    def __init__(self, now: datetime, queues: Mapping[str, ModelQueue]) -> None:
        self.now = now
        # when somebody last looked, and how soon somebody promised to look again
        self.looked_at, self.rhythm = now, None
        self.heard_at = now  # when any lease was last renewed
        self.queues = dict(queues)
        self.workers: dict[str, ModelWorker] = {}
        # by the last claim: jobs that it might have taken, and jobs that had risen
        self.held_back = self.risen = 0
        self.jobs: dict[UUID, ModelJob] = {}
        self.unique: dict[str, UUID] = {}
        self.idempotent: dict[str, tuple[UUID, bytes, datetime]] = {}

    def after(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    # --- Insert ---

    def insert(self, jobs: Iterable[NewJob]) -> list[Answer]:
        before = dict(self.idempotent)
        return [self._insert(job, position, before) for position, job in enumerate(jobs)]

    def _insert(
        self, job: NewJob, position: int, before: dict[str, tuple[UUID, bytes, datetime]]
    ) -> Answer:
        queue = self.queues[job.queue]
        assert job.id is not None
        if job.id in self.jobs:
            return ("existed", job.id)
        refused = not queue.is_active and not queue.settings.accept_while_paused
        key, kept = job.idempotency_key, None
        if key is not None:
            kept = (before if refused else self.idempotent).get(key)
            if kept is not None and kept[2] > self.now:
                return (
                    ("existed", kept[0]) if kept[1] == job.body_hash() else ("refused", "KeyTaken")
                )
        if refused:
            return ("refused", "QueuePaused")
        holder = self.unique.get(job.unique_key or "")
        if key is not None:
            self.idempotent[key] = (
                holder or job.id,
                job.body_hash(),
                self.after(job.idempotency_seconds),
            )
        if holder is not None:
            return ("existed", holder)
        budget = job.max_attempts or queue.settings.max_attempts
        made = ModelJob(
            id=job.id,
            queue=job.queue,
            job_type=job.job_type,
            priority=job.priority,
            own_budget=budget,
            max_attempts=budget,
            payload=job.payload,
            deadline=self._moment(job.deadline),
            expires=self._moment(job.expires),
            unique_key=job.unique_key,
            turn=self.now,
            position=position,
        )
        self._stand(made, self._moment(job.at))
        if job.unique_key is not None:
            self.unique[job.unique_key] = job.id
        self.jobs[job.id] = made
        return ("inserted", job.id)

    def _moment(self, when: datetime | float | None) -> datetime | None:
        return when if when is None or isinstance(when, datetime) else self.after(when)

    def _stand(self, job: ModelJob, due: datetime | None) -> None:
        if due is not None and due > self.now:
            job.status, job.due = S, due
            job.skipped, job.misfit_at = set(), None
        else:
            job.status, job.due = P, None

    # --- Claim ---

    def may_take(self, worker: ModelWorker, job: ModelJob) -> bool:
        queue = self.queues[job.queue]
        targets = {other.dead_letters_to for other in self.queues.values()}
        subscribed = (
            job.queue not in targets if worker.queues is None else job.queue in worker.queues
        )
        return (
            queue.is_active
            and subscribed
            and (worker.types is None or job.job_type in worker.types)
        )

    def skips(self, name: str, job: ModelJob) -> bool:
        return name in job.skipped or (name, self.workers[name].registered_at) in job.skipped

    def claim(self, name: str, limit: int) -> list[Answer] | str:
        worker = self.workers[name]
        if worker.lease_until <= self.now:
            self.bridge(name)
        if worker.lease_until <= self.now:
            return "LeaseLost"
        able = [
            job
            for job in self.jobs.values()
            if job.status is P
            and not job.is_late(self.now)
            and not self.skips(name, job)
            and self.may_take(worker, job)
        ]
        is_loaded = self._is_loaded()
        held = [job for job in able if is_loaded and self._is_held(job)]
        able = [job for job in able if job not in held]
        able.sort(
            key=lambda job: (
                -self.queues[job.queue].priority,
                -self._goes_as(job),
                job.turn,
                job.position,
            )
        )
        limit = max(0, min(limit, worker.slots - self._running(name)))
        grants, states = self._grants(limit)
        spent = dict.fromkeys(self.queues, 0)
        taken: list[Answer] = []
        self.held_back, self.risen = len(held), 0
        for job in able:
            if len(taken) < limit and spent[job.queue] < grants.get(job.queue, limit):
                spent[job.queue] += 1
                self.risen += self._goes_as(job) > job.priority
                taken.append(self._take(job, name))
        for queue, state in states.items():
            bucket = self.queues[queue].settings.bucket
            if bucket is not None and spent[queue]:
                self.queues[queue].bucket = give_back(bucket, state, grants[queue] - spent[queue])
        return taken

    def _waited(self, job: ModelJob) -> float:
        return (self.now - job.turn).total_seconds()

    def _goes_as(self, job: ModelJob) -> int:
        """Its priority, with what it has gained by waiting."""
        boost = self.queues[job.queue].settings.age_boost
        if boost is None:
            return job.priority
        return min(9, job.priority + int(self._waited(job) // boost))

    def _is_held(self, job: ModelJob) -> bool:
        """Whether there was no moment yet at which it had waited as long as one of the priority
        that it went as then must."""
        pacing = self.queues[job.queue].settings.priority_pacing
        if pacing is None:
            return False
        boost = self.queues[job.queue].settings.age_boost or 1e9
        ripe = min(
            max(steps * boost, pacing.seconds(job.priority + steps))
            for steps in range(10 - job.priority)
        )
        return self._waited(job) < ripe

    def _running(self, worker: str) -> int:
        return sum(job.status is R and job.worker == worker for job in self.jobs.values())

    def _is_loaded(self) -> bool:
        ready = sum(
            job.status is P and self.queues[job.queue].is_active for job in self.jobs.values()
        )
        alive = {name: one for name, one in self.workers.items() if one.lease_until > self.now}
        return ready > sum(max(0, one.slots - self._running(name)) for name, one in alive.items())

    def _grants(self, limit: int) -> tuple[dict[str, int], dict[str, BucketState]]:
        grants, states = {}, {}
        for name, queue in self.queues.items():
            if queue.settings.is_gated:
                grants[name] = limit
            if queue.settings.max_concurrent_jobs is not None:
                running = sum(job.status is R and job.queue == name for job in self.jobs.values())
                grants[name] = min(limit, max(0, queue.settings.max_concurrent_jobs - running))
            if queue.settings.bucket is not None:
                grant = take(
                    queue.settings.bucket, queue.bucket, self.now.timestamp(), grants[name]
                )
                grants[name], states[name] = grant.granted, grant.state
        return grants, states

    def _take(self, job: ModelJob, worker: str) -> Answer:
        settings = self.queues[job.queue].settings
        job.status, job.worker = R, worker
        job.claims += 1
        job.attempt += 1
        job.timeout = settings.timeout_seconds
        job.timeout_at, job.claimed_at = self.after(job.timeout), self.now
        beat = settings.heartbeat_timeout_seconds
        job.beat_by = None if beat is None else self.after(beat)
        job.started_at, job.progress, job.cancel_requested, job.ended_unclaimed = (
            None,
            None,
            False,
            False,
        )
        job.cancel_reason = None
        return (
            job.fence,
            job.queue,
            job.attempt,
            job.max_attempts,
            job.crashes,
            job.priority,
            job.payload or b"null",
        )

    # --- Finish ---

    def why_lapsed(self, job: ModelJob) -> str | None:
        worker, now = self.workers[job.worker], self.now
        if job.deadline is not None and job.deadline <= now:
            return "DeadlinePassed"
        # A new life of the worker does not hold the leases of the old one; the machine re-registers
        # only when they are over.
        if worker.lease_until <= now:
            return "LeaseRanOut"
        if job.timeout_at is not None and job.timeout_at <= now:
            return "TimedOut"
        return "HeartbeatMissed" if job.beat_by is not None and job.beat_by <= now else None

    def running(self, fence: UUID) -> ModelJob | None:
        job = self.jobs.get(job_of(fence))
        return (
            job if job is not None and job.status is R and job.claims == epoch_of(fence) else None
        )

    def lapsed(self) -> dict[UUID, str]:
        found = {job.fence: self.why_lapsed(job) for job in self.jobs.values() if job.status is R}
        return {fence: why for fence, why in found.items() if why is not None}

    def finish(self, fence: UUID, transition: Transition, *, lapsed: bool = False) -> Answer | None:
        """None when it was applied, else what was lost."""
        job = self.running(fence)
        if job is None:
            return (fence, False)
        if job.cancel_requested and not isinstance(transition, Ending):
            return (fence, True)
        if lapsed and self.why_lapsed(job) is None:
            return (fence, False)
        attempt, epoch = job.attempt, job.claims
        if isinstance(transition, ToMisfit):
            waited = None if job.misfit_at is None else (self.now - job.misfit_at).total_seconds()
            transition = transition.after(waited)
        match transition:
            case ToSucceeded(result):
                self._end(job, OK, None)
                job.result, ended = result, ("succeeded", None)
            case ToFailed(_, reason):
                self._end(job, F, reason)
                ended = ("failed", reason)
            case ToCancelled(reason):
                reason = job.cancel_reason or reason
                self._end(job, C, reason)
                ended = ("cancelled", reason)
            case ToRetry(delay, _, crashed, misfit):
                job.crashes += crashed
                since = job.misfit_at
                self._again(job, delay)
                if misfit:
                    job.misfit_at, job.skipped = since, set()
                ended = ("retry_scheduled", None)
            case ToSnoozed(delay, reason):
                job.attempt -= 1
                self._again(job, delay)
                ended = ("cancelled", reason)
            case ToHandBack(reason):
                job.attempt -= 1
                job.status = P
                ended = ("cancelled", reason)
            case ToSkipped(reason):
                job.attempt -= 1
                job.status = P
                job.skipped.add(job.worker)
                ended = ("cancelled", reason)
            case ToMisfit():
                reason = transition.reason
                job.attempt -= 1
                job.status, job.misfit_at = P, job.misfit_at or self.now
                job.skipped.add((job.worker, self.workers[job.worker].registered_at))
                ended = ("cancelled", reason)
            case ToDeadLetter(_, _, reason):
                self._bury(job)
                job.buried = reason
                ended = ("dead_letter", reason)
        job.cancel_requested = False
        job.progress = job.progress if isinstance(transition, Ending) else None
        job.executions.append((epoch, attempt, *ended))
        return None

    def _end(self, job: ModelJob, status: JobStatus, reason: str | None) -> None:
        job.status, job.reason, job.completed_at, job.due = status, reason, self.now, None
        self._release(job)

    def _again(self, job: ModelJob, delay: float) -> None:
        job.turn, job.position = self.now, 0
        self._stand(job, self.after(delay))

    def _bury(self, job: ModelJob) -> None:
        target = self.queues[job.queue].dead_letters_to or "dead"
        job.origin = job.origin or job.queue
        job.queue, job.attempt, job.crashes = target, 0, 0
        job.max_attempts = self.queues[target].settings.max_attempts
        job.deadline = job.expires = None
        job.skipped, job.misfit_at = set(), None
        self._again(job, 0.0)
        self._release(job)

    def _release(self, job: ModelJob) -> None:
        if job.unique_key is not None and self.unique.get(job.unique_key) == job.id:
            del self.unique[job.unique_key]

    def beat(
        self, fence: UUID, progress: float | None, started_ago: float | None, alive: bool
    ) -> Answer | None:
        """A start counts once, however often it is told; whoever is heard of without one has
        started with its claim."""
        job = self.running(fence)
        if job is None:
            return (fence, False)
        starts = started_ago is not None and job.started_at is None
        beat = self.queues[job.queue].settings.heartbeat_timeout_seconds
        if job.beat_by is not None and beat is not None and (alive or starts):
            job.beat_by = self.after(beat if alive else beat - (started_ago or 0.0))
        job.progress = job.progress if progress is None else progress
        if started_ago is not None and starts:
            job.started_at = self.after(-started_ago)
            job.timeout_at = job.started_at + timedelta(seconds=job.timeout)
        elif alive and job.started_at is None:
            job.started_at = job.claimed_at
        return None

    # --- Upkeep ---

    def is_worth_a_look(self) -> bool:
        """Whether something runs, or a worker lived since somebody last looked."""
        running = any(job.status is R for job in self.jobs.values())
        return running or any(
            worker.lease_until > self.looked_at for worker in self.workers.values()
        )

    def look(self, rhythm: float | None) -> dict[UUID, str]:
        """What was lost, by whoever promises that somebody looks again within this rhythm."""
        self.bridge()
        self.looked_at = self.now
        self.rhythm = self.rhythm if rhythm is None else rhythm
        return self.lapsed()

    def bridge(self, asking: str = "") -> None:
        """A silence longer than was promised is nobody's death."""
        seen = max(self.looked_at, self.heard_at)
        if self.rhythm is None or self.now - seen <= timedelta(seconds=self.rhythm):
            return
        running = [job for job in self.jobs.values() if job.status is R]
        for name, worker in self.workers.items():
            if worker.lease_until > seen and (
                name == asking or any(job.worker == name for job in running)
            ):
                silence = self.now - max(seen, worker.registered_at)
                whole = silence > timedelta(seconds=worker.lease_seconds / 2)
                worker.lease_until = (
                    self.after(worker.lease_seconds) if whole else worker.lease_until + silence
                )
        for job in running:
            assert job.claimed_at is not None
            silence = self.now - max(seen, job.claimed_at)
            job.timeout_at = None if job.timeout_at is None else job.timeout_at + silence
            job.beat_by = None if job.beat_by is None else job.beat_by + silence
        self.looked_at = self.now

    def renew(self, name: str) -> bool:
        """Whether its lease goes on."""
        worker = self.workers[name]
        heard = (
            worker.lease_until - timedelta(seconds=worker.lease_seconds)
            if worker.has_renewed
            else self.looked_at
        )
        silent = self.rhythm is not None and self.now - max(self.looked_at, heard) > timedelta(
            seconds=self.rhythm
        )
        if silent or worker.lease_until <= self.now:
            self.bridge(name)
        if worker.lease_until <= self.now:
            return False
        worker.lease_until, worker.has_renewed, self.heard_at = (
            self.after(worker.lease_seconds),
            True,
            self.now,
        )
        return True

    def stage(self, limit: int) -> int:
        due = sorted(
            (
                job
                for job in self.jobs.values()
                if job.status is S and job.due and job.due <= self.now
            ),
            key=_by_due,
        )
        for position, job in enumerate(due[:limit]):
            job.status, job.due, job.turn, job.position = P, None, self.now, position
            if (
                job.misfit_at is None
                or park_seconds((self.now - job.misfit_at).total_seconds()) <= 0
            ):
                job.skipped = set()
            job.parked = False
        return len(due[:limit])

    def expire(self) -> int:
        count = 0
        for job in self.jobs.values():
            if job.status not in (P, S):
                continue
            if job.is_late(self.now):
                late = job.deadline is not None and job.deadline <= self.now
                self._expire(job, "deadline passed" if late else "expired")
            elif job.status is P and job.skipped and self._skipped_by_all(job):
                if job.misfit_at is not None:
                    self._park(job, (self.now - job.misfit_at).total_seconds())
                    count += 1
                    continue
                self._expire(job, "skipped by every able worker")
            else:
                continue
            count += 1
        return count

    def _skipped_by_all(self, job: ModelJob) -> bool:
        able = {
            name
            for name, worker in self.workers.items()
            if worker.lease_until > self.now and self.may_take(worker, job)
        }
        return bool(able) and all(self.skips(name, job) for name in able)

    def _park(self, job: ModelJob, waited: float) -> None:
        if park_seconds(waited) > 0:
            job.status, job.parked, job.due = S, True, self.after(park_seconds(waited))
        else:
            job.skipped = set()

    def register(self, name: str, worker: ModelWorker) -> None:
        """A new life of a worker: whatever waits for one that it fits is offered to it."""
        self.workers[name] = worker
        for job in self.jobs.values():
            if (
                job.status is S
                and job.parked
                and (worker.types is None or job.job_type in worker.types)
                and job.due
            ):
                job.due = min(job.due, self.now)

    def _expire(self, job: ModelJob, reason: str) -> None:
        self._end(job, F, reason)
        job.ended_unclaimed = True

    # --- Changes ---

    def change(self, identifier: UUID, change: JobChange) -> Answer:
        job = self.jobs.get(identifier)
        if job is None:
            return ("refused", "NotFound")
        standing = Standing(
            job=job.id,
            status=job.status,
            queue=job.queue,
            priority=job.priority,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            crashes=job.crashes,
            origin_queue=job.origin,
            cancel_requested=job.cancel_requested,
            payload_erased=job.payload is None,
        )
        try:
            move = plan(change, standing)
            self._carry_out(job, move)
        except TaskForgeError as error:
            return ("refused", type(error).__name__)
        left = job.status if job.id in self.jobs else None
        return ("changed", identifier, left, note_on(change, standing, move))

    def _carry_out(self, job: ModelJob, move: object) -> None:
        match move:
            case End(status, reason, _):
                self._end(job, status, reason)
                job.ended_unclaimed = True
            case Place():
                self._place(job, move)
            case Erase():
                job.payload = None
            case Remove():
                del self.jobs[job.id]
                self.idempotent = {
                    key: kept for key, kept in self.idempotent.items() if kept[0] != job.id
                }
            case AskToStop(reason):
                job.cancel_requested, job.cancel_reason = True, job.cancel_reason or reason

    def _place(self, job: ModelJob, move: Place) -> None:
        final = job.status.is_final
        if final and job.unique_key is not None:
            if self.unique.get(job.unique_key, job.id) != job.id:
                raise Conflict("held")
            self.unique[job.unique_key] = job.id
        job.queue, job.priority, job.attempt, job.crashes = (
            move.queue,
            move.priority,
            move.attempt,
            move.crashes,
        )
        job.max_attempts = job.own_budget if move.max_attempts is None else move.max_attempts
        job.payload = job.payload if move.payload is None else move.payload
        job.origin = None if move.clear_origin else job.origin
        job.buried = None if move.clear_origin else job.buried
        job.skipped, job.misfit_at = set(), None
        if final:
            job.deadline = (
                None if job.deadline is not None and job.deadline <= self.now else job.deadline
            )
            job.expires = (
                None if job.expires is not None and job.expires <= self.now else job.expires
            )
            job.completed_at = job.reason = job.result = job.progress = None
            job.ended_unclaimed = False
        if move.at is not None or (job.parked and job.status is S):
            job.turn, job.position = self.now, 0
            self._stand(job, self._moment(move.at))
        job.parked = False

    # --- Reading ---

    def stats(self) -> dict[str, dict[str, int]]:
        return {
            name: {
                status.value: sum(
                    job.queue == name and job.status is status for job in self.jobs.values()
                )
                for status in JobStatus
            }
            for name in self.queues
        }

    def copy_of(self, name: str) -> ModelQueue:
        return replace(self.queues[name])


def _by_due(job: ModelJob) -> tuple[datetime, UUID]:
    assert job.due is not None
    return job.due, job.id
