"""Removes what retention no longer keeps, in slices so small that no other write waits long."""

from taskforge.domain.ids import created_at, first_id_at, uuid_from_bytes
from taskforge.domain.queue import DAY, longest_retention
from taskforge.domain.worker import FORMER_SECONDS
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
WORKER_SECONDS = 7 * DAY

Old = dict[int, tuple[int, list[bytes]]]
"""By queue: the time before which its jobs must have finished to be removed, and jobs that did."""


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
            old[queue.number] = cutoff, jobs
            left -= len(jobs)
    return old, left <= 0


def prune(transaction: Transaction, retention_days: float, old: Old, limit: int, *, more: bool) -> Pruned:
    catalog = transaction.keeper.current()
    longest_days = longest_retention(catalog.queues.values(), retention_days)
    execute = transaction.execute
    transaction.executemany(sql("remove_key"), execute(sql("old_keys"), (transaction.now, limit)).fetchall())
    former = execute(sql("prune_workers"), (transaction.steady - span(WORKER_SECONDS), limit)).fetchall()
    transaction.executemany(sql("add_former_worker"), former)
    execute(sql("prune_former_workers"), (transaction.now - span(longest_days * DAY + FORMER_SECONDS), limit))
    gone = execute(sql("prune_outbox"), (transaction.now - span(OUTBOX_SECONDS), limit)).fetchall()
    if gone:
        execute("update catalog set pruned_event = max(pruned_event, ?)", max(gone))
    still = {queue: _still_old(transaction, queue, *found) for queue, found in old.items()}
    jobs = [job for found in still.values() for job, _ in found]
    if not jobs:
        return Pruned(0, more=False)
    lines = execute(sql("prune_logs"), (b"".join(jobs), codec.positions(len(jobs)), LINES_AT_ONCE)).rowcount
    if lines >= LINES_AT_ONCE:
        return Pruned(0, more=True)
    ledger = Ledger(transaction, catalog)
    for queue, found in still.items():
        for _, status in found:
            ledger.removed(queue, status)
        remove(transaction, queue, [job for job, _ in found], keys_until=transaction.now)
    ledger.write()
    horizon = codec.micros(created_at(uuid_from_bytes(max(jobs)))) + 1
    execute("update catalog set pruned_before = max(coalesce(pruned_before, 0), ?)", (horizon,))
    return Pruned(len(jobs), more=more)


def _still_old(transaction: Transaction, queue: int, cutoff: int, jobs: list[bytes]) -> list[tuple[bytes, int]]:
    """Jobs with their status, without those that were retried since the search: they stay."""
    return transaction.execute(sql("still_finished"), (b"".join(jobs), codec.positions(len(jobs)), queue, cutoff)).fetchall()
