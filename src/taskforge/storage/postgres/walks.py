"""Walks over places, facts and tags for a search, a stretch at a time."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.job import JobStatus
from taskforge.domain.query import JobFilter
from taskforge.storage import search
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.search import Read, Search, Stream, Stretch


class PostgresWalks:
    def __init__(
        self,
        connections: PostgresConnections,
        connection: Connection,
        projects: Sequence[int],
        queues: list[int] | None,
        wanted: JobFilter,
    ) -> None:
        self._sql = connections.sql
        self._connection = connection
        self._projects = list(dict.fromkeys(projects))
        self._wanted = wanted
        self._least = wanted.id_range()[0] or search.LEAST
        self._kind = (list(wanted.job_types) or None, list(wanted.priorities) or None)
        self._queues = queues if wanted.queues else None
        self._due = (wanted.scheduled_after, wanted.scheduled_before)
        self._statuses = [codec.JOB_CODE[status] for status in search.statuses_of(wanted) or ()]

    async def read(self, reads: Sequence[Read]) -> list[tuple[Read, Stretch]]:
        """Reads of one kind in one statement."""
        answers: list[tuple[Read, Stretch]] = []
        kinds = dict.fromkeys(_kind_of(read.stream) for read in reads)
        for kind in kinds:
            some = [read for read in reads if _kind_of(read.stream) == kind]
            for row in await self._walk(kind, some):
                stretch = Stretch(row["looked"], row["last"], row["ids"] or ())
                answers.append((some[row["place"] - 1], stretch))
        return answers

    async def _walk(self, kind: tuple[str, str], reads: list[Read]) -> list[Any]:
        walk, status = kind
        numbers = [read.stream.number for read in reads]
        below, rows = [read.below for read in reads], reads[0].rows
        one = (self._projects, below[0], rows, self._least, *self._kind, self._queues)
        each = (numbers, below, rows, self._least, *self._kind)
        fetch, sql = self._connection.fetch, self._sql
        match walk:
            case search.FACTS:
                return await fetch(sql("search_facts"), *each)
            case search.ALL_FACTS:
                return await fetch(sql("search_all_facts"), *one)
            case search.FINISHED:
                return await fetch(sql("search_finished"), *each, self._statuses)
            case search.UNLUCKY:
                return await fetch(
                    sql("search_unlucky"), *each, [codec.JOB_CODE[JobStatus(status)]]
                )
            case search.ALL_FINISHED:
                return await fetch(sql("search_all_finished"), *one, self._statuses)
            case search.READY:
                return await fetch(sql("search_ready"), *one)
            case search.WAITING:
                return await fetch(sql("search_waiting"), *one, *self._due)
            case search.RUNNING:
                return await fetch(sql("search_running"), *one)
            case search.FAILED | search.BURIED:
                name = sql("search_failed" if walk == search.FAILED else "search_buried")
                groups = [UUID(read.stream.word) for read in reads]
                which = (*self._kind, self._queues, self._statuses or None)
                return await fetch(
                    name, numbers, groups, below, rows, self._least, *which, *self._due
                )
            case _:
                tags = [read.stream.word for read in reads]
                which = (*self._kind, self._queues, self._statuses or None)
                return await fetch(
                    sql("search_tagged"),
                    numbers,
                    tags,
                    below,
                    rows,
                    self._least,
                    *which,
                    *self._due,
                )

    async def take_little(self, found: Search) -> bool:
        """Read whole what is little; whether any was."""
        which = (*self._kind, self._queues)
        is_taken = False
        for stream in found.short_ways():
            jobs: list[UUID] | None
            if stream == Stream(search.READY):
                jobs = await self._connection.fetchval(
                    self._sql("search_lanes"), self._projects, search.LANES, search.LITTLE, *which
                )
            else:
                jobs = await self._connection.fetchval(
                    self._sql("search_due"), self._projects, *self._due, search.LITTLE, *which
                )
            if jobs is not None:
                found.take_all(stream, jobs)
                is_taken = True
        return is_taken


def _kind_of(stream: Stream) -> tuple[str, str]:
    """What one statement reads together."""
    return stream.walk, stream.word if stream.walk == search.UNLUCKY else ""
