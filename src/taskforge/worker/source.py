"""Where a worker gets its jobs and sends what came of them: an engine here, the server's HTTP protocol elsewhere."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from taskforge.domain.execution import Beat
from taskforge.domain.ids import epoch_of
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Attempt, Finish, Outcome, decide
from taskforge.domain.worker import NewWorker, Registered
from taskforge.storage.engine import Claim, Engine


class Completion(msgspec.Struct, frozen=True):
    job: Claimed
    outcome: Outcome
    ran: float | None = None


class WorkSource(Protocol):
    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered: ...
    async def deregister(self, incarnation: UUID) -> None: ...
    async def claim(self, incarnation: UUID, limit: int) -> list[Claimed]: ...
    async def complete(self, completions: Sequence[Completion]) -> list[UUID]: ...  # the fences that were lost
    async def beat(self, beats: Sequence[Beat]) -> list[UUID]: ...
    async def log(self, lines: Sequence[NewLine]) -> list[UUID]: ...
    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]: ...


class EngineSource:
    """A work source on an engine in this process: outcomes are decided here, by the one function that decides."""

    def __init__(self, engine: Engine, project: int, chance: Callable[[], float] = random.random) -> None:
        self.engine = engine
        self._project = project
        self._chance = chance

    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered:
        return await self.engine.register(self._project, worker, lease_seconds)

    async def deregister(self, incarnation: UUID) -> None:
        await self.engine.deregister(incarnation)

    async def claim(self, incarnation: UUID, limit: int) -> list[Claimed]:
        return await self.engine.claim(Claim(incarnation, limit))

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]:
        lost = await self.engine.finish([self._finish(one) for one in completions])
        asked = {one.fence for one in lost if one.cancel_requested}
        gone = [one.fence for one in lost if not one.cancel_requested]
        if asked:
            # A cancel came while the handler ran: what would have let the job live on is decided again.
            again = [self._finish(one, cancel_requested=True) for one in completions if one.job.fence in asked]
            gone += [one.fence for one in await self.engine.finish(again)]
        return gone

    def _finish(self, completion: Completion, *, cancel_requested: bool = False) -> Finish:
        job = completion.job
        attempt = Attempt(job.attempt, job.max_attempts, job.crashes, epoch_of(job.fence), cancel_requested)
        return Finish(job.fence, decide(attempt, completion.outcome, job.policy, self._chance()), completion.ran)

    async def beat(self, beats: Sequence[Beat]) -> list[UUID]:
        return [one.fence for one in await self.engine.beat(beats)]

    async def log(self, lines: Sequence[NewLine]) -> list[UUID]:
        return [one.fence for one in await self.engine.log(lines)]

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self.engine.on_work(wake)
