"""Changes of jobs: one, or all that match."""

from typing import Annotated, TypeVar
from uuid import UUID

import msgspec
from litestar import delete, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from taskforge.api.entry.bodies import BODY, examine_large
from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import responses
from taskforge.api.routes.jobs import view_job
from taskforge.api.routes.queues import ProjectName
from taskforge.api.schema.bounds import ACTIONS
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.jobs import JobView
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.bulk import Progress
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
from taskforge.domain.errors import Invalid
from taskforge.domain.job import JobStatus
from taskforge.domain.job_parts import BRIEF
from taskforge.domain.job_request import read_moment
from taskforge.domain.query import JobFilter, Page, check_filter, check_page
from taskforge.domain.queue import MAX_PAYLOAD_BYTES
from taskforge.operations.directory import check_queue
from taskforge.operations.jobs import change, change_where, dry_run, dry_run_named

T = TypeVar("T")
MOST_NAMED = 1_000


class JobEdit(msgspec.Struct, forbid_unknown_fields=True):
    """Only while the job is pending or scheduled. Fields left out stay as they are."""

    priority: int | None = None
    scheduled_for: Time | None = None
    delay_seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Instead of scheduled_for: so long from now"""
    queue: str | None = None
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    reason: str = "cancelled by request"


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    attempts: int | None = None


class JobChanged(msgspec.Struct, frozen=True):
    id: UUID
    status: JobStatus | None
    note: str | None


class Matching(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which jobs: every field narrows, and of several values a job has one. An empty filter would
    be every job; say `"everything": true` if that is meant."""

    queue: str | list[str] | None = None
    status: list[JobStatus] = []
    job_type: str | list[str] | None = None
    priority: int | list[int] | None = None
    tag: str | list[str] | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    scheduled_after: Time | None = None
    scheduled_before: Time | None = None
    failure_group: UUID | None = None
    """The id of a group of failures: its jobs that have failed, and dead letters that wait"""
    everything: bool = False


class BulkChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Of `where` and `ids` one is given."""

    where: Matching | None = None
    ids: Annotated[list[UUID], msgspec.Meta(min_length=1, max_length=MOST_NAMED)] | None = None
    action: str
    """cancel, retry, delete, move, redrive or erase"""
    queue: str | None = None
    """Where to, for move"""
    attempts: int | None = None
    """How many more, for retry"""
    dry_run: bool = False
    """Change nothing: say how many jobs would be changed, up to 10,000. Where the queue refuses a
    payload, or nothing was dead-lettered, only the change itself finds out"""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """Of those that match, change about so many, and say where to go on; otherwise all"""
    cursor: str | None = None
    """Go on behind what a call with `limit` has changed"""


class BulkChanged(msgspec.Struct, frozen=True, omit_defaults=True):
    changed: int
    refused: int
    dry_run: bool = False
    more: bool = False
    """Of a dry run: whether there may be more than were counted"""
    next_cursor: str | None = None
    """Pass it as `cursor`: there are more than `limit`"""


@patch(
    "/jobs/{job_id:uuid}",
    permission=Permission.JOB_WRITE,
    tags=["Jobs"],
    responses=responses(404, 409, 410, 413, 429),
    request_max_body_size=8 * 1024 * 1024,
)
async def edit_job(
    caller: NamedDependency[Caller], job_id: FromPath[UUID], data: JSONBody[JobEdit]
) -> JobView:
    """Change priority, time, queue or payload of a job that has not started."""
    payload = None
    if not isinstance(data.payload, msgspec.UnsetType):
        is_examined = await examine_large("payload", data.payload)
        payload = rules.json_document(
            "payload", bytes(data.payload), most=MAX_PAYLOAD_BYTES, is_examined=is_examined
        )
        data.payload = msgspec.UNSET  # it held the whole body
    at = read_moment(data, "scheduled_for", "delay_seconds")
    verb = EditJob(priority=data.priority, at=at, queue=data.queue, payload=payload)
    if verb == EditJob():
        fields = ", ".join(JobEdit.__struct_fields__)
        raise Invalid(BODY, "changes nothing", f"give one or more of {fields}")
    await _change(caller, job_id, verb, "job.edit")
    return await view_job(caller, job_id, given=payload)


@post(
    "/jobs/{job_id:uuid}/cancel",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 410),
)
async def cancel_job(
    caller: NamedDependency[Caller],
    job_id: FromPath[UUID],
    data: JSONBody[CancelBody | None] = None,
) -> JobChanged:
    """Cancel a job; one that runs is asked to stop."""
    reason = rules.text("reason", (data or CancelBody()).reason, most=500)
    return await _change(caller, job_id, CancelJob(reason), "job.cancel")


@post(
    "/jobs/{job_id:uuid}/retry",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409, 410),
)
async def retry_job(
    caller: NamedDependency[Caller], job_id: FromPath[UUID], data: JSONBody[RetryBody | None] = None
) -> JobChanged:
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


@delete(
    "/jobs/{job_id:uuid}",
    permission=Permission.JOB_WRITE,
    tags=["Jobs"],
    responses=responses(404, 409, 410),
)
async def delete_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> None:
    """Delete a finished job with its history."""
    await _change(caller, job_id, DeleteJob(), "job.delete")


@post(
    "/jobs/change",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Jobs"],
    responses=responses(404, 409),
)
async def change_jobs(
    caller: NamedDependency[Caller], data: JSONBody[BulkChange], project: ProjectName = None
) -> BulkChanged:
    """Cancel, retry, delete, move, redrive or erase every job that matches, or those with these
    ids. Jobs that do not allow it are counted, not changed."""
    verb = _verb(data)
    check_change(verb)
    if (data.where is None) == (data.ids is None):
        problem = "is left out, and so is ids" if data.ids is None else "is given together with ids"
        raise Invalid("where", problem, "say in one way which jobs are meant")
    for name in ("limit", "cursor"):
        if getattr(data, name) is not None and (data.where is None or data.dry_run):
            raise Invalid(name, "is for changes by a filter", "leave it out")
    projects = await caller.projects(project)
    engine, jobs = caller.platform.engine, data.ids
    if isinstance(verb, EditJob):
        await check_queue(engine, projects, str(verb.queue))
    if jobs is not None and data.dry_run:
        would = await dry_run_named(engine, projects, jobs, verb)
        return BulkChanged(would.changed, would.refused, dry_run=True)
    if jobs is not None:
        note = caller.note(f"jobs.{data.action}")
        answers = await engine.change(projects, list(dict.fromkeys(jobs)), verb, note=note)
        changed = sum(isinstance(answer, Changed) for answer in answers)
        return BulkChanged(changed, len(answers) - changed)
    wanted = _filter(data.where or Matching())
    if data.dry_run:
        would = await dry_run(engine, projects, wanted, verb)
        return BulkChanged(would.changed, would.refused, dry_run=True, more=would.more)
    check_page(Page(cursor=data.cursor))
    body = {"where": data.where, "project": project}
    await caller.platform.records.audit_log.add(
        caller.note(f"jobs.{data.action}"), "jobs that match", after=body
    )
    last = Progress(0, 0)
    async for last in change_where(engine, projects, wanted, verb, cursor=data.cursor):
        if data.limit is not None and last.changed + last.refused >= data.limit:
            break
    following = last.cursor if data.limit is not None else None
    return BulkChanged(last.changed, last.refused, next_cursor=following)


def _verb(data: BulkChange) -> JobChange:
    action = rules.choice("action", data.action, ACTIONS)
    if data.queue is not None and action != "move":
        raise Invalid(
            "queue",
            f"is where move moves jobs to; {action} does not take it",
            "to choose jobs by queue, use where.queue",
        )
    if data.attempts is not None and action != "retry":
        raise Invalid(
            "attempts", f"is given, but {action} does not take it", "leave it out, or use retry"
        )
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
        queues=_values(where.queue),
        statuses=tuple(where.status),
        job_types=_values(where.job_type),
        priorities=_values(where.priority),
        tags=_values(where.tag),
        created_after=where.created_after,
        created_before=where.created_before,
        scheduled_after=where.scheduled_after,
        scheduled_before=where.scheduled_before,
        failure_group=where.failure_group,
    )
    check_filter(wanted)
    if wanted == JobFilter() and not where.everything:
        raise Invalid("where", "matches every job", 'narrow it, or say "everything": true')
    return wanted


def _values(given: T | list[T] | None) -> tuple[T, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, list) else (given,)


async def _change(caller: Caller, job_id: UUID, verb: JobChange, action: str) -> JobChanged:
    check_change(verb)
    job = await caller.job(job_id, BRIEF)
    project = await caller.platform.tenants.numbered(job.project)
    size = len(verb.payload or b"") if isinstance(verb, EditJob) else 0
    async with caller.platform.quotas.room(project, 0, size):
        changed: Changed = await change(
            caller.platform.engine, [job.project], job_id, verb, note=caller.note(action)
        )
    return JobChanged(changed.job, changed.status, changed.note)


HANDLERS = [
    edit_job,
    cancel_job,
    retry_job,
    redrive_job,
    erase_payload,
    delete_job,
    change_jobs,
]
