"""Metrics of the project that a store is open for."""

from taskforge.domain.custom_metrics import CustomMetrics
from taskforge.domain.metrics import Metrics, NamedMetrics, Period, Subject
from taskforge.domain.snapshot import ProjectSnapshot
from taskforge.operations.custom_metrics import read_customs
from taskforge.operations.metrics import (
    read_by_job_type,
    read_by_queue,
    read_by_worker,
    read_metrics,
)
from taskforge.operations.snapshots import take_snapshot
from taskforge.ports.engine import Engine


class StoreMetrics:
    """Implements the port `MetricsSource` on a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def snapshot(self) -> ProjectSnapshot:
        return await take_snapshot(self._engine, self._engine.home)

    async def metrics(self, subject: Subject, period: Period) -> Metrics:
        return await read_metrics(self._engine, [self._engine.home], subject, period)

    async def by_queue(self, period: Period, after: str, limit: int) -> list[NamedMetrics]:
        home = self._engine.home
        return await read_by_queue(self._engine, home, period, after=after, limit=limit)

    async def by_job_type(self, period: Period, after: str, limit: int) -> list[NamedMetrics]:
        home = self._engine.home
        return await read_by_job_type(self._engine, home, period, after=after, limit=limit)

    async def by_worker(self, period: Period, limit: int) -> list[NamedMetrics]:
        return await read_by_worker(self._engine, self._engine.home, period, limit=limit)

    async def customs(
        self, period: Period, job_type: str | None, after: str, limit: int
    ) -> CustomMetrics:
        home = self._engine.home
        return await read_customs(
            self._engine, home, period, job_type=job_type, after=after, limit=limit
        )
