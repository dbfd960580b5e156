"""Assigns workers to queues. Every change raises the catalog's version, because it changes what
workers may take."""

from collections.abc import Sequence

from taskforge.domain import trail
from taskforge.domain.assignment import (
    Assign,
    Assignment,
    AssignmentChange,
    check_assignment,
    plan_assignment,
)
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import enter
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.queue_checks import Changing
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction


def change_assignment(
    transaction: Transaction, project: int, change: AssignmentChange, note: Note | None
) -> Assignment:
    check_assignment(change)
    changing = Changing(transaction, project, transaction.catalog_cache.raise_version(project))
    queue = changing.cache.queue_with_id(project, change.queue)
    name = transaction.execute(sql("worker_name"), (change.worker.bytes, project)).fetchone()
    # What was assigned once can be changed and removed when the worker is long forgotten.
    if name is None and isinstance(change, Assign):
        raise NotFound("worker", str(change.worker))
    row = (queue.number, change.worker.bytes)
    before = _assignment(transaction, row)
    planned = plan_assignment(change, before)
    if planned is None:
        transaction.execute(sql("unassign"), row)
    else:
        transaction.execute(sql("assign"), (*row, project, *planned, transaction.now))
    changing.stamp([queue.id])
    changing.cache.reread(project, changing.version)
    transaction.wakes = True
    after = _assignment(transaction, row)
    if note is not None:
        enter(
            transaction,
            [trail.assignment_changed(note, queue, name[0] if name else "", before, after)],
        )
    changed = after or before
    assert changed is not None
    return changed


def _assignment(transaction: Transaction, row: tuple[int, bytes]) -> Assignment | None:
    found = transaction.execute(sql("assignment"), row).fetchone()
    return None if found is None else codec.assignment(found)


def list_assignments(snapshot: ReadSnapshot, projects: Sequence[int]) -> list[Assignment]:
    rows = snapshot.execute(sql("assignments"), (codec.json(projects),))
    return [codec.assignment(row) for row in rows]
