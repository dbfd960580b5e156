"""Jobs: create one or many, read, list, change one or all that match."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from taskforge.api.bounds import ACTIONS
from taskforge.api.caller import Caller
from taskforge.api.problems import responses
from taskforge.api.routes.queues import ProjectName, StatsList, summed
from taskforge.api.views import JobView, Time, job_view
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.changes import (
    CancelJob,
    Changed,
    DeleteJob,
    EditJob,
    ErasePayload,
    JobChange,
    RedriveJob,
    RetryJob,
    check_change,
)
from taskforge.domain.errors import Invalid, NotFound, nearest
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import JobStatus
from taskforge.domain.query import MOST_IDS, JobFilter, Page, check_filter, check_page, cursor_at
from taskforge.domain.queue import MAX_PAYLOAD_BYTES, named
from taskforge.operations.jobs import Progress, change, change_where

Limit = Annotated[int, QueryParameter(ge=1, le=1_000, description="At most so many")]
Ids = Annotated[list[UUID] | None, QueryParameter(name="id", description="These jobs, as far as they are there; no other filter")]
Status = Annotated[list[JobStatus] | None, QueryParameter(name="status", description="One or more statuses")]


class JobList(msgspec.Struct, frozen=True):
    items: list[JobView]
    next_cursor: str | None  # pass it as `cursor` for the page behind; null: that was all


class JobEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Only while the job is pending or scheduled. Fields left out stay as they are."""

    priority: int | None = None
    scheduled_for: Time | None = None
    delay_seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Instead of scheduled_for: so long from now"""
    queue: str | None = None
    payload: Any = msgspec.UNSET


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    reason: str = "cancelled by request"


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    attempts: int | None = None


class JobChanged(msgspec.Struct, frozen=True):
    id: UUID
    status: JobStatus | None
    note: str | None


class Matching(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which jobs: every field narrows. An empty filter would be every job; say `"everything": true` if that is meant."""

    queue: str | None = None
    status: list[JobStatus] = []
    job_type: str | None = None
    priority: int | None = None
    tag: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    scheduled_after: Time | None = None
    scheduled_before: Time | None = None
    everything: bool = False


class BulkChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    where: Matching
    action: str
    """cancel, retry, delete, move, redrive or erase"""
    queue: str | None = None
    """Where to, for move"""
    attempts: int | None = None
    """How many more, for retry"""


class BulkChanged(msgspec.Struct, frozen=True):
    changed: int
    refused: int


@get("/jobs", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404))
async def list_jobs(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queue: FromQuery[str | None] = None,
    status: Status = None,
    job_type: FromQuery[str | None] = None,
    priority: FromQuery[int | None] = None,
    tag: FromQuery[str | None] = None,
    created_after: FromQuery[Time | None] = None,
    created_before: FromQuery[Time | None] = None,
    scheduled_after: FromQuery[Time | None] = None,
    scheduled_before: FromQuery[Time | None] = None,
    limit: Limit = 50,
    cursor: FromQuery[str | None] = None,
    offset: FromQuery[int] = 0,
    ids: Ids = None,
) -> JobList:
    """List jobs, newest first, of a project or of the whole organization; or those with these ids, in their order."""
    wanted = JobFilter(
        queue=queue,
        statuses=tuple(status or ()),
        job_type=job_type,
        priority=priority,
        tag=tag,
        created_after=created_after,
        created_before=created_before,
        scheduled_after=scheduled_after,
        scheduled_before=scheduled_before,
    )
    page = Page(limit=limit, cursor=cursor, offset=offset)
    check_filter(wanted)
    check_page(page)
    projects = await caller.projects(project)
    if ids is None:
        found = await caller.backend.engine.list_jobs(projects, wanted, page)
        following = cursor_at(found[-1].id) if len(found) == limit else None
    else:
        if wanted != JobFilter() or page != Page(limit=limit):
            raise Invalid("id", "is given together with another filter, a cursor or an offset", "use one of them")
        if len(ids) > MOST_IDS:
            raise Invalid("id", f"is given {len(ids):,} times", f"ask for at most {MOST_IDS}")
        found, following = await caller.backend.engine.get(projects, ids), None
    names, open_payload = await caller.project_names(), caller.may(Permission.JOB_PAYLOAD)
    return JobList([job_view(one, names, open_payload=open_payload) for one in found], following)


@get("/jobs/stats", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404))
async def job_stats(caller: NamedDependency[Caller], project: ProjectName = None, queue: FromQuery[str | None] = None) -> StatsList:
    """How many jobs are in each status: of one queue, by its name or id, or of each of a project or of the organization; and their
    sum."""
    found = await caller.backend.engine.stats(await caller.projects(project))
    if queue is not None:
        meant = named(queue, [(one.queue, one.queue_id) for one in found])
        if not meant:
            raise NotFound("queue", queue, nearest=nearest(queue, [one.queue for one in found]))
        found = [one for one in found if one.queue_id in meant]
    return summed(found)


@get("/jobs/{job_id:uuid}", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404, 410))
async def get_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> JobView:
    """Read a job."""
    return await _view(caller, job_id)


@get("/jobs/{job_id:uuid}/explain", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404, 410))
async def explain_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> Explanation:
    """Why a job is not running. What each worker says to it is for those who may see workers."""
    job = await caller.job(job_id)
    found = await caller.backend.engine.explain([job.project], job_id)
    return found if caller.may(Permission.WORKER_READ) else msgspec.structs.replace(found, workers=())


@patch(
    "/jobs/{job_id:uuid}",
    permission=Permission.JOB_WRITE,
    tags=["Jobs"],
    responses=responses(404, 409, 410, 413, 429),
    request_max_body_size=8 * 1024 * 1024,
)
async def edit_job(caller: NamedDependency[Caller], job_id: FromPath[UUID], data: JSONBody[JobEdit]) -> JobView:
    """Change priority, time, queue or payload of a job that has not started."""
    payload = None
    if not isinstance(data.payload, msgspec.UnsetType):
        payload = rules.json_bytes("payload", data.payload, most=MAX_PAYLOAD_BYTES)
    if data.scheduled_for is not None and data.delay_seconds is not None:
        raise Invalid("delay_seconds", "is given together with scheduled_for", "use one of them")
    at = data.scheduled_for if data.delay_seconds is None else data.delay_seconds
    verb = EditJob(priority=data.priority, at=at, queue=data.queue, payload=payload)
    await _change(caller, job_id, verb, "job.edit")
    return await _view(caller, job_id)


@post(
    "/jobs/{job_id:uuid}/cancel",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 410),
)
async def cancel_job(
    caller: NamedDependency[Caller], job_id: FromPath[UUID], data: JSONBody[CancelBody | None] = None
) -> JobChanged:
    """Cancel a job; one that runs is asked to stop."""
    reason = rules.text("reason", (data or CancelBody()).reason, most=500)
    return await _change(caller, job_id, CancelJob(reason), "job.cancel")


@post(
    "/jobs/{job_id:uuid}/retry", permission=Permission.JOB_WRITE, status_code=200, tags=["Jobs"], responses=responses(404, 409, 410)
)
async def retry_job(caller: NamedDependency[Caller], job_id: FromPath[UUID], data: JSONBody[RetryBody | None] = None) -> JobChanged:
    """Run a failed or cancelled job again."""
    return await _change(caller, job_id, RetryJob((data or RetryBody()).attempts), "job.retry")


@post(
    "/jobs/{job_id:uuid}/redrive",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 410),
)
async def redrive_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> JobChanged:
    """Send a dead-lettered job back to the queue it came from."""
    return await _change(caller, job_id, RedriveJob(), "job.redrive")


@delete(
    "/jobs/{job_id:uuid}/payload",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 410),
)
async def erase_payload(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> JobChanged:
    """Erase the payload of a finished job for good."""
    return await _change(caller, job_id, ErasePayload(), "job.erase")


@delete("/jobs/{job_id:uuid}", permission=Permission.JOB_WRITE, tags=["Jobs"], responses=responses(404, 409, 410))
async def delete_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> None:
    """Delete a finished job with its history."""
    await _change(caller, job_id, DeleteJob(), "job.delete")


@post("/jobs/change", permission=Permission.JOB_WRITE, status_code=200, tags=["Jobs"], responses=responses(404, 409))
async def change_jobs(caller: NamedDependency[Caller], data: JSONBody[BulkChange], project: ProjectName = None) -> BulkChanged:
    """Cancel, retry, delete, move, redrive or erase every job that matches. Jobs that do not allow it are counted, not changed."""
    verb = _verb(data)
    check_change(verb)
    wanted = _filter(data.where)
    projects = await caller.projects(project)
    if isinstance(verb, EditJob):
        queues = await caller.backend.engine.queues(projects)
        if not named(str(verb.queue), [(one.name, one.id) for one in queues]):
            raise NotFound("queue", str(verb.queue), nearest=nearest(str(verb.queue), [one.name for one in queues]))
    body = {"where": data.where, "project": project}
    await caller.backend.journal.record(caller.note(f"jobs.{data.action}"), "jobs that match", after=body)
    last = Progress(0, 0)
    async for progress in change_where(caller.backend.engine, projects, wanted, verb):
        last = progress
    return BulkChanged(last.changed, last.refused)


def _verb(data: BulkChange) -> JobChange:
    action = rules.choice("action", data.action, ACTIONS)
    if data.queue is not None and action != "move":
        raise Invalid(
            "queue", f"is where move moves jobs to; {action} does not take it", "to choose jobs by queue, use where.queue"
        )
    if data.attempts is not None and action != "retry":
        raise Invalid("attempts", f"is given, but {action} does not take it", "leave it out, or use retry")
    match action:
        case "cancel":
            return CancelJob()
        case "retry":
            return RetryJob(data.attempts)
        case "delete":
            return DeleteJob()
        case "move":
            return EditJob(queue=rules.text("queue", data.queue, most=100))
        case "redrive":
            return RedriveJob()
        case _:
            return ErasePayload()


def _filter(where: Matching) -> JobFilter:
    wanted = JobFilter(
        queue=where.queue,
        statuses=tuple(where.status),
        job_type=where.job_type,
        priority=where.priority,
        tag=where.tag,
        created_after=where.created_after,
        created_before=where.created_before,
        scheduled_after=where.scheduled_after,
        scheduled_before=where.scheduled_before,
    )
    check_filter(wanted)
    if wanted == JobFilter() and not where.everything:
        raise Invalid("where", "matches every job", 'narrow it, or say "everything": true')
    return wanted


async def _change(caller: Caller, job_id: UUID, verb: JobChange, action: str) -> JobChanged:
    check_change(verb)
    job = await caller.job(job_id)
    project = await caller.backend.tenants.numbered(job.project)
    size = len(verb.payload or b"") if isinstance(verb, EditJob) else 0
    async with caller.backend.quotas.room(project, 0, size):
        changed: Changed = await change(caller.backend.engine, [job.project], job_id, verb, note=caller.note(action))
    return JobChanged(changed.job, changed.status, changed.note)


async def _view(caller: Caller, job_id: UUID) -> JobView:
    job = await caller.job(job_id)
    return job_view(job, await caller.project_names(), open_payload=caller.may(Permission.JOB_PAYLOAD))


HANDLERS = [
    list_jobs,
    job_stats,
    get_job,
    explain_job,
    edit_job,
    cancel_job,
    retry_job,
    redrive_job,
    erase_payload,
    delete_job,
    change_jobs,
]
