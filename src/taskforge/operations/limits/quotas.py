"""What a project may use, and what its organization may have in all its projects. A project without
a quota, in an organization without a ceiling, costs nothing here."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from taskforge.domain.errors import Invalid, StoreUnavailable, TaskForgeError
from taskforge.domain.job import Inserted, NewJob, Refused
from taskforge.domain.tenancy import CeilingReached, Project, Quota, QuotaExceeded
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.limits.ceilings import Ceilings
from taskforge.ports.engine import Engine
from taskforge.storage.records.quota_usage import Exceeded, QuotaUsage

COUNT_SECONDS = 1.0
# Counting what waits takes as long as there is much of it, so nobody who enqueues waits for it: a
# quick count is waited for, the first one a little longer, and else the last one counts, with what
# this server has let in since.
QUICK_SECONDS = 0.05
FIRST_SECONDS = 0.5
# times as long as a count took, until the next: a large backlog is not counted without pause
REST = 10


class Room:
    """What was taken of a quota and is not used after all."""

    def __init__(self, jobs: int, size: int) -> None:
        self.jobs = jobs
        self.size = size


class Waiting:
    """A project's jobs that wait: counted at most once a second; in between, what comes through
    this server is added."""

    def __init__(self) -> None:
        self.counting: asyncio.Task[None] | None = None
        self.counted_at: float | None = None  # None: not counted yet
        self.tried_at: float | None = None  # also when the store was away
        self.took = 0.0  # seconds, the last time
        self.jobs = 0
        self.under_way = 0  # admitted, and perhaps not stored yet: a count may have missed them
        # admitted since the count that is under way began: it may have missed those, too
        self.since = 0


class Quotas:
    def __init__(
        self,
        engine: Engine,
        usage: QuotaUsage,
        tenants: Tenants,
        ceilings: Ceilings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._usage = usage
        self._tenants = tenants
        self._ceilings = ceilings
        self._monotonic = monotonic
        self._waiting: defaultdict[int, Waiting] = defaultdict(Waiting)
        self._waiting_in_all: defaultdict[int, Waiting] = defaultdict(Waiting)  # by organization

    # --- Jobs ---

    async def insert(self, project: Project, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
        """As the engine does. Raises `QuotaExceeded` when these jobs are more than the project may
        have, `CeilingReached` when its organization may not have them, without those that are
        repetitions of what was stored before."""
        if not await self.limits(project):
            return await self._engine.insert(project.number, jobs)
        try:
            return await self._insert(project, jobs, jobs)
        except (Invalid, QuotaExceeded, CeilingReached):
            keys = {job.idempotency_key for job in jobs if job.idempotency_key is not None}
            known = await self._usage.known_keys(project.number, keys) if keys else frozenset()
            if not known:
                raise
            return await self._insert(
                project, jobs, [job for job in jobs if job.idempotency_key not in known]
            )

    async def _insert(
        self, project: Project, jobs: Sequence[NewJob], new: Sequence[NewJob]
    ) -> list[Inserted | Refused]:
        size = _size(new)
        async with self.room(project, len(new), size) as unused:
            answers = await self._engine.insert(project.number, jobs)
            pairs = zip(jobs, answers, strict=True)
            stored = [
                job for job, answer in pairs if type(answer) is Inserted and not answer.existed
            ]
            unused.jobs, unused.size = max(0, len(new) - len(stored)), max(0, size - _size(stored))
        return answers

    async def limits(self, project: Project) -> bool:
        """Whether new jobs of a project are counted anywhere."""
        return (
            project.quota.limits_jobs
            or await self._most_waiting_in_all(project) is not None
            or await self._ceilings.is_limited(project.organization)
        )

    @asynccontextmanager
    async def room(self, project: Project, jobs: int, size: int) -> AsyncIterator[Room]:
        """Take room for so many new jobs with so many bytes of payload. What the block says is
        unused is given back, all of it when it is refused."""
        quota, minute = project.quota, None
        admitted = await self._admit_waiting(project, jobs) if jobs else []
        unused = Room(jobs, size)
        try:
            async with self._ceilings.room(project.organization, jobs, size) as over:
                minute = await self._admit_rate(project.number, quota, jobs, size)
                unused.jobs, unused.size = 0, 0
                yield unused
                over.jobs, over.size = unused.jobs, unused.size
        except StoreUnavailable:
            raise  # what was sent may be stored all the same
        except TaskForgeError:
            unused.jobs, unused.size = jobs, size
            raise
        finally:
            for waiting in admitted:
                waiting.under_way -= jobs
                waiting.jobs -= unused.jobs
            if minute is not None and (unused.jobs or unused.size):
                with suppress(StoreUnavailable):
                    await self._usage.release(project.number, minute, unused.jobs, unused.size)

    async def _admit_waiting(self, project: Project, jobs: int) -> list[Waiting]:
        """Where they were counted: with the project, with its organization, or nowhere."""
        admitted: list[Waiting] = []
        most = project.quota.pending_jobs
        if most is not None:
            waiting = self._waiting[project.number]
            if not await self._has_room(waiting, [project.number], jobs, most):
                raise QuotaExceeded("pending_jobs", most, max(5.0, waiting.took))
            admitted.append(waiting)
        ceiling = await self._most_waiting_in_all(project)
        if ceiling is None:
            return admitted
        in_all, siblings = self._waiting_in_all[project.organization], await self._siblings(project)
        is_admitted = False
        try:
            is_admitted = await self._has_room(in_all, siblings, jobs, ceiling)
        finally:
            for waiting in () if is_admitted else admitted:
                waiting.under_way -= jobs
                waiting.jobs -= jobs
        if not is_admitted:
            raise CeilingReached("pending_jobs", ceiling)
        return [*admitted, in_all]

    async def _most_waiting_in_all(self, project: Project) -> int | None:
        return (await self._tenants.organization(project.organization)).most_pending_jobs

    async def _siblings(self, project: Project) -> list[int]:
        """All projects of its organization."""
        projects = await self._tenants.projects_of(project.organization)
        return [one.number for one in projects]

    async def _has_room(
        self, waiting: Waiting, projects: Sequence[int], jobs: int, most: int
    ) -> bool:
        """Whether so many more may wait in these projects; if so, they are counted."""
        # then it is looked again without a rest: there may be room by now
        full = waiting.jobs + jobs > most
        if self._may_count(
            waiting, COUNT_SECONDS if full else max(COUNT_SECONDS, REST * waiting.took)
        ):
            waiting.counting = asyncio.create_task(self._count(projects, waiting))
        if waiting.counting is not None:
            await self._wait_a_little(waiting, waiting.counting, full)
        if waiting.jobs + jobs > most:
            return False
        waiting.jobs += jobs
        waiting.under_way += jobs
        waiting.since += jobs
        return True

    def _may_count(self, waiting: Waiting, rest: float) -> bool:
        if waiting.counting is not None:
            return False
        return waiting.tried_at is None or self._monotonic() - waiting.tried_at > rest

    async def _wait_a_little(
        self, waiting: Waiting, counting: asyncio.Task[None], full: bool
    ) -> None:
        """Longer for a first count, and before anybody is refused by an old one."""
        is_patient = waiting.counted_at is None or full
        if is_patient or waiting.took < QUICK_SECONDS:
            await asyncio.wait([counting], timeout=FIRST_SECONDS if is_patient else QUICK_SECONDS)

    async def _count(self, projects: Sequence[int], waiting: Waiting) -> None:
        began, under_way, waiting.since = self._monotonic(), waiting.under_way, 0
        try:
            with suppress(StoreUnavailable):  # which whoever enqueues meets, too
                stats = await self._engine.stats(projects, exact=True)
                waiting.jobs = (
                    sum(one.pending + one.scheduled for one in stats) + under_way + waiting.since
                )
                waiting.counted_at = began
        finally:
            waiting.took, waiting.tried_at = self._monotonic() - began, began
            waiting.counting = None

    async def _admit_rate(
        self, project: int, quota: Quota, jobs: int, size: int
    ) -> datetime | None:
        """The minute that they are counted in; None where nothing is."""
        if not jobs:
            quota = Quota(payload_bytes_per_minute=quota.payload_bytes_per_minute if size else None)
        field, taking = ("jobs", "take") if jobs else ("payload", "takes")
        for name, asked, most, problem in (
            ("enqueue_per_minute", jobs, quota.enqueue_per_minute, f"are {jobs:,} in one call"),
            (
                "payload_bytes_per_minute",
                size,
                quota.payload_bytes_per_minute,
                f"{taking} {size:,} bytes in one call",
            ),
        ):
            if most is not None and asked > most:
                raise Invalid(
                    field,
                    f"{problem}, more than the quota {name} of {most:,} ever allows",
                    "send less",
                )
        if quota.enqueue_per_minute is None and quota.payload_bytes_per_minute is None:
            return None
        counted = await self._usage.reserve(project, jobs, size, quota)
        if isinstance(counted, Exceeded):
            seconds = max(1.0, (counted.until - await self._engine.now()).total_seconds())
            raise QuotaExceeded(counted.quota, getattr(quota, counted.quota), seconds)
        return counted


def _size(jobs: Sequence[NewJob]) -> int:
    return sum([len(job.payload) for job in jobs])
