"""Changes of many jobs in a store that this process reaches itself."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import Changed, EditJob, JobChange, check_change
from taskforge.domain.query import JobFilter
from taskforge.operations.jobs import SLICE, change_where, dry_run, dry_run_named
from taskforge.operations.naming import find_queue
from taskforge.ports.engine import Engine


class StoreBulkChanges:
    """Implements the port `BulkChanges` on a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def change_matching(
        self, projects: Sequence[int], wanted: JobFilter, change: JobChange
    ) -> Progress:
        await self._check(projects, change)
        so_far = Progress(0, 0)
        async for progress in change_where(self._engine, projects, wanted, change):
            so_far = progress
        return so_far

    async def change_named(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange
    ) -> Progress:
        await self._check(projects, change)
        unique, changed = list(dict.fromkeys(jobs)), 0
        for start in range(0, len(unique), SLICE):
            part = unique[start : start + SLICE]
            answers = await self._engine.change(projects, part, change)
            changed += sum(isinstance(answer, Changed) for answer in answers)
        return Progress(changed, len(unique) - changed)

    async def try_matching(
        self, projects: Sequence[int], wanted: JobFilter, change: JobChange
    ) -> DryRun:
        await self._check(projects, change)
        return await dry_run(self._engine, projects, wanted, change)

    async def try_named(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange
    ) -> DryRun:
        await self._check(projects, change)
        return await dry_run_named(self._engine, projects, jobs, change)

    async def _check(self, projects: Sequence[int], change: JobChange) -> None:
        """A queue that is not there is said once, not refused by each job."""
        check_change(change)
        if isinstance(change, EditJob) and change.queue is not None:
            for project in projects:
                await find_queue(self._engine, change.queue, project)
