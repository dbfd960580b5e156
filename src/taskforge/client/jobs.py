"""Requests about jobs: enqueue, read, steer, and what their executions did."""

from collections.abc import Iterator, Sequence
from typing import Any, assert_never
from uuid import UUID

import msgspec

from taskforge.client.json_shapes import ExecutionShape, JobShape, LineShape
from taskforge.client.problems import WireFault, WireProblem, error_in
from taskforge.client.requests import Request, get, nothing, post, reader
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
from taskforge.domain.job import Inserted, JobStatus, NewJob, Refused, StoredJob
from taskforge.domain.job_page import Counted, JobPage
from taskforge.domain.job_parts import WHOLE
from taskforge.domain.job_request import apart, request_of
from taskforge.domain.log import Level, Line
from taskforge.domain.query import JobFilter, Page

MOST_JOBS = 10_000
MOST_BYTES = 7 * 1024 * 1024  # the server takes 8 MiB
KEY_HEADER = "Idempotency-Key"


class _Created(msgspec.Struct):
    id: UUID
    existed: bool


class _Refusal(msgspec.Struct):
    index: int
    type: str
    detail: str
    errors: list[WireFault] = []
    context: dict[str, str | int] = {}


class _Many(msgspec.Struct):
    ids: list[UUID | None]
    existed: list[int]
    errors: list[_Refusal]


class _Jobs(msgspec.Struct):
    items: list[JobShape]
    next_cursor: str | None = None


class _Executions(msgspec.Struct):
    items: list[ExecutionShape]


class _Lines(msgspec.Struct):
    items: list[LineShape]


class _Changed(msgspec.Struct):
    id: UUID
    status: JobStatus | None
    note: str | None = None


_created, _many, _job = reader(_Created), reader(_Many), reader(JobShape)
_jobs, _executions, _lines, _changed = (
    reader(_Jobs),
    reader(_Executions),
    reader(_Lines),
    reader(_Changed),
)


def body_of(job: NewJob) -> bytes:
    if job.id is not None:
        raise Invalid("id", "is given", "over HTTP the server makes the ids of jobs")
    return msgspec.json.encode(request_of(job))


def slices(
    bodies: Sequence[bytes], most: int = MOST_JOBS, most_bytes: int = MOST_BYTES
) -> Iterator[tuple[int, int]]:
    """From and to, so that each fits into one call; one that does not fit alone is sent alone, and
    refused by the server."""
    start = size = 0
    for index, body in enumerate(bodies):
        if index > start and (index - start >= most or size + len(body) > most_bytes):
            yield start, index
            start, size = index, 0
        size += len(body) + 1
    if start < len(bodies):
        yield start, len(bodies)


def insert_one(job: NewJob, key: str) -> Request[Inserted]:
    """`key` stands for this enqueue where the job has no idempotency key of its own: sent again, it
    is the same job."""
    headers = {} if job.idempotency_key is not None else {KEY_HEADER: key}

    def read(body: bytes) -> Inserted:
        made = _created(body)
        # Nobody else has this key: what was there before is what we sent before.
        return Inserted(made.id, made.existed and not _is_ours(job))

    return post("/jobs", read, body_of(job), repeatable=True, headers=headers)


def insert_many(
    jobs: Sequence[NewJob], bodies: Sequence[bytes], key: str
) -> Request[list[Inserted | Refused]]:
    """The key is for all of them; jobs that have their own must be sent apart from those that have
    none."""
    headers = {} if jobs[0].idempotency_key is not None else {KEY_HEADER: key}

    def read(body: bytes) -> list[Inserted | Refused]:
        found = _many(body)
        existed, refused = set(found.existed), {one.index: one for one in found.errors}
        return [
            _refused(refused[index])
            if made is None
            else Inserted(made, index in existed and not _is_ours(jobs[index]))
            for index, made in enumerate(found.ids)
        ]

    return post(
        "/jobs/bulk", read, b"[" + b",".join(bodies) + b"]", repeatable=True, headers=headers
    )


def _is_ours(job: NewJob) -> bool:
    return job.idempotency_key is None and job.unique_key is None


def _refused(one: _Refusal) -> Refused:
    errors = [
        WireFault(fault.pointer.replace(f"#/{one.index}/", "#/", 1), fault.detail, fault.expected)
        for fault in one.errors
    ]
    return Refused(
        error_in(
            WireProblem(type=one.type, detail=one.detail, errors=errors, context=one.context), 422
        )
    )


def get_job(job: UUID) -> Request[StoredJob]:
    return get(f"/jobs/{job}", lambda body: _job(body).to_domain())


def get_jobs(jobs: Sequence[UUID]) -> Request[tuple[list[StoredJob], bool]]:
    """Those that are there, at most `MOST_IDS`; and whether there are more behind the last one."""
    return get("/jobs", _read_some, id=[str(job) for job in jobs], include=sorted(WHOLE))


def _read_some(body: bytes) -> tuple[list[StoredJob], bool]:
    page = _jobs(body)
    return [one.to_domain() for one in page.items], page.next_cursor is not None


def list_jobs(wanted: JobFilter, page: Page) -> Request[JobPage]:
    return get(
        "/jobs",
        _read_page,
        include=sorted(page.include),
        limit=page.limit,
        cursor=page.cursor,
        offset=page.offset or None,
        **narrowed(wanted),
    )


def count_jobs(wanted: JobFilter) -> Request[Counted]:
    return get("/jobs/count", reader(Counted), **narrowed(wanted))


def _read_page(body: bytes) -> JobPage:
    page = _jobs(body)
    return JobPage([one.to_domain() for one in page.items], page.next_cursor)


def narrowed(wanted: JobFilter) -> dict[str, Any]:
    return {
        "queue": list(wanted.queues),
        "status": [status.value for status in wanted.statuses],
        "job_type": list(wanted.job_types),
        "priority": list(wanted.priorities),
        "tag": list(wanted.tags),
        "created_after": wanted.created_after,
        "created_before": wanted.created_before,
        "scheduled_after": wanted.scheduled_after,
        "scheduled_before": wanted.scheduled_before,
        "failure_group": wanted.failure_group,
    }


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
            at, after = apart(verb.at)
            edit = {
                "priority": verb.priority,
                "scheduled_for": at,
                "delay_seconds": after,
                "queue": verb.queue,
            }
            fields: dict[str, object] = {
                name: value for name, value in edit.items() if value is not None
            }
            if verb.payload is not None:
                fields["payload"] = msgspec.Raw(verb.payload)
            return Request(
                "PATCH",
                path,
                lambda body: Changed(job, _job(body).status),
                body=msgspec.json.encode(fields),
            )
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
    return [one.to_domain() for one in _executions(body).items]


def logs(path: str, *, least: Level, after: int, limit: int, offset: int) -> Request[list[Line]]:
    """Of a job or of an execution, whichever the path is of."""
    return get(
        path,
        lambda body: [one.to_domain() for one in _lines(body).items],
        level=Level(least).name.lower(),
        after=after or None,
        limit=limit,
        offset=offset or None,
    )
