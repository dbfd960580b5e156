"""Workers as callers see them."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.worker import Worker


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """`healthy` is what the worker said of itself last; `status` is what is made of that, of its
    silence and of what it holds."""

    id: UUID
    incarnation: UUID
    project: str
    name: str
    worker_type: str
    role: str | None
    status: str
    healthy: bool
    capabilities: dict[str, Json]
    queues: list[str] | None
    types: list[str] | None
    max_concurrent_jobs: int
    active_jobs: int
    stuck_slots: int
    drain_mode: bool
    stopping: bool
    started_as: str
    started_slots: int
    accepts_jobs: bool
    version: str
    host: str
    pid: int | None
    cpu_percent: float | None
    memory_bytes: int | None
    last_heartbeat: Time | None
    registered_at: Time
    updated_at: Time


def worker_view(worker: Worker, projects: dict[int, str]) -> WorkerView:
    return WorkerView(
        id=worker.id,
        incarnation=worker.incarnation,
        project=projects[worker.project],
        name=worker.name,
        worker_type=worker.worker_type,
        role=worker.role,
        status=worker.status.value,
        healthy=worker.healthy,
        capabilities=worker.capabilities,
        queues=None if worker.queues is None else list(worker.queues),
        types=None if worker.types is None else list(worker.types),
        max_concurrent_jobs=worker.max_concurrent_jobs,
        active_jobs=worker.active_jobs,
        stuck_slots=worker.stuck_slots,
        drain_mode=worker.drain_mode,
        stopping=worker.stopping,
        started_as=worker.started_as,
        started_slots=worker.started_slots,
        accepts_jobs=worker.accepts_jobs,
        version=worker.version,
        host=worker.host,
        pid=worker.pid,
        cpu_percent=worker.cpu_percent,
        memory_bytes=worker.memory_bytes,
        last_heartbeat=worker.last_heartbeat,
        registered_at=worker.registered_at,
        updated_at=worker.updated_at,
    )
