"""Answers questions. The only place where SQL is put together: one builder for the filters of a job listing."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.errors import EventsGone, NotFound
from taskforge.domain.execution import Execution
from taskforge.domain.explanation import MOST_AHEAD, Explanation, Rate, Standing, Verdict, explain
from taskforge.domain.history import ends_at, with_ends
from taskforge.domain.ids import fence_of, last_fence_of
from taskforge.domain.job import Job, JobStatus
from taskforge.domain.log import Level, Line, span_of
from taskforge.domain.query import Event, Events, JobFilter, Page, check_filter, check_page, event_position
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Catalog
from taskforge.storage.explaining import lanes_before, rivals, verdicts
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.assigner import Assigner
from taskforge.storage.postgres.connections import Connection
from taskforge.storage.postgres.gates import state_of

MORE_LOOKS = 2
NEVER = 2**63 - 1  # a transaction behind every other
LEAST, MOST = UUID(int=0), UUID(int=2**128 - 1)
_LIVE = {JobStatus.PENDING: "ready", JobStatus.SCHEDULED: "waiting", JobStatus.PROCESSING: "running"}


class Seen(NamedTuple):
    """What one look at a job brought."""

    job: Job
    queue: Queue
    given: list[Verdict]
    row: asyncpg.Record | None  # in ready or waiting
    ahead: int  # jobs of its queue that go first
    elsewhere: int  # and of others
    now: datetime

    @property
    def is_ready(self) -> bool:
        return self.row is not None and self.row["turn"] is not None

    @property
    def standing(self) -> Standing:
        """As far as one look tells."""
        if self.row is None:
            return Standing()
        return Standing(skipped=frozenset(self.row["skipped"] or ()), misfit_at=self.row["misfit_at"], misfit=self.row["misfit"])


class Reader(Assigner):
    async def get(self, projects: Sequence[int], jobs: Sequence[UUID]) -> list[Job]:
        async with self.reading(projects) as connection:
            found = await self._jobs(connection, list(projects), list(jobs))
        return [found[job] for job in dict.fromkeys(jobs) if job in found]

    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> list[Job]:
        check_filter(wanted)
        check_page(page)
        async with self.searching(projects) as connection:
            catalog = await self.read_catalog(connection)
            text, arguments = Listing(catalog, projects, wanted, page).build()
            ids = [row[0] for row in await connection.fetch(self.in_schema(text), *arguments)]
            found = await self._jobs(connection, list(projects), ids)
        return [found[job] for job in ids if job in found]

    async def _jobs(
        self, connection: Connection, projects: list[int], jobs: list[UUID], catalog: Catalog | None = None
    ) -> dict[UUID, Job]:
        rows = await connection.fetch(
            self.in_schema("select * from taskforge.jobs_now where id = any ($1::uuid[]) and project = any ($2::int[])"),
            jobs,
            projects,
        )
        if not rows:
            return {}
        known = catalog or await self.read_catalog(connection)
        return {row["id"]: codec.job(row, known) for row in rows}

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]:
        rows = await self.read(projects, "executions", job, list(projects))
        return [codec.execution(row, fence_of(job, row["epoch"])) for row in rows]

    async def active_executions(self, projects: Sequence[int], *, timed_out: bool, limit: int) -> list[Execution]:
        rows = await self.read(projects, "active_executions", list(projects), timed_out, limit, self.bound_now())
        return [codec.execution(row, row["fence"]) for row in rows]

    async def logs(
        self,
        projects: Sequence[int],
        job: UUID,
        *,
        least: Level,
        after: int,
        limit: int,
        offset: int,
        execution: UUID | None = None,
    ) -> list[Line]:
        span, most, owners = span_of(after, execution), limit + offset, list(projects)
        statuses = [codec.EXECUTION_CODE[status] for status in ends_at(least)]
        bounds = (int(least), span.epoch, span.number, span.last_epoch, most, span.first_end, statuses)
        rows = await self.read(projects, "logs", job, owners, *bounds)
        lines = (codec.line(row, job) for row in rows if row["number"] is not None)
        return with_ends(lines, (codec.ended(row, job) for row in rows if row["number"] is None), limit, offset)

    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation:
        seen = await self._look(projects, job)
        for _ in range(MORE_LOOKS):
            if seen.is_ready or seen.job.status is not JobStatus.PENDING:
                break
            seen = await self._look(projects, job)  # it moved between one statement and the next
        standing = await self._standing(seen, seen.row) if seen.is_ready and seen.row is not None else seen.standing
        return explain(seen.job, seen.queue, seen.given, standing, seen.now)

    async def _look(self, projects: Sequence[int], job: UUID) -> Seen:
        now, ahead, elsewhere = await self.now(), 0, 0
        async with self.reading(projects) as connection:
            catalog = await self.read_catalog(connection)
            found = await self._jobs(connection, list(projects), [job], catalog)
            if not found:
                raise NotFound("job", str(job))
            queue, lane = catalog.place_of(found[job])
            listed = await connection.fetch(self.sql("workers"), [found[job].project], self.bound_now())
            given = verdicts(catalog, lane, [codec.worker(worker, worker["now"], self.heartbeat_timeout) for worker in listed])
            row = await connection.fetchrow(self.sql("stands"), job, last_fence_of(job))
            if row is not None and row["turn"] is not None and lane is not None:
                rows = await connection.fetch(self.sql("occupied"), rivals(catalog, lane))
                occupied, skipped = [one["number"] for one in rows], row["skipped"] or ()
                before = lanes_before(catalog, lane, occupied, given, skipped)
                place = row["turn"], row["fence"], now, MOST_AHEAD
                ahead = await connection.fetchval(self.sql("ahead"), before.better, before.beside, *place)
                others = before.better_elsewhere, before.beside_elsewhere
                elsewhere = await connection.fetchval(self.sql("ahead"), *others, *place)
        return Seen(found[job], queue, given, row, ahead, elsewhere, now)

    async def _standing(self, seen: Seen, row: asyncpg.Record) -> Standing:
        settings = seen.queue.settings
        running, rate = 0, None
        if settings.is_gated:
            [gate] = await self.fetch("gate_now", seen.queue.number, self.bound_now())
            running = gate["running"]
            if settings.bucket is not None:
                rate = Rate.seen(settings.bucket, state_of(gate), gate["now"], seen.ahead)
        return msgspec.structs.replace(
            seen.standing,
            ready_seconds=max(0.0, seen.now.timestamp() - row["turn"] / 1e6),
            ahead=seen.ahead,
            elsewhere=seen.elsewhere,
            running=running,
            rate=rate,
            until=row["until"],
        )

    async def events(self, after: str | None, limit: int) -> Events:
        position = (NEVER, 0) if after is None else event_position(after, 2)
        rows = await self.fetch("events", *position, limit)
        if after is None:
            return Events([], f"{rows[0]['horizon']}.0")
        if rows[0]["gone"]:
            raise EventsGone(after)
        found = [
            Event(
                f"{row['xact']}.{row['number']}",
                row["project"],
                row["topic"],
                row["queue"],
                tuple(row["jobs"]),
                row["at"],
                row["worker"],
            )
            for row in rows
            if row["xact"] is not None
        ]
        return Events(found, found[-1].cursor if found else after)


class Listing:
    """One listing as SQL that yields job ids, newest first. Each status drives from the table that holds it, so that the cost is
    that of the page and not of the history; queue, type and priority of unfinished jobs are a choice of lanes."""

    def __init__(self, catalog: Catalog, projects: Sequence[int], wanted: JobFilter, page: Page) -> None:
        self.wanted = wanted
        self.page = page
        self.arguments: list[Any] = []
        # History stays readable when its queue is deleted; a name or an id means the live queue.
        self.queues = [queue.number for queue in catalog.queues.values() if queue.project in projects]
        if wanted.queue is not None:
            self.queues = catalog.queues_named(projects, wanted.queue)
        self.lanes = [
            lane.number
            for lane in catalog.lanes.values()
            if lane.queue in set(self.queues)
            and (wanted.job_type is None or lane.job_type == wanted.job_type)
            and (wanted.priority is None or lane.priority == wanted.priority)
        ]
        self.projects = list(projects)

    def build(self) -> tuple[str, list[Any]]:
        wanted = self.wanted
        statuses = wanted.statuses or ()
        if wanted.scheduled_after is not None or wanted.scheduled_before is not None:
            statuses = tuple(status for status in statuses or (JobStatus.SCHEDULED,) if status is JobStatus.SCHEDULED)
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
        text = f"select id from ({union}) found order by id desc limit {self._argument(self.page.limit)} offset {self._argument(self.page.offset)}"  # noqa: E501
        return text, self.arguments

    def _argument(self, value: Any) -> str:
        self.arguments.append(value)
        return f"${len(self.arguments)}"

    def _range(self, column: str) -> str:
        """The cursor and the creation times as bounds on the id, or on the fence that begins with it."""
        after, before = self.wanted.id_range()
        cursor = self.page.before()
        parts = [f"{column} < {self._argument(bound)}" for bound in (before, cursor) if bound is not None]
        if after is not None:
            parts.append(f"{column} >= {self._argument(after)}")
        return "".join(f" and {part}" for part in parts)

    def _place(self, status: JobStatus, most: str) -> str:
        table = _LIVE[status]
        text = f"select job as id from taskforge.{table} where lane = any ({self._argument(self.lanes)}::int[])"
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
        condition = f"f.status in ({codes})" + ("" if JobStatus.SUCCEEDED in statuses else " and f.status <> 3")
        kind = self._kind("j")
        known = f" and exists (select from taskforge.jobs j where j.id = f.job{kind})" if kind else ""
        return (
            f"select f.id from unnest({self._argument(self.queues)}::int[]) as q (number) cross join lateral ("
            f"select f.job as id from taskforge.finished f where f.queue = q.number and {condition}{self._range('f.job')}{known} "
            f"order by f.job desc limit {most}) f"
        )

    def _facts(self, most: str) -> str:
        # Written as a range of (queue, id), in that order, only the index of both can serve. With `queue = …` and the order of ids,
        # statistics that know of one large queue make the planner walk the primary key for a small one, through all there is.
        after, before = self.wanted.id_range()
        least = self._argument(after or LEAST)
        below = self._argument(min(bound for bound in (before, self.page.before(), MOST) if bound is not None))
        return (
            f"select j.id from unnest({self._argument(self.queues)}::int[]) as q (number) cross join lateral ("
            f"select j.id from taskforge.jobs j "
            f"where (j.queue, j.id) >= (q.number, {least}) and (j.queue, j.id) < (q.number, {below})"
            f"{self._range('j.id')}{self._kind('j')} order by j.queue desc, j.id desc limit {most}) j"
        )

    def _tagged(self, tag: str, statuses: Sequence[JobStatus], most: str) -> str:
        codes = [codec.JOB_CODE[status] for status in statuses] or list(codec.JOB_CODE.values())
        return (
            f"select t.job as id from taskforge.job_tags t where t.project = any ({self._argument(self.projects)}::int[]) "
            f"and t.tag = {self._argument(tag)}{self._range('t.job')} "
            f"and exists (select from taskforge.jobs_now j where j.id = t.job "
            f"and j.status = any ({self._argument(codes)}::int[]) and j.queue = any ({self._argument(self.queues)}::int[])"
            f"{self._kind('j')}{self._due('j.due')}) order by t.job desc limit {most}"
        )
