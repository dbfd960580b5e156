"""Changes of many jobs: asked of a store, or of a server in front of one. Jobs that do not allow a
change are counted, not raised."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from taskforge.domain.bulk import DryRun, Progress
from taskforge.domain.changes import JobChange
from taskforge.domain.query import JobFilter


class BulkChanges(Protocol):
    # An empty filter is every job of these projects.
    async def change_matching(
        self, projects: Sequence[int], wanted: JobFilter, change: JobChange
    ) -> Progress: ...
    async def change_named(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange
    ) -> Progress: ...
    # Nothing is changed; what matches is counted up to a bound.
    async def try_matching(
        self, projects: Sequence[int], wanted: JobFilter, change: JobChange
    ) -> DryRun: ...
    async def try_named(
        self, projects: Sequence[int], jobs: Sequence[UUID], change: JobChange
    ) -> DryRun: ...
