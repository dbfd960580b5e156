"""Which worker may take which job: the one rule, for claims and for whoever asks why a job
waits."""

import enum
from collections.abc import Collection, Container, Mapping
from typing import Any
from uuid import UUID

from taskforge.domain.queue import Queue
from taskforge.domain.requirements import meets


class Hindrance(enum.StrEnum):
    """Why a worker does not take a job."""

    NOT_SUBSCRIBED = "not_subscribed"
    NOT_ASSIGNED = "not_assigned"
    DEAD_LETTERS = "dead_letters"
    NO_HANDLER = "no_handler"
    LACKS_CAPABILITY = "lacks_capability"
    # Those above depend on what worker and job are; these on how they stand just now.
    UNHEALTHY = "unhealthy"
    DRAINING = "draining"
    SKIPPED = "skipped"
    STUCK = "stuck"
    MISFIT = "misfit"
    PLACED_ELSEWHERE = "placed_elsewhere"
    BUSY = "busy"


def hindrance_to_serve(
    worker: UUID,
    subscribed: Container[str] | None,
    queue: Queue,
    servants: Collection[UUID],
    dead_letters: Container[UUID | None],
) -> Hindrance | None:
    """What keeps a worker from the jobs of a queue, as far as that depends on the two.
    `subscribed`: the queues it named, if any; `servants`: who is actively assigned to the queue;
    `dead_letters`: the queues that take others' dead letters."""
    if subscribed is not None and queue.name not in subscribed:
        return Hindrance.NOT_SUBSCRIBED
    if servants:
        # An assignment names the queue for a worker that did not.
        return None if worker in servants else Hindrance.NOT_ASSIGNED
    return Hindrance.DEAD_LETTERS if subscribed is None and queue.id in dead_letters else None


def hindrance_to_run(
    job_type: str, requires: str, types: Container[str] | None, offered: Mapping[str, Any]
) -> Hindrance | None:
    """What keeps a worker from a job, as far as that depends on what the one needs and the other
    offers."""
    if types is not None and job_type not in types:
        return Hindrance.NO_HANDLER
    return None if meets(requires, offered) else Hindrance.LACKS_CAPABILITY
