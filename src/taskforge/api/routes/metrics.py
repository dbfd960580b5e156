"""How executions went over a period: of a project, a queue, a job type, a worker."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.metrics import (
    CustomMetricsView,
    MetricsView,
    NamedMetricsView,
    customs_view,
    metrics_view,
)
from taskforge.domain.access import Permission, need
from taskforge.domain.metrics import DEFAULT_SECONDS, NamedMetrics, Period, Subject
from taskforge.domain.snapshot import ProjectSnapshot
from taskforge.operations.custom_metrics import read_customs
from taskforge.operations.metrics import (
    read_by_job_type,
    read_by_queue,
    read_by_worker,
    read_metrics,
)
from taskforge.operations.snapshots import take_snapshot

Since = Annotated[Time | None, QueryParameter(description="Else `last_seconds` before the end")]
Until = Annotated[Time | None, QueryParameter(description="Else now")]
LastSeconds = Annotated[
    float, QueryParameter(description="How long the period is, where `since` does not say")
]
StepSeconds = Annotated[
    float | None, QueryParameter(description="Also a series, of points so many seconds apart")
]
After = Annotated[str, QueryParameter(description="Only names behind this one")]
InQueue = Annotated[str | None, QueryParameter(name="queue", description="A queue's name or id")]
ByWorker = Annotated[UUID | None, QueryParameter(description="A worker's id")]


class NamedMetricsList(msgspec.Struct, frozen=True):
    items: list[NamedMetricsView]


@get("/metrics", permission=Permission.QUEUE_READ, tags=["Metrics"], responses=responses(404))
async def get_metrics(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queue: InQueue = None,
    job_type: FromQuery[str | None] = None,
    worker_id: ByWorker = None,
    since: Since = None,
    until: Until = None,
    last_seconds: LastSeconds = DEFAULT_SECONDS,
    step_seconds: StepSeconds = None,
) -> MetricsView:
    """How executions went: of a project or the organization, of a queue, of a job type, of a
    worker, of a worker in a queue. Percentiles are off by at most 1 %. Minutes are kept for 2 days
    (for a worker in a queue: 2 hours), hours for 90, days for 400: the answer says what it covers.
    It is some seconds behind."""
    projects: Sequence[int] = await caller.projects(project)
    subject = Subject(job_type=job_type)
    if queue is not None:
        meant = await caller.queue(queue)
        projects = [number for number in projects if number == meant.project]
        subject = msgspec.structs.replace(subject, queue=meant.id)
    if worker_id is not None:
        need(caller.principal, Permission.WORKER_READ)
        subject = msgspec.structs.replace(subject, worker=(await caller.worker(worker_id)).id)
    period = Period(since=since, until=until, last_seconds=last_seconds, step_seconds=step_seconds)
    return metrics_view(await read_metrics(caller.platform.engine, projects, subject, period))


@get(
    "/metrics/queues", permission=Permission.QUEUE_READ, tags=["Metrics"], responses=responses(404)
)
async def list_queue_metrics(
    caller: NamedDependency[Caller],
    project: NewIn = None,
    since: Since = None,
    until: Until = None,
    last_seconds: LastSeconds = DEFAULT_SECONDS,
    step_seconds: StepSeconds = None,
    after: After = "",
    limit: FromQuery[int] = 50,
) -> NamedMetricsList:
    """The same for each queue of a project that ever ran a job, in the order of their names. For
    the page behind, pass the last name as `after`."""
    owner = await caller.project(project)
    period = Period(since=since, until=until, last_seconds=last_seconds, step_seconds=step_seconds)
    return _listed(
        await read_by_queue(caller.platform.engine, owner.number, period, after=after, limit=limit)
    )


@get(
    "/metrics/job-types",
    permission=Permission.QUEUE_READ,
    tags=["Metrics"],
    responses=responses(404),
)
async def list_job_type_metrics(
    caller: NamedDependency[Caller],
    project: NewIn = None,
    since: Since = None,
    until: Until = None,
    last_seconds: LastSeconds = DEFAULT_SECONDS,
    step_seconds: StepSeconds = None,
    after: After = "",
    limit: FromQuery[int] = 50,
) -> NamedMetricsList:
    """The same for each job type of a project, in the order of their names."""
    owner = await caller.project(project)
    period = Period(since=since, until=until, last_seconds=last_seconds, step_seconds=step_seconds)
    return _listed(
        await read_by_job_type(
            caller.platform.engine, owner.number, period, after=after, limit=limit
        )
    )


@get(
    "/metrics/workers",
    permission=Permission.WORKER_READ,
    tags=["Metrics"],
    responses=responses(404),
)
async def list_worker_metrics(
    caller: NamedDependency[Caller],
    project: NewIn = None,
    since: Since = None,
    until: Until = None,
    last_seconds: LastSeconds = DEFAULT_SECONDS,
    step_seconds: StepSeconds = None,
    limit: FromQuery[int] = 50,
) -> NamedMetricsList:
    """The same for each worker of a project, the newest first."""
    owner = await caller.project(project)
    period = Period(since=since, until=until, last_seconds=last_seconds, step_seconds=step_seconds)
    return _listed(await read_by_worker(caller.platform.engine, owner.number, period, limit=limit))


@get(
    "/metrics/snapshot",
    permission=Permission.QUEUE_READ,
    tags=["Metrics"],
    responses=responses(404),
)
async def get_snapshot(caller: NamedDependency[Caller], project: NewIn = None) -> ProjectSnapshot:
    """A project as it is now, in six figures: jobs that run, wait to be run, wait for their time,
    succeeded and failed, of those that are kept, and workers that are there."""
    owner = await caller.project(project)
    return await take_snapshot(caller.platform.engine, owner.number)


@get(
    "/metrics/custom",
    permission=Permission.QUEUE_READ,
    tags=["Metrics"],
    responses=responses(404),
)
async def list_custom_metrics(
    caller: NamedDependency[Caller],
    project: NewIn = None,
    job_type: FromQuery[str | None] = None,
    since: Since = None,
    until: Until = None,
    last_seconds: LastSeconds = DEFAULT_SECONDS,
    step_seconds: StepSeconds = None,
    after: After = "",
    limit: FromQuery[int] = 50,
) -> CustomMetricsView:
    """What handlers counted with `ctx.update_metrics`, by job type and name: of one job type, or of
    so many in the order of their names. 50 names of a job type are told apart, further ones are
    counted as `others`. A series is told of a job type that is named."""
    owner = await caller.project(project)
    period = Period(since=since, until=until, last_seconds=last_seconds, step_seconds=step_seconds)
    return customs_view(
        await read_customs(
            caller.platform.engine,
            owner.number,
            period,
            job_type=job_type,
            after=after,
            limit=limit,
        )
    )


def _listed(found: Sequence[NamedMetrics]) -> NamedMetricsList:
    return NamedMetricsList(
        [NamedMetricsView(one.name, one.id, metrics_view(one.metrics)) for one in found]
    )


HANDLERS = [
    get_metrics,
    list_queue_metrics,
    list_job_type_metrics,
    list_worker_metrics,
    list_custom_metrics,
    get_snapshot,
]
