"""Whether a queue takes a new job, and what the answer is where its key is held already."""

from uuid import UUID

from taskforge.domain.errors import Invalid, KeyTaken, QueuePaused, TaskForgeError
from taskforge.domain.ids import is_job_id
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.queue import Queue


def refusal(job: NewJob, queue: Queue) -> TaskForgeError | None:
    """Why this queue does not take this job, if it does not."""
    if not queue.is_active and not queue.settings.accept_while_paused:
        return QueuePaused(queue.name)
    if too_large := payload_refusal(len(job.payload), queue):
        return too_large
    if job.id is not None and not is_job_id(job.id):
        return Invalid(
            "id", f"{job.id} is not a job id", "use a UUIDv7 whose last 24 bits are zero, or none"
        )
    return None


def payload_refusal(size: int, queue: Queue) -> Invalid | None:
    """Why this queue does not take a payload of so many bytes, if it does not."""
    limit = queue.settings.payload_limit_bytes
    if size <= limit:
        return None
    return Invalid(
        "payload",
        f"takes {size:,} bytes as JSON",
        f"queue {queue.name!r} allows {limit:,} (payload_limit_bytes)",
    )


def held(job: NewJob, holder: UUID, body: bytes | None) -> Inserted | Refused:
    """The answer to a job whose idempotency key stands for a job that was asked for with this
    body."""
    assert job.idempotency_key is not None
    same = body == job.body_hash()
    return (
        Inserted(holder, existed=True) if same else Refused(KeyTaken(job.idempotency_key, holder))
    )
