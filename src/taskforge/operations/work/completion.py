"""From what a worker reports to what the store does: every outcome is decided here, by the one
function that decides."""

import random
from collections.abc import Callable, Sequence
from typing import Self
from uuid import UUID

import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.custom_value import CustomSum
from taskforge.domain.execution import Beat
from taskforge.domain.ids import epoch_of
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import Attempt, Finish, HandBackOutcome, Outcome, TimedOut, decide
from taskforge.domain.queue import QueueSettings
from taskforge.domain.worker import NewWorker, Registered
from taskforge.operations.custom_metrics import count_customs
from taskforge.operations.work.held_jobs import find_held
from taskforge.ports.engine import Engine
from taskforge.ports.work_source import Completion


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An attempt that came to an end, with what `decide` must know of it."""

    fence: UUID
    attempt: Attempt
    policy: QueueSettings
    outcome: Outcome
    ran: float | None = None

    @classmethod
    def of(cls, job: Claimed, outcome: Outcome, ran: float | None) -> Self:
        """By what the claim said of the job."""
        return cls(job.fence, attempt_of(job), job.policy, outcome, ran)

    @classmethod
    def unspent(cls, fence: UUID, outcome: HandBackOutcome) -> Self:
        """By its fence alone: what is handed back is as it was, whatever its policy and its
        attempts are."""
        return cls(fence, Attempt(1, 1, 0, epoch_of(fence)), QueueSettings(), outcome)


def attempt_of(job: Claimed) -> Attempt:
    return Attempt(job.attempt, job.max_attempts, job.crashes, epoch_of(job.fence))


async def complete(
    engine: Engine, ended: Sequence[Ended], chance: Callable[[], float]
) -> list[UUID]:
    """Finish them; the fences that were lost come back."""
    lost = await engine.finish([_finish(one, one.attempt, chance()) for one in ended])
    if not lost:
        return []
    asked = {one.fence for one in lost if one.cancel_requested}
    gone = [one.fence for one in lost if not one.cancel_requested]
    if asked:
        # A cancel came while the handler ran: what would have let the job live on is decided again.
        again = [
            _finish(one, msgspec.structs.replace(one.attempt, cancel_requested=True), chance())
            for one in ended
            if one.fence in asked
        ]
        gone += [one.fence for one in await engine.finish(again)]
    return gone


def _finish(ended: Ended, attempt: Attempt, chance: float) -> Finish:
    return Finish(ended.fence, decide(attempt, ended.outcome, ended.policy, chance), ended.ran)


class StoreSource:
    """Where a worker of this process gets its jobs; a server's workers come to `worker_desk.py`."""

    def __init__(
        self,
        engine: Engine,
        project: int,
        *,
        standing: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`standing`: whether a claim stands for what comes next, where the engine can; for a
        worker that asks on and on."""
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
        return await self.engine.claim(
            Claim(incarnation, limit, standing=self._standing, reporting=reporting)
        )

    async def end_claim(self, incarnation: UUID) -> list[Claimed]:
        return await self.engine.claim(Claim(incarnation, 0)) if self._standing else []

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]:
        return await complete(
            self.engine,
            [Ended.of(one.job, one.outcome, one.ran) for one in completions],
            self._chance,
        )

    async def hand_back(self, incarnation: UUID, fences: Sequence[UUID], reason: str) -> list[UUID]:
        del incarnation
        return await complete(
            self.engine,
            [Ended.unspent(fence, HandBackOutcome(reason)) for fence in fences],
            self._chance,
        )

    async def time_out(self, incarnation: UUID, fence: UUID, seconds: float) -> list[UUID]:
        held = await find_held(self.engine, self._project, incarnation, {fence})
        return await complete(
            self.engine,
            [Ended(one.fence, one.attempt, one.policy, TimedOut(seconds)) for one in held],
            self._chance,
        )

    async def beat(self, beats: Sequence[Beat]) -> list[UUID]:
        return [one.fence for one in await self.engine.beat(beats)]

    async def log(self, lines: Sequence[NewLine]) -> list[UUID]:
        return [one.fence for one in await self.engine.log(lines)]

    async def count(self, sums: Sequence[CustomSum]) -> None:
        await count_customs(self.engine, self._project, sums)

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self.engine.on_work(wake)
