"""Creates, changes and deletes queues. Every change raises the catalog's version: no process goes
on with what it remembers."""

from collections.abc import Sequence
from typing import assert_never

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.job import JobStatus
from taskforge.domain.queue import (
    CreateQueue,
    DeleteQueue,
    Queue,
    QueueChange,
    UpdateQueue,
    queue_topic,
)
from taskforge.domain.queue_changes import (
    changed_targets,
    check_runs_nothing,
    plan_queue_change,
    plan_queue_deletion,
)
from taskforge.storage.sqlite import bookkeeping, codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.endings import WaitingEnd, end
from taskforge.storage.sqlite.queue_checks import Changing
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction

CANCELLED_AT_ONCE = 1_000
GONE_REASON = "queue deleted"


def change_queue(
    transaction: Transaction, project: int, change: QueueChange, note: Note | None
) -> Queue:
    # First, so that whatever is remembered from here on is of the version that this becomes.
    changing = Changing(transaction, project, transaction.catalog_cache.raise_version(project))
    before: Queue | None = None
    match change:
        case CreateQueue():
            number = _create(changing, change)
        case UpdateQueue():
            before = changing.cache.queue_with_id(project, change.queue)
            number = _update(changing, before, change)
        case DeleteQueue():
            before = changing.cache.queue_with_id(project, change.queue)
            number = _delete(changing, before, change)
        case _:
            assert_never(change)
    after = changing.cache.queue(number)
    changing.stamp(changed_targets(before, after))
    changing.cache.reread(project, changing.version)
    transaction.wakes = True
    bookkeeping.announce(transaction, project, queue_topic(before, after), queue=number)
    if note is not None:
        bookkeeping.enter(transaction, [trail.queue_changed(note, before, after)])
    return after


def _create(changing: Changing, change: CreateQueue) -> int:
    values = plan_queue_change(change, None)
    transaction, project = changing.transaction, changing.project
    if not changing.version:
        raise NotFound("project", str(project))
    changing.check(None, values)
    row = (
        transaction.mint().bytes,
        project,
        values.name,
        values.description,
        values.priority,
        codec.json(values.settings),
        values.is_active,
        transaction.now,
        changing.version,
    )
    number: int = transaction.execute(sql("add_queue"), row).fetchone()[0]
    return number


def _update(changing: Changing, old: Queue, change: UpdateQueue) -> int:
    values = plan_queue_change(change, old)
    changing.check(old.id, values)
    transaction = changing.transaction
    transaction.execute(
        sql("set_queue"),
        (
            values.name,
            values.description,
            values.priority,
            codec.json(values.settings),
            values.is_active,
            transaction.now,
            changing.version,
            old.number,
        ),
    )
    if values.settings.is_gated and not old.settings.is_gated:
        transaction.execute(sql("gate_running"), (old.number,))
    return old.number


def _delete(changing: Changing, old: Queue, change: DeleteQueue) -> int:
    plan_queue_deletion(change, old, changing.dead_letters_to(old))
    transaction = changing.transaction
    check_runs_nothing(old, transaction.execute(sql("running_in"), (old.number,)).fetchone()[0])
    transaction.execute(sql("delete_queue"), (old.number, transaction.now, changing.version))
    stranded = (codec.json([old.number]), CANCELLED_AT_ONCE)
    fences = [fence for (fence,) in transaction.execute(sql("stranded"), stranded)]
    end(transaction, cancelled(fences))
    return old.number


def cancelled(fences: list[bytes]) -> list[WaitingEnd]:
    """Jobs of a deleted queue, and how they end."""
    return [WaitingEnd(fence, codec.JOB_CODE[JobStatus.CANCELLED], GONE_REASON) for fence in fences]


def list_queues(snapshot: ReadSnapshot, projects: Sequence[int]) -> list[Queue]:
    return [codec.queue(row) for row in snapshot.execute(sql("queues"), (codec.json(projects),))]
