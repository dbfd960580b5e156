"""Claims jobs as slots come free: at once when a wake-up arrives, by polling when none does."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from uuid import UUID

from taskforge.domain.errors import StoreFault, StoreUnavailable, TaskForgeError
from taskforge.domain.job import Claimed
from taskforge.domain.retry import Patience
from taskforge.ports.work_source import WorkSource
from taskforge.worker.executor import Executor

logger = logging.getLogger("taskforge.worker")
MOST_AT_ONCE = 1_000
MANY_SLOTS = 100
GATHER_SECONDS = 0.003
ANSWER_SECONDS = 2.0
HURRY_SECONDS = REPORT_SECONDS = 0.05


class Fetcher:
    def __init__(
        self,
        source: WorkSource,
        executor: Executor,
        *,
        poll_seconds: float,
        may_claim: Callable[[], bool],
    ) -> None:
        self._source = source
        self._executor = executor
        self._poll_seconds = poll_seconds
        self._may_claim = may_claim
        self._work = asyncio.Event()
        self._patience = Patience()
        self._claimed_at = float("-inf")
        self.leftover: list[Claimed] = []  # claimed while this was being stopped: to be handed back

    @property
    def _gather(self) -> int:
        return max(1, min(self._executor.slots, MOST_AT_ONCE) // 2)

    @property
    def _most(self) -> int:
        """Half of many slots at a time: one half is claimed while the other runs and the one before
        is reported. On PostgreSQL that keeps 1.4 cores busy instead of 1.0 and drains a third more;
        SQLite has one writer, for which it is a seventh more work."""
        return (
            self._gather
            if self._source.side_by_side and self._executor.slots >= MANY_SLOTS
            else MOST_AT_ONCE
        )

    async def _report_first(self) -> None:
        """Claims go on while outcomes are reported, or workers with short jobs and few slots would
        halve their rate. A worker in no hurry waits for its reports: then nobody sees it with more
        jobs than slots."""
        if time.monotonic() - self._claimed_at > HURRY_SECONDS and self._executor.reporting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self._executor.settle()
        self._claimed_at = time.monotonic()

    def wake(self) -> None:
        self._work.set()

    async def run(self, incarnation: UUID) -> None:
        """Until cancelled. Raises `LeaseLost` when the worker must register again."""
        forget = self._source.on_work(self._work.set)
        full = False
        try:
            while True:
                await self._room(1)
                if full:
                    # More is waiting than fits: gather room for a moment, so that a claim brings
                    # many jobs instead of one.
                    await self._room(self._gather, GATHER_SECONDS)
                await self._report_first()
                self._work.clear()
                wanted = min(self._executor.free, self._most)
                jobs = await (
                    self._claim(incarnation, wanted)
                    if self._may_claim()
                    else self._source.end_claim(incarnation)
                )
                full = len(jobs) >= wanted
                if any(job.must_run_alone for job in jobs):
                    jobs = await self._and_no_more(incarnation, jobs)
                if jobs:
                    self._executor.add(jobs)
                if not full:
                    await self._quiet()
        finally:
            forget()
            # Whatever was taken for this worker since its last claim comes here, and nothing more
            # is.
            with contextlib.suppress(TaskForgeError):
                self.leftover += await self._source.end_claim(incarnation)

    async def _and_no_more(self, incarnation: UUID, jobs: list[Claimed]) -> list[Claimed]:
        """One of them must run alone: nothing else must come into these hands now."""
        try:
            return jobs + await self._source.end_claim(incarnation)
        except BaseException:
            self.leftover += jobs
            raise

    async def _claim(self, incarnation: UUID, wanted: int) -> list[Claimed]:
        claiming = asyncio.ensure_future(
            self._source.claim(incarnation, wanted, self._executor.reporting)
        )
        try:
            jobs = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The store may have given us jobs already. Nobody else knows of them, so the answer is
            # waited for.
            await asyncio.wait([claiming], timeout=ANSWER_SECONDS)
            if claiming.done() and claiming.exception() is None:
                self.leftover += claiming.result()
            claiming.cancel()
            raise
        except (StoreUnavailable, StoreFault) as error:
            logger.debug("cannot claim jobs, trying again: %s", error)
            await asyncio.sleep(self._patience.wait(getattr(error, "asked_for", 0.0)))
            return []
        self._patience.forget()
        return jobs

    async def _room(self, slots: int, patience: float | None = None) -> None:
        try:
            async with asyncio.timeout(patience):
                while self._executor.free < slots:
                    self._executor.freed.clear()
                    await self._executor.freed.wait()
        except TimeoutError:
            return

    async def _quiet(self) -> None:
        """Until a wake-up, or the next poll; polls of several workers drift apart."""
        try:
            async with asyncio.timeout(self._poll_seconds * random.uniform(0.75, 1.25)):
                await self._work.wait()
        except TimeoutError:
            return
