"""What handlers counted with `ctx.update_metrics`: stored with the rollups of their job types, and
read from them."""

from collections.abc import Sequence

from taskforge.domain import rules
from taskforge.domain.custom_metrics import CustomMetric, CustomMetrics, measure_customs
from taskforge.domain.custom_value import CustomSum, CustomValue, CustomValues, merge_values
from taskforge.domain.errors import Invalid
from taskforge.domain.metrics import Period, cover, moment_at
from taskforge.operations.metrics import MOST_NAMED, read_cells
from taskforge.ports.engine import Engine
from taskforge.storage.records.rollups import FoundScope, RollupRecords


async def count_customs(engine: Engine, project: int, sums: Sequence[CustomSum]) -> None:
    """They are in the answers when they have been folded, some seconds later."""
    now = await engine.now()
    values: dict[str, CustomValues] = {}
    for one in sums:
        value = CustomValue(
            one.count,
            one.total,
            one.least,
            one.most,
            one.last,
            round(now.timestamp() - one.seconds_ago, 3),
        )
        merge_values(values.setdefault(one.job_type, {}), {one.name: value})
    await RollupRecords(engine).add_customs(project, now, values)


async def read_customs(
    engine: Engine,
    project: int,
    period: Period,
    *,
    job_type: str | None = None,
    after: str = "",
    limit: int = 50,
) -> CustomMetrics:
    """Of one job type, or of as many as `limit` says in the order of their names behind `after`."""
    rules.integer("limit", limit, 1, MOST_NAMED)
    if period.step_seconds is not None and job_type is None:
        raise Invalid("step_seconds", "is given without a job type", "name one with job_type")
    rollups = RollupRecords(engine)
    coverage = cover(period, await engine.now(), is_pair=False)
    scopes = (
        await rollups.job_types(project, after, limit)
        if job_type is None
        else await rollups.of_job_type(project, job_type)
    )
    cells = await read_cells(rollups, scopes, coverage)
    items: list[CustomMetric] = []
    for scope in scopes:
        found = cells.get(scope.number, [])
        items += measure_customs(scope.job_type, coverage, found, project)
    step = None if coverage.step is None else coverage.step * 60
    return CustomMetrics(moment_at(coverage.since), moment_at(coverage.until), step, items)


async def read_recent_customs(
    engine: Engine, projects: Sequence[int], period: Period, *, types: int
) -> list[CustomMetric]:
    """Of the first job types of these projects, so many in all: what it costs is bounded, however
    many there are."""
    rollups = RollupRecords(engine)
    coverage = cover(period, await engine.now(), is_pair=False)
    scopes: list[FoundScope] = []
    for project in projects:
        if len(scopes) >= types:
            break
        scopes += await rollups.job_types(project, "", types - len(scopes))
    cells = await read_cells(rollups, scopes, coverage)
    return [
        one
        for scope in scopes
        for one in measure_customs(
            scope.job_type, coverage, cells.get(scope.number, []), scope.project
        )
    ]
