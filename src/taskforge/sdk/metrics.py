"""How executions went, from Python: `forge.metrics`."""

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from taskforge.domain.custom_metrics import CustomMetrics
from taskforge.domain.forecast import Forecast
from taskforge.domain.metrics import DEFAULT_SECONDS, Metrics, NamedMetrics, Period
from taskforge.domain.snapshot import ProjectSnapshot
from taskforge.operations.forecasts import forecast_queue
from taskforge.operations.naming import find_queue, subject_named
from taskforge.wiring import metrics_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppMetrics:
    """`forge.metrics`: what the REST API tells too. A period is the `last` so many seconds, or from
    `since` to `until`; with a `step` it comes as a series as well."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def snapshot(self) -> ProjectSnapshot:
        """The project as it is now: jobs that run, wait, are scheduled, succeeded and failed, and
        workers."""
        return await metrics_of(await self._app.engine()).snapshot()

    async def read(
        self,
        *,
        queue: UUID | str | None = None,
        job_type: str | None = None,
        worker: UUID | str | None = None,
        last: float = DEFAULT_SECONDS,
        since: datetime | None = None,
        until: datetime | None = None,
        step: float | None = None,
    ) -> Metrics:
        """Of the whole project, of a queue, of a job type, of a worker, or of a worker in a
        queue."""
        engine = await self._app.engine()
        subject = await subject_named(engine, queue=queue, job_type=job_type, worker=worker)
        period = Period(since=since, until=until, last_seconds=last, step_seconds=step)
        return await metrics_of(engine).metrics(subject, period)

    async def forecast(self, queue: UUID | str) -> Forecast:
        """What becomes of a queue if the next minutes are like the last ones: how long a job that
        comes now waits, and when nothing waits any more."""
        engine = await self._app.engine()
        found = await find_queue(engine, str(queue))
        return await forecast_queue(engine, metrics_of(engine), found.id)

    async def queues(
        self,
        *,
        last: float = DEFAULT_SECONDS,
        step: float | None = None,
        after: str = "",
        limit: int = 50,
    ) -> list[NamedMetrics]:
        """Of each queue, in the order of their names behind `after`."""
        engine = await self._app.engine()
        period = Period(last_seconds=last, step_seconds=step)
        return await metrics_of(engine).by_queue(period, after, limit)

    async def job_types(
        self,
        *,
        last: float = DEFAULT_SECONDS,
        step: float | None = None,
        after: str = "",
        limit: int = 50,
    ) -> list[NamedMetrics]:
        engine = await self._app.engine()
        period = Period(last_seconds=last, step_seconds=step)
        return await metrics_of(engine).by_job_type(period, after, limit)

    async def customs(
        self,
        job_type: str | None = None,
        *,
        last: float = DEFAULT_SECONDS,
        step: float | None = None,
        after: str = "",
        limit: int = 50,
    ) -> CustomMetrics:
        """What handlers counted with `ctx.update_metrics`: of a job type, or of so many in the
        order of their names behind `after`. A `step` wants a job type."""
        engine = await self._app.engine()
        period = Period(last_seconds=last, step_seconds=step)
        return await metrics_of(engine).customs(period, job_type, after, limit)

    async def workers(
        self, *, last: float = DEFAULT_SECONDS, step: float | None = None, limit: int = 50
    ) -> list[NamedMetrics]:
        """The newest first."""
        engine = await self._app.engine()
        return await metrics_of(engine).by_worker(
            Period(last_seconds=last, step_seconds=step), limit
        )
