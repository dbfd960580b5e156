"""A job as a request over HTTP says it. The API decodes it and the client encodes it; both know a
job as `NewJob`."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.job import (
    NO_PAYLOAD,
    Extras,
    NewJob,
    When,
    extras_set,
    new_job,
)
from taskforge.domain.queue import MAX_PAYLOAD_BYTES

Time = Annotated[datetime, msgspec.Meta(tz=True)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class NewJobBody(Extras, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A job as callers write it, for the API's document."""

    queue: str
    job_type: str
    payload: Any = msgspec.field(default_factory=dict)
    priority: int = 0
    max_attempts: int | None = None
    scheduled_for: Time | None = None
    delay_seconds: Seconds | None = None
    timeout_at: Time | None = None
    deadline_seconds: Seconds | None = None
    """Instead of timeout_at: so long from now"""
    expires_at: Time | None = None
    expires_seconds: Seconds | None = None
    """Instead of expires_at: so long from now"""
    timeout_seconds: float | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    requires: dict[str, Any] | None = None
    unique_key: str | None = None
    idempotency_key: str | None = None
    fairness_key: str | None = None


class StoredBody(NewJobBody, forbid_unknown_fields=True, frozen=True):
    """The same as it is decoded and encoded: the payload stays the bytes that came, checked and
    stored without being written anew."""

    payload: msgspec.Raw = msgspec.Raw(NO_PAYLOAD)


def job_of(body: StoredBody, key: str | None = None, *, is_examined: bool = False) -> NewJob:
    """Check everything that does not depend on the queue. The payload's bytes are stored as they
    came. `key` is the idempotency key that came beside the body; `is_examined`: the payload was
    looked at before."""
    if key is not None and body.idempotency_key not in (None, key):
        raise Invalid(
            "idempotency_key", "differs from the Idempotency-Key header", "use one of them"
        )
    extras: Any = extras_set(body)
    job = new_job(
        body.queue,
        body.job_type,
        priority=body.priority,
        max_attempts=body.max_attempts,
        at=read_moment(body, "scheduled_for", "delay_seconds"),
        deadline=read_moment(body, "timeout_at", "deadline_seconds"),
        expires=read_moment(body, "expires_at", "expires_seconds"),
        timeout_seconds=body.timeout_seconds,
        tags=body.tags,
        requires=body.requires,
        unique_key=body.unique_key,
        idempotency_key=body.idempotency_key if key is None else key,
        fairness_key=body.fairness_key,
        **extras,
    )
    payload = rules.json_document(
        "payload", bytes(body.payload), most=MAX_PAYLOAD_BYTES, is_examined=is_examined
    )
    return msgspec.structs.replace(job, payload=payload)


def read_moment(body: Any, instant: str, seconds: str) -> When | None:
    """A time that is given as an instant or as seconds from now; a mistake names the field that it
    was given in."""
    at, after = getattr(body, instant), getattr(body, seconds)
    if at is not None and after is not None:
        raise Invalid(seconds, f"is given together with {instant}", "use one of them")
    if after is not None:
        return rules.moment(seconds, after)
    return None if at is None else rules.moment(instant, at)


def request_of(job: NewJob) -> StoredBody:
    """The request that asks for this job."""
    at, at_seconds = apart(job.at)
    deadline, deadline_seconds = apart(job.deadline)
    expires, expires_seconds = apart(job.expires)
    requires: Any = msgspec.Raw(job.requires.encode()) if job.requires else None
    body = StoredBody(
        queue=job.queue,
        job_type=job.job_type,
        payload=msgspec.Raw(job.payload),
        priority=job.priority,
        max_attempts=job.max_attempts,
        scheduled_for=at,
        delay_seconds=at_seconds,
        timeout_at=deadline,
        deadline_seconds=deadline_seconds,
        expires_at=expires,
        expires_seconds=expires_seconds,
        timeout_seconds=job.timeout_seconds,
        tags=list(job.tags),
        requires=requires,
        unique_key=job.unique_key,
        idempotency_key=job.idempotency_key,
        fairness_key=job.fairness_key,
    )
    extras = extras_set(job)
    return msgspec.structs.replace(body, **extras) if extras else body


def apart(when: When | None) -> tuple[datetime | None, float | None]:
    """A moment as a request says it: an instant, or seconds from now."""
    return (when, None) if isinstance(when, datetime) else (None, when)
