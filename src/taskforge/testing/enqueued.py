"""What was enqueued, with its arguments decoded, and whether it is what a test expected."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.decoded import DecodedJob, decode_job
from taskforge.domain.errors import Invalid
from taskforge.domain.job import StoredJob
from taskforge.sdk.job_classes import Job
from taskforge.sdk.jobs import Enqueuer
from taskforge.worker.registry import Handler, Registry

Wanted = Enqueuer[..., Any] | type[Job] | str | None
"""What a test asks for: a decorated handler, a job class, the name of a job type, or everything."""


class EnqueuedJob(msgspec.Struct, frozen=True):
    """A job that waits to run. `arguments` are what its handler will be called with, defaults
    included."""

    id: UUID
    job_type: str
    queue: str
    priority: int
    arguments: dict[str, Any]
    scheduled_for: datetime | None
    max_attempts: int
    tags: tuple[str, ...]
    unique: str | None
    job: DecodedJob

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        when = (
            "" if self.scheduled_for is None else f", at {self.scheduled_for:%Y-%m-%d %H:%M:%S %Z}"
        )
        return f"{self.job_type}({given}) in queue {self.queue!r}, priority {self.priority}{when}"


# What `assert_enqueued` can compare besides arguments. A handler's argument of the same name is
# meant first.
_OPTIONS: Mapping[str, Callable[[EnqueuedJob], Any]] = {
    "queue": lambda one: one.queue,
    "priority": lambda one: one.priority,
    "tags": lambda one: one.tags,
    "unique": lambda one: one.unique,
    "max_attempts": lambda one: one.max_attempts,
    "scheduled_for": lambda one: one.scheduled_for,
}


def type_of(wanted: Wanted) -> str | None:
    if wanted is None or isinstance(wanted, str):
        return wanted
    if isinstance(wanted, Enqueuer):
        return wanted.handler.job_type
    return wanted.job_type or wanted.__name__


def decoded(job: StoredJob, registry: Registry) -> EnqueuedJob:
    return EnqueuedJob(
        id=job.id,
        job_type=job.job_type,
        queue=job.queue,
        priority=job.priority,
        arguments=_arguments(job, registry.get(job.job_type)),
        scheduled_for=job.scheduled_for,
        max_attempts=job.max_attempts,
        tags=job.tags,
        unique=job.unique_key,
        job=decode_job(job),
    )


def _arguments(job: StoredJob, handler: Handler | None) -> dict[str, Any]:
    payload = b"null" if job.payload is None else bytes(job.payload)
    if handler is not None:
        try:
            values = msgspec.json.decode(payload, type=handler.arguments)
        except msgspec.ValidationError:
            # it was enqueued by name, past its handler: shown as it is, and its handler will refuse
            # it
            pass
        else:
            return {name: getattr(values, name) for name in values.__struct_fields__}
    plain = msgspec.json.decode(payload)
    return plain if isinstance(plain, dict) else {"payload": plain}


def check_names(
    wanted: Wanted,
    registry: Registry,
    arguments: Mapping[str, Any],
    expected: Mapping[str, Any],
    own: Sequence[str],
) -> None:
    """A name that is neither an argument nor an option is the test's mistake. `own` are the names
    that `assert_enqueued` was given for itself: where the handler has an argument of that name,
    nobody can say which one is meant."""
    job_type = type_of(wanted)
    handler = None if job_type is None else registry.get(job_type)
    if handler is None:
        return
    known = set(handler.arguments.__struct_fields__)
    for name in own:
        if name in known and name not in arguments:
            says = (
                f"compare the argument with arguments={{{name!r}: …}}; the jobs that this "
                f"returns can be counted"
            )
            raise Invalid(name, f"is an argument of {job_type} too", says)
    for name in (*arguments, *expected):
        if name not in known and (name not in _OPTIONS or name in arguments):
            takes = ", ".join([*sorted(known), *(one for one in _OPTIONS if one not in known)])
            raise Invalid(name, f"is no argument of {job_type}", f"compare one of: {takes}")


def matching(
    waiting: Sequence[EnqueuedJob],
    wanted: Wanted,
    arguments: Mapping[str, Any],
    expected: Mapping[str, Any],
) -> list[EnqueuedJob]:
    """Those of the wanted type whose arguments and options are as expected."""
    job_type = type_of(wanted)

    def fits(one: EnqueuedJob) -> bool:
        return all(
            name in one.arguments and one.arguments[name] == value
            for name, value in arguments.items()
        ) and all(
            one.arguments.get(name) == value
            if name in one.arguments or name not in _OPTIONS
            else _OPTIONS[name](one) == value
            for name, value in expected.items()
        )

    return [one for one in waiting if job_type in (None, one.job_type) and fits(one)]


def complaint(
    waiting: Sequence[EnqueuedJob],
    wanted: Wanted,
    expected: Mapping[str, Any],
    found: int,
    count: int | None,
) -> str:
    """Why an assertion failed, with everything that was there: the nearest miss is usually the
    answer."""
    given = ", ".join(f"{name}={value!r}" for name, value in expected.items())
    subject = f"{type_of(wanted) or 'any job'}({given})"
    first = (
        f"no job {subject} is waiting."
        if count is None
        else f"{found} jobs {subject} are waiting, not {count}."
    )
    there = "".join(f"\n  {one}" for one in waiting) if waiting else " nothing"
    return f"{first} Waiting:{there}"
