"""What a project may use. A project without a quota costs nothing here."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from taskforge.domain.errors import Invalid, StoreUnavailable, TaskForgeError
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.tenancy import Project, Quota, QuotaExceeded
from taskforge.domain.worker import NewWorker, Registered
from taskforge.storage.directory import Directory, Exceeded
from taskforge.storage.engine import Engine

COUNT_SECONDS = 1.0
# Counting what waits takes as long as there is much of it, so nobody who enqueues waits for it: a quick count is waited for, the
# first one a little longer, and else the last one counts, with what this server has let in since.
QUICK_SECONDS = 0.05
FIRST_SECONDS = 0.5
REST = 10  # times as long as a count took, until the next: a large backlog is not counted without pause


class Room:
    """What was taken of a quota and is not used after all."""

    def __init__(self, jobs: int, size: int) -> None:
        self.jobs = jobs
        self.size = size


class Waiting:
    """A project's jobs that wait: counted at most once a second; in between, what comes through this server is added."""

    def __init__(self) -> None:
        self.counting: asyncio.Task[None] | None = None
        self.counted_at: float | None = None  # None: not counted yet
        self.tried_at: float | None = None  # also when the store was away
        self.took = 0.0  # seconds, the last time
        self.jobs = 0
        self.under_way = 0  # admitted, and perhaps not stored yet: a count may have missed them
        self.since = 0  # admitted since the count that is under way began: it may have missed those, too


class Quotas:
    def __init__(self, engine: Engine, directory: Directory, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._directory = directory
        self._monotonic = monotonic
        self._waiting: defaultdict[int, Waiting] = defaultdict(Waiting)
        self._registering: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    # --- Jobs ---

    async def insert(self, project: Project, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
        """As the engine does. Raises `QuotaExceeded` when these jobs are more than the project may have, without those that are
        repetitions of what was stored before."""
        if not project.quota.limits_jobs:
            return await self._engine.insert(project.number, jobs)
        try:
            return await self._insert(project, jobs, jobs)
        except (Invalid, QuotaExceeded):
            keys = {job.idempotency_key for job in jobs if job.idempotency_key is not None}
            known = await self._directory.known_keys(project.number, keys) if keys else frozenset()
            if not known:
                raise
            return await self._insert(project, jobs, [job for job in jobs if job.idempotency_key not in known])

    async def _insert(self, project: Project, jobs: Sequence[NewJob], new: Sequence[NewJob]) -> list[Inserted | Refused]:
        size = _size(new)
        async with self.room(project, len(new), size) as unused:
            answers = await self._engine.insert(project.number, jobs)
            pairs = zip(jobs, answers, strict=True)
            stored = [job for job, answer in pairs if type(answer) is Inserted and not answer.existed]
            unused.jobs, unused.size = max(0, len(new) - len(stored)), max(0, size - _size(stored))
        return answers

    @asynccontextmanager
    async def room(self, project: Project, jobs: int, size: int) -> AsyncIterator[Room]:
        """Take room for so many new jobs with so many bytes of payload. What the block says is unused is given back, all of it when
        it is refused."""
        quota, minute = project.quota, None
        most_waiting = quota.pending_jobs if jobs else None
        if most_waiting is not None:
            await self._admit_waiting(project.number, jobs, most_waiting)
        unused = Room(jobs, size)
        try:
            minute = await self._admit_rate(project.number, quota, jobs, size)
            unused.jobs, unused.size = 0, 0
            yield unused
        except StoreUnavailable:
            raise  # what was sent may be stored all the same
        except TaskForgeError:
            unused.jobs, unused.size = jobs, size
            raise
        finally:
            if most_waiting is not None:
                waiting = self._waiting[project.number]
                waiting.under_way -= jobs
                waiting.jobs -= unused.jobs
            if minute is not None and (unused.jobs or unused.size):
                with suppress(StoreUnavailable):
                    await self._directory.release(project.number, minute, unused.jobs, unused.size)

    async def _admit_waiting(self, project: int, jobs: int, most: int) -> None:
        waiting = self._waiting[project]
        full = waiting.jobs + jobs > most  # then it is looked again without a rest: there may be room by now
        if self._may_count(waiting, COUNT_SECONDS if full else max(COUNT_SECONDS, REST * waiting.took)):
            waiting.counting = asyncio.create_task(self._count(project, waiting))
        if waiting.counting is not None:
            await self._wait_a_little(waiting, waiting.counting, full)
        if waiting.jobs + jobs > most:
            raise QuotaExceeded("pending_jobs", most, max(5.0, waiting.took))
        waiting.jobs += jobs
        waiting.under_way += jobs
        waiting.since += jobs

    def _may_count(self, waiting: Waiting, rest: float) -> bool:
        if waiting.counting is not None:
            return False
        return waiting.tried_at is None or self._monotonic() - waiting.tried_at > rest

    async def _wait_a_little(self, waiting: Waiting, counting: asyncio.Task[None], full: bool) -> None:
        """Longer for a first count, and before anybody is refused by an old one."""
        is_patient = waiting.counted_at is None or full
        if is_patient or waiting.took < QUICK_SECONDS:
            await asyncio.wait([counting], timeout=FIRST_SECONDS if is_patient else QUICK_SECONDS)

    async def _count(self, project: int, waiting: Waiting) -> None:
        began, under_way, waiting.since = self._monotonic(), waiting.under_way, 0
        try:
            with suppress(StoreUnavailable):  # which whoever enqueues meets, too
                stats = await self._engine.stats([project])
                waiting.jobs = sum(one.pending + one.scheduled for one in stats) + under_way + waiting.since
                waiting.counted_at = began
        finally:
            waiting.took, waiting.tried_at = self._monotonic() - began, began
            waiting.counting = None

    async def _admit_rate(self, project: int, quota: Quota, jobs: int, size: int) -> datetime | None:
        """The minute that they are counted in; None where nothing is."""
        if not jobs:
            quota = Quota(payload_bytes_per_minute=quota.payload_bytes_per_minute if size else None)
        field, taking = ("jobs", "take") if jobs else ("payload", "takes")
        for name, asked, most, problem in (
            ("enqueue_per_minute", jobs, quota.enqueue_per_minute, f"are {jobs:,} in one call"),
            ("payload_bytes_per_minute", size, quota.payload_bytes_per_minute, f"{taking} {size:,} bytes in one call"),
        ):
            if most is not None and asked > most:
                raise Invalid(field, f"{problem}, more than the quota {name} of {most:,} ever allows", "send less")
        if quota.enqueue_per_minute is None and quota.payload_bytes_per_minute is None:
            return None
        counted = await self._directory.reserve(project, jobs, size, quota)
        if isinstance(counted, Exceeded):
            seconds = max(1.0, (counted.until - await self._engine.now()).total_seconds())
            raise QuotaExceeded(counted.quota, getattr(quota, counted.quota), seconds)
        return counted

    # --- Workers ---

    async def register(self, project: Project, worker: NewWorker, lease_seconds: float) -> Registered:
        """As the engine does. Whoever holds a lease counts, heard of or not, healthy or not."""
        most = project.quota.workers
        if most is None:
            return await self._engine.register(project.number, worker, lease_seconds)
        await self._check_leases(project.number, most)  # once before the lock, so that those refused do not queue for it
        async with self._registering[project.number]:
            await self._check_leases(project.number, most)
            registered = await self._engine.register(project.number, worker, lease_seconds)
            if len(await self._leases(project.number)) > most:
                # Another server registered one meanwhile. Each looks after its own is stored, so at least the later one steps back.
                await self._engine.deregister(registered.incarnation)
                raise QuotaExceeded("workers", most, 1)
            return registered

    async def _check_leases(self, project: int, most: int) -> None:
        leases = await self._leases(project)
        if len(leases) >= most:
            raise QuotaExceeded("workers", most, min(30, *leases))

    async def _leases(self, project: int) -> list[float]:
        """How many seconds are left of each."""
        now = await self._engine.now()
        left = [(one.lease_until - now).total_seconds() for one in await self._engine.workers([project])]
        return [seconds for seconds in left if seconds > 0]


def _size(jobs: Sequence[NewJob]) -> int:
    return sum([len(job.payload) for job in jobs])
