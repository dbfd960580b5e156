"""Rows to values and back, for PostgreSQL."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg.pgproto import pgproto

from taskforge.domain.assignment import Assignment
from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.ids import created_at, fence_of, job_of
from taskforge.domain.job import (
    KEPT_AS_IS,
    Claimed,
    ErrorInfo,
    JobStatus,
    StoredJob,
    When,
    extras_of,
    with_extras,
)
from taskforge.domain.log import Level, Line, line_id
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.worker import Worker, WorkerStatus
from taskforge.storage.catalog import Card, OpenLane, Taker

JOB_STATUSES = tuple(JobStatus)
EXECUTION_STATUSES = tuple(ExecutionStatus)
JOB_CODE = {status: code for code, status in enumerate(JOB_STATUSES)}
EXECUTION_CODE = {status: code for code, status in enumerate(EXECUTION_STATUSES)}

_errors = msgspec.json.Decoder(ErrorInfo)
_settings = msgspec.json.Decoder(QueueSettings)


def queue(row: asyncpg.Record) -> Queue:
    return Queue(
        number=row["number"],
        id=row["id"],
        project=row["project"],
        name=row["name"],
        description=row["description"],
        priority=row["priority"],
        settings=_settings.decode(row["settings"]),
        is_active=row["is_active"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
    )


def card(row: asyncpg.Record) -> Card:
    return Card(queue(row), frozenset(row["servants"]), row["buries"])


def settings_text(settings: QueueSettings) -> str:
    return msgspec.json.encode(settings).decode()


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def assignment(row: asyncpg.Record) -> Assignment:
    return Assignment(
        queue=row[0],
        worker=row[1],
        project=row[2],
        weight=row[3],
        is_active=row[4],
        created_at=row[5],
        updated_at=row[6],
    )


def taker(row: asyncpg.Record) -> Taker:
    return Taker(
        worker=row["id"],
        incarnation=row["incarnation"],
        project=row["project"],
        worker_type=row["worker_type"],
        role=row["role"],
        capabilities=msgspec.json.decode(row["capabilities"]),
        queues=None if row["queues"] is None else tuple(row["queues"]),
        types=None if row["types"] is None else tuple(row["types"]),
        accepts=row["accepts"],
    )


def claimed(row: asyncpg.Record, lane: OpenLane) -> Claimed:
    (
        fence,
        _,
        attempt,
        max_attempts,
        crashes,
        payload,
        timeout,
        beat,
        tags,
        extras,
        _,
        deadline,
        waited,
        _,
        _,
    ) = row
    job = Claimed(
        fence,
        lane.queue_name,
        lane.job_type,
        payload.encode() if payload is not None else b"null",
        attempt,
        max_attempts,
        crashes,
        lane.priority,
        timeout,
        beat,
        deadline,
        waited,
        lane.settings,
        () if tags is None else tuple(tags),
    )
    return with_extras(job, extras)


def execution(row: asyncpg.Record, fence: UUID) -> Execution:
    return Execution(
        id=fence,
        job=job_of(fence),
        attempt_number=row["attempt"],
        status=EXECUTION_STATUSES[row["status"]],
        worker=row["worker"],
        created_at=row["claimed_at"],
        worker_id=row["worker_id"],
        worker_name=row["worker_name"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        heartbeat_at=row["heartbeat_at"],
        timeout_at=row["timeout_at"],
        output=raw(row["output"]),
        error=error(row["error"]),
        reason=row["reason"],
    )


def ended(row: asyncpg.Record, job: UUID) -> Execution:
    """A row of `logs` without a number: as much as is told of an execution that is over."""
    return Execution(
        id=fence_of(job, row["epoch"]),
        job=job,
        attempt_number=row["attempt"],
        status=EXECUTION_STATUSES[row["status"]],
        worker=None,
        created_at=row["claimed_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=error(row["error"]),
        reason=row["reason"],
    )


def line(row: asyncpg.Record, job: UUID) -> Line:
    epoch, number, level, message, metadata, logged_at, *_ = row
    return Line(
        line_id(epoch, number),
        fence_of(job, epoch),
        Level(level),
        message,
        raw(metadata),
        logged_at,
    )


def error(text: str | None) -> ErrorInfo | None:
    return None if text is None else _errors.decode(text)


def error_text(info: ErrorInfo | None) -> str | None:
    return None if info is None else msgspec.json.encode(info).decode()


def raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def job(row: asyncpg.Record) -> StoredJob:
    status = JOB_STATUSES[row["status"]]
    fence: UUID | None = row["fence"]
    return StoredJob(
        id=row["id"],
        project=row["project"],
        queue=row["queue_name"],
        queue_id=row["queue_id"],
        job_type=row["job_type"],
        status=status,
        priority=row["priority"],
        attempt_count=row["attempt"],
        max_attempts=row["budget"],
        # A waiting job's fence is the one its next claim will have.
        epoch=row["epoch"]
        if fence is None
        else (fence.int & 0xFFFFFF) - (status is not JobStatus.PROCESSING),
        crash_count=row["crashes"],
        payload=raw(row["payload"]),
        created_at=created_at(row["id"]),
        updated_at=_updated_at(row, status),
        scheduled_for=row["due"],
        timeout_at=row["deadline"],
        expires_at=row["expires_at"],
        started_at=row["started_at"],
        completed_at=row["finished_at"],
        result=raw(row["result"]),
        error=error(row["error"]),
        reason=row["reason"],
        progress=row["progress"],
        progress_message=row["message"],
        tags=tuple(row["tags"] or ()),
        requires=row["requires"] or "",
        origin_queue=row["origin_name"],
        worker=row["worker"],
        worker_id=row["worker_id"],
        worker_name=row["worker_name"],
        cancel_requested=row["cancel_requested"],
        payload_erased=row["payload_erased"],
        **{name: row[name] for name in KEPT_AS_IS},
        **extras_of(row["extras"]),
    )


def _updated_at(row: asyncpg.Record, status: JobStatus) -> datetime:
    times: list[datetime | None] = [
        row[name]
        for name in (
            "edited_at",
            "last_ended_at",
            "claimed_at",
            "started_at",
            "heartbeat_at",
            "finished_at",
        )
    ]
    if status is JobStatus.PENDING:
        times.append(datetime.fromtimestamp(row["turn"] / 1e6, UTC))
    return max([created_at(row["id"]), *(time for time in times if time is not None)])


def worker(row: asyncpg.Record, now: datetime, heartbeat_timeout_seconds: float | None) -> Worker:
    slots, wished = row["max_concurrent_jobs"], row["wished_slots"]
    made = Worker(
        id=row["id"],
        incarnation=row["incarnation"],
        project=row["project"],
        name=row["name"],
        worker_type=row["worker_type"],
        role=row["role"],
        status=WorkerStatus.OFFLINE,
        capabilities=msgspec.json.decode(row["capabilities"]),
        queues=None if row["queues"] is None else tuple(row["queues"]),
        types=None if row["types"] is None else tuple(row["types"]),
        max_concurrent_jobs=slots if wished is None else wished,
        drain_mode=row["drain_mode"],
        active_jobs=row["active"],
        version=row["version"],
        host=row["host"],
        pid=row["pid"],
        cpu_percent=row["cpu_percent"],
        memory_bytes=row["memory_bytes"],
        lease_until=row["lease_until"],
        last_heartbeat=row["heartbeat_at"],
        registered_at=row["registered_at"],
        updated_at=row["updated_at"],
        healthy=row["healthy"],
        stuck_slots=row["stuck_slots"],
        blocking=row["blocking"],
        started_as=row["given_name"],
        started_slots=slots,
        stopping=row["stopping"],
    )
    return made.judged(now, heartbeat_timeout_seconds)


def uuid(number: int) -> UUID:
    """The driver's own kind of UUID, made and sent in half the time of the standard library's."""
    return pgproto.UUID(number.to_bytes(16))


def instant(when: When | None) -> datetime | None:
    return when if isinstance(when, datetime) else None


def seconds(when: When | None) -> float | None:
    return None if when is None or isinstance(when, datetime) else when


def array_literal(values: Iterable[str]) -> str | None:
    """A text[] as PostgreSQL writes it: a list of such lists cannot be ragged, a list of texts
    can."""
    escaped = ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]
    return "{" + ",".join(escaped) + "}" if escaped else None


def shared(column: list[Any]) -> tuple[list[Any] | None, Any]:
    """A column as an array, or as the one value that all its rows have: the driver checks every
    element of an array."""
    return (None, column[0]) if column.count(column[0]) == len(column) else (column, None)


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows of so many values as arrays."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width
