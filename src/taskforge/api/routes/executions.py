"""Executions: the tries of a job, and what they logged."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import Limit, ProjectName
from taskforge.api.schema.views.executions import ExecutionView, LineView, execution_view, line_view
from taskforge.domain.access import Permission
from taskforge.domain.errors import Invalid
from taskforge.domain.execution import Execution, ExecutionStats
from taskforge.domain.ids import job_of
from taskforge.domain.job_parts import BRIEF
from taskforge.domain.log import level_named
from taskforge.operations import executions

LeastLevel = Annotated[
    str,
    QueryParameter(
        name="level", description="trace, debug, info, warn or error: this level and above"
    ),
]
After = Annotated[
    str, QueryParameter(pattern="^[0-9]{1,20}$", description="Only lines behind this id")
]
Offset = Annotated[int, QueryParameter(ge=0, le=1_000_000)]


class ExecutionList(msgspec.Struct, frozen=True):
    items: list[ExecutionView]


class LineList(msgspec.Struct, frozen=True):
    items: list[LineView]
    next_after: str | None  # pass it as `after` for what comes behind; null: that was all for now


@get(
    "/jobs/{job_id:uuid}/executions",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404, 410),
)
async def list_executions(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> ExecutionList:
    """Every try of a job, the first one first."""
    job = await caller.job(job_id, BRIEF)
    engine = caller.platform.engine
    return _list(caller, await executions.list_executions(engine, [job.project], job_id))


@get(
    "/jobs/{job_id:uuid}/executions/latest",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404, 410),
)
async def latest_execution(
    caller: NamedDependency[Caller], job_id: FromPath[UUID]
) -> ExecutionView:
    """The last try of a job."""
    job = await caller.job(job_id, BRIEF)
    engine = caller.platform.engine
    latest = await executions.read_latest_execution(engine, [job.project], job_id)
    return execution_view(latest, open_payload=caller.may(Permission.JOB_PAYLOAD))


@get(
    "/jobs/{job_id:uuid}/executions/stats",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404, 410),
)
async def execution_stats(
    caller: NamedDependency[Caller], job_id: FromPath[UUID]
) -> ExecutionStats:
    """How many tries there were, how they ended, and how long those took that succeeded."""
    job = await caller.job(job_id, BRIEF)
    return await executions.measure_executions(caller.platform.engine, [job.project], job_id)


@get(
    "/executions/{execution_id:uuid}",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404, 410),
)
async def get_execution(
    caller: NamedDependency[Caller], execution_id: FromPath[UUID]
) -> ExecutionView:
    """Read one try."""
    found = await _one(caller, execution_id)
    return execution_view(found, open_payload=caller.may(Permission.JOB_PAYLOAD))


@get(
    "/executions/active",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404),
)
async def active_executions(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    timed_out: FromQuery[bool] = False,
    limit: Limit = 100,
) -> ExecutionList:
    """What runs now; with `timed_out`, only what has run for longer than it may."""
    projects = await caller.projects(project)
    active = await executions.list_active_executions(
        caller.platform.engine, projects, timed_out=timed_out, limit=limit
    )
    return _list(caller, active)


@get(
    "/jobs/{job_id:uuid}/logs",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404, 410),
)
async def list_logs(
    caller: NamedDependency[Caller],
    job_id: FromPath[UUID],
    level: LeastLevel = "trace",
    after: After = "0",
    limit: Limit = 100,
    offset: Offset = 0,
) -> LineList:
    """What the handlers of a job logged, and how each of its executions ended, oldest first."""
    return await _lines(caller, job_id, None, level, int(after), limit, offset)


@get(
    "/executions/{execution_id:uuid}/logs",
    permission=Permission.JOB_READ,
    tags=["Executions"],
    responses=responses(404, 410),
)
async def list_execution_logs(
    caller: NamedDependency[Caller],
    execution_id: FromPath[UUID],
    level: LeastLevel = "trace",
    after: After = "0",
    limit: Limit = 100,
    offset: Offset = 0,
) -> LineList:
    """What one try logged, and how it ended, oldest first."""
    await _one(caller, execution_id)
    return await _lines(
        caller, job_of(execution_id), execution_id, level, int(after), limit, offset
    )


async def _lines(
    caller: Caller,
    job_id: UUID,
    execution: UUID | None,
    level: str,
    after: int,
    limit: int,
    offset: int,
) -> LineList:
    least = level_named(level)
    if after and offset:
        raise Invalid("offset", "is given together with after", "use one of them")
    job = await caller.job(job_id, BRIEF)
    lines = await executions.read_log(
        caller.platform.engine,
        [job.project],
        job_id,
        least=least,
        after=after,
        limit=limit,
        offset=offset,
        execution=execution,
    )
    open_error = caller.may(Permission.JOB_PAYLOAD)
    views = [line_view(one, open_error=open_error) for one in lines]
    return LineList(views, views[-1].id if len(views) == limit else None)


async def _one(caller: Caller, execution_id: UUID) -> Execution:
    job = await caller.job(job_of(execution_id), BRIEF)
    return await executions.find_execution(caller.platform.engine, [job.project], execution_id)


def _list(caller: Caller, found: list[Execution]) -> ExecutionList:
    open_payload = caller.may(Permission.JOB_PAYLOAD)
    return ExecutionList([execution_view(one, open_payload=open_payload) for one in found])


HANDLERS = [
    list_executions,
    latest_execution,
    execution_stats,
    get_execution,
    active_executions,
    list_logs,
    list_execution_logs,
]
