"""How executions went over a period, read from rollups: the cost does not grow with history."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.metrics import (
    Cells,
    Coverage,
    Metrics,
    NamedMetrics,
    Period,
    Subject,
    check_subject,
    cover,
    measure,
)
from taskforge.domain.rollup import Cell
from taskforge.ports.engine import Engine
from taskforge.storage.records.rollups import FoundScope, RollupRecords

MOST_NAMED = 200
MOST_SCOPES = 100_000
MOST_POINTS_OF_ALL = 20_000


async def read_metrics(
    engine: Engine, projects: Sequence[int], subject: Subject, period: Period
) -> Metrics:
    """Of everything in these projects, or of what is named in them."""
    check_subject(subject)
    now = await engine.now()
    is_pair = subject.queue is not None and subject.worker is not None
    coverage = cover(period, now, is_pair=is_pair)
    rollups = RollupRecords(engine)
    scopes = [scope for project in projects for scope in await _scopes(rollups, project, subject)]
    cells = await read_cells(rollups, scopes, coverage)
    return measure(coverage, [pair for pairs in cells.values() for pair in pairs], now)


async def read_by_queue(
    engine: Engine, project: int, period: Period, *, after: str = "", limit: int = 50
) -> list[NamedMetrics]:
    """Each queue that ever ran something, in the order of names behind `after`."""
    rules.integer("limit", limit, 1, MOST_NAMED)
    rollups = RollupRecords(engine)
    scopes = await rollups.queues(project, after, limit)
    found = await _each(engine, rollups, scopes, period)
    return [NamedMetrics(scope.queue, one, scope.queue_id, project) for scope, one in found]


async def read_by_queue_named(
    engine: Engine, project: int, queues: Sequence[UUID], period: Period
) -> list[NamedMetrics]:
    """These queues, without those that never ran anything."""
    rollups = RollupRecords(engine)
    wanted = set(queues)
    scopes = [
        scope
        for scope in await rollups.queues(project, "", MOST_SCOPES)
        if scope.queue_id in wanted
    ]
    found = await _each(engine, rollups, scopes, period)
    return [NamedMetrics(scope.queue, one, scope.queue_id, project) for scope, one in found]


async def read_by_job_type(
    engine: Engine, project: int, period: Period, *, after: str = "", limit: int = 50
) -> list[NamedMetrics]:
    rules.integer("limit", limit, 1, MOST_NAMED)
    rollups = RollupRecords(engine)
    scopes = await rollups.job_types(project, after, limit)
    found = await _each(engine, rollups, scopes, period)
    return [NamedMetrics(scope.job_type, one, None, project) for scope, one in found]


async def read_by_worker(
    engine: Engine, project: int, period: Period, *, limit: int = 50
) -> list[NamedMetrics]:
    """The newest workers first."""
    rules.integer("limit", limit, 1, MOST_NAMED)
    rollups = RollupRecords(engine)
    scopes = await rollups.workers(project, limit)
    names = {worker.id: worker.name for worker in await engine.workers([project])}
    return [
        NamedMetrics(names.get(scope.worker, str(scope.worker)), one, scope.worker, project)
        for scope, one in await _each(engine, rollups, scopes, period)
    ]


async def _scopes(rollups: RollupRecords, project: int, subject: Subject) -> list[FoundScope]:
    if subject.queue is not None:
        return await rollups.of_queue(project, subject.queue, subject.worker)
    if subject.worker is not None:
        return await rollups.of_worker(project, subject.worker)
    if subject.job_type is not None:
        return await rollups.of_job_type(project, subject.job_type)
    return await rollups.of_project(project)


async def _each(
    engine: Engine, rollups: RollupRecords, scopes: Sequence[FoundScope], period: Period
) -> list[tuple[FoundScope, Metrics]]:
    now = await engine.now()
    coverage = cover(period, now, is_pair=False)
    if coverage.step is not None:
        points = (coverage.until - coverage.since) // coverage.step
        if points * max(1, len(scopes)) > MOST_POINTS_OF_ALL:
            raise Invalid(
                "step_seconds",
                f"makes {points:,} points for each of {len(scopes)}",
                f"ask for fewer points or a lower limit: {MOST_POINTS_OF_ALL:,} are the most",
            )
    cells = await read_cells(rollups, scopes, coverage)
    return [(scope, measure(coverage, cells.get(scope.number, []), now)) for scope in scopes]


async def read_cells(
    rollups: RollupRecords, scopes: Sequence[FoundScope], coverage: Coverage
) -> Cells:
    numbers = [scope.number for scope in scopes]
    found: dict[int, list[tuple[int, Cell]]] = {}
    if not numbers:
        return found
    for step, since, until in coverage.ranges(await rollups.due(numbers)):
        for scope, start, cell in await rollups.cells(numbers, step, since, until):
            found.setdefault(scope, []).append((start, cell))
    return found
