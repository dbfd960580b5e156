"""Lists jobs, newest first. The only place where SQL is put together: one builder for the filters
of a job listing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.job_page import MOST_PAGE_BYTES, is_full, take_page
from taskforge.domain.query import JobFilter, JobPart, Page, check_filter, check_page
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache, identifier_in
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections

PIECE = 250  # jobs that are read at once; errors with their tracebacks come with them
LEAST, MOST = UUID(int=0), UUID(int=2**128 - 1)
_LIVE = {
    JobStatus.PENDING: "ready",
    JobStatus.SCHEDULED: "waiting",
    JobStatus.PROCESSING: "running",
}


class PostgresListing:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache

    async def list_jobs(
        self, projects: Sequence[int], wanted: JobFilter, page: Page
    ) -> list[StoredJob]:
        check_filter(wanted)
        check_page(page)
        async with self._connections.searching(projects) as connection:
            queues = await self._queues(connection, projects, wanted)
            text, arguments = Listing(queues, projects, wanted, page).build()
            ids = [
                row[0]
                for row in await connection.fetch(self._connections.in_schema(text), *arguments)
            ]
            return await self._read_page(connection, list(projects), ids, page)

    async def _read_page(
        self,
        connection: Connection,
        projects: list[int],
        ids: list[UUID],
        page: Page,
    ) -> list[StoredJob]:
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
        return take_page(page_jobs)

    async def _queues(
        self, connection: Connection, projects: Sequence[int], wanted: JobFilter
    ) -> list[int]:
        """The queues whose jobs are listed. History stays readable when its queue is deleted; a
        name or an id means the live queue."""
        if wanted.queue is None:
            rows = await connection.fetch(self._connections.sql("queue_numbers"), list(projects))
            return [row["number"] for row in rows]
        rows = await connection.fetch(
            self._connections.sql("queues_named"),
            list(projects),
            wanted.queue,
            identifier_in(wanted.queue),
        )
        if not rows:
            raise await self._catalog_cache.no_queue(projects, wanted.queue)
        named = [row["number"] for row in rows if row["name"] == wanted.queue]
        return named or [row["number"] for row in rows]


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


class Listing:
    """One listing as SQL that yields job ids, newest first. Each status drives from the table that
    holds it, so that the cost is that of the page and not of the history; queue, type and priority
    of unfinished jobs are a choice of lanes."""

    def __init__(
        self, queues: list[int], projects: Sequence[int], wanted: JobFilter, page: Page
    ) -> None:
        self.wanted = wanted
        self.page = page
        self.arguments: list[Any] = []
        self.queues = queues
        self.projects = list(projects)

    def build(self) -> tuple[str, list[Any]]:
        wanted = self.wanted
        statuses = wanted.statuses or ()
        if wanted.scheduled_after is not None or wanted.scheduled_before is not None:
            statuses = tuple(
                status
                for status in statuses or (JobStatus.SCHEDULED,)
                if status is JobStatus.SCHEDULED
            )
            if not statuses:
                return "select null::uuid where false", []
        most = self._argument(self.page.limit + self.page.offset)
        if wanted.tag is not None:
            arms = [self._tagged(wanted.tag, statuses, most)]
        elif not statuses:
            arms = [self._facts(most)]
        else:
            arms = [self._place(status, most) for status in statuses if status in _LIVE]
            final = [status for status in statuses if status.is_final]
            if final:
                arms.append(self._finished(final, most))
        union = " union all ".join(f"({arm})" for arm in arms)
        text = (
            f"select id from ({union}) found order by id desc limit "
            f"{self._argument(self.page.limit)} offset "
            f"{self._argument(self.page.offset)}"
        )
        return text, self.arguments

    def _argument(self, value: Any) -> str:
        self.arguments.append(value)
        return f"${len(self.arguments)}"

    def _range(self, column: str) -> str:
        """The cursor and the creation times as bounds on the id, or on the fence that begins with
        it."""
        after, before = self.wanted.id_range()
        cursor = self.page.before()
        parts = [
            f"{column} < {self._argument(bound)}" for bound in (before, cursor) if bound is not None
        ]
        if after is not None:
            parts.append(f"{column} >= {self._argument(after)}")
        return "".join(f" and {part}" for part in parts)

    def _place(self, status: JobStatus, most: str) -> str:
        table = _LIVE[status]
        text = (
            f"select job as id from taskforge.{table} where project = any "
            f"({self._argument(self.projects)}::int[])"
        )
        wanted = self.wanted
        if (wanted.queue, wanted.job_type, wanted.priority) != (None, None, None):
            text += (
                f" and lane = any (array(select l.number from taskforge.lanes l "
                f"where l.queue = any ({self._argument(self.queues)}::int[]){self._kind('l')}))"
            )
        text += self._range("fence")
        if table == "waiting":
            text += self._due("due")
        return f"{text} order by fence desc limit {most}"

    def _due(self, column: str) -> str:
        text = ""
        if self.wanted.scheduled_after is not None:
            text += f" and {column} >= {self._argument(self.wanted.scheduled_after)}"
        if self.wanted.scheduled_before is not None:
            text += f" and {column} < {self._argument(self.wanted.scheduled_before)}"
        return text

    def _kind(self, alias: str) -> str:
        text = ""
        if self.wanted.job_type is not None:
            text += f" and {alias}.job_type = {self._argument(self.wanted.job_type)}"
        if self.wanted.priority is not None:
            text += f" and {alias}.priority = {self._argument(self.wanted.priority)}"
        return text

    def _finished(self, statuses: list[JobStatus], most: str) -> str:
        codes = ", ".join(str(codec.JOB_CODE[status]) for status in statuses)
        # Written out, so that the planner can prove that the index of what did not succeed applies.
        condition = f"f.status in ({codes})" + (
            "" if JobStatus.SUCCEEDED in statuses else " and f.status <> 3"
        )
        kind = self._kind("j")
        known = (
            f" and exists (select from taskforge.jobs j where j.id = f.job{kind})" if kind else ""
        )
        return (
            f"select f.id from unnest({self._argument(self.queues)}::int[]) as q (number) cross "
            f"join lateral ("
            f"select f.job as id from taskforge.finished f where f.queue = q.number and "
            f"{condition}{self._range('f.job')}{known} "
            f"order by f.job desc limit {most}) f"
        )

    def _facts(self, most: str) -> str:
        # Written as a range of (queue, id), in that order, only the index of both can serve. With
        # `queue = …` and the order of ids, statistics that know of one large queue make the planner
        # walk the primary key for a small one, through all there is.
        after, before = self.wanted.id_range()
        least = self._argument(after or LEAST)
        below = self._argument(
            min(bound for bound in (before, self.page.before(), MOST) if bound is not None)
        )
        return (
            f"select j.id from unnest({self._argument(self.queues)}::int[]) as q (number) cross "
            f"join lateral ("
            f"select j.id from taskforge.jobs j "
            f"where (j.queue, j.id) >= (q.number, {least}) and (j.queue, j.id) < (q.number, "
            f"{below})"
            f"{self._range('j.id')}{self._kind('j')} order by j.queue desc, j.id desc limit "
            f"{most}) j"
        )

    def _tagged(self, tag: str, statuses: Sequence[JobStatus], most: str) -> str:
        codes = [codec.JOB_CODE[status] for status in statuses] or list(codec.JOB_CODE.values())
        return (
            f"select t.job as id from taskforge.job_tags t where t.project = any "
            f"({self._argument(self.projects)}::int[]) "
            f"and t.tag = {self._argument(tag)}{self._range('t.job')} "
            f"and exists (select from taskforge.jobs_now j where j.id = t.job "
            f"and j.status = any ({self._argument(codes)}::int[]) and j.queue = any "
            f"({self._argument(self.queues)}::int[])"
            f"{self._kind('j')}{self._due('j.due')}) order by t.job desc limit {most}"
        )
