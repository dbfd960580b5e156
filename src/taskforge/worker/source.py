"""Where a worker gets its jobs and sends what came of them: an engine here, the server's HTTP protocol elsewhere."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import HandBackOutcome, Outcome
from taskforge.domain.worker import NewWorker, Registered
from taskforge.operations.completing import Ended, complete
from taskforge.storage.engine import Claim, Engine


class Completion(msgspec.Struct, frozen=True, gc=False):
    job: Claimed
    outcome: Outcome
    ran: float | None = None


class WorkSource(Protocol):
    side_by_side: bool  # whether a claim gains from running beside the reports of what ended
    wait_seconds: float  # how long a claim waits for jobs by itself; 0: it answers at once, and `on_work` says when to ask

    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered: ...
    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None: ...
    # `reporting`: so many of its jobs have ended and their outcomes are on the way; they take no slot.
    async def claim(self, incarnation: UUID, limit: int, reporting: int = 0) -> list[Claimed]: ...
    async def end_claim(self, incarnation: UUID) -> list[Claimed]: ...  # what one that waits or stands has comes here, or there
    async def complete(self, completions: Sequence[Completion]) -> list[UUID]: ...  # the fences that were lost
    async def hand_back(self, incarnation: UUID, fences: Sequence[UUID], reason: str) -> list[UUID]: ...  # for who knows no more
    async def beat(self, beats: Sequence[Beat]) -> list[UUID]: ...
    async def log(self, lines: Sequence[NewLine]) -> list[UUID]: ...
    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]: ...


class EngineSource:
    """A work source on an engine in this process: outcomes are decided here, by the one function that decides."""

    def __init__(
        self, engine: Engine, project: int, *, standing: bool = False, chance: Callable[[], float] = random.random
    ) -> None:
        """`standing`: whether a claim stands for what comes next, where the engine can; for a worker that asks on and on."""
        self.engine = engine
        self.side_by_side = engine.side_by_side
        self.wait_seconds = 0.0
        self._project = project
        self._standing = standing and not engine.side_by_side
        self._chance = chance

    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered:
        return await self.engine.register(self._project, worker, lease_seconds)

    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None:
        await self.engine.deregister(incarnation, died=died)

    async def claim(self, incarnation: UUID, limit: int, reporting: int = 0) -> list[Claimed]:
        return await self.engine.claim(Claim(incarnation, limit, standing=self._standing, reporting=reporting))

    async def end_claim(self, incarnation: UUID) -> list[Claimed]:
        return await self.engine.claim(Claim(incarnation, 0)) if self._standing else []

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]:
        return await complete(self.engine, [Ended.of(one.job, one.outcome, one.ran) for one in completions], self._chance)

    async def hand_back(self, incarnation: UUID, fences: Sequence[UUID], reason: str) -> list[UUID]:
        del incarnation
        return await complete(self.engine, [Ended.unspent(fence, HandBackOutcome(reason)) for fence in fences], self._chance)

    async def beat(self, beats: Sequence[Beat]) -> list[UUID]:
        return [one.fence for one in await self.engine.beat(beats)]

    async def log(self, lines: Sequence[NewLine]) -> list[UUID]:
        return [one.fence for one in await self.engine.log(lines)]

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self.engine.on_work(wake)
