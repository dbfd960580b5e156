"""Creates, changes and deletes queues. Every change raises the catalog's version: no process goes
on with what it remembers."""

from collections.abc import Sequence
from typing import assert_never

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.job import JobStatus
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import (
    CreateQueue,
    DeleteQueue,
    Queue,
    QueueChange,
    UpdateQueue,
    check_queue,
    queue_topic,
)
from taskforge.domain.versions import check_same
from taskforge.storage.sqlite import bookkeeping, codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import SECOND
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
    changing.stamp_targets(before, after)
    changing.cache.reread(project, changing.version)
    transaction.wakes = True
    bookkeeping.announce(transaction, project, queue_topic(before, after), queue=number)
    if note is not None:
        bookkeeping.enter(transaction, [trail.queue_changed(note, before, after)])
    return after


def _create(changing: Changing, change: CreateQueue) -> int:
    check_queue(change)
    transaction, project = changing.transaction, changing.project
    if not changing.version:
        raise NotFound("project", str(project))
    changing.check_name(change.name)
    changing.check_dead_letters(None, change.settings)
    settings, now = codec.json(change.settings), transaction.now
    values = (
        transaction.mint().bytes,
        project,
        change.name,
        change.description,
        change.priority,
        settings,
        change.is_active,
        now,
        changing.version,
    )
    number: int = transaction.execute(sql("add_queue"), values).fetchone()[0]
    return number


def _update(changing: Changing, old: Queue, change: UpdateQueue) -> int:
    check_queue(change)
    check_same(f"queue {old.name!r}", change.expected_version, old.version)
    if change.name is not None and change.name != old.name:
        changing.check_name(change.name)
    settings = old.settings if change.settings is None else change.settings
    changing.check_dead_letters(old.id, settings)
    transaction = changing.transaction
    transaction.execute(
        sql("set_queue"),
        (
            old.name if change.name is None else change.name,
            old.description if change.description is None else change.description,
            old.priority if change.priority is None else change.priority,
            codec.json(settings),
            old.is_active if change.is_active is None else change.is_active,
            transaction.now,
            changing.version,
            old.number,
        ),
    )
    if settings.is_gated and not old.settings.is_gated:
        transaction.execute(sql("gate_running"), (old.number,))
    return old.number


def _delete(changing: Changing, old: Queue, change: DeleteQueue) -> int:
    check_same(f"queue {old.name!r}", change.expected_version, old.version)
    changing.check_buries_nobody(old)
    transaction = changing.transaction
    busy = transaction.execute(sql("running_in"), (old.number,)).fetchone()[0]
    if busy:
        raise Conflict(
            f"queue {old.name!r} has {busy} jobs processing; pause it and wait, or cancel them"
        )
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


def count_jobs(snapshot: ReadSnapshot, projects: Sequence[int]) -> list[QueueStats]:
    """Places are counted; finished jobs come from tallies, whose cost does not grow with
    history."""
    counts: dict[int, dict[str, int]] = {}
    oldest: dict[int, int] = {}
    owners = (codec.json(projects),)
    for queue, count, turn in snapshot.execute(sql("count_ready"), owners):
        _add(counts, queue, "pending", count)
        oldest[queue] = turn
    for count, name in (("count_waiting", "scheduled"), ("count_running", "processing")):
        for queue, jobs in snapshot.execute(sql(count), owners):
            _add(counts, queue, name, jobs)
    for queue, status, count in snapshot.execute(sql("tallied"), owners):
        _add(counts, queue, codec.JOB_STATUSES[status].value, count)
    return [
        QueueStats(
            queue=queue.name,
            queue_id=queue.id,
            is_active=queue.is_active,
            oldest_pending_seconds=max(0.0, (snapshot.now - oldest[queue.number]) / SECOND)
            if queue.number in oldest
            else None,
            **counts.get(queue.number, {}),
        )
        for queue in list_queues(snapshot, projects)
    ]


def _add(counts: dict[int, dict[str, int]], queue: int, name: str, count: int) -> None:
    of_queue = counts.setdefault(queue, {})
    of_queue[name] = of_queue.get(name, 0) + count
