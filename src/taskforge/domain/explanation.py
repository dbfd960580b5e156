"""Why a job is not running: what claims go by, put into words. Reasons name no workers: not everyone who sees jobs may see them."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

import msgspec

from taskforge.domain.durations import span
from taskforge.domain.eligibility import Hindrance
from taskforge.domain.job import Job, JobStatus
from taskforge.domain.limiter import Bucket, BucketState, foresee
from taskforge.domain.outcome import MISFIT_SECONDS
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker, WorkerStatus

MOST_AHEAD = 10_000
MOST_WORKERS = 100
OVERDUE_SECONDS = 60.0
LONG_SECONDS = 10.0
_SHORT = {
    Hindrance.NOT_SUBSCRIBED: "not subscribed to queue {queue.name!r}",
    Hindrance.NOT_ASSIGNED: "not assigned to queue {queue.name!r}, as others are",
    Hindrance.DEAD_LETTERS: "not subscribed to {queue.name!r} (dead letter queues are served by name only)",
    Hindrance.NO_HANDLER: "without a handler for {job.job_type!r}",
    Hindrance.LACKS_CAPABILITY: "without what it requires: {job.requires}",
    Hindrance.UNHEALTHY: "unhealthy",
    Hindrance.DRAINING: "draining",
    Hindrance.SKIPPED: "whose handler skipped it",
    Hindrance.STUCK: "whose slots are held by handlers that did not end",
    Hindrance.MISFIT: "whose handler its arguments do not fit",
    Hindrance.BUSY: "busy",
}
_ABLE = (None, Hindrance.BUSY)
# But for how they stand just now. For those that drain nobody waits.
_WILLING = (None, Hindrance.BUSY, Hindrance.STUCK, Hindrance.SKIPPED, Hindrance.MISFIT, Hindrance.UNHEALTHY)
_NOBODY = {"no_worker", "no_able_worker", *Hindrance} - {Hindrance.BUSY}
_UNWILLING = {Hindrance.SKIPPED, Hindrance.MISFIT}


class Rate(msgspec.Struct, frozen=True):
    """What a rate limit lets through."""

    wait: float  # seconds until the next job may start
    turn: float  # and until this one may, if those ahead start as they may
    pace: float  # jobs a second just now

    @classmethod
    def seen(cls, bucket: Bucket, state: BucketState | None, now: float, ahead: int) -> Self:
        wait, pace = foresee(bucket, state, now, 1)
        return cls(wait, foresee(bucket, state, now, ahead + 1)[0], pace)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pending job stands, as only the store can tell."""

    ready_seconds: float = 0.0  # since it became ready for the first time, or was placed anew
    ahead: int = 0  # jobs of its queue that are taken first; those that no worker of this job takes do not count
    elsewhere: int = 0  # the same, of other queues that its workers serve
    running: int = 0  # jobs of its queue, where it limits them
    rate: Rate | None = None
    until: datetime | None = None  # start by, or fail
    skipped: frozenset[UUID] = frozenset()  # workers whose handlers would not take it, incarnations whose handlers it does not fit
    misfit_at: datetime | None = None  # when its arguments first fitted no handler
    misfit: str | None = None  # and what the last worker said of that


class Reason(msgspec.Struct, frozen=True):
    code: str
    text: str
    until: datetime | None = None  # when it is over, where that is known


class Candidate(msgspec.Struct, frozen=True):
    """A worker that is there, and what keeps it from the job, if anything does."""

    name: str
    active_jobs: int
    max_concurrent_jobs: int
    hindrance: str | None
    text: str
    stuck_slots: int = 0  # held by handlers that did not end


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is not running. What stands in its way most comes first; a job that nothing holds up has a reason, too."""

    job: UUID
    status: JobStatus
    reasons: tuple[Reason, ...]
    workers: tuple[Candidate, ...] = ()  # those who would take it first, and not more than 100
    workers_online: int = 0
    ahead: int | None = None
    expected_start: datetime | None = None


Verdict = tuple[Worker, Hindrance | None]
"""A worker, and what keeps it from jobs of this kind."""


def explain(job: Job, queue: Queue, workers: Sequence[Verdict], standing: Standing, now: datetime) -> Explanation:
    online = [(worker, hindrance) for worker, hindrance in workers if worker.status is not WorkerStatus.OFFLINE]
    leased = [worker for worker, _ in workers if worker.lease_until > now]
    match job.status:
        case JobStatus.PENDING:
            return _pending(job, queue, online, standing, now)
        case JobStatus.SCHEDULED:
            return _scheduled(job, queue, online, standing, now)
        case JobStatus.PROCESSING:
            return _processing(job, leased, now)
        case _:
            return Explanation(job.id, job.status, (_ended(job, now),))


# --- Jobs that do not wait ---


def _ended(job: Job, now: datetime) -> Reason:
    why = f"{job.error.type}: {job.error.message}".partition("\n")[0] if job.error is not None else job.reason
    ago = "" if job.completed_at is None else f" {span((now - job.completed_at).total_seconds())} ago"
    return Reason("ended", f"it has ended: {job.status}{ago}" + (f" ({why})" if why else ""))


def _processing(job: Job, online: Sequence[Worker], now: datetime) -> Explanation:
    runs = [one for one in online if one.incarnation == job.worker]
    if not runs:
        reason = Reason("worker_lost", "its worker is gone: the attempt is about to count as failed, or to be given back")
    else:
        since = "" if job.started_at is None else f" and has been running for {span((now - job.started_at).total_seconds())}"
        text = f"attempt {job.attempt_count} of {job.max_attempts} is under way{since}"
        reason = Reason("cancelling", f"{text}; it was asked to stop") if job.cancel_requested else Reason("running", text)
    return Explanation(job.id, job.status, (reason,), tuple(_candidate(one, None, "runs it") for one in runs), len(online))


# --- Jobs that wait ---


def _scheduled(job: Job, queue: Queue, online: Sequence[Verdict], standing: Standing, now: datetime) -> Explanation:
    candidates = _candidates(job, queue, online, standing)
    unfit = _fits_nobody(standing, candidates)
    if unfit is not None:
        return Explanation(job.id, job.status, (unfit, *_paused(queue)), _listed(candidates), len(online))
    later = [*_paused(queue), *(one for one in _without_worker(job, queue, standing, candidates) if one.code != "busy")]
    due = job.scheduled_for
    left = 0.0 if due is None else (due - now).total_seconds()
    if left < -OVERDUE_SECONDS:
        text = f"it has been due for {span(-left)}, and nothing has made it pending: is any worker or server running?"
        reason = Reason("overdue", text, due)
    elif job.attempt_count:
        reason = Reason("retry", f"attempt {job.attempt_count + 1} of {job.max_attempts} is due in {span(max(0.0, left))}", due)
    else:
        reason = Reason("scheduled", f"it is due in {span(max(0.0, left))}", due)
    expected = due if not later and left >= 0 and not queue.settings.is_gated else None
    return Explanation(job.id, job.status, (reason, *later), _listed(candidates), len(online), None, expected)


def _pending(job: Job, queue: Queue, online: Sequence[Verdict], standing: Standing, now: datetime) -> Explanation:
    candidates = _candidates(job, queue, online, standing)
    reasons = [
        *_time_is_over(standing, now),
        *_paused(queue),
        *_without_worker(job, queue, standing, candidates),
        *_limited(queue, standing, now),
        *_behind(standing),
    ]
    codes = {reason.code for reason in reasons}
    if job.origin_queue is not None and codes & _NOBODY:
        text = f"it is a dead letter of queue {job.origin_queue!r}: redriven, it goes back there with a fresh budget"
        reasons.append(Reason("dead_letter", text))
    expected = None
    if not reasons:
        reasons = [_next(standing)]
        expected = now if standing.ready_seconds <= LONG_SECONDS else None
    elif _rate_alone_decides(queue, standing, codes):
        assert standing.rate is not None
        expected = now + timedelta(seconds=standing.rate.turn)
    return Explanation(job.id, job.status, tuple(reasons), _listed(candidates), len(online), standing.ahead, expected)


def _rate_alone_decides(queue: Queue, standing: Standing, codes: set[str]) -> bool:
    unlimited, counted = queue.settings.max_concurrent_jobs is None, standing.ahead < MOST_AHEAD
    return "rate_limit" in codes <= {"rate_limit", "behind"} and unlimited and counted


def _next(standing: Standing) -> Reason:
    if standing.ready_seconds <= LONG_SECONDS:
        return Reason("next", "nothing stands in its way: it is next")
    ago = span(standing.ready_seconds)
    text = f"it is next, and was first ready {ago} ago; should it stay so, what runs on its workers holds them up"
    return Reason("waiting", text)


def _candidates(job: Job, queue: Queue, online: Sequence[Verdict], standing: Standing) -> list[Candidate]:
    made = []
    for worker, hindrance in online:
        stands = hindrance or hindrance_now(worker, standing.skipped)
        slots = f"{worker.active_jobs:,} of {worker.max_concurrent_jobs:,} slots are taken{_stuck(worker)}"
        if stands is None:
            text = f"would take it; {slots}"
        elif stands is Hindrance.BUSY:
            text = f"busy: {slots}"
        elif stands is Hindrance.STUCK:
            text = slots
        elif stands is Hindrance.NOT_SUBSCRIBED:
            text = f"serves other queues only: {_few(worker.queues or ())}"
        else:
            text = _SHORT[stands].format(job=job, queue=queue)
        made.append(_candidate(worker, stands, text))
    return made


def _stuck(worker: Worker) -> str:
    if not worker.stuck_slots:
        return ""
    return f", {worker.stuck_slots:,} {'is' if worker.stuck_slots == 1 else 'are'} held by handlers that did not end"


def hindrance_now(worker: Worker, skipped: Collection[UUID]) -> Hindrance | None:
    """What keeps a worker that may take a job from it just now."""
    if worker.incarnation in skipped:
        return Hindrance.MISFIT
    if worker.drains:
        return Hindrance.DRAINING  # before its skip: nothing fails for having been skipped by one that drains
    if worker.id in skipped:
        return Hindrance.SKIPPED
    is_full = worker.active_jobs + worker.stuck_slots >= worker.max_concurrent_jobs
    if worker.stuck_slots and is_full:
        return Hindrance.STUCK
    if not worker.healthy or (worker.status is WorkerStatus.UNHEALTHY and not worker.stuck_slots):
        return Hindrance.UNHEALTHY
    return Hindrance.BUSY if is_full else None


def _candidate(worker: Worker, hindrance: Hindrance | None, text: str) -> Candidate:
    return Candidate(worker.name, worker.active_jobs, worker.max_concurrent_jobs, hindrance, text, worker.stuck_slots)


def _listed(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    order = sorted(candidates, key=lambda one: (one.hindrance is not None, one.hindrance is not Hindrance.BUSY, one.name))
    return tuple(order[:MOST_WORKERS])


# --- What may stand in the way ---


def _time_is_over(standing: Standing, now: datetime) -> list[Reason]:
    if standing.until is None or standing.until > now:
        return []
    return [Reason("expired", "the time by which it had to start is over: it is about to fail", standing.until)]


def _paused(queue: Queue) -> list[Reason]:
    if queue.deleted_at is not None:
        return [Reason("queue_deleted", f"queue {queue.name!r} was deleted: it is about to be cancelled")]
    return [] if queue.is_active else [Reason("paused", f"queue {queue.name!r} is paused")]


def _fits_nobody(standing: Standing, candidates: Sequence[Candidate]) -> Reason | None:
    """Whether no worker that is there has a handler that its arguments fit, and it waits for one."""
    willing = {one.hindrance for one in candidates if one.hindrance in _WILLING}
    if standing.misfit_at is None or Hindrance.MISFIT not in willing or not willing <= _UNWILLING:
        return None
    until = standing.misfit_at + timedelta(seconds=MISFIT_SECONDS)
    text = f"its arguments fit no worker that is there ({standing.misfit}): it waits for one that they do, as after a deploy"
    return Reason("misfit", f"{text}, until {until:%H:%M:%S} UTC, and may fail then", until)


def _without_worker(job: Job, queue: Queue, standing: Standing, candidates: Sequence[Candidate]) -> list[Reason]:
    if not candidates:
        return [Reason("no_worker", "no worker of its project is online")]
    able = [one for one in candidates if one.hindrance in _ABLE]
    if able:
        if any(one.hindrance is None for one in able):
            return []
        taken, slots = sum(one.active_jobs for one in able), sum(one.max_concurrent_jobs for one in able)
        return [Reason("busy", f"every worker that may take it is busy: {taken:,} of {slots:,} slots are taken")]
    unfit = _fits_nobody(standing, candidates)
    if unfit is not None:
        return [unfit]
    if {one.hindrance for one in candidates if one.hindrance in _WILLING} == {Hindrance.SKIPPED}:
        fails = ": it is about to fail" if queue.is_active else ""
        return [Reason("skipped", f"every worker that could take it has skipped it{fails}")]
    kinds = Counter(Hindrance(one.hindrance) for one in candidates if one.hindrance is not None)
    said = {kind: _SHORT[kind].format(job=job, queue=queue) for kind in kinds}
    code = next(iter(kinds)).value if len(kinds) == 1 else "no_able_worker"
    if len(candidates) == 1:
        why = candidates[0].text if code == Hindrance.STUCK else next(iter(said.values()))
        return [Reason(code, f"the only worker online does not take it: {why}")]
    several = ", ".join(f"{count:,} {said[kind]}" for kind, count in kinds.items())
    return [Reason(code, f"the {len(candidates):,} workers online do not take it: {several}")]


def _limited(queue: Queue, standing: Standing, now: datetime) -> list[Reason]:
    reasons, settings, rate = [], queue.settings, standing.rate
    if settings.max_concurrent_jobs is not None and standing.running >= settings.max_concurrent_jobs:
        text = f"queue {queue.name!r} runs {standing.running:,} jobs, and at most {settings.max_concurrent_jobs:,} at once"
        reasons.append(Reason("concurrency", text))
    if settings.rate_limit is not None and rate is not None and rate.wait > 0:
        lets = f"starts at most {settings.rate_limit:g} jobs a minute"
        if rate.pace * 60 < 0.99 * settings.rate_limit:
            lets = f"has learned to start {rate.pace * 60:.3g} jobs a minute, of at most {settings.rate_limit:g}"
        text = f"queue {queue.name!r} {lets}: the next one in {span(rate.wait)}"
        reasons.append(Reason("rate_limit", text, now + timedelta(seconds=rate.wait)))
    return reasons


def _behind(standing: Standing) -> list[Reason]:
    counts = (("behind", standing.ahead, "its queue"), ("other_queues", standing.elsewhere, "other queues"))
    return [Reason(code, _go_first(count, whose)) for code, count, whose in counts if count]


def _go_first(count: int, whose: str) -> str:
    if count == 1:
        return f"1 job of {whose} goes first"
    return f"{count:,} {'or more ' if count >= MOST_AHEAD else ''}jobs of {whose} go first"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
