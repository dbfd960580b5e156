"""How executions went: asked of a store, or of a server in front of one."""

from typing import Protocol

from taskforge.domain.custom_metrics import CustomMetrics
from taskforge.domain.metrics import Metrics, NamedMetrics, Period, Subject
from taskforge.domain.snapshot import ProjectSnapshot


class MetricsSource(Protocol):
    # as it is now
    async def snapshot(self) -> ProjectSnapshot: ...
    async def metrics(self, subject: Subject, period: Period) -> Metrics: ...
    # In the order of their names, behind `after`.
    async def by_queue(self, period: Period, after: str, limit: int) -> list[NamedMetrics]: ...
    async def by_job_type(self, period: Period, after: str, limit: int) -> list[NamedMetrics]: ...
    # What handlers counted: of one job type, or of those behind `after`.
    async def customs(
        self, period: Period, job_type: str | None, after: str, limit: int
    ) -> CustomMetrics: ...
    # The newest first.
    async def by_worker(self, period: Period, limit: int) -> list[NamedMetrics]: ...
