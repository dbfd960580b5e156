"""Removes what retention no longer keeps, in slices so small that no other write waits long."""

from typing import Any

from taskforge.domain.ids import created_at, first_id_at, uuid_from_bytes
from taskforge.domain.queue import DAY
from taskforge.storage.engine import Pruned
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.changing import remove
from taskforge.storage.sqlite.codec import span
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.ledger import Ledger
from taskforge.storage.sqlite.reading import Snapshot
from taskforge.storage.sqlite.transaction import Transaction

# Log lines that one slice removes at most; a job with more goes in a later slice.
LINES_AT_ONCE = 5_000
OUTBOX_SECONDS = DAY

Old = dict[int, list[bytes]]
"""Finished jobs to remove, by queue."""


def find_old(snapshot: Snapshot, retention_days: float, limit: int) -> tuple[Old, bool]:
    """Finished jobs past their queue's retention, and whether there may be more. Searched by a reader: the walk past old jobs that
    finished lately costs the writer nothing."""
    old: Old = {}
    left = limit
    for queue in snapshot.keeper.current().queues.values():
        if left <= 0:
            break
        kept = queue.settings.retention_days
        cutoff = snapshot.now - span((retention_days if kept is None else kept) * DAY)
        arguments = (queue.number, first_id_at(codec.moment(max(0, cutoff))).bytes, cutoff, left)
        jobs = [job for (job,) in snapshot.execute(sql("old_jobs"), arguments)]
        if jobs:
            old[queue.number] = jobs
            left -= len(jobs)
    return old, left <= 0


def prune(transaction: Transaction, old: Old, limit: int, *, more: bool) -> Pruned:
    execute = transaction.execute
    transaction.executemany(sql("remove_key"), execute(sql("old_keys"), (transaction.now, limit)).fetchall())
    gone = execute(sql("prune_outbox"), (transaction.now - span(OUTBOX_SECONDS), limit)).fetchall()
    if gone:
        execute("update catalog set pruned_event = max(pruned_event, ?)", max(gone))
    jobs = [job for found in old.values() for job in found]
    if not jobs:
        return Pruned(0, more=False)
    lines = execute(sql("prune_logs"), (b"".join(jobs), codec.positions(len(jobs)), LINES_AT_ONCE)).rowcount
    if lines >= LINES_AT_ONCE:
        return Pruned(0, more=True)
    ledger = Ledger(transaction, transaction.keeper.current())
    removed = 0
    youngest = b""
    for queue, found in old.items():
        arguments: tuple[Any, ...] = (b"".join(found), codec.positions(len(found)), queue)
        # Retried since the search: it is no longer finished, and stays.
        still = execute(sql("still_finished"), arguments).fetchall()
        if not still:
            continue
        for job, status in still:
            ledger.removed(queue, status)
            youngest = max(youngest, job)
        remove(transaction, queue, [job for job, _ in still])
        removed += len(still)
    ledger.write()
    if removed:
        horizon = codec.micros(created_at(uuid_from_bytes(youngest))) + 1
        execute("update catalog set pruned_before = max(coalesce(pruned_before, 0), ?)", (horizon,))
    return Pruned(removed, more=more)
