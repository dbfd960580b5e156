"""Answers questions, each from one snapshot of the file."""

import sqlite3
from collections.abc import Sequence
from uuid import UUID

from taskforge.domain.errors import EventsGone
from taskforge.domain.execution import Execution
from taskforge.domain.history import ends_at, with_ends
from taskforge.domain.ids import fence_of, uuid_from_bytes
from taskforge.domain.job import StoredJob
from taskforge.domain.job_parts import WHOLE, JobPart, Parts
from taskforge.domain.log import Level, Line, span_of
from taskforge.domain.query import Event, Events, event_position
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.snapshot import ReadSnapshot


def get(
    snapshot: ReadSnapshot,
    projects: Sequence[int],
    jobs: Sequence[UUID],
    parts: Parts = WHOLE,
) -> list[StoredJob]:
    unique = list(dict.fromkeys(jobs))
    cursor = snapshot.connection.cursor()
    cursor.row_factory = sqlite3.Row
    ids = (codec.ids(unique), codec.positions(len(unique)))
    if parts == WHOLE:
        rows = cursor.execute(sql("get"), ids).fetchall()
    else:
        asked = (JobPart.PAYLOAD in parts, JobPart.RESULT in parts)
        rows = cursor.execute(sql("list"), (*ids, *asked)).fetchall()
    return [codec.job(row) for row in rows if row["project"] in projects]


def executions(snapshot: ReadSnapshot, projects: Sequence[int], job: UUID) -> list[Execution]:
    rows = snapshot.execute(
        sql("executions"), (job.bytes, fence_of(job, 0xFFFFFF).bytes, codec.json(list(projects)))
    ).fetchall()
    # Earlier and last executions are kept by epoch, which only here becomes a fence again.
    made = [
        (row[0] if isinstance(row[0], bytes) else fence_of(job, row[0]).bytes, *row[1:])
        for row in rows
    ]
    return [codec.execution(row) for row in sorted(made)]


def active_executions(
    snapshot: ReadSnapshot, projects: Sequence[int], *, timed_out: bool, limit: int
) -> list[Execution]:
    arguments = (codec.json(list(projects)), timed_out, snapshot.now, limit)
    return [
        codec.execution(row)
        for row in snapshot.execute(sql("active_executions"), arguments).fetchall()
    ]


def logs(
    snapshot: ReadSnapshot,
    projects: Sequence[int],
    job: UUID,
    *,
    least: Level,
    after: int,
    limit: int,
    offset: int,
    execution: UUID | None,
) -> list[Line]:
    span, most, owners = span_of(after, execution), limit + offset, codec.json(list(projects))
    statuses = codec.json([codec.EXECUTION_CODE[status] for status in ends_at(least)])
    bounds = (job.bytes, owners, int(least), span.epoch, span.number, span.last_epoch, most)
    lines = (codec.line(row, job) for row in snapshot.execute(sql("logs"), bounds))
    among = (job.bytes, owners, span.first_end, span.last_epoch, statuses, most)
    return with_ends(
        lines,
        (codec.ended(row, job) for row in snapshot.execute(sql("ends"), among)),
        limit,
        offset,
    )


def pruned_event(snapshot: ReadSnapshot) -> int:
    number: int = snapshot.execute(sql("pruned_event")).fetchone()[0]
    return number


def events(snapshot: ReadSnapshot, after: str | None, limit: int) -> Events:
    pruned = pruned_event(snapshot)
    if after is None:
        last: int | None = snapshot.execute(sql("last_event")).fetchone()[0]
        return Events([], str(max(pruned, last or 0)))
    [behind] = event_position(after, 1)
    if behind < pruned:
        raise EventsGone(after)
    made = []
    for number, project, topic, queue, worker, at, jobs, details in snapshot.execute(
        sql("events"), (behind, limit)
    ):
        ids = tuple(uuid_from_bytes(jobs[start : start + 16]) for start in range(0, len(jobs), 16))
        made.append(
            Event(
                str(number),
                project,
                topic,
                queue,
                ids,
                codec.moment(at),
                codec.maybe_uuid(worker),
                details,
            )
        )
    return Events(made, made[-1].cursor if made else after)
