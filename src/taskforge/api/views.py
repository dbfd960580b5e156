"""What callers see: the domain's values without the store's own numbers, and without what the caller may not read."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment
from taskforge.domain.audit import AuditEntry
from taskforge.domain.execution import Execution
from taskforge.domain.job import ErrorInfo, Job
from taskforge.domain.log import Line
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import Queue
from taskforge.domain.tenancy import ApiKey, Invitation, Member, Organization, Project, Quota
from taskforge.domain.worker import Worker

Time = Annotated[datetime, msgspec.Meta(tz=True)]
Json = Any
"""Any JSON value, passed through as it was stored."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project: str
    name: str
    description: str
    priority: int
    settings: dict[str, Json]
    is_active: bool
    version: int
    created_at: Time
    updated_at: Time


class QueueStatsView(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    queue_id: UUID
    is_active: bool
    total: int
    pending: int
    scheduled: int
    processing: int
    succeeded: int
    failed: int
    cancelled: int
    oldest_pending_seconds: float | None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Payload, result and error are null without the permission job:payload; `redacted` tells that apart from their absence."""

    id: UUID
    project: str
    queue: str
    queue_id: UUID
    job_type: str
    status: str
    priority: int
    attempt_count: int
    max_attempts: int
    crash_count: int
    payload: Json
    payload_erased: bool
    redacted: bool
    created_at: Time
    updated_at: Time
    scheduled_for: Time | None
    timeout_at: Time | None
    expires_at: Time | None
    started_at: Time | None
    completed_at: Time | None
    timeout_seconds: float | None
    result: Json
    error: ErrorInfo | None
    reason: str | None
    progress: float | None
    progress_message: str | None
    tags: list[str]
    requires: Json
    unique_key: str | None
    idempotency_key: str | None
    fairness_key: str | None
    trace: str | None
    origin_queue: str | None
    worker_id: UUID | None
    worker_name: str | None
    worker_incarnation: UUID | None
    cancel_requested: bool


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    job: UUID
    attempt_number: int
    status: str
    worker_id: UUID | None
    worker_name: str | None
    worker_incarnation: UUID | None
    created_at: Time
    updated_at: Time
    started_at: Time | None
    finished_at: Time | None
    heartbeat_at: Time | None
    timeout_at: Time | None
    duration_ms: float | None
    output: Json
    error: ErrorInfo | None
    reason: str | None


class LineView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    execution: UUID
    level: str
    message: str
    metadata: Json
    logged_at: Time
    ended: str | None
    """The status in which the execution ended, in the line that its end leaves"""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """`healthy` is what the worker said of itself last; `status` is what is made of that, of its silence and of what it holds."""

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


class AssignmentView(msgspec.Struct, frozen=True, kw_only=True):
    queue_id: UUID
    worker_id: UUID
    weight: int
    is_active: bool
    created_at: Time
    updated_at: Time


class OrganizationView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    created_at: Time


class ProjectView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    quota: Quota
    created_at: Time


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    email: str
    name: str
    role: str
    created_at: Time


class InvitationView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    email: str
    role: str
    created_at: Time
    expires_at: Time


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project: str | None
    kind: str
    name: str
    prefix: str
    permissions: list[str]
    created_by: str
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None
    rotated_to: UUID | None
    """The key that took its place"""


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    at: Time
    project: str | None
    actor: str
    action: str
    target: str
    before: Json
    after: Json
    origin: str | None
    request_id: str | None


def queue_view(queue: Queue, projects: dict[int, str]) -> QueueView:
    return QueueView(
        id=queue.id,
        project=projects[queue.project],
        name=queue.name,
        description=queue.description,
        priority=queue.priority,
        settings=msgspec.to_builtins(queue.settings),
        is_active=queue.is_active,
        version=queue.version,
        created_at=queue.created_at,
        updated_at=queue.updated_at,
    )


def stats_view(stats: QueueStats) -> QueueStatsView:
    return QueueStatsView(
        queue=stats.queue,
        queue_id=stats.queue_id,
        is_active=stats.is_active,
        total=stats.total,
        pending=stats.pending,
        scheduled=stats.scheduled,
        processing=stats.processing,
        succeeded=stats.succeeded,
        failed=stats.failed,
        cancelled=stats.cancelled,
        oldest_pending_seconds=stats.oldest_pending_seconds,
    )


def job_view(job: Job, projects: dict[int, str], *, open_payload: bool) -> JobView:
    return JobView(
        id=job.id,
        project=projects[job.project],
        queue=job.queue,
        queue_id=job.queue_id,
        job_type=job.job_type,
        status=job.status.value,
        priority=job.priority,
        attempt_count=job.attempt_count,
        max_attempts=job.max_attempts,
        crash_count=job.crash_count,
        payload=job.payload if open_payload else None,
        payload_erased=job.payload_erased,
        redacted=not open_payload,
        created_at=job.created_at,
        updated_at=job.updated_at,
        scheduled_for=job.scheduled_for,
        timeout_at=job.timeout_at,
        expires_at=job.expires_at,
        started_at=job.started_at,
        completed_at=job.completed_at,
        timeout_seconds=job.timeout_seconds,
        result=job.result if open_payload else None,
        error=job.error if open_payload else None,
        reason=job.reason,
        progress=job.progress,
        progress_message=job.progress_message,
        tags=list(job.tags),
        requires=msgspec.Raw(job.requires.encode()) if job.requires else None,
        unique_key=job.unique_key,
        idempotency_key=job.idempotency_key,
        fairness_key=job.fairness_key,
        trace=job.trace,
        origin_queue=job.origin_queue,
        worker_id=job.worker_id,
        worker_name=job.worker_name,
        worker_incarnation=job.worker,
        cancel_requested=job.cancel_requested,
    )


def execution_view(execution: Execution, *, open_payload: bool) -> ExecutionView:
    return ExecutionView(
        id=execution.id,
        job=execution.job,
        attempt_number=execution.attempt_number,
        status=execution.status.value,
        worker_id=execution.worker_id,
        worker_name=execution.worker_name,
        worker_incarnation=execution.worker,
        created_at=execution.created_at,
        updated_at=execution.updated_at,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        heartbeat_at=execution.heartbeat_at,
        timeout_at=execution.timeout_at,
        duration_ms=execution.duration_ms,
        output=execution.output if open_payload else None,
        error=execution.error if open_payload else None,
        reason=execution.reason,
    )


def line_view(line: Line, *, open_error: bool) -> LineView:
    return LineView(
        id=str(line.id),
        execution=line.execution,
        level=line.level.name.lower(),
        message=line.message if open_error or line.guarded is None else line.guarded,
        metadata=line.metadata,
        logged_at=line.logged_at,
        ended=None if line.ended is None else line.ended.value,
    )


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


def assignment_view(assignment: Assignment) -> AssignmentView:
    return AssignmentView(
        queue_id=assignment.queue,
        worker_id=assignment.worker,
        weight=assignment.weight,
        is_active=assignment.is_active,
        created_at=assignment.created_at,
        updated_at=assignment.updated_at,
    )


def organization_view(organization: Organization) -> OrganizationView:
    return OrganizationView(id=organization.id, name=organization.name, created_at=organization.created_at)


def project_view(project: Project) -> ProjectView:
    return ProjectView(id=project.id, name=project.name, quota=project.quota, created_at=project.created_at)


def member_view(member: Member) -> MemberView:
    return MemberView(id=member.user, email=member.email, name=member.name, role=member.role.value, created_at=member.created_at)


def invitation_view(invitation: Invitation) -> InvitationView:
    return InvitationView(
        id=invitation.id,
        email=invitation.email,
        role=invitation.role.value,
        created_at=invitation.created_at,
        expires_at=invitation.expires_at,
    )


def key_view(key: ApiKey, projects: dict[int, str]) -> KeyView:
    return KeyView(
        id=key.id,
        project=None if key.project is None else projects[key.project],
        kind=key.kind,
        name=key.name,
        prefix=key.prefix,
        permissions=sorted(key.permissions),
        created_by=key.created_by,
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=key.last_used_at,
        revoked_at=key.revoked_at,
        rotated_to=key.rotated_to,
    )


def audit_view(entry: AuditEntry, projects: dict[int, str]) -> AuditView:
    return AuditView(
        number=entry.number,
        at=entry.at,
        project=None if entry.project is None else projects.get(entry.project, str(entry.project)),
        actor=entry.actor,
        action=entry.action,
        target=entry.target,
        before=entry.before,
        after=entry.after,
        origin=entry.origin,
        request_id=entry.request,
    )
