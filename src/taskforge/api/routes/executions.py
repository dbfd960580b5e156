"""Executions: the tries of a job, and what they logged."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from taskforge.api.caller import Caller
from taskforge.api.problems import responses
from taskforge.api.routes.jobs import Limit
from taskforge.api.routes.queues import ProjectName
from taskforge.api.views import ExecutionView, LineView, execution_view, line_view
from taskforge.domain.access import Permission
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.execution import Execution, ExecutionStats, ExecutionStatus
from taskforge.domain.ids import job_of
from taskforge.domain.log import Level

_FAILED = (ExecutionStatus.FAILED, ExecutionStatus.RETRY_SCHEDULED, ExecutionStatus.DEAD_LETTER)
_LEVELS = {level.name.lower(): level for level in Level}
LeastLevel = Annotated[str, QueryParameter(name="level", description="trace, debug, info, warn or error: this level and above")]
After = Annotated[int, QueryParameter(ge=0, le=2**62, description="Only lines behind this id")]
Offset = Annotated[int, QueryParameter(ge=0, le=1_000_000)]


class ExecutionList(msgspec.Struct, frozen=True):
    items: list[ExecutionView]


class LineList(msgspec.Struct, frozen=True):
    items: list[LineView]
    next_after: int | None  # pass it as `after` for what comes behind; null: that was all for now


@get("/jobs/{job_id:uuid}/executions", permission=Permission.JOB_READ, tags=["Executions"], responses=responses(404, 410))
async def list_executions(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> ExecutionList:
    """Every try of a job, the first one first."""
    return _list(caller, await _of(caller, job_id))


@get("/jobs/{job_id:uuid}/executions/latest", permission=Permission.JOB_READ, tags=["Executions"], responses=responses(404, 410))
async def latest_execution(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> ExecutionView:
    """The last try of a job."""
    found = await _of(caller, job_id)
    if not found:
        raise NotFound("execution of job", str(job_id))
    return execution_view(found[-1], open_payload=caller.may(Permission.JOB_PAYLOAD))


@get("/jobs/{job_id:uuid}/executions/stats", permission=Permission.JOB_READ, tags=["Executions"], responses=responses(404, 410))
async def execution_stats(caller: NamedDependency[Caller], job_id: FromPath[UUID]) -> ExecutionStats:
    """How many tries there were, how they ended and how long they took."""
    found = await _of(caller, job_id)
    durations = [one.duration_ms for one in found if one.duration_ms is not None]
    return ExecutionStats(
        len(found),
        sum(one.status is ExecutionStatus.SUCCEEDED for one in found),
        sum(one.status in _FAILED for one in found),
        sum(durations) / len(durations) if durations else None,
        min(durations, default=None),
        max(durations, default=None),
    )


@get("/executions/{execution_id:uuid}", permission=Permission.JOB_READ, tags=["Executions"], responses=responses(404, 410))
async def get_execution(caller: NamedDependency[Caller], execution_id: FromPath[UUID]) -> ExecutionView:
    """Read one try."""
    found = next((one for one in await _of(caller, job_of(execution_id)) if one.id == execution_id), None)
    if found is None:
        raise NotFound("execution", str(execution_id))
    return execution_view(found, open_payload=caller.may(Permission.JOB_PAYLOAD))


@get("/executions/active", permission=Permission.JOB_READ, tags=["Executions"], responses=responses(404))
async def active_executions(
    caller: NamedDependency[Caller], project: ProjectName = None, timed_out: FromQuery[bool] = False, limit: Limit = 100
) -> ExecutionList:
    """What runs now; with `timed_out`, only what has run for longer than it may."""
    projects = await caller.projects(project)
    return _list(caller, await caller.backend.engine.active_executions(projects, timed_out=timed_out, limit=limit))


@get("/jobs/{job_id:uuid}/logs", permission=Permission.JOB_READ, tags=["Executions"], responses=responses(404, 410))
async def list_logs(
    caller: NamedDependency[Caller],
    job_id: FromPath[UUID],
    level: LeastLevel = "trace",
    after: After = 0,
    limit: Limit = 100,
    offset: Offset = 0,
) -> LineList:
    """What the handlers of a job logged, oldest first."""
    if level not in _LEVELS:
        raise Invalid("level", f"is {level!r}", "use one of " + ", ".join(_LEVELS))
    if after and offset:
        raise Invalid("offset", "is given together with after", "use one of them")
    job = await caller.job(job_id)
    lines = await caller.backend.engine.logs([job.project], job_id, least=_LEVELS[level], after=after, limit=limit, offset=offset)
    return LineList([line_view(one) for one in lines], lines[-1].id if len(lines) == limit else None)


async def _of(caller: Caller, job_id: UUID) -> list[Execution]:
    job = await caller.job(job_id)
    return await caller.backend.engine.executions([job.project], job_id)


def _list(caller: Caller, found: list[Execution]) -> ExecutionList:
    open_payload = caller.may(Permission.JOB_PAYLOAD)
    return ExecutionList([execution_view(one, open_payload=open_payload) for one in found])


HANDLERS = [list_executions, latest_execution, execution_stats, get_execution, active_executions, list_logs]
