"""Where a page of jobs ends: at its limit, at so many bytes, or where a search has looked at
enough."""

from collections.abc import Iterable, Sequence

import msgspec

from taskforge.domain.job import StoredJob
from taskforge.domain.query import Page, cursor_at

MOST_PAGE_BYTES = 4 * 2**20
"""The job that reaches it is the last of its page."""
MOST_COUNTED = 10_000
"""Of what matches a filter; beyond that it is many."""


class JobPage(msgspec.Struct, frozen=True):
    """A search that finds little may come back with few jobs, or none, before it has come to the
    end: that is where there is no cursor."""

    jobs: list[StoredJob]
    cursor: str | None  # of the page behind; None: that was all


class Counted(msgspec.Struct, frozen=True):
    count: int
    more: bool  # there are more, or may be: counting ended at so many rows


def take_page(jobs: Iterable[StoredJob]) -> list[StoredJob]:
    """Jobs up to the one with which a page is full; what is behind it is not asked for."""
    taken: list[StoredJob] = []
    total = 0
    for job in jobs:
        taken.append(job)
        total += size_of(job)
        if total >= MOST_PAGE_BYTES:
            break
    return taken


def make_page(jobs: Iterable[StoredJob], cursor: str | None) -> JobPage:
    """Jobs up to where a page is full; the cursor is the one behind all of them."""
    taken = take_page(jobs)
    return JobPage(taken, cursor_at(taken[-1].id) if is_full(taken) else cursor)


def next_page(page: Page, found: JobPage) -> Page | None:
    """The one behind it; None: that was all."""
    if found.cursor is None:
        return None
    return msgspec.structs.replace(page, cursor=found.cursor, offset=0)


def is_full(found: Sequence[StoredJob]) -> bool:
    return sum(map(size_of, found)) >= MOST_PAGE_BYTES


def size_of(job: StoredJob) -> int:
    """Of what can be large in a job."""
    error = 0 if job.error is None else len(job.error.message) + len(job.error.traceback)
    return _length(job.payload) + _length(job.result) + error


def _length(document: msgspec.Raw | None) -> int:
    return 0 if document is None else memoryview(document).nbytes
