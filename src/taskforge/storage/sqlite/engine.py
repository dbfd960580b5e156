"""The SQLite engine: one file, many processes, one writer at a time."""

import asyncio
import atexit
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.claim import Claim, Lapsed
from taskforge.domain.dispatch import BalancedQueues, QueuePlacements
from taskforge.domain.execution import Beat, Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.finding import Finding, PartitionUpkeep, UpkeepState
from taskforge.domain.firing import Fired, Firing
from taskforge.domain.job import Claimed, Inserted, NewJob, Refused, StoredJob
from taskforge.domain.job_page import Counted, JobPage
from taskforge.domain.job_parts import WHOLE, Parts
from taskforge.domain.log import Level, Line, NewLine
from taskforge.domain.outcome import Finish, Lost
from taskforge.domain.query import Events, JobFilter, Page, Pruned, QueueStats, WorkerTotals
from taskforge.domain.queue import Queue, QueueChange
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample, Worker, WorkerChange
from taskforge.ports.records import Step
from taskforge.storage.records.circuits import declare_dependencies
from taskforge.storage.records.projects import find_home
from taskforge.storage.sqlite import (
    assignments,
    dispatch,
    examination,
    explain,
    firing,
    inserts,
    job_changes,
    listing,
    queues,
    reads,
    records,
    restores,
    stats,
    upkeep,
    workers,
)
from taskforge.storage.sqlite.beats import write_beats, write_lines
from taskforge.storage.sqlite.directory import SqliteDirectory
from taskforge.storage.sqlite.finishes import finish_claims
from taskforge.storage.sqlite.idle_lanes import SqliteIdleLanes
from taskforge.storage.sqlite.offers import Offers
from taskforge.storage.sqlite.opening import prepare_file
from taskforge.storage.sqlite.readers import Readers
from taskforge.storage.sqlite.signals import Signals
from taskforge.storage.sqlite.transaction import Stamp
from taskforge.storage.sqlite.whereabouts import identity
from taskforge.storage.sqlite.writer import Writer
from taskforge.telemetry.outage import Outage

T = TypeVar("T")


class SqliteEngine:
    side_by_side = False

    def __init__(
        self,
        path: str | Path,
        *,
        durable: bool = True,
        project: str = "default",
        clock: Callable[[], datetime] | None = None,
        heartbeat_timeout_seconds: float | None = None,
        tell_seconds: float | None = None,
    ) -> None:
        """`durable=False`: a commit may return before the disk has it. `clock` is for tests."""
        self._path = Path(path)
        self._project = project
        self._heartbeat_timeout = heartbeat_timeout_seconds
        self.home = FIRST_PROJECT
        self._clock = clock or (lambda: datetime.now(UTC))
        self._stamp = Stamp(self._clock)
        self._prepare = partial(
            prepare_file, self._path, self._stamp, durable=durable, injected_clock=clock is not None
        )
        self._outage = Outage()
        self._readers = Readers(self._path, self._stamp, self._outage)
        self.directory = SqliteDirectory(self._readers, self._clock, heartbeat_timeout_seconds)
        self._signals = Signals(self._path, self._readers.data_version)
        self._writer = Writer(self._path, self._stamp, self._signals, self._outage, durable=durable)
        self._offers = Offers(self._writer, self._signals, tell_seconds)
        self.event_sums = self._offers.sums
        self._upkeep = upkeep.SqliteUpkeep(self._readers, self._writer)
        self._idle_lanes = SqliteIdleLanes(self._readers, self._writer)
        self._stats = stats.SqliteStats(self._readers)

    # --- Life ---

    async def open(self, *, migrate: bool = True) -> None:
        await asyncio.to_thread(self._prepare, migrate=migrate)
        self._writer.start(identity(str(self._path)))
        self._readers.start()
        atexit.register(self._exit)
        try:
            self.home = await find_home(self, self._project)
        except BaseException:
            await self.close()
            raise
        self._outage.is_watching = True
        self.event_sums.start()

    async def close(self) -> None:
        await self.event_sums.stop()
        self._outage.is_watching = False
        # Away from the event loop: the last group may wait for a process whose callers are on it.
        await self._stats.close()
        await asyncio.to_thread(self._writer.stop)
        self._signals.stop()  # after the last commit, which still tells the others
        await asyncio.to_thread(self._readers.stop)
        atexit.unregister(self._exit)

    def _exit(self) -> None:
        """Without a `close`, what is queued is still written, and nothing is left open."""
        for one in (self._writer, self._signals, self._readers):
            one.stop()

    async def mark_restored(self) -> None:
        await asyncio.to_thread(restores.adopt, self._path, self._stamp.steady())

    async def is_superuser(self) -> bool:
        return False  # a file has no roles

    async def now(self) -> datetime:
        await self._readers.read(reads.pruned_event)
        return self._clock()

    # --- The path of a job ---

    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
        if not jobs:
            return []
        answers = await self._writer.submit_items(inserts.insert_into(project), jobs)
        return self.event_sums.inserted(project, jobs, answers)

    async def claim(self, claim: Claim) -> list[Claimed]:
        return await self._offers.claim(claim)

    async def finish(self, finishes: Sequence[Finish], *, lapsed: bool = False) -> list[Lost]:
        act = partial(finish_claims, finishes=finishes, lapsed=lapsed)
        return await self._writer.submit(act) if finishes else []

    async def beat(self, beats: Sequence[Beat]) -> list[Lost]:
        act = partial(write_beats, beats=beats)
        return await self._writer.submit(act, lazy=True) if beats else []

    async def log(self, lines: Sequence[NewLine]) -> list[Lost]:
        act = partial(write_lines, lines=lines)
        return await self._writer.submit(act) if lines else []

    def on_work(self, wake: Callable[[], None], project: int | None = None) -> Callable[[], None]:  # noqa: ARG002 - signals of a file name none
        return self._signals.listen(wake)

    # --- Workers and leases ---

    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered:
        act = partial(workers.register, project=project, worker=worker, lease_seconds=lease_seconds)
        registered = await self._writer.submit(act)
        await declare_dependencies(self, project, worker)
        return registered

    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed:
        asked_at = self._stamp.steady()
        return await self._writer.submit(
            lambda transaction: workers.renew(
                transaction, asked_at, incarnation, lease_seconds, sample
            ),
            lazy=True,
        )

    async def deregister(
        self,
        incarnation: UUID,
        note: Note | None = None,
        expected_mark: str | None = None,
        *,
        died: bool = False,
        projects: Sequence[int] | None = None,
    ) -> None:
        leave = partial(
            workers.deregister,
            incarnation=incarnation,
            note=note,
            expected_mark=expected_mark,
            died=died,
            projects=projects,
        )
        await self._writer.submit(leave)

    async def change_worker(
        self, project: int, change: WorkerChange, note: Note | None = None
    ) -> Worker:
        act = partial(workers.change_worker, project=project, change=change, note=note)
        made = await self._writer.submit(act)
        return made.judged(self._clock(), self._heartbeat_timeout)

    async def workers(self, projects: Sequence[int]) -> list[Worker]:
        return await self.directory.all_workers(projects)

    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]:
        return await self._readers.read(lambda seen: workers.totals(seen.connection, projects))

    # --- Queues ---

    async def change_queue(
        self, project: int, change: QueueChange, note: Note | None = None
    ) -> Queue:
        act = partial(queues.change_queue, project=project, change=change, note=note)
        return await self._writer.submit(act)

    async def queues(self, projects: Sequence[int]) -> list[Queue]:
        return await self._readers.read(lambda seen: queues.list_queues(seen, projects))

    async def stats(
        self, projects: Sequence[int], *, exact: bool = False, of: Sequence[UUID] | None = None
    ) -> list[QueueStats]:
        return await self._stats.stats(projects, exact=exact, of=of)

    # --- Assignments ---

    async def change_assignment(
        self, project: int, change: AssignmentChange, note: Note | None = None
    ) -> Assignment:
        act = partial(assignments.change_assignment, project=project, change=change, note=note)
        return await self._writer.submit(act)

    async def assignments(self, projects: Sequence[int]) -> list[Assignment]:
        return await self._readers.read(lambda seen: assignments.list_assignments(seen, projects))

    # --- Steering jobs ---

    async def change(
        self,
        projects: Sequence[int],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]:
        act = partial(job_changes.change, projects=projects, jobs=jobs, wanted=change, note=note)
        return await self._writer.submit(act)

    # --- Reading ---

    async def get(
        self, projects: Sequence[int], jobs: Sequence[UUID], parts: Parts = WHOLE
    ) -> list[StoredJob]:
        return await self._readers.read(lambda seen: reads.get(seen, projects, jobs, parts))

    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> JobPage:
        find = partial(listing.list_jobs, projects=projects, wanted=wanted, page=page)
        return await self._readers.search(find)

    async def count_jobs(self, projects: Sequence[int], wanted: JobFilter) -> Counted:
        return await self._readers.search(lambda seen: listing.count_jobs(seen, projects, wanted))

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]:
        return await self._readers.read(lambda seen: reads.executions(seen, projects, job))

    async def active_executions(
        self, projects: Sequence[int], *, timed_out: bool, limit: int
    ) -> list[Execution]:
        wanted = partial(reads.active_executions, timed_out=timed_out, limit=limit)
        return await self._readers.read(lambda seen: wanted(seen, projects))

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
        page = partial(
            reads.logs, least=least, after=after, limit=limit, offset=offset, execution=execution
        )
        return await self._readers.read(lambda seen: page(seen, projects, job))

    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation:
        return await self._readers.read(lambda seen: explain.explain(seen, projects, job))

    async def events(self, after: str | None, limit: int) -> Events:
        return await self._readers.read(lambda seen: reads.events(seen, after, limit))

    # --- Upkeep ---

    async def stage(self, limit: int) -> int:
        return await self._writer.submit(partial(upkeep.stage, limit=limit), lazy=True)

    async def lapsed(
        self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None
    ) -> list[Lapsed]:
        return await self._upkeep.lapsed(limit, unless_within=unless_within, rhythm=rhythm)

    async def expire(self, limit: int) -> int:
        return await self._upkeep.expire(limit)

    async def retire_lanes(self, limit: int) -> int:
        return await self._idle_lanes.retire(limit)

    async def fold(self, limit: int) -> int:
        return await self._writer.submit(partial(upkeep.fold, limit=limit), lazy=True)

    async def prune(self, retention_days: float, limit: int) -> Pruned:
        return await self._upkeep.prune(retention_days, limit)

    async def keep_partitions(self, *_: Any, **__: Any) -> PartitionUpkeep:
        return PartitionUpkeep()  # a file has none

    async def behind(self) -> UpkeepState:
        return await self._readers.read(upkeep.behind)

    async def examine(self) -> list[Finding]:
        return await self._readers.search(lambda seen: examination.examine(seen, self._path))

    # --- Schedules, load balancing ---

    async def fire(self, firings: Sequence[Firing], term: int | None) -> list[Fired]:
        return await self._writer.submit(partial(firing.fire, firings=firings, term=term))

    async def balanced_queues(self, after: int, jobs: int) -> BalancedQueues | None:
        return await self._readers.search(lambda seen: dispatch.look(seen, after, jobs))

    async def place(self, placements: Sequence[QueuePlacements], term: int) -> int:
        return await self._writer.submit(partial(dispatch.place, placements=placements, term=term))

    # --- Records ---

    async def look(self, shape: type[T], statement: str, *values: Any) -> list[T]:
        return await self._readers.read(
            lambda seen: records.look(seen.connection, shape, statement, values)
        )

    async def write(self, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]:
        return await self._writer.submit(lambda transaction: records.write(transaction, steps))
