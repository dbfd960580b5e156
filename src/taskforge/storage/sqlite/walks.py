"""Walks over places, facts and tags for a search, a stretch at a time."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.ids import uuid_from_bytes
from taskforge.domain.job import JobStatus
from taskforge.domain.query import JobFilter
from taskforge.storage import search
from taskforge.storage.search import Read, Search, Stream, Stretch
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.snapshot import ReadSnapshot

_NEVER = 2**63 - 1


class SqliteWalks:
    def __init__(
        self,
        snapshot: ReadSnapshot,
        projects: Sequence[int],
        queues: list[int] | None,
        wanted: JobFilter,
    ) -> None:
        self._execute = snapshot.execute
        self._projects = list(dict.fromkeys(projects))
        self._least = (wanted.id_range()[0] or search.LEAST).bytes
        self._kind = (_listed(wanted.job_types), _listed(wanted.priorities))
        self._queues = _listed(queues or ()) if wanted.queues else None
        self._due = tuple(
            None if moment is None else codec.micros(moment)
            for moment in (wanted.scheduled_after, wanted.scheduled_before)
        )
        codes = [codec.JOB_CODE[status] for status in search.statuses_of(wanted) or ()]
        self._statuses = _listed(codes)

    def read(self, read: Read) -> Stretch:
        rows = self._walk(read.stream, read.below.bytes, read.rows).fetchall()
        last = _job(rows[-1][0]) if rows else None
        return Stretch(len(rows), last, [_job(key) for key, matches in rows if matches])

    def _walk(self, stream: Stream, below: bytes, rows: int) -> Any:
        execute = self._execute
        one = (codec.json(self._projects), below, rows, self._least, *self._kind, self._queues)
        own = (stream.number, below, rows, self._least, *self._kind)
        match stream.walk:
            case search.FACTS:
                return execute(sql("search_facts"), own)
            case search.ALL_FACTS:
                return execute(sql("search_all_facts"), one)
            case search.FINISHED:
                return execute(sql("search_finished"), (*own, self._statuses))
            case search.UNLUCKY:
                code = codec.JOB_CODE[JobStatus(stream.word)]
                return execute(sql("search_unlucky"), (*own, code))
            case search.ALL_FINISHED:
                return execute(sql("search_all_finished"), (*one, self._statuses))
            case search.READY:
                return execute(sql("search_ready"), one)
            case search.WAITING:
                return execute(sql("search_waiting"), (*one, *self._due))
            case search.RUNNING:
                return execute(sql("search_running"), one)
            case search.FAILED | search.BURIED:
                name = sql("search_failed" if stream.walk == search.FAILED else "search_buried")
                which = (self._queues, self._statuses, *self._due)
                return execute(name, (*own, *which, bytes.fromhex(stream.word)))
            case _:
                which = (self._queues, self._statuses, *self._due, stream.word)
                return execute(sql("search_tagged"), (*own, *which))

    def take_little(self, found: Search) -> bool:
        """Read whole what is little; whether any was."""
        is_taken = False
        for stream in found.short_ways():
            jobs = self._jobs_of_lanes() if stream == Stream(search.READY) else self._jobs_due()
            if jobs is not None:
                found.take_all(stream, jobs)
                is_taken = True
        return is_taken

    def _jobs_of_lanes(self) -> list[UUID] | None:
        """None: they are many."""
        lanes: list[tuple[int, int]] = []
        seen = 0
        for project in self._projects:
            which = (project, search.LANES + 1 - seen, *self._kind, self._queues)
            rows = self._execute(sql("search_lanes"), which).fetchall()
            lanes += [(project, lane) for lane, matches in rows if matches]
            seen += len(rows)
            if seen > search.LANES:
                return None
        jobs: list[UUID] = []
        for project, lane in lanes:
            most = search.LITTLE + 1 - len(jobs)
            jobs += [
                _job(fence) for (fence,) in self._execute(sql("search_lane"), (project, lane, most))
            ]
            if len(jobs) > search.LITTLE:
                return None
        return jobs

    def _jobs_due(self) -> list[UUID] | None:
        """None: they are many."""
        first, end = self._due
        span = (-_NEVER if first is None else first, _NEVER if end is None else end)
        which = (codec.json(self._projects), *span, search.LITTLE + 1, *self._kind, self._queues)
        rows = self._execute(sql("search_due"), which).fetchall()
        if len(rows) > search.LITTLE:
            return None
        return [_job(fence) for fence, matches in rows if matches]


def _job(key: bytes) -> UUID:
    """Of a fence, or of the job's own id."""
    return uuid_from_bytes(codec.job_bytes(key))


def _listed(values: Sequence[object]) -> str | None:
    return codec.json(list(values)) if values else None
