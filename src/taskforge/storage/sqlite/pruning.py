"""Removes what retention no longer keeps, in slices so small that no other write waits long."""

from taskforge.domain.ids import created_at, first_id_at, uuid_from_bytes
from taskforge.domain.query import Pruned
from taskforge.domain.queue import DAY, longest_retention
from taskforge.domain.worker import FORMER_SECONDS
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import Bookkeeping
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import span
from taskforge.storage.sqlite.job_changes import remove
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Transaction

# Log lines that one slice removes at most; a job with more goes in a later slice.
LINES_AT_ONCE = 5_000
OUTBOX_SECONDS = DAY
WORKER_SECONDS = 7 * DAY

Old = dict[int, tuple[int, list[bytes]]]
"""By queue: the time before which its jobs must have finished to be removed, and jobs that did."""


def find_old(snapshot: ReadSnapshot, retention_days: float, limit: int) -> tuple[Old, bool]:
    """Finished jobs past their queue's retention, and whether there may be more. Searched by a
    reader: the walk past old jobs that finished lately costs the writer nothing."""
    old: Old = {}
    left = limit
    for queue, kept in snapshot.execute(sql("retentions")).fetchall():
        if left <= 0:
            break
        cutoff = snapshot.now - span((retention_days if kept is None else kept) * DAY)
        arguments = (queue, first_id_at(codec.moment(max(0, cutoff))).bytes, cutoff, left)
        jobs = [job for (job,) in snapshot.execute(sql("prunable"), arguments)]
        if jobs:
            old[queue] = cutoff, jobs
            left -= len(jobs)
    return old, left <= 0


def prune(
    transaction: Transaction, retention_days: float, old: Old, limit: int, *, more: bool
) -> Pruned:
    execute = transaction.execute
    own_days = [days for _, days in execute(sql("retentions"))]
    longest_days = longest_retention(own_days, retention_days)
    transaction.executemany(
        sql("remove_key"), execute(sql("old_keys"), (transaction.now, limit)).fetchall()
    )
    former = execute(
        sql("prune_workers"), (transaction.steady - span(WORKER_SECONDS), limit)
    ).fetchall()
    transaction.executemany(sql("add_former_worker"), former)
    execute(
        sql("prune_former_workers"),
        (transaction.now - span(longest_days * DAY + FORMER_SECONDS), limit),
    )
    gone = execute(sql("prune_outbox"), (transaction.now - span(OUTBOX_SECONDS), limit)).fetchall()
    if gone:
        execute(sql("raise_pruned_event"), max(gone))
    still = {queue: _still_old(transaction, queue, *found) for queue, found in old.items()}
    jobs = [job for found in still.values() for job, _ in found]
    if not jobs:
        return Pruned(0, more=False)
    lines = execute(
        sql("prune_logs"), (b"".join(jobs), codec.positions(len(jobs)), LINES_AT_ONCE)
    ).rowcount
    if lines >= LINES_AT_ONCE:
        return Pruned(0, more=True)
    books = Bookkeeping(transaction)
    for queue, found in still.items():
        for _, status in found:
            books.removed(queue, status)
        remove(transaction, queue, [job for job, _ in found], keys_until=transaction.now)
    books.write()
    horizon = codec.micros(created_at(uuid_from_bytes(max(jobs)))) + 1
    execute(sql("raise_pruned_before"), (horizon,))
    return Pruned(len(jobs), more=more)


def _still_old(
    transaction: Transaction, queue: int, cutoff: int, jobs: list[bytes]
) -> list[tuple[bytes, int]]:
    """Jobs with their status, without those that were retried since the search: they stay."""
    return transaction.execute(
        sql("still_finished"), (b"".join(jobs), codec.positions(len(jobs)), queue, cutoff)
    ).fetchall()
