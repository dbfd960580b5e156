"""What a change makes of a queue, and what stands in its way: once, for both engines. An engine
looks up what is asked for here, in the transaction that changes the queue."""

from collections.abc import Iterable
from uuid import UUID

import msgspec

from taskforge.domain.errors import Conflict
from taskforge.domain.queue import (
    CreateQueue,
    DeleteQueue,
    Queue,
    QueueSettings,
    UpdateQueue,
    check_queue,
)
from taskforge.domain.versions import check_same


class QueueValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue is after a change."""

    name: str
    description: str
    priority: int
    settings: QueueSettings
    is_active: bool
    is_renamed: bool
    """Its name is new to it: `check_queue_name` says whether it may have it."""


def plan_queue_change(change: CreateQueue | UpdateQueue, old: Queue | None) -> QueueValues:
    """`old`: the queue as it is, or None when it is to be created. Where its dead letters go is for
    `check_dead_letter`."""
    check_queue(change)
    if isinstance(change, CreateQueue):
        return QueueValues(
            name=change.name,
            description=change.description,
            priority=change.priority,
            settings=change.settings,
            is_active=change.is_active,
            is_renamed=True,
        )
    assert old is not None
    _check_version(change, old)
    return QueueValues(
        name=old.name if change.name is None else change.name,
        description=old.description if change.description is None else change.description,
        priority=old.priority if change.priority is None else change.priority,
        settings=old.settings if change.settings is None else change.settings,
        is_active=old.is_active if change.is_active is None else change.is_active,
        is_renamed=change.name is not None and change.name != old.name,
    )


def plan_queue_deletion(
    change: DeleteQueue, old: Queue, dead_letters: Iterable[tuple[str, UUID | None]]
) -> None:
    """`dead_letters`: the names of the project's queues, and where their dead letters go. What runs
    is counted later, when nothing can start: `check_runs_nothing`."""
    _check_version(change, old)
    for name, target in dead_letters:
        if target == old.id:
            raise Conflict(
                f"queue {old.name!r} is the dead letter queue of {name!r}; change that first"
            )


def check_runs_nothing(queue: Queue, processing: int) -> None:
    if processing:
        raise Conflict(
            f"queue {queue.name!r} has {processing} jobs processing; pause it and wait, or cancel "
            f"them"
        )


def check_queue_name(name: str, bearer: Queue | None) -> None:
    """Whether a queue may be named so; the name of another is taken, and so is its id. `bearer` is
    the live queue of the project that this name leads to."""
    if bearer is None:
        return
    if bearer.name == name:
        raise name_is_taken(name)
    raise Conflict(f"{name!r} is the id of queue {bearer.name!r}; use another name")


def name_is_taken(name: str) -> Conflict:
    return Conflict(f"queue {name!r} already exists in this project")


def changed_targets(before: Queue | None, after: Queue) -> set[UUID]:
    """Where dead letters went before and where they go from now on: who may take from those queues
    changes."""
    targets = {
        None if queue is None else queue.settings.dead_letter_queue_id for queue in (before, after)
    }
    if before is not None and len(targets) == 1 and after.deleted_at is None:
        return set()
    return {target for target in targets if target is not None}


def _check_version(change: UpdateQueue | DeleteQueue, old: Queue) -> None:
    check_same(f"queue {old.name!r}", change.expected_version, old.version)
