"""Jobs as their owners see them: put in, steered, looked at."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.execution import Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Inserted, NewJob, Refused, StoredJob
from taskforge.domain.job_page import Counted, JobPage
from taskforge.domain.job_parts import WHOLE, Parts
from taskforge.domain.log import Level, Line
from taskforge.domain.query import JobFilter, Page


class Jobs(Protocol):
    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]: ...
    async def change(
        self,
        projects: Sequence[int],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]: ...
    async def get(
        self, projects: Sequence[int], jobs: Sequence[UUID], parts: Parts = WHOLE
    ) -> list[StoredJob]: ...
    async def list_jobs(
        self, projects: Sequence[int], wanted: JobFilter, page: Page
    ) -> JobPage: ...
    async def count_jobs(self, projects: Sequence[int], wanted: JobFilter) -> Counted: ...
    # Why a job is not running.
    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation: ...


class Executions(Protocol):
    """What was tried with jobs, and what handlers said meanwhile."""

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]: ...
    async def active_executions(
        self, projects: Sequence[int], *, timed_out: bool, limit: int
    ) -> list[Execution]: ...
    async def logs(
        self,
        projects: Sequence[int],
        job: UUID,
        *,
        least: Level,
        after: int,
        limit: int,
        offset: int,
        execution: UUID | None = None,  # of this one alone
    ) -> list[Line]: ...


@runtime_checkable
class Transactional(Protocol):
    """An engine that can enqueue inside a transaction of the caller's, on the caller's own
    connection to the same database."""

    async def insert_within(
        self, connection: Any, project: int, jobs: Sequence[NewJob]
    ) -> list[Inserted | Refused]: ...
