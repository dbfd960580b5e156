"""How executions went, as a server elsewhere tells it."""

from typing import Any
from uuid import UUID

import msgspec

from taskforge.client.requests import get, reader
from taskforge.client.transport import Transport
from taskforge.domain.custom_metrics import CustomMetrics
from taskforge.domain.metrics import Metrics, NamedMetrics, Period, Subject
from taskforge.domain.snapshot import ProjectSnapshot


class _Named(msgspec.Struct):
    name: str
    id: UUID | None
    metrics: Metrics


class _List(msgspec.Struct):
    items: list[_Named]


_snapshot = reader(ProjectSnapshot)
_metrics, _list, _customs = reader(Metrics), reader(_List), reader(CustomMetrics)


class RemoteMetrics:
    """Implements the port `MetricsSource` on a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def snapshot(self) -> ProjectSnapshot:
        return await self._transport.send(get("/metrics/snapshot", _snapshot))

    async def metrics(self, subject: Subject, period: Period) -> Metrics:
        named = {"queue": subject.queue, "job_type": subject.job_type, "worker_id": subject.worker}
        return await self._transport.send(get("/metrics", _metrics, **named, **_query(period)))

    async def by_queue(self, period: Period, after: str, limit: int) -> list[NamedMetrics]:
        return await self._listed("queues", period, after=after, limit=limit)

    async def by_job_type(self, period: Period, after: str, limit: int) -> list[NamedMetrics]:
        return await self._listed("job-types", period, after=after, limit=limit)

    async def customs(
        self, period: Period, job_type: str | None, after: str, limit: int
    ) -> CustomMetrics:
        about = {"job_type": job_type, "after": after, "limit": limit}
        return await self._transport.send(
            get("/metrics/custom", _customs, **_query(period), **about)
        )

    async def by_worker(self, period: Period, limit: int) -> list[NamedMetrics]:
        return await self._listed("workers", period, limit=limit)

    async def _listed(self, kind: str, period: Period, **query: Any) -> list[NamedMetrics]:
        found = await self._transport.send(
            get(f"/metrics/{kind}", _list, **_query(period), **query)
        )
        return [NamedMetrics(one.name, one.metrics, one.id) for one in found.items]


def _query(period: Period) -> dict[str, Any]:
    return msgspec.structs.asdict(period)
