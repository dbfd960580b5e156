"""Jobs as callers see them: without the store's own numbers, and without what the caller may not
read."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.job import ErrorInfo, StoredJob
from taskforge.domain.job_parts import WHOLE, JobPart, Parts


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Payload, result and error are null without the permission job:payload; `redacted` tells that
    apart from their absence. A list has payload and result only if they are asked for."""

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
    payload: Json = msgspec.UNSET
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
    result: Json = msgspec.UNSET
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
    cost: int | None
    origin_queue: str | None
    worker_id: UUID | None
    worker_name: str | None
    worker_incarnation: UUID | None
    cancel_requested: bool


def job_view(
    job: StoredJob,
    projects: dict[int, str],
    *,
    open_payload: bool,
    parts: Parts = WHOLE,
) -> JobView:
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
        payload=_part(job.payload, JobPart.PAYLOAD in parts, open_payload=open_payload),
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
        result=_part(job.result, JobPart.RESULT in parts, open_payload=open_payload),
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
        cost=job.cost,
        origin_queue=job.origin_queue,
        worker_id=job.worker_id,
        worker_name=job.worker_name,
        worker_incarnation=job.worker,
        cancel_requested=job.cancel_requested,
    )


def _part(value: msgspec.Raw | None, is_asked: bool, *, open_payload: bool) -> Json:
    if not is_asked:
        return msgspec.UNSET
    return value if open_payload else None
