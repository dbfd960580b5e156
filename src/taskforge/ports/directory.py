"""Queues, workers and assignments, some of them at a time: what is read costs what is shown."""

from collections.abc import Collection, Sequence
from typing import Protocol

from taskforge.domain.assignment import Assignment
from taskforge.domain.name_pages import AssignmentPage, Listed, NamePage
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker


class Directory(Protocol):
    async def list_queues(self, projects: Sequence[int], page: NamePage) -> Listed[Queue]: ...
    # By name or id; of each project one at most. Those of that name come first.
    async def find_queues(self, projects: Sequence[int], name: str) -> list[Queue]: ...
    async def list_workers(self, projects: Sequence[int], page: NamePage) -> Listed[Worker]: ...
    # By name, id or incarnation, earlier lives first. Those of that name come first.
    async def find_workers(self, projects: Sequence[int], name: str) -> list[Worker]: ...
    async def list_assignments(
        self, projects: Sequence[int], page: AssignmentPage
    ) -> Listed[Assignment]: ...


class StoreDirectory(Directory, Protocol):
    # By number, deleted ones too.
    async def name_queues(self, numbers: Collection[int]) -> dict[int, str]: ...
    # How many there are, counted up to so many.
    async def count_queues(self, projects: Sequence[int], most: int) -> int: ...
