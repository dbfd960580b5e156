"""Jobs: what a user enqueues, what the store answers, and what a reader sees. The fields of a job
are described here; `docs/how-to/add-a-job-field.md` says what else a new one touches."""

import enum
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict, Unpack
from uuid import UUID

import msgspec

from taskforge.domain import requirements, rules
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid
from taskforge.domain.field_rules import CheckedBy, Number, Text, Whole, rules_of
from taskforge.domain.queue import DAY, MAX_PAYLOAD_BYTES, QueueSettings

When = datetime | float
"""A zoned instant, or seconds from now by the store's clock."""


class JobStatus(enum.StrEnum):
    PENDING = "pending"
    SCHEDULED = "scheduled"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})

TRANSITIONS: Mapping[JobStatus | None, frozenset[JobStatus | None]] = {
    None: frozenset({JobStatus.PENDING, JobStatus.SCHEDULED}),
    # Editing a pending job's time schedules it, and back; a deadline or an expiry fails a job that
    # never started.
    JobStatus.PENDING: frozenset(
        {JobStatus.PROCESSING, JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    JobStatus.SCHEDULED: frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.CANCELLED}),
    # Back to pending: a hand-back, a skip, a dead letter. To scheduled: a retry, a snooze.
    JobStatus.PROCESSING: frozenset(
        {
            JobStatus.SUCCEEDED,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
            JobStatus.SCHEDULED,
            JobStatus.PENDING,
        }
    ),
    # Out of a final status only by an operator's retry, or by deletion (None).
    JobStatus.SUCCEEDED: frozenset({None}),
    JobStatus.FAILED: frozenset({JobStatus.PENDING, None}),
    JobStatus.CANCELLED: frozenset({JobStatus.PENDING, None}),
}


class Extras(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fields that no statement of a store goes by: it keeps those that are set together, in one
    column, and gives them back to readers and handlers. All are null unless they are set."""

    trace: Annotated[str | None, Text(2_000)] = None
    # how many units of its key's rate a start takes, where the queue has `rate_limit_per_key`
    cost: Annotated[int | None, Whole(1, 1_000)] = None


KEPT_AS_IS = ("timeout_seconds", "unique_key", "idempotency_key", "fairness_key")
"""Fields with a column of their own, which has their name and their value. In the order of the
arguments of PostgreSQL's `insert.sql`."""


def _check_tags(_: str, tags: Any) -> tuple[str, ...]:
    return check_tags(tags)


def _check_requires(_: str, requires: Any) -> str:
    return requirements.canonical(requires)


class NewJob(Extras, frozen=True, kw_only=True, gc=False):
    """A job as asked for. Build it with `new_job`, which checks every rule; the engine checks the
    queue's."""

    queue: Annotated[str, Text(100)]
    job_type: Annotated[str, Text(100)]
    payload: bytes
    priority: Annotated[int, Whole(0, 9)] = 0
    max_attempts: Annotated[int | None, Whole(1, 10_000)] = None
    at: Annotated[When | None, CheckedBy(rules.moment)] = None
    deadline: Annotated[When | None, CheckedBy(rules.moment)] = None
    expires: Annotated[When | None, CheckedBy(rules.moment)] = None
    timeout_seconds: Annotated[float | None, Number(0.1, 30 * DAY)] = None
    tags: Annotated[tuple[str, ...], CheckedBy(_check_tags)] = ()
    requires: Annotated[str, CheckedBy(_check_requires)] = ""
    unique_key: Annotated[str | None, Text(255)] = None
    idempotency_key: Annotated[str | None, Text(255)] = None
    idempotency_seconds: Annotated[float, Number(1, 365 * DAY)] = 86_400.0
    # where the queue has `fairness`, its keys take turns
    fairness_key: Annotated[str | None, Text(255)] = None
    id: UUID | None = None
    note: Note | None = None  # for the audit log; no part of the job

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing but to be run, as most do: those are stored by shorter
        statements."""
        # Written out: by the list of fields it takes 0.25 µs, so 0.1.
        return (
            self.id is None
            and self.at is None
            and self.deadline is None
            and self.expires is None
            and self.timeout_seconds is None
            and self.unique_key is None
            and self.idempotency_key is None
            and self.fairness_key is None
            and self.trace is None
            and self.cost is None
            and not self.tags
        )

    def body_hash(self) -> bytes:
        """What an idempotency key stands for: the same key with another body is a mistake the user
        must hear of."""
        when = tuple(repr(value) for value in (self.at, self.deadline, self.expires))
        body = (
            self.queue,
            self.job_type,
            self.priority,
            self.max_attempts,
            when,
            self.tags,
            self.requires,
            self.unique_key,
        )
        return hashlib.sha256(msgspec.json.encode(body) + self.payload).digest()


RULES = rules_of(NewJob)
DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(NewJob)}
NO_PAYLOAD = b"{}"


class JobOptions(TypedDict, total=False):
    """What `new_job` and the SDK's `options` take under the same name."""

    max_attempts: int | None
    at: Any
    deadline: Any
    expires: Any
    requires: Mapping[str, Any] | None
    idempotency_key: str | None
    fairness_key: str | None
    trace: str | None
    cost: int | None


class NewJobOptions(JobOptions, total=False):
    priority: int
    timeout_seconds: float | None
    tags: Any
    unique_key: str | None
    idempotency_seconds: float


def new_job(
    queue: str,
    job_type: str,
    payload: Any = msgspec.UNSET,
    **options: Unpack[NewJobOptions],
) -> NewJob:
    """Check everything that does not depend on the queue, and encode the payload once. A payload
    left out is an empty object."""
    checked: dict[str, Any] = {"queue": RULES["queue"].check("queue", queue)}
    checked["job_type"] = RULES["job_type"].check("job_type", job_type)
    for name, value in options.items():
        if name not in RULES:
            raise TypeError(f"new_job() got an unexpected keyword argument {name!r}")
        if value is not DEFAULTS[name]:
            checked[name] = RULES[name].check(name, value)
    document = (
        NO_PAYLOAD
        if payload is msgspec.UNSET
        else rules.json_bytes("payload", payload, most=MAX_PAYLOAD_BYTES)
    )
    return NewJob(payload=document, **checked)


def check_tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, list | tuple | set | frozenset):
        raise Invalid("tags", f"is a {type(tags).__name__}", "use a list of texts")
    if len(tags) > 20:
        raise Invalid("tags", f"has {len(tags)} entries", "use at most 20")
    return tuple(
        dict.fromkeys(rules.text(f"tags[{index}]", tag, most=100) for index, tag in enumerate(tags))
    )


_EXTRAS = Extras.__struct_fields__
_read_extras = msgspec.json.Decoder(Extras).decode


def extras_set(job: Extras) -> dict[str, Any]:
    """The extras that are set, by name."""
    return {name: value for name in _EXTRAS if (value := getattr(job, name)) is not None}


def extras_text(job: Extras) -> str | None:
    """The extras that are set, as the store keeps them."""
    found = extras_set(job)
    return msgspec.json.encode(found).decode() if found else None


def extras_of(text: str | None) -> dict[str, Any]:
    """The extras that the store kept, by name."""
    return {} if text is None else msgspec.structs.asdict(_read_extras(text))


def cost_of(extras: str | None) -> int:
    """How many units a start of the job takes, by the extras that the store kept."""
    return 1 if extras is None else _read_extras(extras).cost or 1


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer to one insert: the job's id, and whether it was already there under the same
    key."""

    job: UUID
    existed: bool = False


class Refused(msgspec.Struct, frozen=True):
    """One job of a batch that was not inserted, and the error that says why."""

    error: Exception


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    traceback: str = ""


MAX_ERROR_CHARACTERS = 20_000


def error_info(type_name: str, message: str, traceback: str = "") -> ErrorInfo:
    """Bound what is stored, keeping the end of a traceback, where the cause is."""
    clean = [rules.storable(part) for part in (type_name, message, traceback)]
    return ErrorInfo(
        clean[0][:200], clean[1][:MAX_ERROR_CHARACTERS], clean[2][-MAX_ERROR_CHARACTERS:]
    )


class JobFacts(Extras, frozen=True):
    """What a job says of itself alike in a store and over HTTP."""

    id: UUID
    queue: str
    queue_id: UUID
    job_type: str
    status: JobStatus
    priority: int
    attempt_count: int
    max_attempts: int
    crash_count: int
    created_at: datetime
    updated_at: datetime  # the latest of the times that are known of where it stands
    scheduled_for: datetime | None = None
    timeout_at: datetime | None = None
    expires_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    timeout_seconds: float | None = None
    error: ErrorInfo | None = None
    reason: str | None = None
    progress: float | None = None
    progress_message: str | None = None
    tags: tuple[str, ...] = ()
    unique_key: str | None = None
    idempotency_key: str | None = None
    fairness_key: str | None = None
    origin_queue: str | None = None
    worker_id: UUID | None = None  # whose life `worker` is, as `workers` lists it
    worker_name: str | None = None
    cancel_requested: bool = False
    payload_erased: bool = False

    @property
    def is_dead_letter(self) -> bool:
        """Whether it stands in, or runs from, a dead letter queue: error and reason say why."""
        return self.origin_queue is not None and not self.status.is_final


class StoredJob(JobFacts, frozen=True, kw_only=True):
    """A job as a reader sees it."""

    project: int
    epoch: int
    # None: erased, not for the reader's eyes, or not asked for in a list, as `result`
    payload: msgspec.Raw | None
    result: msgspec.Raw | None = None
    requires: str = ""
    worker: UUID | None = None  # the incarnation that runs it, or ran it last


class Claimed(Extras, frozen=True, gc=False):
    """A job in a worker's hands: what the handler needs, and the fence every write about it must
    carry."""

    fence: UUID
    queue: str
    job_type: str
    payload: bytes
    attempt: int
    max_attempts: int
    crashes: int
    priority: int
    timeout_seconds: float
    heartbeat_timeout_seconds: float | None
    deadline_seconds: float | None  # seconds left until the job's deadline when it was claimed
    waited_seconds: float
    policy: QueueSettings  # what `decide` will go by
    tags: tuple[str, ...] = ()

    @property
    def must_run_alone(self) -> bool:
        return self.policy.must_run_alone(self.crashes, self.attempt, self.max_attempts)


def with_extras(job: Claimed, text: str | None) -> Claimed:
    """The claimed job with the extras that the store kept."""
    return job if text is None else msgspec.structs.replace(job, **extras_of(text))
