"""The server's views, back as the values that an engine gives. The store's own numbers do not cross
the wire and are 0 here."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment
from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.job import ErrorInfo, JobFacts, StoredJob
from taskforge.domain.log import Level, Line
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.worker import Worker, WorkerStatus

NULL = msgspec.Raw(b"null")


class JobShape(JobFacts, kw_only=True, frozen=True):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # a list was not asked for it
    redacted: bool = False
    result: msgspec.Raw = NULL
    requires: msgspec.Raw = NULL
    worker_incarnation: UUID | None = None

    def to_domain(self) -> StoredJob:
        requires = "" if bytes(self.requires) == b"null" else bytes(self.requires).decode()
        payload = None
        if isinstance(self.payload, msgspec.Raw) and not (self.redacted or self.payload_erased):
            payload = self.payload.copy()
        return StoredJob(
            project=0,
            epoch=0,
            payload=payload,
            result=raw(self.result),
            requires=requires,
            worker=self.worker_incarnation,
            **{name: getattr(self, name) for name in JobFacts.__struct_fields__},
        )


class ExecutionShape(msgspec.Struct, kw_only=True):
    id: UUID
    job: UUID
    attempt_number: int
    status: ExecutionStatus
    created_at: datetime
    worker_id: UUID | None = None
    worker_name: str | None = None
    worker_incarnation: UUID | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    heartbeat_at: datetime | None = None
    timeout_at: datetime | None = None
    output: msgspec.Raw = NULL
    error: ErrorInfo | None = None
    reason: str | None = None

    def to_domain(self) -> Execution:
        fields = msgspec.structs.asdict(self)
        return Execution(
            worker=fields.pop("worker_incarnation"), output=raw(fields.pop("output")), **fields
        )


class LineShape(msgspec.Struct, kw_only=True):
    id: str
    execution: UUID
    level: str
    message: str
    logged_at: datetime
    metadata: msgspec.Raw = NULL
    ended: ExecutionStatus | None = None

    def to_domain(self) -> Line:
        level = Level[self.level.upper()]
        return Line(
            int(self.id),
            self.execution,
            level,
            self.message,
            raw(self.metadata),
            self.logged_at,
            self.ended,
        )


class QueueShape(msgspec.Struct, kw_only=True):
    id: UUID
    name: str
    description: str
    priority: int
    settings: dict[str, Any]
    is_active: bool
    version: int
    created_at: datetime
    updated_at: datetime

    def to_domain(self) -> Queue:
        fields = msgspec.structs.asdict(self)
        # A setting that is not known here is newer than we are; everyone else keeps to it all the
        # same.
        settings = {
            name: one
            for name, one in fields.pop("settings").items()
            if name in QueueSettings.__struct_fields__
        }
        return Queue(number=0, project=0, settings=QueueSettings.parse(settings), **fields)


class StatsShape(msgspec.Struct, kw_only=True):
    queue: str
    queue_id: UUID
    is_active: bool
    pending: int
    scheduled: int
    processing: int
    succeeded: int
    failed: int
    cancelled: int
    oldest_pending_seconds: float | None = None
    counted_at: datetime | None = None

    def to_domain(self) -> QueueStats:
        return QueueStats(**msgspec.structs.asdict(self))


class WorkerShape(msgspec.Struct, kw_only=True):
    id: UUID
    incarnation: UUID
    name: str
    worker_type: str
    role: str | None
    status: WorkerStatus
    capabilities: dict[str, Any]
    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    max_concurrent_jobs: int
    active_jobs: int
    stuck_slots: int
    drain_mode: bool
    stopping: bool
    started_as: str
    started_slots: int
    version: str
    host: str
    pid: int | None
    cpu_percent: float | None
    memory_bytes: int | None
    last_heartbeat: datetime | None
    registered_at: datetime
    updated_at: datetime
    healthy: bool = True  # servers of before do not say

    def to_domain(self) -> Worker:
        # When its lease ends is the server's to know; what follows from it is in its status.
        return Worker(
            project=0,
            lease_until=self.last_heartbeat or self.registered_at,
            **msgspec.structs.asdict(self),
        )


class AssignmentShape(msgspec.Struct, kw_only=True):
    queue_id: UUID
    worker_id: UUID
    weight: int
    is_active: bool
    created_at: datetime
    updated_at: datetime

    def to_domain(self) -> Assignment:
        fields = msgspec.structs.asdict(self)
        return Assignment(
            queue=fields.pop("queue_id"), worker=fields.pop("worker_id"), project=0, **fields
        )


def raw(value: msgspec.Raw) -> msgspec.Raw | None:
    """Null is nothing. A copy: what was decoded holds on to the whole answer."""
    return None if bytes(value) == b"null" else value.copy()
