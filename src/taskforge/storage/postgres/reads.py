"""Answers questions about jobs, their executions, their logs and events."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain.errors import EventsGone
from taskforge.domain.execution import Execution
from taskforge.domain.history import ends_at, with_ends
from taskforge.domain.ids import fence_of
from taskforge.domain.job import StoredJob
from taskforge.domain.job_parts import WHOLE, JobPart, Parts
from taskforge.domain.log import Level, Line, span_of
from taskforge.domain.query import Event, Events, event_position
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections

NEVER = 2**63 - 1  # a transaction behind every other


class PostgresReads:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections

    async def get(
        self, projects: Sequence[int], jobs: Sequence[UUID], parts: Parts
    ) -> list[StoredJob]:
        async with self._connections.reading(projects) as connection:
            found = await self.find_jobs(connection, list(projects), list(jobs), parts)
        return [found[job] for job in dict.fromkeys(jobs) if job in found]

    async def find_jobs(
        self,
        connection: Connection,
        projects: list[int],
        jobs: list[UUID],
        parts: Parts = WHOLE,
    ) -> dict[UUID, StoredJob]:
        if parts == WHOLE:
            rows = await connection.fetch(self._connections.sql("get"), jobs, projects)
        else:
            asked = (JobPart.PAYLOAD in parts, JobPart.RESULT in parts)
            rows = await connection.fetch(self._connections.sql("list"), jobs, projects, *asked)
        return {row["id"]: codec.job(row) for row in rows}

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]:
        rows = await self._connections.read(projects, "executions", job, list(projects))
        return [codec.execution(row, fence_of(job, row["epoch"])) for row in rows]

    async def active_executions(
        self, projects: Sequence[int], *, timed_out: bool, limit: int
    ) -> list[Execution]:
        rows = await self._connections.read(
            projects,
            "active_executions",
            list(projects),
            timed_out,
            limit,
            self._connections.bound_now(),
        )
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
        bounds = (
            int(least),
            span.epoch,
            span.number,
            span.last_epoch,
            most,
            span.first_end,
            statuses,
        )
        rows = await self._connections.read(projects, "logs", job, owners, *bounds)
        lines = (codec.line(row, job) for row in rows if row["number"] is not None)
        return with_ends(
            lines, (codec.ended(row, job) for row in rows if row["number"] is None), limit, offset
        )

    async def events(self, after: str | None, limit: int) -> Events:
        position = (NEVER, 0) if after is None else event_position(after, 2)
        rows = await self._connections.fetch("events", *position, limit)
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
                row["details"],
            )
            for row in rows
            if row["xact"] is not None
        ]
        return Events(found, found[-1].cursor if found else after)
