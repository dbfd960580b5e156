"""Lists and counts jobs, newest first: what is looked for is found by ids, in bounded stretches,
and then read."""

import sqlite3
from collections.abc import Iterator, Sequence
from uuid import UUID

from taskforge.domain.job import StoredJob
from taskforge.domain.job_page import MOST_COUNTED, Counted, JobPage, make_page
from taskforge.domain.job_parts import JobPart
from taskforge.domain.query import JobFilter, Page, check_filter, check_page
from taskforge.storage import search
from taskforge.storage.search import Search
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.walks import SqliteWalks


def list_jobs(
    snapshot: ReadSnapshot, projects: Sequence[int], wanted: JobFilter, page: Page
) -> JobPage:
    check_filter(wanted)
    check_page(page)
    most = page.limit + page.skipped()
    found = _search(snapshot, projects, wanted, page, most, rows=max(search.ROWS, 2 * most))
    ids, cursor = found.take_page(page)
    return make_page(_read(snapshot, projects, ids, page), cursor)


def count_jobs(snapshot: ReadSnapshot, projects: Sequence[int], wanted: JobFilter) -> Counted:
    check_filter(wanted)
    found = _search(snapshot, projects, wanted, Page(), MOST_COUNTED, rows=MOST_COUNTED)
    return found.count()


def _search(
    snapshot: ReadSnapshot,
    projects: Sequence[int],
    wanted: JobFilter,
    page: Page,
    most: int,
    rows: int,
) -> Search:
    queues = _queues(snapshot, projects, wanted)
    streams = search.streams_of(wanted, projects, queues)
    found = Search(streams, wanted, search.below_of(wanted, page), most, rows)
    walks = SqliteWalks(snapshot, projects, queues, wanted)
    while reads := found.next_reads():
        if found.may_be_little and walks.take_little(found):
            continue
        for read in reads:
            found.take(read, walks.read(read))
    return found


def _read(
    snapshot: ReadSnapshot, projects: Sequence[int], ids: list[UUID], page: Page
) -> Iterator[StoredJob]:
    """One by one: what nobody takes is not read."""
    cursor = snapshot.connection.cursor()
    cursor.row_factory = sqlite3.Row
    parts = (JobPart.PAYLOAD in page.include, JobPart.RESULT in page.include)
    for row in cursor.execute(sql("list"), (codec.ids(ids), codec.positions(len(ids)), *parts)):
        if row["project"] in projects:
            yield codec.job(row)


def _queues(snapshot: ReadSnapshot, projects: Sequence[int], wanted: JobFilter) -> list[int] | None:
    """The queues whose jobs are listed, None for all of the projects when they are many. History
    stays readable when its queue is deleted; a name or an id means the live queue."""
    if wanted.queues:
        named = [snapshot.catalog_cache.queues_named(projects, name) for name in wanted.queues]
        return list(dict.fromkeys(number for some in named for number in some))
    rows = snapshot.execute(sql("queue_numbers"), (codec.json(list(projects)), search.MERGED + 1))
    numbers = [number for (number,) in rows]
    return numbers if len(numbers) <= search.MERGED else None
