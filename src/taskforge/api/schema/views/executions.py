"""Executions and what they logged, as callers see them."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.execution import Execution
from taskforge.domain.job import ErrorInfo
from taskforge.domain.log import Line


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
