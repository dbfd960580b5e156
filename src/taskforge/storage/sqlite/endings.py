"""Ends jobs that are not running: cancelled, expired, or standing in a queue that is gone. Always
in bulk."""

from collections.abc import Sequence

import msgspec

from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import Bookkeeping
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.transaction import Transaction


class WaitingEnd(msgspec.Struct, frozen=True):
    """A job in ready or waiting, and how it ends."""

    fence: bytes
    status: int
    reason: str
    error: str | None = None


def end(transaction: Transaction, waiters: Sequence[WaitingEnd]) -> int:
    """Move these jobs to finished, with their event and tally; those that are no longer waiting are
    left alone."""
    if not waiters:
        return 0
    fences, now = [one.fence for one in waiters], transaction.now
    items = codec.json([(one.status, one.reason, one.error) for one in waiters])
    joined, listed = b"".join(fences), codec.positions(len(fences))
    books = Bookkeeping(transaction)
    ended: list[bytes] = []
    for end_those, leave_place in (("end_ready", "leave_ready"), ("end_waiting", "leave_waiting")):
        # What it ran before stays in executions: its last execution is none of this end's.
        rows = transaction.execute(sql(end_those), (joined, items, now)).fetchall()
        for queue, job, status in rows:
            books.ended(queue, status, job)
            ended.append(job)
        if rows:
            transaction.execute(sql(leave_place), (joined, listed))
    if ended:
        transaction.execute(sql("free_keys"), (b"".join(ended), codec.positions(len(ended))))
    books.write()
    return len(ended)
