"""How one job is enqueued, beyond its arguments."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack, cast

import msgspec

from taskforge.domain.errors import Invalid
from taskforge.domain.job import JobOptions, NewJob, NewJobOptions, check_tags, new_job
from taskforge.worker.registry import Handler


class Priority(enum.IntEnum):
    """Names for the levels most people need; any number from 0 to 9 will do."""

    LOW = 2
    NORMAL = 5
    HIGH = 7
    CRITICAL = 9


class EnqueueOptions(JobOptions, total=False):
    """What `options` takes. Left out or None: as the handler says."""

    queue: str | None
    priority: int | None
    delay: Any
    unique: str | None
    timeout: float | None
    tags: tuple[str, ...]


_RENAMED = {"delay": "at", "unique": "unique_key", "timeout": "timeout_seconds"}


class HandlerOptions(TypedDict, total=False):
    """What `forge.job` takes: how the function is run, and how its jobs are enqueued unless
    `options` says otherwise."""

    queue: str
    job_type: str | None
    kind: str | None
    priority: int
    max_attempts: int | None
    timeout: float | None
    tags: tuple[str, ...]
    requires: Mapping[str, Any] | None
    aliases: tuple[str, ...]
    depends_on: Sequence[str]


class Options:
    """The options of one enqueue, which the handler's own complete."""

    def __init__(self, **given: Unpack[EnqueueOptions]) -> None:
        for name in given:
            if name not in EnqueueOptions.__annotations__:
                raise TypeError(f"options() got an unexpected keyword argument {name!r}")
        self._given = given

    def build(self, handler: Handler, payload: bytes) -> NewJob:
        given: dict[str, Any] = {
            _RENAMED.get(name, name): value
            for name, value in self._given.items()
            if value is not None
        }
        if self._given.get("at") is not None and self._given.get("delay") is not None:
            raise Invalid("delay", "is given together with at", "use one of them")
        queue = given.pop("queue", None) or handler.queue
        options = {
            "priority": handler.priority,
            "max_attempts": handler.max_attempts,
            "timeout_seconds": handler.timeout,
            **given,
            "tags": (*check_tags(handler.tags), *check_tags(given.get("tags", ()))),
            "requires": given.get("requires") or handler.requires,
        }
        options["priority"] = int(options["priority"])
        job = new_job(queue, handler.job_type, **cast("NewJobOptions", options))
        return msgspec.structs.replace(job, payload=payload)
