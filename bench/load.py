"""Drives an engine as a worker with handlers that do nothing would."""

import asyncio
import time
from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed, NewJob, new_job
from taskforge.domain.outcome import Finish, ToSucceeded, Transition
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.domain.worker import NewWorker
from taskforge.ports.engine import Engine

PROJECT = 1
QUEUE = "default"
PAYLOAD = {"customer": 4711, "template": "welcome"}
RESULT = b'{"sent":true}'
BATCH = 1_000
STUCK_SECONDS = 20.0

_SUCCEED = ToSucceeded(RESULT)
Verdict = Callable[[Claimed], Transition]


def success(_: Claimed) -> Transition:
    return _SUCCEED


def plain_jobs(count: int = BATCH, job_type: str = "noop", queue: str = QUEUE) -> list[NewJob]:
    """A batch that may be inserted again and again: the engine gives each copy an id."""
    return [new_job(queue, job_type, PAYLOAD)] * count


async def make_queue(
    engine: Engine, name: str = QUEUE, settings: QueueSettings | None = None
) -> int:
    return (
        await engine.change_queue(
            PROJECT, CreateQueue(name=name, settings=settings or QueueSettings())
        )
    ).number


async def make_worker(engine: Engine, types: tuple[str, ...] = ("noop",)) -> UUID:
    return (
        await engine.register(
            PROJECT, NewWorker(name="bench", types=types, max_concurrent_jobs=1_000), 7_200
        )
    ).incarnation


async def fill(engine: Engine, count: int, jobs: Sequence[NewJob]) -> float:
    """Insert `count` jobs, one batch after the other; returns the rate."""
    started = time.perf_counter()
    for start in range(0, count, len(jobs)):
        await engine.insert(PROJECT, jobs[: count - start])
    return count / (time.perf_counter() - started)


async def singles(engine: Engine, count: int, callers: int) -> float:
    """`callers` at once, each awaiting one insert after the other."""
    job = plain_jobs(1)

    async def caller() -> None:
        for _ in range(count // callers):
            await engine.insert(PROJECT, job)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count // callers * callers / (time.perf_counter() - started)


class Drain(msgspec.Struct):
    """Claims and finishes until `enough` transitions were applied, or `until` (of
    `time.perf_counter`) has come."""

    engine: Engine
    incarnation: UUID
    limit: int
    enough: float = float("inf")
    until: float = float("inf")
    verdict: Verdict = success
    refill: Sequence[NewJob] = ()  # inserted before each claim
    done: int = 0
    lost: int = 0
    seconds: float = 0.0
    claims: list[float] = []
    finishes: list[float] = []
    _progress: float = 0.0

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    async def run(self, loops: int) -> "Drain":
        """`loops` at once, each of them claim, finish, claim; 0: one that finishes and claims in
        one call."""
        self._progress = started = time.perf_counter()
        await asyncio.gather(*([self._loop() for _ in range(loops)] or [self._turns()]))
        self.seconds = time.perf_counter() - started
        if self.lost:
            raise RuntimeError(f"{self.lost} of {self.done} finishes were lost")
        return self

    async def _loop(self) -> None:
        claim, clock = Claim(self.incarnation, self.limit), time.perf_counter
        while self._goes_on():
            if self.refill:
                await self.engine.insert(PROJECT, self.refill)
            start = clock()
            claimed = await self.engine.claim(claim)
            if not claimed:
                await asyncio.sleep(0.001)
                continue
            middle = clock()
            lost = await self.engine.finish(self._finishes(claimed))
            self._count(len(claimed), len(lost))
            self.claims.append(middle - start)
            self.finishes.append(clock() - middle)

    async def _turns(self) -> None:
        claim = Claim(self.incarnation, self.limit)
        finishes: list[Finish] = []
        while self._goes_on(len(finishes)):
            if self.refill:
                await self.engine.insert(PROJECT, self.refill)
            # Side by side: on SQLite the two share a commit.
            lost, claimed = await asyncio.gather(
                self.engine.finish(finishes), self.engine.claim(claim)
            )
            self._count(len(finishes), len(lost))
            if not claimed and not finishes:
                await asyncio.sleep(0.001)
            finishes = self._finishes(claimed)
        lost = await self.engine.finish(finishes) if finishes else []
        self._count(len(finishes), len(lost))

    def _finishes(self, claimed: list[Claimed]) -> list[Finish]:
        verdict = self.verdict
        return [Finish(job.fence, verdict(job), 0.001) for job in claimed]

    def _count(self, done: int, lost: int) -> None:
        self.done += done
        self.lost += lost
        if done:
            self._progress = time.perf_counter()

    def _goes_on(self, in_hand: int = 0) -> bool:
        now = time.perf_counter()
        if now - self._progress > STUCK_SECONDS:
            raise RuntimeError(
                f"no job came for {STUCK_SECONDS:.0f} s, {self.done:,} of {self.enough:,.0f} "
                f"are done"
            )
        return self.done + in_hand < self.enough and now < self.until
