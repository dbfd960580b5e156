"""What workers and the server say to each other: the bodies and answers of
docs/reference/worker-protocol.md, which rules, and how they stand for the domain's own values.
Pure, so that both sides share it."""

from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.custom_value import CustomSum
from taskforge.domain.errors import Invalid
from taskforge.domain.execution import Beat
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import reason_text
from taskforge.domain.queue import QueueSettings
from taskforge.domain.wire_outcome import AnyWireOutcome
from taskforge.domain.worker import NewWorker

MOST_AT_ONCE = 1_000  # jobs, outcomes, beats or lines in one call
MOST_WAIT_SECONDS = 60.0
HELD_SECONDS = 60.0  # for so long after a lost answer a claim says what its worker holds
MAX_METADATA_BYTES = 1 << 16
_LEVELS = {level.name.lower(): level for level in Level}


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a worker sends. A name that means nothing is a mistake it must hear of."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answers. Names that are not known here are newer than we are."""


# --- A worker's life ---


class Register(Body, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    queues: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    max_concurrent_jobs: int = 10
    capabilities: dict[str, Any] = {}
    worker_type: str = "general"
    role: str | None = None
    version: str = ""
    host: str = ""
    pid: int | None = None
    machine: str = ""
    pid_started: str = ""
    depends_on: dict[str, tuple[str, ...]] = {}
    lease_seconds: float = 15.0


class WireEarlier(Answer, frozen=True, kw_only=True):
    incarnation: UUID
    pid: int
    pid_started: str


class WorkerRegistered(Answer, frozen=True, kw_only=True):
    worker: UUID
    incarnation: UUID
    lease_seconds: float
    heartbeat_seconds: float
    earlier: tuple[WireEarlier, ...] = ()


class Heartbeat(Body, frozen=True, kw_only=True, omit_defaults=True):
    incarnation: UUID
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    healthy: bool = True
    stopping: bool = False
    stuck_slots: int = 0
    blocking: UUID | None = None
    lease_seconds: float | None = None  # from now on; null: as it registered


class HeartbeatAnswer(Answer, frozen=True, kw_only=True):
    drain: bool
    slots: int | None = None  # how many jobs it may run at once, which operators can change
    cancelled: tuple[UUID, ...] = ()
    cancel_reasons: dict[UUID, str] = {}


class Deregister(Body, frozen=True, kw_only=True, omit_defaults=True):
    incarnation: UUID
    died: bool = False  # said by whoever outlived it: what it still holds goes to others at once


# --- Jobs ---


class ClaimBody(Body, frozen=True, kw_only=True):
    incarnation: UUID
    limit: int = 1
    wait_seconds: float = 0.0
    held: tuple[UUID, ...] | None = None
    # so many of its executions have ended and are being reported: they take no slot
    reporting: int = 0


class WireJob(Answer, frozen=True, kw_only=True):
    execution: UUID
    job: UUID
    queue: str
    job_type: str
    payload: msgspec.Raw
    attempt: int
    max_attempts: int
    crashes: int
    max_crashes: int = QueueSettings().max_crashes
    priority: int
    timeout_seconds: float
    heartbeat_timeout_seconds: float | None = None
    deadline_seconds: float | None = None
    waited_seconds: float = 0.0
    tags: tuple[str, ...] = ()
    trace: str | None = None
    cost: int | None = None


class ClaimAnswer(Answer, frozen=True, kw_only=True):
    jobs: tuple[WireJob, ...] = ()


class WireCompletion(Body, frozen=True, kw_only=True):
    execution: UUID
    outcome: AnyWireOutcome
    ran_seconds: float | None = None


class CompleteBody(Body, frozen=True, kw_only=True):
    incarnation: UUID
    outcomes: tuple[WireCompletion, ...]


class WireBeat(Body, frozen=True, kw_only=True):
    execution: UUID
    started_seconds_ago: float | None = None
    progress: float | None = None
    message: str | None = None
    alive: bool = True  # false: the handler was not heard of, only its start is told


class BeatsBody(Body, frozen=True, kw_only=True):
    incarnation: UUID
    beats: tuple[WireBeat, ...]


class WireLine(Body, frozen=True, kw_only=True):
    execution: UUID
    message: str
    level: str = "info"
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    seconds_ago: float = 0.0


class LinesBody(Body, frozen=True, kw_only=True):
    incarnation: UUID
    lines: tuple[WireLine, ...]


class CountBody(Body, frozen=True, kw_only=True):
    incarnation: UUID
    values: tuple[CustomSum, ...]


class LostAnswer(Answer, frozen=True, kw_only=True):
    lost: tuple[UUID, ...] = ()


# --- Between the wire and the domain ---


def new_worker(body: Register) -> NewWorker:
    return NewWorker(**{name: getattr(body, name) for name in NewWorker.__struct_fields__})


def register_body(worker: NewWorker, lease_seconds: float) -> Register:
    return Register(**msgspec.structs.asdict(worker), lease_seconds=lease_seconds)


def wire_job(job: Claimed) -> WireJob:
    return WireJob(
        execution=job.fence,
        job=job_of(job.fence),
        queue=job.queue,
        job_type=job.job_type,
        payload=msgspec.Raw(job.payload),
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        crashes=job.crashes,
        max_crashes=job.policy.max_crashes,
        priority=job.priority,
        timeout_seconds=job.timeout_seconds,
        heartbeat_timeout_seconds=job.heartbeat_timeout_seconds,
        deadline_seconds=job.deadline_seconds,
        waited_seconds=job.waited_seconds,
        tags=job.tags,
        trace=job.trace,
        cost=job.cost,
    )


@lru_cache
def _policy(max_crashes: int) -> QueueSettings:
    """A worker over HTTP decides nothing, the server knows the queue's policy; but which jobs to
    run alone it must know."""
    return QueueSettings(max_crashes=max_crashes)


def claimed(job: WireJob) -> Claimed:
    return Claimed(
        fence=job.execution,
        queue=job.queue,
        job_type=job.job_type,
        payload=bytes(job.payload),
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        crashes=job.crashes,
        priority=job.priority,
        timeout_seconds=job.timeout_seconds,
        heartbeat_timeout_seconds=job.heartbeat_timeout_seconds,
        deadline_seconds=job.deadline_seconds,
        waited_seconds=job.waited_seconds,
        policy=_policy(job.max_crashes),
        tags=job.tags,
        trace=job.trace,
        cost=job.cost,
    )


def ran_of(wire: WireCompletion) -> float | None:
    ran = wire.ran_seconds
    return None if ran is None else rules.number("ran_seconds", ran, 0, rules.MAX_SECONDS)


def beat_of(wire: WireBeat) -> Beat:
    ago, progress = wire.started_seconds_ago, wire.progress
    return Beat(
        fence=wire.execution,
        started_seconds_ago=None
        if ago is None
        else rules.number("started_seconds_ago", ago, 0, rules.MAX_SECONDS),
        progress=None if progress is None else rules.number("progress", progress, 0, 1),
        message=None if wire.message is None else reason_text(wire.message),
        alive=wire.alive,
    )


def wire_beat(beat: Beat) -> WireBeat:
    return WireBeat(
        execution=beat.fence,
        started_seconds_ago=beat.started_seconds_ago,
        progress=beat.progress,
        message=beat.message,
        alive=beat.alive,
    )


def line_of(wire: WireLine) -> NewLine:
    if wire.level not in _LEVELS:
        raise Invalid("level", f"is {wire.level[:20]!r}", "use one of " + ", ".join(_LEVELS))
    metadata = None
    if not isinstance(wire.metadata, msgspec.UnsetType):
        metadata = rules.json_document("metadata", bytes(wire.metadata), most=MAX_METADATA_BYTES)
    seconds_ago = rules.number("seconds_ago", wire.seconds_ago, 0, rules.MAX_SECONDS)
    return NewLine(
        wire.execution,
        _LEVELS[wire.level],
        wire.message,
        None if metadata == b"null" else metadata,
        seconds_ago,
    )


def wire_line(line: NewLine) -> WireLine:
    metadata = msgspec.UNSET if line.metadata is None else msgspec.Raw(line.metadata)
    level = Level(line.level).name.lower()
    return WireLine(
        execution=line.fence,
        message=line.message,
        level=level,
        metadata=metadata,
        seconds_ago=line.seconds_ago,
    )
