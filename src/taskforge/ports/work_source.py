"""Where a worker gets its jobs and sends what came of them: a store in this process, the worker
protocol of a server elsewhere."""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from taskforge.domain.custom_value import CustomSum
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Outcome
from taskforge.domain.worker import NewWorker, Registered


class Completion(msgspec.Struct, frozen=True, gc=False):
    job: Claimed
    outcome: Outcome
    ran: float | None = None


class JobReports(Protocol):
    """What came of jobs. Each answers with the fences that were lost."""

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]: ...
    # for who knows no more
    async def hand_back(
        self, incarnation: UUID, fences: Sequence[UUID], reason: str
    ) -> list[UUID]: ...
    async def time_out(self, incarnation: UUID, fence: UUID, seconds: float) -> list[UUID]: ...
    async def beat(self, beats: Sequence[Beat]) -> list[UUID]: ...
    async def log(self, lines: Sequence[NewLine]) -> list[UUID]: ...
    async def count(self, sums: Sequence[CustomSum]) -> None: ...


class WorkSource(JobReports, Protocol):
    side_by_side: bool  # whether a claim gains from running beside the reports of what ended
    # how long a claim waits for jobs by itself; 0: it answers at once, and `on_work` says when to
    # ask
    wait_seconds: float

    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered: ...
    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None: ...
    # `reporting`: so many of its jobs have ended and their outcomes are on the way; they take no
    # slot.
    async def claim(self, incarnation: UUID, limit: int, reporting: int = 0) -> list[Claimed]: ...
    # what one that waits or stands has comes here, or there
    async def end_claim(self, incarnation: UUID) -> list[Claimed]: ...
    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]: ...
