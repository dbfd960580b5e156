"""Executions: one try of a job. Its id is the fence of the claim that started it."""

import enum
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain.job import ErrorInfo


class ExecutionStatus(enum.StrEnum):
    QUEUED = "queued"
    STARTED = "started"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETRY_SCHEDULED = "retry_scheduled"
    DEAD_LETTER = "dead_letter"


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    job: UUID
    attempt_number: int
    status: ExecutionStatus
    worker: UUID | None  # the incarnation that ran it
    created_at: datetime
    worker_id: UUID | None = None  # whose life that was, as `workers` lists it
    worker_name: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    heartbeat_at: datetime | None = None
    timeout_at: datetime | None = None
    output: msgspec.Raw | None = None
    error: ErrorInfo | None = None
    reason: str | None = None

    @property
    def updated_at(self) -> datetime:
        return max(
            filter(None, (self.created_at, self.started_at, self.heartbeat_at, self.finished_at))
        )

    @property
    def duration_ms(self) -> float | None:
        if self.finished_at is None:
            return None
        return (self.finished_at - (self.started_at or self.created_at)).total_seconds() * 1000


class ExecutionStats(msgspec.Struct, frozen=True):
    """Of a job's tries. How long a failed one took says nothing of the work: durations are those of
    tries that succeeded."""

    count: int
    succeeded: int
    failed: int  # those that were tried again, or went to a dead letter queue, among them
    avg_duration_ms: float | None
    min_duration_ms: float | None
    max_duration_ms: float | None


FAILED = frozenset(
    {ExecutionStatus.FAILED, ExecutionStatus.RETRY_SCHEDULED, ExecutionStatus.DEAD_LETTER}
)


def stats_of(executions: Sequence[Execution]) -> ExecutionStats:
    succeeded = [one for one in executions if one.status is ExecutionStatus.SUCCEEDED]
    durations = [one.duration_ms for one in succeeded if one.duration_ms is not None]
    return ExecutionStats(
        len(executions),
        len(succeeded),
        sum(one.status in FAILED for one in executions),
        sum(durations) / len(durations) if durations else None,
        min(durations, default=None),
        max(durations, default=None),
    )


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """News of a running job: that its handler started, that it is alive, how far it is."""

    fence: UUID
    started_seconds_ago: float | None = None
    progress: float | None = None
    message: str | None = None
    # whether the handler was heard of; else only its worker says when it began, which is no
    # heartbeat
    alive: bool = True


def merge_beats(beats: Iterable[Beat]) -> list[Beat]:
    """One for each job: the first report of its start, and the newest of everything else."""
    merged: dict[UUID, Beat] = {}
    for beat in beats:
        before = merged.get(beat.fence)
        if before is not None:
            started = before.started_seconds_ago
            beat = Beat(  # noqa: PLW2901 - with what was said before
                fence=beat.fence,
                started_seconds_ago=beat.started_seconds_ago if started is None else started,
                progress=before.progress if beat.progress is None else beat.progress,
                message=before.message if beat.message is None else beat.message,
                alive=before.alive or beat.alive,
            )
        merged[beat.fence] = beat
    return list(merged.values())
