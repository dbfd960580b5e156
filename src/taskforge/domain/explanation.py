"""Why a job is not running: what claims go by, put into words."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from taskforge.domain.eligibility import Hindrance
from taskforge.domain.job import Job, JobStatus
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker, WorkerStatus

MOST_AHEAD = 10_000
OVERDUE_SECONDS = 10.0
_ABLE = (None, Hindrance.BUSY)
_SHORT = {
    Hindrance.NOT_SUBSCRIBED: "not subscribed to queue {queue.name!r}",
    Hindrance.NOT_ASSIGNED: "not assigned to queue {queue.name!r}, which others are",
    Hindrance.DEAD_LETTERS: "not subscribed to {queue.name!r}, and dead letter queues are served by name only",
    Hindrance.NO_HANDLER: "without a handler for {job.job_type!r}",
    Hindrance.LACKS_CAPABILITY: "without what it requires: {job.requires}",
    Hindrance.UNHEALTHY: "unhealthy",
    Hindrance.DRAINING: "draining",
    Hindrance.SKIPPED: "with a handler that skipped it",
    Hindrance.BUSY: "busy",
}


class Standing(msgspec.Struct, frozen=True):
    """Where a pending job stands, as only the store can tell."""

    ahead: int = 0  # jobs of its queue that are taken first; those that no worker of this job takes do not count
    running: int = 0  # jobs of its queue, where it limits them
    rate_wait: float = 0.0  # seconds until the queue's rate limit lets the next one start
    skipped: frozenset[UUID] = frozenset()  # workers whose handlers would not take it


class Reason(msgspec.Struct, frozen=True):
    code: str
    text: str
    until: datetime | None = None  # when it is over, where that is known


class Candidate(msgspec.Struct, frozen=True):
    """A worker that is there, and what keeps it from the job, if anything does."""

    name: str
    active_jobs: int
    max_concurrent_jobs: int
    hindrance: Hindrance | None
    text: str


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is not running. What stands in its way most comes first; a job that nothing holds up has a reason, too."""

    job: UUID
    status: JobStatus
    reasons: tuple[Reason, ...]
    workers: tuple[Candidate, ...] = ()
    ahead: int | None = None
    expected_start: datetime | None = None


def explain(
    job: Job, queue: Queue, workers: Sequence[tuple[Worker, Hindrance | None]], standing: Standing, now: datetime
) -> Explanation:
    """`workers` are those of the job's project with what keeps them from jobs of this kind."""
    match job.status:
        case JobStatus.PENDING:
            return _pending(job, queue, workers, standing, now)
        case JobStatus.SCHEDULED:
            return Explanation(job.id, job.status, (_scheduled(job, now),), expected_start=job.scheduled_for)
        case JobStatus.PROCESSING:
            return _processing(job, [worker for worker, _ in workers], now)
        case _:
            return Explanation(job.id, job.status, (_ended(job, now),))


def _ended(job: Job, now: datetime) -> Reason:
    why = f"{job.error.type}: {job.error.message}".partition("\n")[0] if job.error is not None else job.reason
    ago = "" if job.completed_at is None else f" {lasting((now - job.completed_at).total_seconds())} ago"
    return Reason("ended", f"it has ended: {job.status}{ago}" + (f" ({why})" if why else ""))


def _processing(job: Job, workers: Sequence[Worker], now: datetime) -> Explanation:
    """Of the worker only `workers` tells: not everyone who sees jobs may see workers."""
    there = [one for one in workers if one.incarnation == job.worker and one.lease_until > now]
    if not there:
        reason = Reason("worker_lost", "its worker is gone: when the lease is over, the attempt counts as failed")
    else:
        since = "" if job.started_at is None else f" since {lasting((now - job.started_at).total_seconds())}"
        text = f"attempt {job.attempt_count} of {job.max_attempts} runs{since}"
        stopping = job.cancel_requested
        reason = Reason("cancelling", f"{text}, and was asked to stop") if stopping else Reason("running", text)
    runs = [Candidate(one.name, one.active_jobs, one.max_concurrent_jobs, None, "runs it") for one in there]
    return Explanation(job.id, job.status, (reason,), tuple(runs))


def _scheduled(job: Job, now: datetime) -> Reason:
    due = job.scheduled_for
    left = 0.0 if due is None else (due - now).total_seconds()
    if left < -OVERDUE_SECONDS:
        overdue = f"it has been due for {lasting(-left)} and nothing made it pending: is any worker or server running?"
        return Reason("overdue", overdue, due)
    if job.attempt_count:
        tries = f"attempt {job.attempt_count} of {job.max_attempts} failed"
        return Reason("retry", f"{tries}; the next one is due in {lasting(max(0.0, left))}", due)
    return Reason("scheduled", f"it is due in {lasting(max(0.0, left))}", due)


def _pending(
    job: Job, queue: Queue, workers: Sequence[tuple[Worker, Hindrance | None]], standing: Standing, now: datetime
) -> Explanation:
    candidates = [
        _candidate(worker, _now_hindered(worker, hindrance, standing), job, queue)
        for worker, hindrance in workers
        if worker.lease_until > now
    ]
    reasons = [
        *_time_is_over(job, now),
        *_paused(queue),
        *_without_worker(job, queue, candidates),
        *_limited(queue, standing, now),
    ]
    held = bool(reasons)
    if standing.ahead:
        reasons.append(Reason("behind", _jobs_go_first(standing.ahead)))
    return Explanation(
        job.id,
        job.status,
        tuple(reasons) or (Reason("next", "nothing stands in its way: it is next, and is taken within a moment"),),
        tuple(candidates),
        standing.ahead,
        _expected(queue, standing, [reason.code for reason in reasons], now, held=held),
    )


def _now_hindered(worker: Worker, hindrance: Hindrance | None, standing: Standing) -> Hindrance | None:
    if hindrance is not None:
        return hindrance
    if worker.id in standing.skipped:
        return Hindrance.SKIPPED
    if worker.drain_mode:
        return Hindrance.DRAINING
    if worker.status is WorkerStatus.UNHEALTHY:
        return Hindrance.UNHEALTHY
    return Hindrance.BUSY if worker.active_jobs >= worker.max_concurrent_jobs else None


def _candidate(worker: Worker, hindrance: Hindrance | None, job: Job, queue: Queue) -> Candidate:
    text = _said_of(worker, hindrance, job, queue)
    return Candidate(worker.name, worker.active_jobs, worker.max_concurrent_jobs, hindrance, text)


def _said_of(worker: Worker, hindrance: Hindrance | None, job: Job, queue: Queue) -> str:
    slots = f"{worker.active_jobs:,} of {worker.max_concurrent_jobs:,} slots are taken"
    if hindrance is None:
        return f"would take it; {slots}"
    if hindrance is Hindrance.BUSY:
        return f"busy: {slots}"
    if hindrance is Hindrance.NOT_SUBSCRIBED:
        return f"serves other queues only: {_few(worker.queues or ())}"
    return _SHORT[hindrance].format(job=job, queue=queue)


def _time_is_over(job: Job, now: datetime) -> list[Reason]:
    limits = [moment for moment in (job.expires_at, job.timeout_at) if moment is not None and moment <= now]
    return [Reason("expired", "the time by which it had to start is over: it is about to fail", min(limits))] if limits else []


def _paused(queue: Queue) -> list[Reason]:
    if queue.deleted_at is not None:
        return [Reason("queue_deleted", f"queue {queue.name!r} was deleted: it is about to be cancelled")]
    return [] if queue.is_active else [Reason("paused", f"queue {queue.name!r} is paused")]


def _without_worker(job: Job, queue: Queue, candidates: Sequence[Candidate]) -> list[Reason]:
    if not candidates:
        return [Reason("no_worker", "no worker of its project is online")]
    able = [one for one in candidates if one.hindrance in _ABLE]
    if able:
        if any(one.hindrance is None for one in able):
            return []
        taken, slots = sum(one.active_jobs for one in able), sum(one.max_concurrent_jobs for one in able)
        return [Reason("busy", f"every worker that may take it is busy: {taken:,} of {slots:,} slots are taken")]
    kinds = Counter(one.hindrance for one in candidates if one.hindrance is not None)
    said = {kind: _SHORT[kind].format(job=job, queue=queue) for kind in kinds}
    code = next(iter(kinds)) if len(kinds) == 1 else "no_able_worker"
    if len(candidates) == 1:
        return [Reason(code, f"the only worker online does not take it: {said[candidates[0].hindrance]}")]  # type: ignore[index]
    several = ", ".join(f"{count:,} {said[kind]}" for kind, count in kinds.items())
    return [Reason(code, f"none of the {len(candidates):,} workers online takes it: {several}")]


def _limited(queue: Queue, standing: Standing, now: datetime) -> list[Reason]:
    reasons, settings = [], queue.settings
    if settings.max_concurrent_jobs is not None and standing.running >= settings.max_concurrent_jobs:
        text = f"queue {queue.name!r} runs {standing.running:,} jobs, and at most {settings.max_concurrent_jobs:,} at once"
        reasons.append(Reason("concurrency", text))
    if settings.rate_limit is not None and standing.rate_wait > 0:
        wait = lasting(standing.rate_wait)
        text = f"queue {queue.name!r} starts at most {settings.rate_limit:g} jobs a minute: the next one in {wait}"
        reasons.append(Reason("rate_limit", text, now + timedelta(seconds=standing.rate_wait)))
    return reasons


def _expected(queue: Queue, standing: Standing, codes: Sequence[str], now: datetime, *, held: bool) -> datetime | None:
    """Only where it follows from what is known: at once when nothing holds it, by the rate where that alone does."""
    if not held and not standing.ahead:
        return now
    if queue.settings.rate_limit is not None and set(codes) <= {"rate_limit", "behind"}:
        return now + timedelta(seconds=standing.rate_wait + standing.ahead * 60 / queue.settings.rate_limit)
    return None


def _jobs_go_first(ahead: int) -> str:
    if ahead == 1:
        return "1 job of its queue goes first"
    return f"{ahead:,} {'or more ' if ahead >= MOST_AHEAD else ''}jobs of its queue go first"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def lasting(seconds: float) -> str:
    """A duration as one would say it."""
    for size, name in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
