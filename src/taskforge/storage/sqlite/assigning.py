"""Assigns workers to queues. Every change raises the catalog's version, because it changes what workers may take."""

from taskforge.domain import trail
from taskforge.domain.assignment import Assign, Assignment, AssignmentChange, check_assignment, plan_assignment
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.ledger import enter
from taskforge.storage.sqlite.transaction import Transaction


def change_assignment(transaction: Transaction, project: int, change: AssignmentChange, note: Note | None) -> Assignment:
    check_assignment(change)
    catalog = transaction.keeper.current()
    queue = catalog.queue_with_id(project, change.queue)
    name = transaction.execute(sql("worker_name"), (change.worker.bytes, project)).fetchone()
    # What was assigned once can be changed and removed when the worker is long forgotten.
    if name is None and isinstance(change, Assign):
        raise NotFound("worker", str(change.worker))
    key = (change.queue, change.worker)
    before = catalog.assignments.get(key)
    planned = plan_assignment(change, before)
    row = (queue.number, change.worker.bytes)
    if planned is None:
        transaction.execute("delete from assignments where queue = ? and worker = ?", row)
    else:
        transaction.execute(sql("assign"), (*row, project, *planned, transaction.now))
    transaction.keeper.raise_version()
    transaction.wakes = True
    after = transaction.keeper.current().assignments.get(key)
    if note is not None:
        enter(transaction, [trail.assignment_changed(note, queue, name[0] if name else "", before, after)])
    changed = after or before
    assert changed is not None
    return changed
