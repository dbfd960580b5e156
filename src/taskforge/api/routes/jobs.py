"""Jobs as readers ask for them: one, a list, their numbers, and why one waits."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import Limit, ProjectName, StatsList, summed
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.jobs import JobView, job_view
from taskforge.domain.access import Permission
from taskforge.domain.errors import Invalid
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import JobStatus
from taskforge.domain.job_parts import BRIEF, WHOLE, JobPart
from taskforge.domain.query import MOST_IDS, JobFilter, Page, check_filter, check_page
from taskforge.operations import explaining
from taskforge.operations.directory import no_queue
from taskforge.operations.jobs import read_some

Ids = Annotated[
    list[UUID] | None,
    QueryParameter(name="id", description="These jobs, as far as they are there; no other filter"),
]
Status = Annotated[
    list[JobStatus] | None, QueryParameter(name="status", description="One or more statuses")
]


Include = Annotated[
    list[JobPart] | None,
    QueryParameter(
        name="include",
        description="payload, result or both: a list leaves them out. A page with them ends at "
        "4 MiB",
    ),
]


QueueNames = Annotated[
    list[str] | None, QueryParameter(name="queue", description="One or more names or ids of queues")
]
Types = Annotated[
    list[str] | None, QueryParameter(name="job_type", description="One or more types")
]
Priorities = Annotated[
    list[int] | None, QueryParameter(name="priority", description="One or more priorities")
]
Tags = Annotated[
    list[str] | None,
    QueryParameter(name="tag", description="One or more tags: jobs with any of them"),
]


FailureGroupId = Annotated[
    UUID | None,
    QueryParameter(
        name="failure_group",
        description="Jobs that have failed in this way, and dead letters that wait because of it: "
        "the id of a group of failures",
    ),
]


class JobList(msgspec.Struct, frozen=True):
    items: list[JobView]
    next_cursor: str | None
    """Pass it as `cursor` for the page behind. A search that finds little ends after so many jobs
    were looked at: a page may be short, or empty, and only null says that it was the last"""


class JobCount(msgspec.Struct, frozen=True):
    count: int
    more: bool
    """Whether there may be more: counting ends at 10,000, or when so many jobs were looked at"""


@get("/jobs", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404))
async def list_jobs(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queues: QueueNames = None,
    status: Status = None,
    job_types: Types = None,
    priorities: Priorities = None,
    tags: Tags = None,
    created_after: FromQuery[Time | None] = None,
    created_before: FromQuery[Time | None] = None,
    scheduled_after: FromQuery[Time | None] = None,
    scheduled_before: FromQuery[Time | None] = None,
    failure_group: FailureGroupId = None,
    limit: Limit = 50,
    cursor: FromQuery[str | None] = None,
    offset: FromQuery[int] = 0,
    ids: Ids = None,
    include: Include = None,
) -> JobList:
    """List jobs, newest first, of a project or of the whole organization; or those with these ids,
    in their order: then `next_cursor` says that those behind the last one are still to be asked
    for. Of a filter that is given several times, a job has one of the values."""
    open_payload = caller.may(Permission.JOB_PAYLOAD)
    parts = frozenset(include or ())
    wanted = JobFilter(
        queues=tuple(queues or ()),
        statuses=tuple(status or ()),
        job_types=tuple(job_types or ()),
        priorities=tuple(priorities or ()),
        tags=tuple(tags or ()),
        created_after=created_after,
        created_before=created_before,
        scheduled_after=scheduled_after,
        scheduled_before=scheduled_before,
        failure_group=failure_group,
    )
    # what the caller may not see is not read
    page = Page(
        limit=limit,
        cursor=cursor,
        offset=offset,
        include=parts if open_payload else frozenset(),
    )
    check_filter(wanted)
    check_page(page)
    projects = await caller.projects(project)
    if ids is None:
        listed = await caller.platform.engine.list_jobs(projects, wanted, page)
        found, following = listed.jobs, listed.cursor
    else:
        if wanted != JobFilter() or page != Page(limit=limit, include=page.include):
            raise Invalid(
                "id",
                "is given together with another filter, a cursor or an offset",
                "use one of them",
            )
        if len(ids) > MOST_IDS:
            raise Invalid("id", f"is given {len(ids):,} times", f"ask for at most {MOST_IDS}")
        found, following = await read_some(caller.platform.engine, projects, ids)
    names = await caller.project_names()
    views = [job_view(one, names, open_payload=open_payload, parts=parts) for one in found]
    return JobList(views, following)


@get("/jobs/count", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404))
async def count_jobs(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queues: QueueNames = None,
    status: Status = None,
    job_types: Types = None,
    priorities: Priorities = None,
    tags: Tags = None,
    created_after: FromQuery[Time | None] = None,
    created_before: FromQuery[Time | None] = None,
    scheduled_after: FromQuery[Time | None] = None,
    scheduled_before: FromQuery[Time | None] = None,
    failure_group: FailureGroupId = None,
) -> JobCount:
    """How many jobs match a filter, up to 10,000."""
    wanted = JobFilter(
        queues=tuple(queues or ()),
        statuses=tuple(status or ()),
        job_types=tuple(job_types or ()),
        priorities=tuple(priorities or ()),
        tags=tuple(tags or ()),
        created_after=created_after,
        created_before=created_before,
        scheduled_after=scheduled_after,
        scheduled_before=scheduled_before,
        failure_group=failure_group,
    )
    check_filter(wanted)
    counted = await caller.platform.engine.count_jobs(await caller.projects(project), wanted)
    return JobCount(counted.count, counted.more)


@get("/jobs/stats", permission=Permission.JOB_READ, tags=["Jobs"], responses=responses(404))
async def job_stats(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queue: FromQuery[str | None] = None,
) -> StatsList:
    """How many jobs are in each status: of one queue, by its name or id, or of each of a project or
    of the organization; and their sum."""
    engine, projects = caller.platform.engine, await caller.projects(project)
    if queue is None:
        return summed(await engine.stats(projects))
    queues = await engine.directory.find_queues(projects, queue)
    if not queues:
        raise await no_queue(engine, projects, queue)
    meant = [one.id for one in queues if one.name == queue] or [one.id for one in queues]
    return summed(await engine.stats(projects, of=meant))


@get(
    "/jobs/{job_id:uuid}",
    permission=Permission.JOB_READ,
    tags=["Jobs"],
    responses=responses(404, 410),
)
async def get_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> JobView:
    """Read a job."""
    return await view_job(caller, job_id)


@get(
    "/jobs/{job_id:uuid}/explain",
    permission=Permission.JOB_READ,
    tags=["Jobs"],
    responses=responses(404, 410),
)
async def explain_job(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> Explanation:
    """Why a job is not running. What each worker says to it is for those who may see workers, and
    what errors say for those who may see payloads."""
    job = await caller.job(job_id, BRIEF)
    found = await explaining.explain_job(caller.platform.engine, [job.project], job_id)
    if not caller.may(Permission.JOB_PAYLOAD):
        found = found.without_errors()
    return (
        found if caller.may(Permission.WORKER_READ) else msgspec.structs.replace(found, workers=())
    )


async def view_job(caller: Caller, job_id: UUID, given: bytes | None = None) -> JobView:
    """`given`: the payload that the caller has just stored, which is not read back."""
    job = await caller.job(job_id, WHOLE if given is None else WHOLE - {JobPart.PAYLOAD})
    if given is not None:
        job = msgspec.structs.replace(job, payload=msgspec.Raw(given))
    return job_view(
        job, await caller.project_names(), open_payload=caller.may(Permission.JOB_PAYLOAD)
    )


HANDLERS = [
    list_jobs,
    count_jobs,
    job_stats,
    get_job,
    explain_job,
]
