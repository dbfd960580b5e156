"""What an operator may do to a job, and what it means in each status. Pure: the engine locates the
job, asks `plan`, moves it."""

from contextlib import suppress
from typing import assert_never
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.admission import payload_refusal
from taskforge.domain.errors import Conflict, Invalid, TaskForgeError
from taskforge.domain.job import ErrorInfo, JobStatus, StoredJob, When, error_info
from taskforge.domain.queue import Queue

# --- The verbs ------------------------------------------------------------------------------------


class CancelJob(msgspec.Struct, frozen=True):
    reason: str = "cancelled by request"


class RetryJob(msgspec.Struct, frozen=True):
    """Run a failed or cancelled job again; `attempts` grants that many more, otherwise those left,
    or one."""

    attempts: int | None = None


class EditJob(msgspec.Struct, frozen=True, kw_only=True):
    """Fields left at None stay as they are."""

    priority: int | None = None
    at: When | None = None
    payload: bytes | None = None
    queue: str | None = None


class RedriveJob(msgspec.Struct, frozen=True):
    """Send a dead-lettered job back to where it came from, with a fresh budget."""


class DeleteJob(msgspec.Struct, frozen=True):
    pass


class ErasePayload(msgspec.Struct, frozen=True):
    pass


class ExpireJob(msgspec.Struct, frozen=True):
    """The store's own verb: the deadline or the start-by time of a waiting job has passed, or
    nobody is left to take it."""

    reason: str


MAX_REASON = 1_000
SKIPPED_BY_ALL = "skipped by every able worker"
JobChange = CancelJob | RetryJob | EditJob | RedriveJob | DeleteJob | ErasePayload | ExpireJob


# --- What the engine does then --------------------------------------------------------------------


class End(msgspec.Struct, frozen=True):
    status: JobStatus
    reason: str
    error: ErrorInfo | None = None


class AskToStop(msgspec.Struct, frozen=True):
    reason: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Stand in this queue at this priority; `at` of None keeps a scheduled job's time, and a
    pending job's turn."""

    queue: str
    priority: int
    attempt: int
    max_attempts: int | None  # None: what the queue or the job itself says
    crashes: int
    at: When | None = None
    payload: bytes | None = None
    clear_origin: bool = False


class Erase(msgspec.Struct, frozen=True):
    pass


class Remove(msgspec.Struct, frozen=True):
    pass


Move = End | AskToStop | Place | Erase | Remove


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands, as far as a change depends on it."""

    job: UUID
    status: JobStatus
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    crashes: int
    origin_queue: str | None
    cancel_requested: bool = False
    payload_erased: bool = False


class Changed(msgspec.Struct, frozen=True):
    job: UUID
    status: JobStatus | None  # None: deleted
    note: str | None = None


def check_change(change: JobChange) -> None:
    if isinstance(change, EditJob):
        if change.priority is not None:
            rules.integer("priority", change.priority, 0, 9)
        if change.at is not None:
            rules.moment("at", change.at)
        if change.queue is not None:
            rules.text("queue", change.queue, most=100)
        if (change.priority, change.at, change.payload, change.queue) == (None, None, None, None):
            raise Invalid("edit", "changes nothing", "give priority, at, payload or queue")
    elif isinstance(change, RetryJob) and change.attempts is not None:
        rules.integer("attempts", change.attempts, 1, 10_000)


def plan(change: JobChange, job: Standing) -> Move:
    """What the change means for a job that stands like this; `Conflict` when it means nothing
    there."""
    waits = job.status in (JobStatus.PENDING, JobStatus.SCHEDULED)
    match change:
        case CancelJob(reason):
            reason = rules.storable(reason)[:MAX_REASON]
            if waits:
                return End(JobStatus.CANCELLED, reason)
            if job.status is JobStatus.PROCESSING:
                return AskToStop(reason)
            raise _refusal(job, "cannot be cancelled", "only unfinished jobs can")
        case ExpireJob(reason):
            if waits:
                return End(JobStatus.FAILED, reason, _why_not_started(reason))
            raise _refusal(job, "cannot expire", "only pending and scheduled jobs do")
        case RetryJob(attempts):
            if job.status not in (JobStatus.FAILED, JobStatus.CANCELLED):
                raise _refusal(job, "cannot be retried", "only failed and cancelled jobs can")
            _check_payload_there(job)
            left = job.max_attempts - job.attempt
            budget = job.attempt + (attempts or max(1, left))
            return Place(
                queue=job.queue,
                priority=job.priority,
                attempt=job.attempt,
                max_attempts=budget,
                crashes=0,
                at=0.0,
            )
        case EditJob(priority=priority, at=at, payload=payload, queue=queue):
            if not waits:
                raise _refusal(job, "cannot be edited", "only pending and scheduled jobs can")
            return Place(
                queue=job.queue if queue is None else queue,
                priority=job.priority if priority is None else priority,
                attempt=job.attempt,
                max_attempts=job.max_attempts,
                crashes=job.crashes,
                at=at,
                payload=payload,
            )
        case RedriveJob():
            if job.origin_queue is None:
                raise Conflict(
                    f"job {job.job} was never dead-lettered; only dead-lettered jobs can be "
                    f"redriven"
                )
            if not waits and job.status is not JobStatus.FAILED:
                raise _refusal(
                    job, "cannot be redriven", "only pending, scheduled and failed jobs can"
                )
            _check_payload_there(job)
            return Place(
                queue=job.origin_queue,
                priority=job.priority,
                attempt=0,
                max_attempts=None,
                crashes=0,
                at=0.0,
                clear_origin=True,
            )
        case DeleteJob():
            if not job.status.is_final:
                raise _refusal(job, "cannot be deleted", "cancel it first; only finished jobs can")
            return Remove()
        case ErasePayload():
            if not job.status.is_final:
                raise _refusal(
                    job, "still needs its payload", "only a finished job's payload can be erased"
                )
            return Erase()
        case _:
            assert_never(change)


def allows(change: JobChange, job: StoredJob) -> bool:
    """Whether a job that was read would take the change as it stands. What the queue it would go to
    says is not asked."""
    standing = Standing(
        job=job.id,
        status=job.status,
        queue=job.queue,
        priority=job.priority,
        attempt=job.attempt_count,
        max_attempts=job.max_attempts,
        crashes=0,
        origin_queue=job.origin_queue,
        payload_erased=job.payload_erased,
    )
    try:
        plan(change, standing)
    except Conflict:
        return False
    return True


def statuses_for(change: JobChange) -> frozenset[JobStatus]:
    """Of which statuses jobs take the change, if nothing else is in its way."""
    found = set()
    for status in JobStatus:
        standing = Standing(
            job=UUID(int=0),
            status=status,
            queue="",
            priority=0,
            attempt=0,
            max_attempts=1,
            crashes=0,
            origin_queue="",
        )
        with suppress(Conflict):
            plan(change, standing)
            found.add(status)
    return frozenset(found)


def note_on(change: JobChange, job: Standing, move: Move) -> str | None:
    """What the answer should say beyond the new status."""
    if isinstance(change, RetryJob) and isinstance(move, Place) and move.max_attempts is not None:
        granted = move.max_attempts - job.max_attempts
        left = move.max_attempts - job.attempt
        return f"{left} attempts left" + (f", {granted} of them granted now" if granted > 0 else "")
    if isinstance(move, AskToStop):
        return "already asked to stop" if job.cancel_requested else "asked to stop"
    return None


def brings_payload(move: Place, job: Standing) -> bool:
    """Whether a payload gets into the queue by this move: a new one, or another queue's."""
    return move.payload is not None or move.queue != job.queue


def check_payload_fits(move: Place, queue: Queue, size: int) -> None:
    """Dead letters are not asked: a job that cannot be kept where it belongs must not be lost for
    that."""
    refused = payload_refusal(size, queue)
    if refused is None:
        return
    if move.payload is not None:
        raise refused
    limit, problem = (
        queue.settings.payload_limit_bytes,
        f"{queue.name!r} does not take a payload of {size:,} bytes",
    )
    error: TaskForgeError = Invalid("queue", problem, f"its payload_limit_bytes is {limit:,}")
    raise Conflict(str(error)) if move.clear_origin else error


def _check_payload_there(job: Standing) -> None:
    if job.payload_erased:
        raise Conflict(f"the payload of job {job.job} was erased; it cannot be run again")


def _why_not_started(reason: str) -> ErrorInfo:
    if reason == SKIPPED_BY_ALL:
        return error_info("SkippedByAll", "every worker that could take the job has skipped it")
    return error_info("Expired", f"the job did not start: {reason}")


def _refusal(job: Standing, what: str, rule: str) -> Conflict:
    return Conflict(f"job {job.job} is {job.status} and {what}; {rule}")
