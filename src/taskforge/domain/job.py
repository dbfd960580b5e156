"""Jobs: what a user enqueues, what the store answers, and what a reader sees. The transition table at the end is the truth."""

import enum
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, overload
from uuid import UUID

import msgspec

from taskforge.domain import requirements, rules
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, KeyTaken, QueuePaused, TaskForgeError
from taskforge.domain.ids import is_job_id
from taskforge.domain.queue import MAX_PAYLOAD_BYTES, Queue, QueueSettings

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
    # Editing a pending job's time schedules it, and back; a deadline or an expiry fails a job that never started.
    JobStatus.PENDING: frozenset({JobStatus.PROCESSING, JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.SCHEDULED: frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.CANCELLED}),
    # Back to pending: a hand-back, a skip, a dead letter. To scheduled: a retry, a snooze.
    JobStatus.PROCESSING: frozenset(
        {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.SCHEDULED, JobStatus.PENDING}
    ),
    # Out of a final status only by an operator's retry, or by deletion (None).
    JobStatus.SUCCEEDED: frozenset({None}),
    JobStatus.FAILED: frozenset({JobStatus.PENDING, None}),
    JobStatus.CANCELLED: frozenset({JobStatus.PENDING, None}),
}


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as asked for. Build it with `new_job`, which checks every rule; the engine checks the queue's."""

    queue: str
    job_type: str
    payload: bytes
    priority: int = 0
    max_attempts: int | None = None
    at: When | None = None
    deadline: When | None = None
    expires: When | None = None
    timeout_seconds: float | None = None
    tags: tuple[str, ...] = ()
    requires: str = ""
    unique_key: str | None = None
    idempotency_key: str | None = None
    idempotency_seconds: float = 86_400.0
    fairness_key: str | None = None
    trace: str | None = None
    id: UUID | None = None
    note: Note | None = None  # for the audit log; no part of the job

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing but to be run, as most do: those are stored by shorter statements."""
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
            and not self.tags
        )

    def body_hash(self) -> bytes:
        """What an idempotency key stands for: the same key with another body is a mistake the user must hear of."""
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


NO_PAYLOAD = b"{}"
LARGE_CALL = 200
"""So many jobs gain nothing by sharing a statement with other calls, and lose what is known of jobs that are alike."""


class Alike(Sequence[NewJob]):
    """Jobs that differ in their payloads alone. Engines that know of it store them column by column, half of the work."""

    __slots__ = ("payloads", "template")

    def __init__(self, template: NewJob, payloads: Sequence[bytes]) -> None:
        self.template = template
        self.payloads = payloads

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[NewJob]:
        return map(self._with, self.payloads)

    @overload
    def __getitem__(self, index: int) -> NewJob: ...
    @overload
    def __getitem__(self, index: slice) -> "Alike": ...
    def __getitem__(self, index: int | slice) -> "NewJob | Alike":
        if isinstance(index, slice):
            return Alike(self.template, self.payloads[index])
        return self._with(self.payloads[index])

    def longest(self) -> NewJob:
        """If any of them is refused, this one is."""
        return self._with(max(self.payloads, key=len))

    def _with(self, payload: bytes) -> NewJob:
        return msgspec.structs.replace(self.template, payload=payload)


def new_job(
    queue: str,
    job_type: str,
    payload: Any = msgspec.UNSET,
    *,
    priority: int = 0,
    max_attempts: int | None = None,
    at: Any = None,
    deadline: Any = None,
    expires: Any = None,
    timeout_seconds: float | None = None,
    tags: Any = (),
    requires: Mapping[str, Any] | None = None,
    unique_key: str | None = None,
    idempotency_key: str | None = None,
    idempotency_seconds: float = 86_400.0,
    fairness_key: str | None = None,
    trace: str | None = None,
) -> NewJob:
    """Check everything that does not depend on the queue, and encode the payload once. A payload left out is an empty object."""
    rules.text("queue", queue, most=100)
    rules.text("job_type", job_type, most=100)
    rules.integer("priority", priority, 0, 9)
    if max_attempts is not None:
        rules.integer("max_attempts", max_attempts, 1, 10_000)
    if timeout_seconds is not None:
        timeout_seconds = rules.number("timeout_seconds", timeout_seconds, 0.1, 30 * 86_400)
    for name, key in (("unique_key", unique_key), ("idempotency_key", idempotency_key), ("fairness_key", fairness_key)):
        if key is not None:
            rules.text(name, key, most=255)
    return NewJob(
        queue=queue,
        job_type=job_type,
        payload=NO_PAYLOAD if payload is msgspec.UNSET else rules.json_bytes("payload", payload, most=MAX_PAYLOAD_BYTES),
        priority=priority,
        max_attempts=max_attempts,
        at=None if at is None else rules.moment("at", at),
        deadline=None if deadline is None else rules.moment("deadline", deadline),
        expires=None if expires is None else rules.moment("expires", expires),
        timeout_seconds=timeout_seconds,
        tags=check_tags(tags),
        requires=requirements.canonical(requires),
        unique_key=unique_key,
        idempotency_key=idempotency_key,
        idempotency_seconds=rules.number("idempotency_seconds", idempotency_seconds, 1, 365 * 86_400),
        fairness_key=fairness_key,
        trace=None if trace is None else rules.text("trace", trace, most=2_000),
    )


def refusal(job: NewJob, queue: Queue) -> TaskForgeError | None:
    """Why this queue does not take this job, if it does not."""
    if not queue.is_active and not queue.settings.accept_while_paused:
        return QueuePaused(queue.name)
    if too_large := payload_refusal(len(job.payload), queue):
        return too_large
    if job.id is not None and not is_job_id(job.id):
        return Invalid("id", f"{job.id} is not a job id", "use a UUIDv7 whose last 24 bits are zero, or none")
    return None


def payload_refusal(size: int, queue: Queue) -> Invalid | None:
    """Why this queue does not take a payload of so many bytes, if it does not."""
    limit = queue.settings.payload_limit_bytes
    if size <= limit:
        return None
    return Invalid("payload", f"takes {size:,} bytes as JSON", f"queue {queue.name!r} allows {limit:,} (payload_limit_bytes)")


def check_tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, list | tuple | set | frozenset):
        raise Invalid("tags", f"is a {type(tags).__name__}", "use a list of texts")
    if len(tags) > 20:
        raise Invalid("tags", f"has {len(tags)} entries", "use at most 20")
    return tuple(dict.fromkeys(rules.text(f"tags[{index}]", tag, most=100) for index, tag in enumerate(tags)))


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer to one insert: the job's id, and whether it was already there under the same key."""

    job: UUID
    existed: bool = False


class Refused(msgspec.Struct, frozen=True):
    """One job of a batch that was not inserted, and the error that says why."""

    error: Exception


def held(job: NewJob, holder: UUID, body: bytes | None) -> Inserted | Refused:
    """The answer to a job whose idempotency key stands for a job that was asked for with this body."""
    assert job.idempotency_key is not None
    same = body == job.body_hash()
    return Inserted(holder, existed=True) if same else Refused(KeyTaken(job.idempotency_key, holder))


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    traceback: str = ""


MAX_ERROR_CHARACTERS = 20_000


def error_info(type_name: str, message: str, traceback: str = "") -> ErrorInfo:
    """Bound what is stored, keeping the end of a traceback, where the cause is."""
    clean = [rules.storable(part) for part in (type_name, message, traceback)]
    return ErrorInfo(clean[0][:200], clean[1][:MAX_ERROR_CHARACTERS], clean[2][-MAX_ERROR_CHARACTERS:])


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a reader sees it."""

    id: UUID
    project: int
    queue: str
    queue_id: UUID
    job_type: str
    status: JobStatus
    priority: int
    attempt_count: int
    max_attempts: int
    epoch: int
    crash_count: int
    payload: msgspec.Raw | None  # None: erased, or not for the reader's eyes
    created_at: datetime
    updated_at: datetime  # the latest of the times that are known of where it stands
    scheduled_for: datetime | None = None
    timeout_at: datetime | None = None
    expires_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    timeout_seconds: float | None = None
    result: msgspec.Raw | None = None
    error: ErrorInfo | None = None
    reason: str | None = None
    progress: float | None = None
    progress_message: str | None = None
    tags: tuple[str, ...] = ()
    requires: str = ""
    unique_key: str | None = None
    idempotency_key: str | None = None
    fairness_key: str | None = None
    trace: str | None = None
    origin_queue: str | None = None
    worker: UUID | None = None  # the incarnation that runs it, or ran it last
    worker_id: UUID | None = None  # whose life that is, as `workers` lists it
    worker_name: str | None = None
    cancel_requested: bool = False
    payload_erased: bool = False

    @property
    def is_dead_letter(self) -> bool:
        """Whether it stands in, or runs from, a dead letter queue: error and reason say why."""
        return self.origin_queue is not None and not self.status.is_final


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A job in a worker's hands: what the handler needs, and the fence every write about it must carry."""

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
    trace: str | None = None

    @property
    def must_run_alone(self) -> bool:
        """Whether the next crash would be its last: nothing that runs beside it may then be the one that kills."""
        return self.crashes > 0 and self.crashes >= self.policy.max_crashes - 1
