"""The PostgreSQL engine: PostgreSQL 15 to 18 through asyncpg. Each role has a file of its own."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.claim import Claim, Lapsed
from taskforge.domain.dispatch import BalancedQueues, QueuePlacements
from taskforge.domain.errors import StoreUnavailable
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
from taskforge.storage.postgres import partitions
from taskforge.storage.postgres.assignments import PostgresAssignments
from taskforge.storage.postgres.beats import PostgresBeats
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.claims import PostgresClaims
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.directory import PostgresDirectory
from taskforge.storage.postgres.dispatch import PostgresDispatch
from taskforge.storage.postgres.examination import PostgresExamination
from taskforge.storage.postgres.explain import PostgresExplain
from taskforge.storage.postgres.finishes import PostgresFinishes
from taskforge.storage.postgres.firing import PostgresFiring
from taskforge.storage.postgres.idle_lanes import PostgresIdleLanes
from taskforge.storage.postgres.insert_groups import InsertGroups
from taskforge.storage.postgres.inserts import PostgresInserts
from taskforge.storage.postgres.job_changes import PostgresJobChanges
from taskforge.storage.postgres.listing import PostgresListing
from taskforge.storage.postgres.loads import Loads
from taskforge.storage.postgres.pruning import PostgresPruning
from taskforge.storage.postgres.queues import PostgresQueues
from taskforge.storage.postgres.reads import PostgresReads
from taskforge.storage.postgres.records import PostgresRecords
from taskforge.storage.postgres.rollups import PostgresRollups
from taskforge.storage.postgres.signals import Signals
from taskforge.storage.postgres.stats import PostgresStats
from taskforge.storage.postgres.upkeep import PostgresUpkeep
from taskforge.storage.postgres.workers import PostgresWorkers
from taskforge.storage.records.circuits import declare_dependencies
from taskforge.storage.records.projects import find_home

T = TypeVar("T")


class PostgresEngine:
    """Implements the protocols `Engine` and `Transactional` of `taskforge.ports`."""

    side_by_side = True

    def __init__(
        self,
        url: str,
        *,
        schema: str = "taskforge",
        project: str = "default",
        clock: Callable[[], datetime] | None = None,
        poll_only: bool = False,
        pool_size: int = 6,
        walled: bool = False,
        heartbeat_timeout_seconds: float | None = None,
        tell_seconds: float | None = None,
    ) -> None:
        """`poll_only` is for a transaction-mode pooler: no prepared statements, no session
        settings, no LISTEN. `walled` lets reads see no project but those they name. Workers that
        are silent for `heartbeat_timeout_seconds`, or two thirds of their lease, are unhealthy."""
        self._project = project
        self.home = FIRST_PROJECT
        self.connections = connections = PostgresConnections(
            url,
            schema=schema,
            clock=clock,
            poll_only=poll_only,
            pool_size=pool_size,
            walled=walled,
        )
        self._catalog_cache = catalog_cache = CatalogCache(connections)
        self._signals = signals = Signals(connections)
        shared = (connections, catalog_cache, signals)
        self._inserts = PostgresInserts(*shared)
        self._insert_groups = InsertGroups(self._inserts)
        loads = Loads(connections, catalog_cache)
        self._claims = PostgresClaims(*shared, loads, tell_seconds)
        self.event_sums = self._claims.sums
        self._finishes = PostgresFinishes(*shared, self._claims)
        self._beats = PostgresBeats(connections)
        self._job_changes = PostgresJobChanges(*shared, self._claims)
        self._firing = PostgresFiring(connections, self._inserts, self._job_changes, signals)
        self._dispatch = PostgresDispatch(*shared)
        self._queues = PostgresQueues(*shared, self._job_changes)
        self._workers = PostgresWorkers(connections, catalog_cache, heartbeat_timeout_seconds)
        self._assignments = PostgresAssignments(*shared)
        self._reads = PostgresReads(connections)
        self.directory = PostgresDirectory(connections, heartbeat_timeout_seconds)
        self._listing = PostgresListing(connections, catalog_cache)
        self._stats = PostgresStats(connections)
        self._explain = PostgresExplain(
            connections, catalog_cache, self._reads, loads, heartbeat_timeout_seconds
        )
        self._upkeep = PostgresUpkeep(*shared, self._claims, self._job_changes, self._queues)
        self._idle_lanes = PostgresIdleLanes(connections)
        self._rollups = PostgresRollups(connections)
        self._pruning = PostgresPruning(connections, self._rollups)
        self._records = PostgresRecords(connections)
        self._examination = PostgresExamination(connections)

    # --- Life ---

    async def open(self, *, migrate: bool = True) -> None:
        await self.connections.open(migrate=migrate)
        try:
            self.home = await find_home(self, self._project)
        except BaseException:
            await self.close()
            raise
        self.event_sums.start()
        if self.connections.bound_now() is None:
            # A role that may not make them leaves it to others; until one does, jobs go to the
            # partition for all else.
            with contextlib.suppress(StoreUnavailable):
                await partitions.make_ahead(self.connections, await self.now())

    async def close(self) -> None:
        await self.event_sums.stop()
        await self._signals.stop()
        await self._stats.close()
        await self.connections.close()

    async def mark_restored(self) -> None:
        async with self.connections.connection() as connection:
            await self.connections.restores.adopt(connection)

    async def now(self) -> datetime:
        return await self.connections.now()

    async def is_superuser(self) -> bool:
        return await self.connections.is_superuser()

    # --- The path of a job ---

    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
        answers = await self._insert_groups.insert(project, jobs)
        return self.event_sums.inserted(project, jobs, answers)

    async def insert_within(
        self, connection: Any, project: int, jobs: Sequence[NewJob]
    ) -> list[Inserted | Refused]:
        return await self._inserts.insert_within(connection, project, jobs)

    async def claim(self, claim: Claim) -> list[Claimed]:
        return await self._claims.claim(claim)

    async def finish(self, finishes: Sequence[Finish], *, lapsed: bool = False) -> list[Lost]:
        return await self._finishes.finish(finishes, lapsed=lapsed)

    async def beat(self, beats: Sequence[Beat]) -> list[Lost]:
        return await self._beats.beat(beats)

    async def log(self, lines: Sequence[NewLine]) -> list[Lost]:
        return await self._beats.log(lines)

    def on_work(self, wake: Callable[[], None], project: int | None = None) -> Callable[[], None]:
        return self._signals.on_work(wake, project)

    # --- Workers and leases ---

    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered:
        registered = await self._workers.register(project, worker, lease_seconds)
        await declare_dependencies(self, project, worker)
        return registered

    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed:
        return await self._workers.renew(incarnation, lease_seconds, sample)

    async def deregister(
        self,
        incarnation: UUID,
        note: Note | None = None,
        expected_mark: str | None = None,
        *,
        died: bool = False,
        projects: Sequence[int] | None = None,
    ) -> None:
        await self._workers.deregister(
            incarnation, note, expected_mark, died=died, projects=projects
        )

    async def change_worker(
        self, project: int, change: WorkerChange, note: Note | None = None
    ) -> Worker:
        return await self._workers.change_worker(project, change, note)

    async def workers(self, projects: Sequence[int]) -> list[Worker]:
        return await self._workers.workers(projects)

    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]:
        return await self._workers.worker_totals(projects)

    # --- Queues ---

    async def change_queue(
        self, project: int, change: QueueChange, note: Note | None = None
    ) -> Queue:
        return await self._queues.change_queue(project, change, note)

    async def queues(self, projects: Sequence[int]) -> list[Queue]:
        return await self._queues.queues(projects)

    async def stats(
        self, projects: Sequence[int], *, exact: bool = False, of: Sequence[UUID] | None = None
    ) -> list[QueueStats]:
        return await self._stats.stats(projects, exact=exact, of=of)

    # --- Assignments ---

    async def change_assignment(
        self, project: int, change: AssignmentChange, note: Note | None = None
    ) -> Assignment:
        return await self._assignments.change_assignment(project, change, note)

    async def assignments(self, projects: Sequence[int]) -> list[Assignment]:
        return await self._assignments.assignments(projects)

    # --- Steering jobs ---

    async def change(
        self,
        projects: Sequence[int],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]:
        return await self._job_changes.change(projects, jobs, change, note)

    # --- Reading ---

    async def get(
        self, projects: Sequence[int], jobs: Sequence[UUID], parts: Parts = WHOLE
    ) -> list[StoredJob]:
        return await self._reads.get(projects, jobs, parts)

    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> JobPage:
        return await self._listing.list_jobs(projects, wanted, page)

    async def count_jobs(self, projects: Sequence[int], wanted: JobFilter) -> Counted:
        return await self._listing.count_jobs(projects, wanted)

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]:
        return await self._reads.executions(projects, job)

    async def active_executions(
        self, projects: Sequence[int], *, timed_out: bool, limit: int
    ) -> list[Execution]:
        return await self._reads.active_executions(projects, timed_out=timed_out, limit=limit)

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
        return await self._reads.logs(
            projects,
            job,
            least=least,
            after=after,
            limit=limit,
            offset=offset,
            execution=execution,
        )

    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation:
        return await self._explain.explain(projects, job)

    async def events(self, after: str | None, limit: int) -> Events:
        return await self._reads.events(after, limit)

    # --- Upkeep ---

    async def stage(self, limit: int) -> int:
        return await self._upkeep.stage(limit)

    async def lapsed(
        self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None
    ) -> list[Lapsed]:
        return await self._upkeep.lapsed(limit, unless_within=unless_within, rhythm=rhythm)

    async def expire(self, limit: int) -> int:
        return await self._upkeep.expire(limit)

    async def retire_lanes(self, limit: int) -> int:
        return await self._idle_lanes.retire(limit)

    async def fold(self, limit: int) -> int:
        return await self._rollups.fold(limit) + await self._upkeep.fold_tallies(limit)

    async def prune(self, retention_days: float, limit: int) -> Pruned:
        return await self._pruning.prune(retention_days, limit)

    async def keep_partitions(self, retention_days: float, term: int | None) -> PartitionUpkeep:
        return await self._pruning.keep_partitions(retention_days, term)

    async def behind(self) -> UpkeepState:
        return await self._examination.behind()

    async def examine(self) -> list[Finding]:
        return await self._examination.examine()

    # --- Schedules ---

    async def fire(self, firings: Sequence[Firing], term: int | None) -> list[Fired]:
        return await self._firing.fire(firings, term)

    # --- Load balancing ---

    async def balanced_queues(self, after: int, jobs: int) -> BalancedQueues | None:
        return await self._dispatch.balanced_queues(after, jobs)

    async def place(self, placements: Sequence[QueuePlacements], term: int) -> int:
        return await self._dispatch.place(placements, term)

    # --- Records ---

    async def look(self, shape: type[T], statement: str, *values: Any) -> list[T]:
        return await self._records.look(shape, statement, *values)

    async def write(self, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]:
        return await self._records.write(steps)
