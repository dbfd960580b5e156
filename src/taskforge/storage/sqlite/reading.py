"""Answers questions, each from one snapshot of the file."""

import sqlite3
from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.errors import EventsGone, NotFound
from taskforge.domain.execution import Execution
from taskforge.domain.explanation import MOST_AHEAD, Explanation, Rate, Standing, Verdict
from taskforge.domain.explanation import explain as explained
from taskforge.domain.history import ends_at, with_ends
from taskforge.domain.ids import fence_of, last_fence_of, uuid_from_bytes
from taskforge.domain.job import Job
from taskforge.domain.log import Level, Line, span_of
from taskforge.domain.outcome import (
    HELD_UP,
    LEASE_RAN_OUT,
    MOST_UNEXPLAINED,
    Attempt,
    Crashed,
    DeadlinePassed,
    HandBackOutcome,
    HeartbeatMissed,
    LeaseRanOut,
    Outcome,
    TimedOut,
)
from taskforge.domain.query import Event, Events, QueueStats, event_position
from taskforge.domain.queue import Queue
from taskforge.storage.catalog import Lane
from taskforge.storage.engine import Lapsed
from taskforge.storage.explaining import lanes_before, rivals, verdicts
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.codec import SECOND, span
from taskforge.storage.sqlite.gates import count_running, state_of
from taskforge.storage.sqlite.keeper import Keeper, sql
from taskforge.storage.sqlite.workers import list_workers


class Snapshot:
    """A reader's transaction: all its statements see the file as it was at the first of them."""

    __slots__ = ("connection", "execute", "keeper", "now", "steady")

    def __init__(self, connection: sqlite3.Connection, keeper: Keeper, now: int, steady: int) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.keeper = keeper
        self.now = now
        self.steady = steady  # the same moment by the clock that leases go by


def get(snapshot: Snapshot, projects: Sequence[int], jobs: Sequence[UUID]) -> list[Job]:
    unique = list(dict.fromkeys(jobs))
    catalog = snapshot.keeper.current()
    cursor = snapshot.connection.cursor()
    cursor.row_factory = sqlite3.Row
    rows = cursor.execute(sql("get"), (codec.ids(unique), codec.positions(len(unique)))).fetchall()
    return [codec.job(row, catalog) for row in rows if row["project"] in projects]


def executions(snapshot: Snapshot, projects: Sequence[int], job: UUID) -> list[Execution]:
    rows = snapshot.execute(sql("executions"), (job.bytes, fence_of(job, 0xFFFFFF).bytes, codec.json(list(projects)))).fetchall()
    # Earlier and last executions are kept by epoch, which only here becomes a fence again.
    made = [(row[0] if isinstance(row[0], bytes) else fence_of(job, row[0]).bytes, *row[1:]) for row in rows]
    return [codec.execution(row) for row in sorted(made)]


def active_executions(snapshot: Snapshot, projects: Sequence[int], *, timed_out: bool, limit: int) -> list[Execution]:
    arguments = (codec.json(list(projects)), timed_out, snapshot.now, limit)
    return [codec.execution(row) for row in snapshot.execute(sql("active_executions"), arguments).fetchall()]


def logs(
    snapshot: Snapshot,
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
    return with_ends(lines, (codec.ended(row, job) for row in snapshot.execute(sql("ends"), among)), limit, offset)


def explain(snapshot: Snapshot, projects: Sequence[int], job: UUID) -> Explanation:
    found = get(snapshot, projects, [job])
    if not found:
        raise NotFound("job", str(job))
    one, catalog = found[0], snapshot.keeper.current()
    queue, lane = catalog.place_of(one)
    given = verdicts(catalog, lane, list_workers(snapshot.connection, [one.project], snapshot.now, snapshot.steady))
    turn, fence, until, *unwilling = snapshot.execute(sql("stands"), (job.bytes, last_fence_of(job).bytes)).fetchone() or [None] * 6
    skipped, misfit_at, misfit = unwilling
    standing = Standing(skipped=_uuids(skipped), misfit_at=codec.maybe_moment(misfit_at), misfit=misfit)
    if turn is not None and lane is not None:
        standing = _standing(snapshot, lane, given, turn, fence, until, standing)
    return explained(one, queue, given, standing, codec.moment(snapshot.now))


def _uuids(listed: str | None) -> frozenset[UUID]:
    return frozenset(map(UUID, codec.texts(listed) or ()))


def _standing(
    snapshot: Snapshot, lane: Lane, given: Sequence[Verdict], turn: int, fence: bytes, until: int | None, known: Standing
) -> Standing:
    catalog, now = snapshot.keeper.current(), snapshot.now
    settings = catalog.queues[lane.queue].settings
    occupied = [number for (number,) in snapshot.execute(sql("occupied"), (codec.json(rivals(catalog, lane)),))]
    before = lanes_before(catalog, lane, occupied, given, known.skipped)

    def count(better: list[int], beside: list[int]) -> int:
        arguments = (codec.json(better), codec.json(beside), turn, fence, now, MOST_AHEAD)
        return int(snapshot.execute(sql("ahead"), arguments).fetchone()[0])

    ahead = count(before.better, before.beside)
    rate = None
    if settings.bucket is not None:
        rate = Rate.seen(settings.bucket, state_of(snapshot.execute, lane.queue), now / SECOND, ahead)
    return msgspec.structs.replace(
        known,
        ready_seconds=max(0.0, (now - turn) / SECOND),
        ahead=ahead,
        elsewhere=count(before.better_elsewhere, before.beside_elsewhere),
        running=count_running(snapshot.execute, lane.queue) if settings.is_gated else 0,
        rate=rate,
        until=codec.maybe_moment(until),
    )


def events(snapshot: Snapshot, after: str | None, limit: int) -> Events:
    pruned: int = snapshot.execute("select pruned_event from catalog").fetchone()[0]
    if after is None:
        last: int | None = snapshot.execute("select max(number) from outbox").fetchone()[0]
        return Events([], str(max(pruned, last or 0)))
    [behind] = event_position(after, 1)
    if behind < pruned:
        raise EventsGone(after)
    made = []
    for number, project, topic, queue, worker, at, jobs in snapshot.execute(sql("events"), (behind, limit)):
        ids = tuple(uuid_from_bytes(jobs[start : start + 16]) for start in range(0, len(jobs), 16))
        made.append(Event(str(number), project, topic, queue, ids, codec.moment(at), codec.maybe_uuid(worker)))
    return Events(made, made[-1].cursor if made else after)


def queues(snapshot: Snapshot, projects: Sequence[int]) -> list[Queue]:
    found = snapshot.keeper.current().queues.values()
    live = [queue for queue in found if queue.project in projects and queue.deleted_at is None]
    return sorted(live, key=lambda queue: (queue.name, queue.id))


def stats(snapshot: Snapshot, projects: Sequence[int]) -> list[QueueStats]:
    """Places are counted; finished jobs come from tallies, whose cost does not grow with history."""
    queue_of = {lane.number: lane.queue for lane in snapshot.keeper.current().lanes.values() if lane.project in projects}
    counts: dict[int, dict[str, int]] = {}
    oldest: dict[int, int] = {}
    for lane, count, turn in snapshot.execute("select lane, count(*), min(turn) from ready group by lane"):
        queue = queue_of.get(lane)
        if queue is not None:
            _count(counts, queue, "pending", count)
            oldest[queue] = min(turn, oldest.get(queue, turn))
    for table, name in (("waiting", "scheduled"), ("running", "processing")):
        for lane, count in snapshot.execute(f"select lane, count(*) from {table} group by lane"):
            if lane in queue_of:
                _count(counts, queue_of[lane], name, count)
    for queue, status, count in snapshot.execute(sql("tallied")):
        _count(counts, queue, codec.JOB_STATUSES[status].value, count)
    return [
        QueueStats(
            queue=queue.name,
            queue_id=queue.id,
            is_active=queue.is_active,
            oldest_pending_seconds=max(0.0, (snapshot.now - oldest[queue.number]) / SECOND) if queue.number in oldest else None,
            **counts.get(queue.number, {}),
        )
        for queue in queues(snapshot, projects)
    ]


def _count(counts: dict[int, dict[str, int]], queue: int, name: str, count: int) -> None:
    of_queue = counts.setdefault(queue, {})
    of_queue[name] = of_queue.get(name, 0) + count


def is_look_due(snapshot: Snapshot, unless_within: float, rhythm: float | None) -> bool:
    """Whether to look for lapsed claims: something may have lapsed, and nobody looked within these seconds. While nothing runs and
    no worker lived since the last look, there is nothing to see, and the file is left alone."""
    at, promised, alive = snapshot.execute(sql("look_due")).fetchone()
    since = snapshot.steady - at
    if not alive and (rhythm is None or promised == span(rhythm)):
        return False
    return bool(since < 0 or since >= span(unless_within))


def lapsed(snapshot: Snapshot, limit: int, now: int, steady: int) -> list[Lapsed]:
    """Claims that were over at this moment, given by both clocks."""
    catalog = snapshot.keeper.current()
    found = []
    for row in snapshot.execute(sql("lapsed"), (now, limit, steady, LEASE_RAN_OUT, HELD_UP, MOST_UNEXPLAINED)):
        fence, lane, attempt, max_attempts, crashes, cancel, timeout, beat, name, worker, why, deadline_passed, _, losses = row
        outcome: Outcome
        if why == 0:
            outcome = DeadlinePassed()
        elif why == 1:
            outcome = Crashed(name)
        elif why == 2:
            outcome = TimedOut(timeout)
        elif why == 3:
            outcome = HeartbeatMissed(beat)
        elif why == 4:
            outcome = HandBackOutcome(HELD_UP)
        else:
            outcome = LeaseRanOut(str(uuid_from_bytes(worker)) if name is None else name, losses)
        standing = Attempt(attempt, max_attempts, crashes, codec.epoch(fence), bool(cancel), bool(deadline_passed))
        settings = catalog.queues[catalog.lanes[lane].queue].settings
        found.append(Lapsed(uuid_from_bytes(fence), standing, outcome, settings))
    return found
