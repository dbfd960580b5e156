"""Lists and counts jobs, newest first. What is looked for is found by ids, in bounded stretches;
what is shown of it is read behind the wall."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from taskforge.domain.job import StoredJob
from taskforge.domain.job_page import (
    MOST_COUNTED,
    MOST_PAGE_BYTES,
    Counted,
    JobPage,
    is_full,
    make_page,
)
from taskforge.domain.job_parts import JobPart
from taskforge.domain.query import JobFilter, Page, check_filter, check_page
from taskforge.storage import search
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache, identifier_in
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.walks import PostgresWalks
from taskforge.storage.search import Search

PIECE = 250  # jobs that are read at once; errors with their tracebacks come with them


class PostgresListing:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache

    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> JobPage:
        check_filter(wanted)
        check_page(page)
        most = page.limit + page.skipped()
        async with self._connections.searches:
            found = await self._search(
                projects, wanted, page, most, rows=max(search.ROWS, 2 * most)
            )
            ids, cursor = found.take_page(page)
            async with self._connections.reading(projects) as connection:
                return await self._read_page(connection, list(projects), ids, page, cursor)

    async def count_jobs(self, projects: Sequence[int], wanted: JobFilter) -> Counted:
        check_filter(wanted)
        async with self._connections.searches:
            found = await self._search(projects, wanted, Page(), MOST_COUNTED, rows=MOST_COUNTED)
        return found.count()

    async def _search(
        self, projects: Sequence[int], wanted: JobFilter, page: Page, most: int, rows: int
    ) -> Search:
        """Not behind the wall, which counts no rows but those it shows, so that a bound on rows
        would not bound what is read."""
        async with (
            self._connections.connection() as connection,
            # One snapshot for all places: a job that moves meanwhile is not missed in both.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            queues = await self._queues(connection, projects, wanted)
            streams = search.streams_of(wanted, projects, queues)
            found = Search(streams, wanted, search.below_of(wanted, page), most, rows)
            walks = PostgresWalks(self._connections, connection, projects, queues, wanted)
            while reads := found.next_reads():
                if found.may_be_little and await walks.take_little(found):
                    continue
                for read, stretch in await walks.read(reads):
                    found.take(read, stretch)
        return found

    async def _read_page(
        self,
        connection: Connection,
        projects: list[int],
        ids: list[UUID],
        page: Page,
        cursor: str | None,
    ) -> JobPage:
        """The jobs up to where the page is full, in pieces: what is behind that is not read."""
        parts = (JobPart.PAYLOAD in page.include, JobPart.RESULT in page.include)
        sizes: dict[UUID, int] = {}
        if page.include:
            sql = self._connections.sql("job_bytes")
            sizes = dict(map(tuple, await connection.fetch(sql, ids, projects, *parts)))
        page_jobs: list[StoredJob] = []
        for piece in _pieces(ids, sizes):
            rows = await connection.fetch(self._connections.sql("list"), piece, projects, *parts)
            found = {row["id"]: codec.job(row) for row in rows}
            page_jobs += [found[job] for job in piece if job in found]
            if is_full(page_jobs):
                break
        return make_page(page_jobs, cursor)

    async def _queues(
        self, connection: Connection, projects: Sequence[int], wanted: JobFilter
    ) -> list[int] | None:
        """The queues whose jobs are listed, None for all of the projects when they are many.
        History stays readable when its queue is deleted; a name or an id means the live queue."""
        if not wanted.queues:
            sql = self._connections.sql("queue_numbers")
            rows = await connection.fetch(sql, list(projects), search.MERGED + 1)
            numbers = [row["number"] for row in rows]
            return numbers if len(numbers) <= search.MERGED else None
        found: list[int] = []
        for name in dict.fromkeys(wanted.queues):
            rows = await connection.fetch(
                self._connections.sql("queues_named"), list(projects), name, identifier_in(name)
            )
            if not rows:
                raise await self._catalog_cache.no_queue(projects, name)
            named = [row["number"] for row in rows if row["name"] == name]
            found += named or [row["number"] for row in rows]
        return list(dict.fromkeys(found))


def _pieces(ids: Sequence[UUID], sizes: Mapping[UUID, int]) -> Iterator[list[UUID]]:
    """The ids in their order, in pieces that each fill a page, or are short."""
    piece: list[UUID] = []
    total = 0
    for job in ids:
        piece.append(job)
        total += sizes.get(job, 0)
        if total >= MOST_PAGE_BYTES or len(piece) == PIECE:
            yield piece
            piece, total = [], 0
    if piece:
        yield piece
