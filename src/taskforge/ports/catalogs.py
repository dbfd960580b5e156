"""Queues, workers and which of them belong together."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.query import QueueStats, WorkerTotals
from taskforge.domain.queue import Queue, QueueChange
from taskforge.domain.worker import Worker, WorkerChange


class Queues(Protocol):
    async def change_queue(
        self, project: int, change: QueueChange, note: Note | None = None
    ) -> Queue: ...
    async def queues(self, projects: Sequence[int]) -> list[Queue]: ...
    # Of all queues, or of those with these ids. Of a project with many waiting jobs as they were
    # counted last, unless it is to be exact.
    async def stats(
        self, projects: Sequence[int], *, exact: bool = False, of: Sequence[UUID] | None = None
    ) -> list[QueueStats]: ...


class Workers(Protocol):
    async def change_worker(
        self, project: int, change: WorkerChange, note: Note | None = None
    ) -> Worker: ...
    async def workers(self, projects: Sequence[int]) -> list[Worker]: ...
    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]: ...
    async def change_assignment(
        self, project: int, change: AssignmentChange, note: Note | None = None
    ) -> Assignment: ...
    async def assignments(self, projects: Sequence[int]) -> list[Assignment]: ...
