"""A store of its own for one test, with the jobs run inline by the same parts that a worker has."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

from taskforge.domain.decoded import DecodedExecution, DecodedJob, decode_execution, decode_job
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.job_parts import WHOLE
from taskforge.domain.query import MAX_PAGE, JobFilter, Page
from taskforge.operations.jobs import read_pages
from taskforge.operations.upkeep import Kept, Upkeep
from taskforge.ports.engine import Engine, is_store
from taskforge.sdk.app import TaskForge
from taskforge.sdk.connections import Connections
from taskforge.sdk.handles import JobHandle
from taskforge.testing.clock import Clock
from taskforge.testing.enqueued import (
    EnqueuedJob,
    Wanted,
    check_names,
    complaint,
    decoded,
    matching,
    type_of,
)
from taskforge.testing.inline import InlineWorker
from taskforge.wiring import make_temporary_engine

T = TypeVar("T")
MOST_JOBS = 10_000
WAITING = (JobStatus.PENDING, JobStatus.SCHEDULED)


class Sandbox:
    """Within it the app's jobs live in a temporary SQLite file, wherever its URL points; outside
    nothing has changed."""

    def __init__(
        self,
        forge: TaskForge,
        *,
        start: datetime | None = None,
        slots: int = 1,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        """`start` sets the store's clock; `slots` is how many jobs run at a time (more than one
        where a handler waits for the result of another job); `capabilities` are what the inline
        worker offers to jobs with `requires`."""
        self.forge = forge
        self._clock = Clock(start)
        self._slots = slots
        self._capabilities = dict(capabilities or {})
        self._folder: Path | None = None
        self._before: Connections | None = None
        self._had_hidden_loop = False

    # --- Life ---

    def __enter__(self) -> Self:
        self._had_hidden_loop = self.forge.has_hidden_loop
        self._folder = folder = Path(tempfile.mkdtemp(prefix="taskforge-sandbox-"))
        self._before = self.forge.use(
            self.forge.connections(lambda: make_temporary_engine(folder / "jobs.db", self._clock))
        )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            blocked = asyncio.get_running_loop()
        except RuntimeError:
            blocked = None
        self._outside(self._leave(blocked))
        self._close_hidden_loop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await self._leave()
        self._close_hidden_loop()

    async def _leave(self, blocked: asyncio.AbstractEventLoop | None = None) -> None:
        if self._before is None or self._folder is None:
            return
        mine = self.forge.use(self._before)
        self._before = None
        await mine.close_all(blocked)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close_hidden_loop(self) -> None:
        """The one that this sandbox caused: a test suite may make an app for every test, and each
        would leave threads behind."""
        if not self._had_hidden_loop:
            self.forge.close_sync()

    # --- Running ---

    async def run(
        self, *, queues: tuple[str, ...] | None = None, most: int = MOST_JOBS
    ) -> list[DecodedJob]:
        """Run whatever can be claimed, and what that enqueues, until nothing is left; returns the
        jobs that ran.

        Jobs for later stay: `advance` brings them closer. Dead letter queues are served when
        `queues` names them."""
        return await self._run(queues, most, complain=True)

    async def run_one(self, *, queues: tuple[str, ...] | None = None) -> DecodedJob | None:
        """Run the next job; None when there is none to run."""
        return next(iter(await self._run(queues, 1, complain=False)), None)

    async def _run(
        self, queues: tuple[str, ...] | None, most: int, *, complain: bool
    ) -> list[DecodedJob]:
        engine = await self._engine()
        worker = InlineWorker(
            self.forge,
            engine,
            slots=min(self._slots, most),
            queues=queues,
            capabilities=self._capabilities,
        )
        await self._upkeep()
        ran = await worker.run(most, complain=complain)
        found = {
            job.id: job
            for start in range(0, len(ran), MAX_PAGE)
            for job in await self._get(ran[start : start + MAX_PAGE])
        }
        return [decode_job(found[job]) for job in ran if job in found]

    async def advance(self, seconds: float) -> None:
        """Let this much time pass for the store: what is due becomes ready, what is late expires,
        lost jobs are rescued."""
        self._clock.advance(seconds)
        await self._upkeep()

    async def _engine(self) -> Engine:
        engine = await self.forge.engine()
        assert is_store(engine)  # the sandbox made it
        return engine

    async def _upkeep(self) -> None:
        upkeep = Upkeep(await self._engine(), chance=lambda: 0.5)
        while await upkeep.once() != Kept():
            pass

    @property
    def now(self) -> datetime:
        return self._clock()

    # --- Looking; not async, so that assertions read as assertions ---

    def jobs(
        self, wanted: Wanted = None, *, status: str | None = None, queue: str | None = None
    ) -> list[DecodedJob]:
        """The jobs of the store, in the order in which they were enqueued."""
        statuses = () if status is None else (JobStatus(status),)
        found = self._outside(self._list(_filter(wanted, statuses, queue)))
        return [decode_job(job) for job in found]

    def enqueued(self, wanted: Wanted = None) -> list[EnqueuedJob]:
        """The jobs that wait to run, now or later, with their arguments."""
        found = self._outside(self._list(_filter(wanted, WAITING)))
        return [decoded(job, self.forge.registry) for job in found]

    def assert_enqueued(
        self,
        wanted: Wanted = None,
        /,
        *,
        count: int | None = None,
        arguments: Mapping[str, Any] | None = None,
        **expected: Any,
    ) -> list[EnqueuedJob]:
        """Fail unless a job like this waits to run (exactly `count` of them, if given); returns
        those that do.

        `expected` names arguments of the handler, and options such as queue, priority, tags;
        `arguments` only arguments, also such as are called `count`."""
        arguments = arguments or {}
        given = {"count": count is not None, "arguments": bool(arguments)}
        check_names(
            wanted,
            self.forge.registry,
            arguments,
            expected,
            [name for name, is_given in given.items() if is_given],
        )
        waiting = self.enqueued()
        found = matching(waiting, wanted, arguments, expected)
        if len(found) != count if count is not None else not found:
            raise AssertionError(
                complaint(waiting, wanted, {**arguments, **expected}, len(found), count)
            )
        return found

    def executions(
        self, job: DecodedJob | EnqueuedJob | JobHandle[Any] | UUID
    ) -> list[DecodedExecution]:
        """Every attempt at a job so far, the first one first, with its error: why a job has not
        succeeded."""
        return self._outside(self._executions(job if isinstance(job, UUID) else job.id))

    async def _list(self, wanted: JobFilter) -> list[StoredJob]:
        engine = await self.forge.engine()
        page = Page(limit=MAX_PAGE, include=WHOLE)
        found: list[StoredJob] = []
        async for part in read_pages(engine, [engine.home], wanted, page):
            found += part.jobs
        return found[::-1]

    async def _executions(self, job: UUID) -> list[DecodedExecution]:
        engine = await self.forge.engine()
        return [decode_execution(one) for one in await engine.executions([engine.home], job)]

    async def _get(self, jobs: list[UUID]) -> list[StoredJob]:
        engine = await self.forge.engine()
        return await engine.get([engine.home], jobs)

    def _outside(self, call: Coroutine[Any, Any, T]) -> T:
        """On the app's hidden event loop, which has its own connection: also from within a running
        one."""
        return asyncio.run_coroutine_threadsafe(call, self.forge.hidden_loop()).result()


def _filter(wanted: Wanted, statuses: tuple[JobStatus, ...], queue: str | None = None) -> JobFilter:
    job_type = type_of(wanted)
    return JobFilter(
        queues=() if queue is None else (queue,),
        statuses=statuses,
        job_types=() if job_type is None else (job_type,),
    )
