"""Requests about jobs: enqueue, read, steer, and what their executions did."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import assert_never
from uuid import UUID

import msgspec

from taskforge.client.problems import Fault, Problem, error_in
from taskforge.client.requests import Request, get, nothing, post, reader
from taskforge.client.shapes import ExecutionShape, JobShape, LineShape
from taskforge.domain.changes import (
    CancelJob,
    Changed,
    DeleteJob,
    EditJob,
    ErasePayload,
    ExpireJob,
    JobChange,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.errors import Invalid
from taskforge.domain.execution import Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Inserted, Job, JobStatus, NewJob, Refused, When
from taskforge.domain.log import Level, Line
from taskforge.domain.query import JobFilter, Page

MOST_JOBS = 10_000
MOST_BYTES = 7 * 1024 * 1024  # the server takes 8 MiB
KEY_HEADER = "Idempotency-Key"


class JobBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    queue: str
    job_type: str
    payload: msgspec.Raw
    priority: int = 0
    max_attempts: int | None = None
    scheduled_for: datetime | None = None
    delay_seconds: float | None = None
    timeout_at: datetime | None = None
    deadline_seconds: float | None = None
    expires_at: datetime | None = None
    expires_seconds: float | None = None
    timeout_seconds: float | None = None
    tags: tuple[str, ...] = ()
    requires: msgspec.Raw | None = None
    unique_key: str | None = None
    idempotency_key: str | None = None
    fairness_key: str | None = None
    trace: str | None = None


class _Created(msgspec.Struct):
    id: UUID
    existed: bool


class _Refusal(msgspec.Struct):
    index: int
    type: str
    detail: str
    errors: list[Fault] = []
    context: dict[str, str | int] = {}


class _Many(msgspec.Struct):
    ids: list[UUID | None]
    existed: list[int]
    errors: list[_Refusal]


class _Jobs(msgspec.Struct):
    items: list[JobShape]


class _Executions(msgspec.Struct):
    items: list[ExecutionShape]


class _Lines(msgspec.Struct):
    items: list[LineShape]


class _Changed(msgspec.Struct):
    id: UUID
    status: JobStatus | None
    note: str | None = None


_created, _many, _job = reader(_Created), reader(_Many), reader(JobShape)
_jobs, _executions, _lines, _changed = reader(_Jobs), reader(_Executions), reader(_Lines), reader(_Changed)


def body_of(job: NewJob) -> bytes:
    if job.id is not None:
        raise Invalid("id", "is given", "over HTTP the server makes the ids of jobs")
    at, after = _moment(job.at)
    deadline, deadline_seconds = _moment(job.deadline)
    expires, expires_seconds = _moment(job.expires)
    return msgspec.json.encode(
        JobBody(
            queue=job.queue,
            job_type=job.job_type,
            payload=msgspec.Raw(job.payload),
            priority=job.priority,
            max_attempts=job.max_attempts,
            scheduled_for=at,
            delay_seconds=after,
            timeout_at=deadline,
            deadline_seconds=deadline_seconds,
            expires_at=expires,
            expires_seconds=expires_seconds,
            timeout_seconds=job.timeout_seconds,
            tags=job.tags,
            requires=msgspec.Raw(job.requires.encode()) if job.requires else None,
            unique_key=job.unique_key,
            idempotency_key=job.idempotency_key,
            fairness_key=job.fairness_key,
            trace=job.trace,
        )
    )


def _moment(when: When | None) -> tuple[datetime | None, float | None]:
    return (when, None) if isinstance(when, datetime) else (None, when)


def slices(bodies: Sequence[bytes], most: int = MOST_JOBS, most_bytes: int = MOST_BYTES) -> Iterator[tuple[int, int]]:
    """From and to, so that each fits into one call; one that does not fit alone is sent alone, and refused by the server."""
    start = size = 0
    for index, body in enumerate(bodies):
        if index > start and (index - start >= most or size + len(body) > most_bytes):
            yield start, index
            start, size = index, 0
        size += len(body) + 1
    if start < len(bodies):
        yield start, len(bodies)


def insert_one(job: NewJob, key: str) -> Request[Inserted]:
    """`key` stands for this enqueue where the job has no idempotency key of its own: sent again, it is the same job."""
    headers = {} if job.idempotency_key is not None else {KEY_HEADER: key}

    def read(body: bytes) -> Inserted:
        made = _created(body)
        # Nobody else has this key: what was there before is what we sent before.
        return Inserted(made.id, made.existed and not _is_ours(job))

    return post("/jobs", read, body_of(job), repeatable=True, headers=headers)


def insert_many(jobs: Sequence[NewJob], bodies: Sequence[bytes], key: str) -> Request[list[Inserted | Refused]]:
    """The key is for all of them; jobs that have their own must be sent apart from those that have none."""
    headers = {} if jobs[0].idempotency_key is not None else {KEY_HEADER: key}

    def read(body: bytes) -> list[Inserted | Refused]:
        found = _many(body)
        existed, refused = set(found.existed), {one.index: one for one in found.errors}
        return [
            _refused(refused[index]) if made is None else Inserted(made, index in existed and not _is_ours(jobs[index]))
            for index, made in enumerate(found.ids)
        ]

    return post("/jobs/bulk", read, b"[" + b",".join(bodies) + b"]", repeatable=True, headers=headers)


def _is_ours(job: NewJob) -> bool:
    return job.idempotency_key is None and job.unique_key is None


def _refused(one: _Refusal) -> Refused:
    errors = [Fault(fault.pointer.replace(f"#/{one.index}/", "#/", 1), fault.detail, fault.expected) for fault in one.errors]
    return Refused(error_in(Problem(type=one.type, detail=one.detail, errors=errors, context=one.context), 422))


def get_job(job: UUID) -> Request[Job]:
    return get(f"/jobs/{job}", lambda body: _job(body).value())


def get_jobs(jobs: Sequence[UUID]) -> Request[list[Job]]:
    """Those that are there; at most `MOST_IDS`."""
    return get("/jobs", lambda body: [one.value() for one in _jobs(body).items], id=[str(job) for job in jobs])


def list_jobs(wanted: JobFilter, page: Page) -> Request[list[Job]]:
    return get(
        "/jobs",
        lambda body: [one.value() for one in _jobs(body).items],
        queue=wanted.queue,
        status=[status.value for status in wanted.statuses],
        job_type=wanted.job_type,
        priority=wanted.priority,
        tag=wanted.tag,
        created_after=wanted.created_after,
        created_before=wanted.created_before,
        scheduled_after=wanted.scheduled_after,
        scheduled_before=wanted.scheduled_before,
        limit=page.limit,
        cursor=page.cursor,
        offset=page.offset or None,
    )


def change(job: UUID, verb: JobChange) -> Request[Changed]:
    path = f"/jobs/{job}"
    match verb:
        case CancelJob(reason):
            return post(f"{path}/cancel", _read_changed, {"reason": reason})
        case RetryJob(attempts):
            return post(f"{path}/retry", _read_changed, {"attempts": attempts})
        case RedriveJob():
            return post(f"{path}/redrive", _read_changed)
        case EditJob():
            at, after = _moment(verb.at)
            edit = {"priority": verb.priority, "scheduled_for": at, "delay_seconds": after, "queue": verb.queue}
            fields: dict[str, object] = {name: value for name, value in edit.items() if value is not None}
            if verb.payload is not None:
                fields["payload"] = msgspec.Raw(verb.payload)
            return Request("PATCH", path, lambda body: Changed(job, _job(body).status), body=msgspec.json.encode(fields))
        case DeleteJob():

            def deleted(body: bytes) -> Changed:
                nothing(body)
                return Changed(job, None)

            return Request("DELETE", path, deleted)
        case ErasePayload():
            return Request("DELETE", f"{path}/payload", _read_changed)
        case ExpireJob():
            raise Invalid("change", "is the store's own", "the server expires jobs by itself")
        case _:
            assert_never(verb)


def _read_changed(body: bytes) -> Changed:
    found = _changed(body)
    return Changed(found.id, found.status, found.note)


def explain(job: UUID) -> Request[Explanation]:
    return get(f"/jobs/{job}/explain", reader(Explanation))


def executions(job: UUID) -> Request[list[Execution]]:
    return get(f"/jobs/{job}/executions", _read_executions)


def active_executions(*, timed_out: bool, limit: int) -> Request[list[Execution]]:
    return get("/executions/active", _read_executions, timed_out=timed_out, limit=limit)


def _read_executions(body: bytes) -> list[Execution]:
    return [one.value() for one in _executions(body).items]


def logs(path: str, *, least: Level, after: int, limit: int, offset: int) -> Request[list[Line]]:
    """Of a job or of an execution, whichever the path is of."""
    return get(
        path,
        lambda body: [one.value() for one in _lines(body).items],
        level=Level(least).name.lower(),
        after=after or None,
        limit=limit,
        offset=offset or None,
    )
