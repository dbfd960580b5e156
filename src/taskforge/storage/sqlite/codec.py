"""Values to columns and back, for SQLite: microseconds, 16-byte ids, JSON text."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment
from taskforge.domain.execution import Execution, ExecutionStatus
from taskforge.domain.ids import created_at, fence_of, job_of, uuid_from_bytes
from taskforge.domain.job import KEPT_AS_IS, ErrorInfo, JobStatus, StoredJob, When, extras_of
from taskforge.domain.log import Level, Line, line_id
from taskforge.domain.queue import Queue, QueueSettings
from taskforge.domain.worker import Worker, WorkerStatus
from taskforge.storage.catalog import Card, Taker

Row = tuple[Any, ...]

JOB_STATUSES = tuple(JobStatus)
EXECUTION_STATUSES = tuple(ExecutionStatus)
JOB_CODE = {status: code for code, status in enumerate(JOB_STATUSES)}
EXECUTION_CODE = {status: code for code, status in enumerate(EXECUTION_STATUSES)}
SECOND = 1_000_000

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_errors = msgspec.json.Decoder(ErrorInfo)
_settings = msgspec.json.Decoder(QueueSettings)
_texts = msgspec.json.Decoder(tuple[str, ...])
_encode = msgspec.json.Encoder().encode


# --- Time ---


def micros(moment: datetime) -> int:
    return (moment - _ORIGIN) // _TICK


def moment(value: int) -> datetime:
    return _ORIGIN + timedelta(microseconds=value)


def maybe_moment(value: int | None) -> datetime | None:
    return None if value is None else _ORIGIN + timedelta(microseconds=value)


def span(seconds: float) -> int:
    return round(seconds * SECOND)


def at(when: When | None, now: int) -> int | None:
    """An instant, or seconds from now, as a column's value."""
    if when is None:
        return None
    return micros(when) if isinstance(when, datetime) else now + round(when * SECOND)


def earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


# --- Lists, JSON, ids ---


def json(value: Any) -> str:
    return _encode(value).decode()


@lru_cache(maxsize=4_096)
def positions(count: int) -> str:
    """`[0, 0, …]`: statements walk it beside a blob that holds `count` ids one behind the other."""
    return "[" + ",".join("0" * count) + "]"


def apart(joined: str | None) -> list[bytes]:
    """Ids that a statement has put one behind the other, in hexadecimal."""
    whole = bytes.fromhex(joined or "")
    return [whole[start : start + 16] for start in range(0, len(whole), 16)]


def ids(values: Iterable[UUID]) -> bytes:
    return b"".join([value.bytes for value in values])


def job_bytes(fence: bytes) -> bytes:
    return fence[:13] + b"\0\0\0"


def epoch(fence: bytes) -> int:
    return int.from_bytes(fence[13:])


def next_fence(fence: bytes) -> bytes:
    return (int.from_bytes(fence) + 1).to_bytes(16)


def maybe_uuid(value: bytes | None) -> UUID | None:
    return None if value is None else uuid_from_bytes(value)


def maybe_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def error_text(info: ErrorInfo | None) -> str | None:
    return None if info is None else _encode(info).decode()


def error(text: str | None) -> ErrorInfo | None:
    return None if text is None else _errors.decode(text)


def raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def texts(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else _texts.decode(text)


# --- Rows ---


def queue(row: Row) -> Queue:
    return Queue(
        number=row[0],
        id=uuid_from_bytes(row[1]),
        project=row[2],
        name=row[3],
        description=row[4],
        priority=row[5],
        settings=_settings.decode(row[6]),
        is_active=bool(row[7]),
        version=row[8],
        created_at=moment(row[9]),
        updated_at=moment(row[10]),
        deleted_at=maybe_moment(row[11]),
    )


def card(row: Row) -> Card:
    return Card(queue(row), frozenset(map(uuid_from_bytes, apart(row[12]))), bool(row[13]))


def identifier_bytes(text: str) -> bytes | None:
    """The id that is written there, if it is one."""
    try:
        identifier = UUID(text)
    except ValueError:
        return None
    return identifier.bytes if str(identifier) == text.lower() else None


def assignment(row: Row) -> Assignment:
    return Assignment(
        queue=uuid_from_bytes(row[0]),
        worker=uuid_from_bytes(row[1]),
        project=row[2],
        weight=row[3],
        is_active=bool(row[4]),
        created_at=moment(row[5]),
        updated_at=moment(row[6]),
    )


def taker(row: Row) -> Taker:
    (
        identity,
        incarnation,
        project,
        worker_type,
        role,
        capabilities,
        queues,
        types,
        drains,
        healthy,
    ) = row
    return Taker(
        worker=uuid_from_bytes(identity),
        incarnation=uuid_from_bytes(incarnation),
        project=project,
        worker_type=worker_type,
        role=role,
        capabilities=msgspec.json.decode(capabilities),
        queues=texts(queues),
        types=texts(types),
        accepts=bool(healthy and not drains),
    )


def job(row: Sequence[Any]) -> StoredJob:
    """A row of `get` or `list`, by name."""
    status = JOB_STATUSES[row["status"]]  # type: ignore[call-overload]
    value: Any = row
    identifier = uuid_from_bytes(value["id"])
    fence = value["fence"]
    return StoredJob(
        id=identifier,
        project=value["project"],
        queue=value["queue_name"],
        queue_id=uuid_from_bytes(value["queue_id"]),
        job_type=value["job_type"],
        status=status,
        priority=value["priority"],
        attempt_count=value["attempt"],
        max_attempts=value["budget"],
        # A waiting job's fence is the one its next claim will have.
        epoch=value["epoch"]
        if fence is None
        else epoch(fence) - (status is not JobStatus.PROCESSING),
        crash_count=value["crashes"],
        payload=raw(value["payload"]),
        created_at=created_at(identifier),
        updated_at=_updated_at(value, created_at(identifier), status),
        scheduled_for=maybe_moment(value["due"]),
        timeout_at=maybe_moment(value["deadline"]),
        expires_at=maybe_moment(value["expires_at"]),
        started_at=maybe_moment(value["started_at"]),
        completed_at=maybe_moment(value["finished_at"]),
        result=raw(value["result"]),
        error=error(value["error"]),
        reason=value["reason"],
        progress=value["progress"],
        progress_message=value["message"],
        tags=texts(value["tags"]) or (),
        requires=value["requires"] or "",
        origin_queue=value["origin_name"],
        worker=maybe_uuid(value["worker"]),
        worker_id=maybe_uuid(value["worker_id"]),
        worker_name=value["worker_name"],
        cancel_requested=bool(value["cancel_requested"]),
        payload_erased=bool(value["payload_erased"]),
        **{name: value[name] for name in KEPT_AS_IS},
        **extras_of(value["extras"]),
    )


def _updated_at(row: Any, created: datetime, status: JobStatus) -> datetime:
    names = [
        "edited_at",
        "last_ended_at",
        "claimed_at",
        "started_at",
        "heartbeat_at",
        "finished_at",
    ]
    names += ["turn"] if status is JobStatus.PENDING else []
    return max([created, *(moment(row[name]) for name in names if row[name] is not None)])


def execution(row: Row) -> Execution:
    fence = uuid_from_bytes(row[0])
    return Execution(
        id=fence,
        job=job_of(fence),
        attempt_number=row[1],
        status=EXECUTION_STATUSES[row[2]],
        worker=maybe_uuid(row[3]),
        created_at=moment(row[4]),
        started_at=maybe_moment(row[5]),
        finished_at=maybe_moment(row[6]),
        heartbeat_at=maybe_moment(row[7]),
        timeout_at=maybe_moment(row[8]),
        output=raw(row[9]),
        error=error(row[10]),
        reason=row[11],
        worker_id=maybe_uuid(row[12]),
        worker_name=row[13],
    )


def ended(row: Row, job: UUID) -> Execution:
    """A row of `ends`: as much as is told of an execution that is over."""
    epoch_number, attempt, status, claimed_at, started_at, finished_at, error_json, reason = row
    return Execution(
        id=fence_of(job, epoch_number),
        job=job,
        attempt_number=attempt,
        status=EXECUTION_STATUSES[status],
        worker=None,
        created_at=moment(claimed_at),
        started_at=maybe_moment(started_at),
        finished_at=moment(finished_at),
        error=error(error_json),
        reason=reason,
    )


def line(row: Row, job: UUID) -> Line:
    epoch_number, number, level, message, metadata, logged_at = row
    fence = fence_of(job, epoch_number)
    return Line(
        line_id(epoch_number, number),
        fence,
        Level(level),
        message,
        raw(metadata),
        moment(logged_at),
    )


def worker(row: Any, now: int, steady: int) -> Worker:
    """A row of the statement `workers`, by name. `steady`: now by the clock that leases go by."""
    slots, wished = row["max_concurrent_jobs"], row["wished_slots"]
    made = Worker(
        id=uuid_from_bytes(row["id"]),
        incarnation=uuid_from_bytes(row["incarnation"]),
        project=row["project"],
        name=row["name"],
        worker_type=row["worker_type"],
        role=row["role"],
        status=WorkerStatus.OFFLINE,
        capabilities=msgspec.json.decode(row["capabilities"]),
        queues=texts(row["queues"]),
        types=texts(row["types"]),
        max_concurrent_jobs=slots if wished is None else wished,
        drain_mode=bool(row["drain_mode"]),
        active_jobs=row["active"],
        version=row["version"],
        host=row["host"],
        pid=row["pid"],
        cpu_percent=row["cpu_percent"],
        memory_bytes=row["memory_bytes"],
        lease_until=moment(row["lease_until"] - steady + now),
        last_heartbeat=maybe_moment(row["heartbeat_at"]),
        registered_at=moment(row["registered_at"]),
        updated_at=moment(row["updated_at"]),
        healthy=bool(row["healthy"]),
        stuck_slots=row["stuck_slots"],
        blocking=None if row["blocking"] is None else uuid_from_bytes(row["blocking"]),
        started_as=row["given_name"],
        started_slots=slots,
        stopping=bool(row["stopping"]),
    )
    return made.judged(moment(now), None)
