"""Lists jobs, newest first. The only place where SQL is put together: one builder for the filters
of a job listing.

Each status drives from the table that holds it, so that the cost is that of the page and not of the
history; queue, type and priority of unfinished jobs are a choice of lanes. History is read per
queue, in the order of its key; the queues are merged here.
"""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.job_page import take_page
from taskforge.domain.query import JobFilter, JobPart, Page, check_filter, check_page
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.snapshot import ReadSnapshot

_LIVE = {
    JobStatus.PENDING: "ready",
    JobStatus.SCHEDULED: "waiting",
    JobStatus.PROCESSING: "running",
}


def list_jobs(
    snapshot: ReadSnapshot, projects: Sequence[int], wanted: JobFilter, page: Page
) -> list[StoredJob]:
    check_filter(wanted)
    check_page(page)
    listing = Listing(_queues(snapshot, projects, wanted), projects, wanted, page)
    found = (_ids(snapshot, text, arguments) for text, arguments in listing.arms())
    # A job is in one place, and its facts in one queue: no id comes twice.
    newest = islice(heapq.merge(*found, reverse=True), page.offset, page.offset + page.limit)
    return take_page(_read(snapshot, projects, list(newest), page))


def _read(
    snapshot: ReadSnapshot, projects: Sequence[int], ids: list[bytes], page: Page
) -> Iterator[StoredJob]:
    """One by one: what nobody takes is not read."""
    cursor = snapshot.connection.cursor()
    cursor.row_factory = sqlite3.Row
    parts = (JobPart.PAYLOAD in page.include, JobPart.RESULT in page.include)
    for row in cursor.execute(sql("list"), (b"".join(ids), codec.positions(len(ids)), *parts)):
        if row["project"] in projects:
            yield codec.job(row)


def _queues(snapshot: ReadSnapshot, projects: Sequence[int], wanted: JobFilter) -> list[int]:
    """The queues whose jobs are listed. History stays readable when its queue is deleted; a name or
    an id means the live queue."""
    if wanted.queue is not None:
        return snapshot.catalog_cache.queues_named(projects, wanted.queue)
    rows = snapshot.execute(sql("queue_numbers"), (codec.json(list(projects)),))
    return [number for (number,) in rows]


def _ids(snapshot: ReadSnapshot, text: str, arguments: dict[str, Any]) -> list[bytes]:
    return [codec.job_bytes(row[0]) for row in snapshot.execute(text, arguments)]


class Listing:
    """One listing as statements that each yield ids, or fences, newest first."""

    def __init__(
        self, queues: list[int], projects: Sequence[int], wanted: JobFilter, page: Page
    ) -> None:
        self._wanted = wanted
        self._projects = list(dict.fromkeys(projects))
        self._queues = queues
        after, before = wanted.id_range()
        cursor = page.before()
        least = b"" if after is None else after.bytes
        bounds = [bound.bytes for bound in (before, cursor) if bound is not None]
        self._arguments: dict[str, Any] = {
            "least": least,
            "below": min(bounds, default=b"\xff" * 17),
            "most": page.limit + page.offset,
            "type": wanted.job_type,
            "priority": wanted.priority,
            "due_from": None
            if wanted.scheduled_after is None
            else codec.micros(wanted.scheduled_after),
            "due_before": None
            if wanted.scheduled_before is None
            else codec.micros(wanted.scheduled_before),
            "queues": codec.json(self._queues),
            "tag": wanted.tag,
            "projects": codec.json(self._projects),
        }

    def arms(self) -> Iterable[tuple[str, dict[str, Any]]]:
        wanted = self._wanted
        statuses = wanted.statuses
        if wanted.scheduled_after is not None or wanted.scheduled_before is not None:
            statuses = tuple(
                status
                for status in statuses or (JobStatus.SCHEDULED,)
                if status is JobStatus.SCHEDULED
            )
            if not statuses:
                return
        if wanted.tag is not None:
            codes = [codec.JOB_CODE[status] for status in statuses or JobStatus]
            for project in self._projects:
                yield (
                    self._tagged(),
                    self._arguments | {"project": project, "codes": codec.json(codes)},
                )
            return
        if not statuses:
            for queue in self._queues:
                yield self._facts(), self._arguments | {"queue": queue}
            return
        for status in dict.fromkeys(statuses):
            if status in _LIVE:
                yield self._place(_LIVE[status]), self._arguments
            else:
                for queue in self._queues:
                    yield self._finished(status), self._arguments | {"queue": queue}

    def _place(self, table: str) -> str:
        due = self._due() if table == "waiting" else ""
        wanted, lanes = self._wanted, ""
        if (wanted.queue, wanted.job_type, wanted.priority) != (None, None, None):
            lanes = (
                " and lane in (select j.number from lanes j where j.queue in (select value from "
                f"json_each(:queues)){self._kind()})"
            )
        return (
            f"select fence from {table} where fence >= :least and fence < :below "
            f"and project in (select value from json_each(:projects)){lanes}{due} "
            f"order by fence desc limit :most"
        )

    def _finished(self, status: JobStatus) -> str:
        # Written out, so that the index of what did not succeed applies.
        code = codec.JOB_CODE[status]
        condition = f"f.status = {code}" + (
            "" if status is JobStatus.SUCCEEDED else " and f.status <> 3"
        )
        kind = self._kind()
        known = f" and exists (select 1 from jobs j where j.id = f.job{kind})" if kind else ""
        return (
            f"select f.job from finished f where f.queue = :queue and {condition} "
            f"and f.job >= :least and f.job < :below{known} order by f.job desc limit :most"
        )

    def _facts(self) -> str:
        return (
            f"select j.id from jobs j where j.queue = :queue and j.id >= :least and j.id < "
            f":below{self._kind()} "
            "order by j.id desc limit :most"
        )

    def _tagged(self) -> str:
        return (
            "select t.job from job_tags t where t.project = :project and t.tag = :tag and t.job "
            ">= :least and t.job < :below "
            "and exists (select 1 from jobs_now j where j.id = t.job and j.status in (select "
            "value from json_each(:codes)) "
            f"and j.queue in (select value from json_each(:queues)){self._kind()}{self._due()}) "
            f"order by t.job desc limit :most"
        )

    def _kind(self) -> str:
        kind = "" if self._wanted.job_type is None else " and j.job_type = :type"
        return kind if self._wanted.priority is None else f"{kind} and j.priority = :priority"

    def _due(self) -> str:
        due = "" if self._wanted.scheduled_after is None else " and due >= :due_from"
        return due if self._wanted.scheduled_before is None else f"{due} and due < :due_before"
