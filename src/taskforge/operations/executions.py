"""The executions of jobs, and what they logged."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain.errors import NotFound
from taskforge.domain.execution import Execution, ExecutionStats, stats_of
from taskforge.domain.ids import job_of
from taskforge.domain.log import Level, Line
from taskforge.ports.engine import AnyEngine

PAGE = 1_000


async def list_executions(engine: AnyEngine, projects: Sequence[int], job: UUID) -> list[Execution]:
    """The first one first."""
    return await engine.executions(projects, job)


async def read_latest_execution(engine: AnyEngine, projects: Sequence[int], job: UUID) -> Execution:
    executions = await engine.executions(projects, job)
    if not executions:
        raise NotFound("execution of job", str(job))
    return executions[-1]


async def measure_executions(
    engine: AnyEngine, projects: Sequence[int], job: UUID
) -> ExecutionStats:
    """How many there were, how they ended, and how long those took that succeeded."""
    return stats_of(await engine.executions(projects, job))


async def find_execution(engine: AnyEngine, projects: Sequence[int], identifier: UUID) -> Execution:
    for execution in await engine.executions(projects, job_of(identifier)):
        if execution.id == identifier:
            return execution
    raise NotFound("execution", str(identifier))


async def list_active_executions(
    engine: AnyEngine, projects: Sequence[int], *, timed_out: bool, limit: int
) -> list[Execution]:
    return await engine.active_executions(projects, timed_out=timed_out, limit=limit)


async def read_log(
    engine: AnyEngine,
    projects: Sequence[int],
    job: UUID,
    *,
    least: Level,
    after: int,
    limit: int,
    offset: int,
    execution: UUID | None = None,
) -> list[Line]:
    """A page of what a job, or one execution of it, logged."""
    return await engine.logs(
        projects, job, least=least, after=after, limit=limit, offset=offset, execution=execution
    )


async def read_history(
    engine: AnyEngine, projects: Sequence[int], job: UUID, *, most: int = 10_000
) -> list[Line]:
    """The first `most` lines of a job, the ends of its executions among them, oldest first, read
    page by page."""
    lines: list[Line] = []
    after = 0
    while len(lines) < most:
        wanted = min(PAGE, most - len(lines))
        page = await engine.logs(
            projects, job, least=Level.TRACE, after=after, limit=wanted, offset=0
        )
        lines += page
        if len(page) < wanted:
            break
        after = page[-1].id
    return lines
