"""The SQLite engine: one file, many processes, one writer at a time."""

import asyncio
import atexit
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.errors import StoreUnsuitable
from taskforge.domain.execution import Beat, Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Claimed, Inserted, Job, NewJob, Refused
from taskforge.domain.log import Level, Line, NewLine
from taskforge.domain.outcome import Finish, Lost
from taskforge.domain.query import Events, JobFilter, Page, QueueStats, WorkerTotals
from taskforge.domain.queue import Queue, QueueChange
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample, Worker, WorkerChange
from taskforge.storage.cabinet import Step
from taskforge.storage.directory import home_of
from taskforge.storage.engine import Claim, Lapsed, Pruned
from taskforge.storage.sqlite import (
    assigning,
    cabinet,
    changing,
    claims,
    enqueue,
    finishing,
    gaps,
    listing,
    migrator,
    news,
    pruning,
    queues,
    reading,
    upkeep,
    workers,
)
from taskforge.storage.sqlite.boot import steady_clock
from taskforge.storage.sqlite.connection import check_version, connect_writer, not_opened
from taskforge.storage.sqlite.readers import Readers
from taskforge.storage.sqlite.signals import Signals
from taskforge.storage.sqlite.transaction import Stamp, Transaction
from taskforge.storage.sqlite.whereabouts import identity
from taskforge.storage.sqlite.writer import Call, Writer
from taskforge.telemetry.outage import Outage

T = TypeVar("T")


class SqliteEngine:
    side_by_side = False
    horizon = "xact = 0"

    def __init__(
        self,
        path: str | Path,
        *,
        durable: bool = True,
        project: str = "default",
        clock: Callable[[], datetime] | None = None,
        heartbeat_timeout_seconds: float | None = None,
    ) -> None:
        """`durable=False` lets a commit return before the disk has it: a power cut may then lose the last moments, a crash of the
        process does not. Workers that are silent for longer than `heartbeat_timeout_seconds`, or two thirds of their lease, are
        unhealthy. `clock` replaces the machine's clocks, for tests."""
        self._path = Path(path)
        self._durable = durable
        self._project = project
        self._heartbeat_timeout = heartbeat_timeout_seconds
        self.home = FIRST_PROJECT
        self._injected = clock is not None
        self._clock = clock or (lambda: datetime.now(UTC))
        self._stamp = Stamp(self._clock)
        self._outage = Outage()
        self._readers = Readers(self._path, self._stamp, self._outage)
        self._signals = Signals(self._path, self._readers.data_version)
        self._writer = Writer(self._path, self._stamp, self._signals, self._outage, durable=durable)
        self._inserts: dict[int, Callable[[Transaction, list[NewJob]], list[Inserted | Refused]]] = {}
        self._offers: dict[UUID, Call] = {}  # standing claims, by incarnation
        self._clean: set[int] = set()  # deleted queues that hold no jobs any more
        self._walked = b""  # the skipped job behind which the next look goes on

    # --- Life ---

    async def open(self, *, migrate: bool = True) -> None:
        check_version()
        await asyncio.get_running_loop().run_in_executor(None, self._prepare, migrate)
        self._writer.start(identity(str(self._path)))
        self._readers.start()
        atexit.register(self._exit)
        try:
            self.home = await home_of(self, self._project)
        except BaseException:
            await self.close()
            raise
        self._outage.is_watching = True

    def _prepare(self, migrate: bool) -> None:
        if not migrate and self._path.parent.is_dir() and not self._path.exists():
            raise StoreUnsuitable(f"there is no store at {self._path}; run `taskforge migrate`")
        try:
            connection = connect_writer(self._path, durable=self._durable, make=migrate)
            try:
                if migrate:
                    migrator.migrate(connection, self._stamp.now())
                migrator.check(connection)
                if not self._injected:
                    self._stamp.steady = steady_clock(connection, self._stamp.now())
            finally:
                connection.close()
        except Exception as error:
            raise not_opened(error, self._path) from error

    async def close(self) -> None:
        self._outage.is_watching = False
        # Away from the event loop: the last group may be waiting for another process, and its callers for this loop.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._writer.stop)
        self._signals.stop()  # after the last commit, which still tells the others
        await loop.run_in_executor(None, self._readers.stop)
        atexit.unregister(self._exit)

    def _exit(self) -> None:
        """The interpreter ends without a `close`: what is queued is still written, and nothing is left open."""
        self._writer.stop()
        self._signals.stop()
        self._readers.stop()

    async def now(self) -> datetime:
        await self._readers.read(lambda snapshot: snapshot.execute("select version from catalog").fetchone())
        return self._clock()

    # --- The path of a job ---

    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
        if not jobs:
            return []
        work = self._inserts.get(project)
        if work is None:
            # One function for each project, by which the writer knows neighbouring inserts that it may join.
            work = self._inserts[project] = lambda transaction, items: enqueue.insert(transaction, project, items)
        return await self._writer.submit_items(work, jobs)

    async def claim(self, claim: Claim) -> list[Claimed]:
        claimed: list[Claimed] = []
        wait: float | None = None
        offer = self._offers.get(claim.incarnation)
        if offer is not None:
            taken_up = not self._writer.retract(offer)
            if taken_up and not offer.future.done():
                await asyncio.wait([offer.future])  # whoever is cancelled meanwhile leaves it to the next claim
            self._offers.pop(claim.incarnation, None)
            if taken_up:
                claimed, wait = offer.future.result()
        if not claimed and claim.limit > 0:
            claimed, wait = await self._writer.submit(lambda transaction: claims.claim(transaction, claim), lazy=not claim.remote)
        if wait is not None:
            self._signals.wake_in(wait)
        elif claim.standing and len(claimed) < claim.limit:
            # When it is taken up, what is being reported now has long been.
            rest = msgspec.structs.replace(claim, limit=claim.limit - len(claimed), reporting=0)
            offer = self._writer.offer(lambda transaction: claims.claim(transaction, rest), otherwise=([], None))
            offer.future.add_done_callback(lambda _: self._signals.call_now())
            self._offers[claim.incarnation] = offer
        return claimed

    async def finish(self, finishes: Sequence[Finish], *, lapsed: bool = False) -> list[Lost]:
        if not finishes:
            return []
        return await self._writer.submit(lambda transaction: finishing.finish(transaction, finishes, lapsed=lapsed))

    async def beat(self, beats: Sequence[Beat]) -> list[Lost]:
        return await self._writer.submit(lambda transaction: news.beat(transaction, beats), lazy=True) if beats else []

    async def log(self, lines: Sequence[NewLine]) -> list[Lost]:
        return await self._writer.submit(lambda transaction: news.log(transaction, lines)) if lines else []

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._signals.listen(wake)

    # --- Workers and leases ---

    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered:
        return await self._writer.submit(lambda transaction: workers.register(transaction, project, worker, lease_seconds))

    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed:
        asked_at = self._stamp.steady()
        return await self._writer.submit(
            lambda transaction: workers.renew(transaction, asked_at, incarnation, lease_seconds, sample), lazy=True
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
            workers.deregister, incarnation=incarnation, note=note, expected_mark=expected_mark, died=died, projects=projects
        )
        await self._writer.submit(leave)

    async def update_worker(self, project: int, change: WorkerChange, note: Note | None = None) -> Worker:
        made = await self._writer.submit(lambda transaction: workers.update_worker(transaction, project, change, note))
        return made.judged(self._clock(), self._heartbeat_timeout)

    async def workers(self, projects: Sequence[int]) -> list[Worker]:
        found = await self._readers.read(lambda seen: workers.list_workers(seen.connection, projects, seen.now, seen.steady))
        if self._heartbeat_timeout is None:
            return found
        now = self._clock()
        return [worker.judged(now, self._heartbeat_timeout) for worker in found]

    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]:
        return await self._readers.read(lambda seen: workers.totals(seen.connection, projects))

    # --- Queues ---

    async def change_queue(self, project: int, change: QueueChange, note: Note | None = None) -> Queue:
        return await self._writer.submit(lambda transaction: queues.change_queue(transaction, project, change, note))

    async def queues(self, projects: Sequence[int]) -> list[Queue]:
        return await self._readers.read(lambda seen: reading.queues(seen, projects))

    async def stats(self, projects: Sequence[int]) -> list[QueueStats]:
        return await self._readers.search(lambda seen: reading.stats(seen, projects))

    # --- Assignments ---

    async def change_assignment(self, project: int, change: AssignmentChange, note: Note | None = None) -> Assignment:
        return await self._writer.submit(lambda transaction: assigning.change_assignment(transaction, project, change, note))

    async def assignments(self, projects: Sequence[int]) -> list[Assignment]:
        return await self._readers.read(lambda seen: seen.keeper.current().assignments_of(projects))

    # --- Steering jobs ---

    async def change(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange, note: Note | None = None
    ) -> list[Changed | Refused]:
        return await self._writer.submit(lambda transaction: changing.change(transaction, projects, jobs, change, note))

    # --- Reading ---

    async def get(self, projects: Sequence[int], jobs: Sequence[UUID]) -> list[Job]:
        return await self._readers.read(lambda seen: reading.get(seen, projects, jobs))

    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> list[Job]:
        return await self._readers.search(lambda seen: listing.list_jobs(seen, projects, wanted, page))

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]:
        return await self._readers.read(lambda seen: reading.executions(seen, projects, job))

    async def active_executions(self, projects: Sequence[int], *, timed_out: bool, limit: int) -> list[Execution]:
        return await self._readers.read(partial(reading.active_executions, projects=projects, timed_out=timed_out, limit=limit))

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
        page = partial(reading.logs, least=least, after=after, limit=limit, offset=offset, execution=execution)
        return await self._readers.read(lambda seen: page(seen, projects, job))

    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation:
        return await self._readers.read(lambda seen: reading.explain(seen, projects, job))

    async def events(self, after: str | None, limit: int) -> Events:
        return await self._readers.read(lambda seen: reading.events(seen, after, limit))

    # --- Upkeep ---

    async def stage(self, limit: int) -> int:
        return await self._writer.submit(lambda transaction: upkeep.stage(transaction, limit), lazy=True)

    async def lapsed(self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None) -> list[Lapsed]:
        if not await self._readers.read(lambda seen: reading.is_look_due(seen, unless_within, rhythm)):
            return []
        # A look is a write: whoever cannot write must not judge those who could not either.
        now, steady = await self._writer.submit(lambda transaction: gaps.look(transaction, rhythm), lazy=True)
        # As of the look: whatever held this process up since then may have held up the others too.
        return await self._readers.read(lambda seen: reading.lapsed(seen, limit, now, steady))

    async def expire(self, limit: int) -> int:
        stranded, clean = await self._readers.read(lambda seen: upkeep.find_stranded(seen, limit, self._clean))
        self._clean |= clean
        work = partial(upkeep.expire, limit=limit, stranded=stranded, behind=self._walked)
        ended, self._walked = await self._writer.submit(work)
        return ended

    async def fold(self, limit: int) -> int:
        return await self._writer.submit(lambda transaction: upkeep.fold(transaction, limit), lazy=True)

    async def prune(self, retention_days: float, limit: int) -> Pruned:
        old, more = await self._readers.search(lambda seen: pruning.find_old(seen, retention_days, limit))
        return await self._writer.submit(lambda transaction: pruning.prune(transaction, retention_days, old, limit, more=more))

    # --- Accounts ---

    async def look(self, shape: type[T], statement: str, *values: Any) -> list[T]:
        return await self._readers.read(lambda seen: cabinet.look(seen.connection, shape, statement, values))

    async def write(self, steps: Sequence[Step]) -> list[list[tuple[Any, ...]]]:
        return await self._writer.submit(lambda transaction: cabinet.write(transaction, steps))
