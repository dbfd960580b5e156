"""Creates, changes and deletes queues. Every change raises the catalog's version: no process goes on with what it remembers."""

from typing import assert_never
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.job import JobStatus
from taskforge.domain.marks import check_same
from taskforge.domain.queue import (
    CreateQueue,
    DeleteQueue,
    Queue,
    QueueChange,
    QueueSettings,
    UpdateQueue,
    check_dead_letter,
    check_queue,
    queue_topic,
)
from taskforge.storage.catalog import Catalog
from taskforge.storage.sqlite import codec, ledger
from taskforge.storage.sqlite.ending import Waiter, end
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.transaction import Transaction

CANCELLED_AT_ONCE = 1_000
GONE_REASON = "queue deleted"


def change_queue(transaction: Transaction, project: int, change: QueueChange, note: Note | None) -> Queue:
    catalog = transaction.keeper.current()
    match change:
        case CreateQueue():
            number = _create(transaction, catalog, project, change)
        case UpdateQueue():
            number = _update(transaction, catalog, project, change)
        case DeleteQueue():
            number = _delete(transaction, catalog, project, change)
        case _:
            assert_never(change)
    transaction.keeper.raise_version()
    transaction.wakes = True
    before, after = catalog.queues.get(number), transaction.keeper.current().queues[number]
    ledger.announce(transaction, project, queue_topic(before, after), queue=number)
    if note is not None:
        ledger.enter(transaction, [trail.queue_changed(note, before, after)])
    return after


def _create(transaction: Transaction, catalog: Catalog, project: int, change: CreateQueue) -> int:
    check_queue(change)
    if transaction.execute("select 1 from projects where number = ?", (project,)).fetchone() is None:
        raise NotFound("project", str(project))
    catalog.check_name(project, change.name)
    _check_settings(catalog, project, None, change.settings)
    settings, now = codec.json(change.settings), transaction.now
    values = (transaction.mint().bytes, project, change.name, change.description, change.priority, settings, change.is_active, now)
    number: int = transaction.execute(sql("add_queue"), values).fetchone()[0]
    return number


def _update(transaction: Transaction, catalog: Catalog, project: int, change: UpdateQueue) -> int:
    check_queue(change)
    old = catalog.queue_with_id(project, change.queue)
    check_same(f"queue {old.name!r}", change.expected_version, old.version)
    if change.name is not None and change.name != old.name:
        catalog.check_name(project, change.name)
    settings = old.settings if change.settings is None else change.settings
    _check_settings(catalog, project, old.id, settings)
    transaction.execute(
        sql("set_queue"),
        (
            old.name if change.name is None else change.name,
            old.description if change.description is None else change.description,
            old.priority if change.priority is None else change.priority,
            codec.json(settings),
            old.is_active if change.is_active is None else change.is_active,
            transaction.now,
            old.number,
        ),
    )
    if settings.is_gated and not old.settings.is_gated:
        # What was claimed before there was a limit counts towards it too.
        lanes = codec.json(catalog.lanes_of([old.number]))
        text = "update running set gate = ? where gate is null and lane in (select value from json_each(?))"
        transaction.execute(text, (old.number, lanes))
    return old.number


def _delete(transaction: Transaction, catalog: Catalog, project: int, change: DeleteQueue) -> int:
    old = catalog.queue_with_id(project, change.queue)
    check_same(f"queue {old.name!r}", change.expected_version, old.version)
    for queue, target in catalog.dead_letter_targets_of(project).items():
        if target == old.id:
            user = catalog.queue_with_id(project, queue).name
            raise Conflict(f"queue {old.name!r} is the dead letter queue of {user!r}; change that first")
    lanes = codec.json(catalog.lanes_of([old.number]))
    text = "select count(*) from running where lane in (select value from json_each(?))"
    busy = transaction.execute(text, (lanes,)).fetchone()[0]
    if busy:
        raise Conflict(f"queue {old.name!r} has {busy} jobs processing; pause it and wait, or cancel them")
    now = transaction.now
    transaction.execute("update queues set deleted_at = ?, updated_at = ? where number = ?", (now, now, old.number))
    fences = [fence for (fence,) in transaction.execute(sql("stranded"), (lanes, CANCELLED_AT_ONCE))]
    end(transaction, cancelled(fences))
    return old.number


def cancelled(fences: list[bytes]) -> list[Waiter]:
    """Jobs of a deleted queue, and how they end."""
    return [Waiter(fence, codec.JOB_CODE[JobStatus.CANCELLED], GONE_REASON) for fence in fences]


def _check_settings(catalog: Catalog, project: int, queue: UUID | None, settings: QueueSettings) -> None:
    if settings.dead_letter_queue_id is not None:
        check_dead_letter(queue, settings.dead_letter_queue_id, catalog.dead_letter_targets_of(project))
