"""Where a page of jobs ends: at its limit, or at so many bytes."""

from collections.abc import Iterable, Sequence

import msgspec

from taskforge.domain.job import StoredJob
from taskforge.domain.query import Page, cursor_at

MOST_PAGE_BYTES = 4 * 2**20
"""The job that reaches it is the last of its page."""


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


def next_cursor(found: Sequence[StoredJob], page: Page) -> str | None:
    """Where the page behind this one begins; None: there is none."""
    ends = len(found) == page.limit or is_full(found)
    return cursor_at(found[-1].id) if found and ends else None


def is_full(found: Sequence[StoredJob]) -> bool:
    return sum(map(size_of, found)) >= MOST_PAGE_BYTES


def size_of(job: StoredJob) -> int:
    """Of what can be large in a job."""
    error = 0 if job.error is None else len(job.error.message) + len(job.error.traceback)
    return _length(job.payload) + _length(job.result) + error


def _length(document: msgspec.Raw | None) -> int:
    return 0 if document is None else memoryview(document).nbytes
