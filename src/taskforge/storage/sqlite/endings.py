"""Ends jobs that are not running: cancelled, expired, or standing in a queue that is gone. Always
in bulk."""

from collections.abc import Mapping, Sequence

import msgspec

from taskforge.domain.job import ErrorInfo
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.bookkeeping import Bookkeeping
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.transaction import Transaction


class WaitingEnd(msgspec.Struct, frozen=True):
    """A job in ready or waiting, and how it ends."""

    fence: bytes
    status: int
    reason: str
    error: ErrorInfo | None = None


def end(transaction: Transaction, waiters: Sequence[WaitingEnd]) -> int:
    """Move these jobs to finished, with their event and tally; those that are no longer waiting are
    left alone."""
    if not waiters:
        return 0
    fences, now = [one.fence for one in waiters], transaction.now
    items = codec.json([(one.status, one.reason, codec.error_text(one.error)) for one in waiters])
    errors = {codec.job_bytes(one.fence): one.error for one in waiters if one.error is not None}
    joined, listed = b"".join(fences), codec.positions(len(fences))
    books = Bookkeeping(transaction)
    ended: list[bytes] = []
    failed: list[tuple[int, int, bytes]] = []  # project, queue and job
    for end_those, leave_place in (("end_ready", "leave_ready"), ("end_waiting", "leave_waiting")):
        # What it ran before stays in executions: its last execution is none of this end's.
        rows = transaction.execute(sql(end_those), (joined, items, now)).fetchall()
        for queue, job, status, project in rows:
            books.ended(queue, status, job)
            ended.append(job)
            if job in errors:
                failed.append((project, queue, job))
        if rows:
            transaction.execute(sql(leave_place), (joined, listed))
    if ended:
        transaction.execute(sql("free_keys"), (b"".join(ended), codec.positions(len(ended))))
    _group(transaction, books, failed, errors)
    books.write()
    return len(ended)


def _group(
    transaction: Transaction,
    books: Bookkeeping,
    failed: Sequence[tuple[int, int, bytes]],
    errors: Mapping[bytes, ErrorInfo],
) -> None:
    """Count what failed in groups, and note them with the jobs."""
    if not failed:
        return
    jobs = b"".join([job for _, _, job in failed])
    asked = (jobs, codec.positions(len(failed)))
    types = transaction.execute(sql("types_of_jobs"), asked).fetchall()
    groups = [
        (books.failed(project, queue, job_type, errors[job], job), queue, job)
        for (project, queue, job), (job_type,) in zip(failed, types, strict=True)
    ]
    transaction.executemany(sql("group_failure"), groups)
