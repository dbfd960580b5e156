"""What a project may use. A project without a quota costs nothing here."""

import time
from collections.abc import Callable, Sequence

from taskforge.domain.errors import Invalid
from taskforge.domain.job import NewJob
from taskforge.domain.tenancy import Project, Quota, QuotaExceeded
from taskforge.storage.directory import Directory
from taskforge.storage.engine import Engine

COUNT_SECONDS = 1.0


class Quotas:
    def __init__(self, engine: Engine, directory: Directory, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._directory = directory
        self._monotonic = monotonic
        self._waiting: dict[int, tuple[float, int]] = {}  # counted when, how many, with what came through here since

    async def admit(self, project: Project, jobs: Sequence[NewJob]) -> None:
        """Raises `QuotaExceeded` when these jobs are more than the project may have."""
        quota = project.quota
        if quota.is_unlimited:
            return
        await self._admit_rate(project.number, quota, jobs)
        if quota.pending_jobs is not None:
            waiting = await self._count(project.number) + len(jobs)
            if waiting > quota.pending_jobs:
                raise QuotaExceeded("pending_jobs", quota.pending_jobs, 5)
            self._waiting[project.number] = (self._waiting[project.number][0], waiting)

    async def _admit_rate(self, project: int, quota: Quota, jobs: Sequence[NewJob]) -> None:
        if quota.enqueue_per_minute is None and quota.payload_bytes_per_minute is None:
            return
        size = sum(len(job.payload) for job in jobs)
        for name, asked, most in (
            ("enqueue_per_minute", len(jobs), quota.enqueue_per_minute),
            ("payload_bytes_per_minute", size, quota.payload_bytes_per_minute),
        ):
            if most is not None and asked > most:
                raise Invalid(
                    "jobs", f"are {asked:,} in one call, more than the quota {name} of {most:,} ever allows", "send fewer"
                )
        exceeded = await self._directory.reserve(project, len(jobs), size, quota)
        if exceeded is not None:
            seconds = max(1.0, (exceeded.until - await self._engine.now()).total_seconds())
            raise QuotaExceeded(exceeded.quota, getattr(quota, exceeded.quota), seconds)

    async def _count(self, project: int) -> int:
        """Counted at most once a second; in between, what came through this server is added. Others' are seen a second later."""
        found = self._waiting.get(project)
        if found is None or self._monotonic() - found[0] > COUNT_SECONDS:
            counted = self._monotonic()
            stats = await self._engine.stats([project])
            found = self._waiting[project] = (counted, sum(one.pending + one.scheduled for one in stats))
        return found[1]

    async def admit_worker(self, project: Project) -> None:
        most = project.quota.workers
        if most is not None and sum(one.accepts_jobs for one in await self._engine.workers([project.number])) >= most:
            raise QuotaExceeded("workers", most, 30)
