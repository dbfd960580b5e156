"""Why a job is not running, by its status: what stands in its way most comes first."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from taskforge.domain import reasons
from taskforge.domain.durations import span
from taskforge.domain.explanation import MOST_AHEAD, Explanation, Judged, PlaceInLine, Reason
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker, WorkerStatus

OVERDUE_SECONDS = 60.0
LONG_SECONDS = 10.0


def explain(
    job: StoredJob, queue: Queue, workers: Sequence[Judged], standing: PlaceInLine, now: datetime
) -> Explanation:
    online = [
        (worker, hindrance)
        for worker, hindrance in workers
        if worker.status is not WorkerStatus.OFFLINE
    ]
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


def _ended(job: StoredJob, now: datetime) -> Reason:
    why = (
        f"{job.error.type}: {job.error.message}".partition("\n")[0]
        if job.error is not None
        else job.reason
    )
    ago = (
        "" if job.completed_at is None else f" {span((now - job.completed_at).total_seconds())} ago"
    )
    return Reason("ended", f"it has ended: {job.status}{ago}" + (f" ({why})" if why else ""))


def _processing(job: StoredJob, online: Sequence[Worker], now: datetime) -> Explanation:
    runs = [one for one in online if one.incarnation == job.worker]
    if not runs:
        reason = Reason(
            "worker_lost",
            "its worker is gone: the attempt is about to count as failed, or to be given back",
        )
    else:
        since = (
            ""
            if job.started_at is None
            else f" and has been running for {span((now - job.started_at).total_seconds())}"
        )
        text = f"attempt {job.attempt_count} of {job.max_attempts} is under way{since}"
        reason = (
            Reason("cancelling", f"{text}; it was asked to stop")
            if job.cancel_requested
            else Reason("running", text)
        )
    return Explanation(
        job.id,
        job.status,
        (reason,),
        tuple(reasons.candidate(one, None, "runs it") for one in runs),
        len(online),
    )


# --- Jobs that wait ---


def _scheduled(
    job: StoredJob, queue: Queue, online: Sequence[Judged], standing: PlaceInLine, now: datetime
) -> Explanation:
    candidates = reasons.judge_workers(job, queue, online, standing)
    unfit = reasons.fits_nobody(standing, candidates)
    if unfit is not None:
        return Explanation(
            job.id,
            job.status,
            (unfit, *reasons.paused(queue)),
            reasons.list_first(candidates),
            len(online),
        )
    later = [
        *reasons.paused(queue),
        *reasons.shut(job, standing, now),
        *(
            one
            for one in reasons.without_worker(job, queue, standing, candidates)
            if one.code != "busy"
        ),
    ]
    due = job.scheduled_for
    left = 0.0 if due is None else (due - now).total_seconds()
    if left < -OVERDUE_SECONDS:
        text = (
            f"it has been due for {span(-left)}, and nothing has made it pending: is any "
            f"worker or server running?"
        )
        reason = Reason("overdue", text, due)
    elif job.attempt_count:
        reason = Reason(
            "retry",
            f"attempt {job.attempt_count + 1} of {job.max_attempts} is due in "
            f"{span(max(0.0, left))}",
            due,
        )
    else:
        reason = Reason("scheduled", f"it is due in {span(max(0.0, left))}", due)
    expected = due if not later and left >= 0 and not queue.settings.is_gated else None
    return Explanation(
        job.id,
        job.status,
        (reason, *later),
        reasons.list_first(candidates),
        len(online),
        None,
        expected,
    )


def _pending(
    job: StoredJob, queue: Queue, online: Sequence[Judged], standing: PlaceInLine, now: datetime
) -> Explanation:
    candidates = reasons.judge_workers(job, queue, online, standing)
    found = [
        *reasons.time_is_over(standing, now),
        *reasons.paused(queue),
        *reasons.shut(job, standing, now),
        *reasons.without_worker(job, queue, standing, candidates),
        *reasons.unplaced(queue, standing, candidates),
        *reasons.limited(job, queue, standing, now),
        *reasons.paced(job, queue, standing),
        *reasons.behind(standing),
    ]
    codes = {reason.code for reason in found}
    if job.origin_queue is not None and codes & reasons.NOBODY:
        text = (
            f"it is a dead letter of queue {job.origin_queue!r}: redriven (`taskforge jobs "
            f"redrive`), it goes back there with a fresh budget"
        )
        found.insert(0, Reason("dead_letter", text))
    expected = None
    if not found:
        found = [_next(standing)]
        expected = now if standing.ready_seconds <= LONG_SECONDS else None
    elif _rate_alone_decides(queue, standing, codes):
        assert standing.rate is not None
        expected = now + timedelta(seconds=standing.rate.turn)
    return Explanation(
        job.id,
        job.status,
        (*found, *reasons.risen(job, standing)),
        reasons.list_first(candidates),
        len(online),
        standing.ahead,
        expected,
    )


def _rate_alone_decides(queue: Queue, standing: PlaceInLine, codes: set[str]) -> bool:
    unlimited, counted = queue.settings.max_concurrent_jobs is None, standing.ahead < MOST_AHEAD
    return "rate_limit" in codes <= {"rate_limit", "behind"} and unlimited and counted


def _next(standing: PlaceInLine) -> Reason:
    if standing.ready_seconds <= LONG_SECONDS:
        return Reason("next", "nothing stands in its way: it is next")
    ago = span(standing.ready_seconds)
    text = (
        f"it is next, and was first ready {ago} ago; should it stay so, what runs on its "
        f"workers holds them up"
    )
    return Reason("waiting", text)
