"""Groups of failures: asked of a store, or of a server in front of one."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import DeleteJob, RetryJob
from taskforge.domain.failure_group import FailureDetails, GroupPage, GroupQuery


class Failures(Protocol):
    async def groups(self, projects: Sequence[int], query: GroupQuery) -> GroupPage: ...
    # With the jobs that are in it now, and one failure as it was.
    async def details(self, projects: Sequence[int], group: UUID) -> FailureDetails: ...
    # All jobs that are in it now: those that have failed, and dead letters that wait. `limit`:
    # about so many; the cursor of what came of it leads on.
    async def change(
        self,
        projects: Sequence[int],
        group: UUID,
        change: RetryJob | DeleteJob,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Progress: ...
    # Nothing is changed; jobs are counted up to a bound.
    async def try_change(self, projects: Sequence[int], group: UUID) -> DryRun: ...
