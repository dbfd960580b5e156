"""Stopping: what runs is finished within the grace time, the rest is handed back, and no attempt is
spent."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from taskforge import Context
from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed, JobStatus
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Worker
from taskforge.operations.work.completion import StoreSource
from taskforge.ports.work_source import Completion, WorkSource
from taskforge.worker.http_source import HttpSource
from taskforge.worker.worker import LiveWorker
from tests.support.crew import Crew, until


async def _row(crew: Crew, worker: LiveWorker) -> Worker:
    [row] = [
        one
        for one in await (await crew.forge.engine()).workers([FIRST_PROJECT])
        if one.name == worker.name
    ]
    return row


async def test_what_runs_is_finished_and_what_waits_is_handed_back(crew_on_each: Crew) -> None:
    began = asyncio.Event()
    release = asyncio.Event()

    @crew_on_each.forge.job()
    async def work(number: int) -> int:
        began.set()
        await release.wait()
        return number

    worker = await crew_on_each.start(slots=2)
    handles = await work.enqueue_many([(number,) for number in range(6)])
    await began.wait()
    worker.stop()
    async with asyncio.timeout(5):
        while (await _row(crew_on_each, worker)).status != "draining":
            await asyncio.sleep(0.02)
    release.set()
    await crew_on_each.ended(worker)
    jobs = [await handle.job() for handle in handles]
    assert [job.status for job in jobs] == ["succeeded"] * 2 + ["pending"] * 4
    assert [job.attempt_count for job in jobs] == [1, 1, 0, 0, 0, 0]
    assert (await _row(crew_on_each, worker)).status == "offline"


async def test_after_the_grace_time_jobs_are_handed_back_without_spending_an_attempt(
    crew_on_each: Crew,
) -> None:
    began: list[str] = []

    @crew_on_each.forge.job()
    async def endless() -> None:
        began.append("loop")
        await asyncio.sleep(60)

    @crew_on_each.forge.job()
    def in_thread(ctx: Context) -> None:
        began.append("thread")
        while not ctx.cancelled:
            time.sleep(0.01)

    worker = await crew_on_each.start(grace_seconds=0.5)
    handles = [await endless.enqueue(), await in_thread.enqueue()]
    await until(lambda: len(began) == 2)
    started = time.monotonic()
    await crew_on_each.stop(worker)
    took = time.monotonic() - started
    assert 0.4 < took < 2.5
    for handle in handles:
        job = await handle.job()
        assert (job.status, job.attempt_count, job.crash_count) == ("pending", 0, 0)
        [execution] = await crew_on_each.executions(handle.id)
        assert (execution.status, execution.reason) == ("cancelled", "worker stopped (shutdown)")


async def test_a_second_stop_is_at_once(crew: Crew) -> None:
    began = asyncio.Event()

    @crew.forge.job()
    async def endless() -> None:
        began.set()
        await asyncio.sleep(60)

    worker = await crew.start(grace_seconds=60)
    handle = await endless.enqueue()
    await began.wait()
    worker.stop()
    await asyncio.sleep(0.1)
    started = time.monotonic()
    await crew.stop(worker)
    assert time.monotonic() - started < 2
    assert ((await handle.job()).status, (await handle.job()).attempt_count) == ("pending", 0)


async def test_a_stuck_thread_does_not_hold_up_the_stop(crew: Crew) -> None:
    began, release = threading.Event(), threading.Event()

    @crew.forge.job()
    def deaf() -> None:
        began.set()
        release.wait(30)

    worker = await crew.start(grace_seconds=0.2)
    handle = await deaf.enqueue()
    await until(began.is_set)
    started = time.monotonic()
    await crew.stop(worker)
    assert time.monotonic() - started < 2.2
    assert (await handle.job()).status == "pending"
    assert worker.executor.has_stuck
    release.set()


@pytest.mark.rotates
async def test_a_handler_that_cleans_up_for_too_long_or_will_not_stop_does_not_hold_up_the_stop(
    crew: Crew,
) -> None:
    began: list[str] = []
    release = asyncio.Event()

    @crew.forge.job()
    async def slow_to_leave() -> None:
        began.append("slow")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(30)

    @crew.forge.job()
    async def stubborn() -> None:
        began.append("stubborn")
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(release.wait(), 30)

    worker = await crew.start(grace_seconds=0.2)
    handles = [await slow_to_leave.enqueue(), await stubborn.enqueue()]
    await until(lambda: len(began) == 2)
    started = time.monotonic()
    await crew.stop(worker)
    assert time.monotonic() - started < 8
    assert worker.executor.has_stuck
    for handle in handles:
        job = await handle.job()
        assert (job.status, job.attempt_count) == ("pending", 0)
    release.set()
    await until(lambda: not worker.executor.has_stuck)


async def test_what_comes_of_being_stopped_is_not_a_failure(crew: Crew) -> None:
    began = asyncio.Event()

    @crew.forge.job(max_attempts=1)
    async def translating() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ConnectionError("the server went away") from None

    worker = await crew.start(grace_seconds=0.1, upkeep=False)
    handle = await translating.enqueue()
    await began.wait()
    await crew.stop(worker)
    job = await handle.job()
    assert (job.status, job.attempt_count) == ("pending", 0)


async def test_enough_jobs_done_is_not_the_first_word_to_stop(crew: Crew) -> None:
    """The first word from outside still leaves what runs its grace time."""
    began, release = asyncio.Event(), asyncio.Event()

    @crew.forge.job()
    async def slow() -> str:
        began.set()
        await release.wait()
        return "finished"

    worker = await crew.start(slots=2, upkeep=False)
    handle = await slow.enqueue()
    await began.wait()
    worker._stop.set()  # as the sweep does
    worker.stop()
    asyncio.get_running_loop().call_later(0.5, release.set)
    await crew.ended(worker)
    assert await handle.result(5) == "finished"


async def test_jobs_claimed_at_the_moment_of_the_stop_are_handed_back(crew: Crew) -> None:
    """A claim whose answer is under way when the worker stops has taken jobs that nobody would know
    of."""

    @crew.forge.job()
    async def work() -> None: ...

    handles = await work.enqueue_many([()] * 5)
    worker = await crew.forge.worker(slots=5)
    source = SlowClaims(worker, worker._source)
    worker._source = source  # type: ignore[assignment]
    await worker.run()
    assert source.claimed == 5
    assert [((await one.job()).status, (await one.job()).attempt_count) for one in handles] == [
        ("pending", 0)
    ] * 5


class SlowClaims:
    """A source that is told to stop while a claim's answer is on its way."""

    def __init__(self, worker: Any, source: WorkSource) -> None:
        self._worker, self._inner, self.claimed = worker, source, 0

    async def claim(self, incarnation: UUID, limit: int, reporting: int = 0) -> Sequence[Claimed]:
        jobs = await self._inner.claim(incarnation, limit, reporting)
        self.claimed += len(jobs)
        self._worker.stop()
        await asyncio.sleep(0.2)
        return jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_work_in_a_script_stops_when_cancelled(crew: Crew) -> None:
    began = asyncio.Event()

    @crew.forge.job()
    async def work() -> str:
        began.set()
        await asyncio.sleep(0.3)
        return "done"

    @crew.forge.job()
    async def endless() -> None:
        await asyncio.sleep(60)

    working = asyncio.create_task(crew.forge.work())
    handle = await work.enqueue()
    await began.wait()
    working.cancel()
    await asyncio.wait([working])
    assert working.cancelled()
    assert await handle.result(5) == "done"
    working = asyncio.create_task(crew.forge.work(grace_seconds=60))
    handle2 = await endless.enqueue()
    async with asyncio.timeout(10):
        while await handle2.status() != "processing":
            await asyncio.sleep(0.02)
    working.cancel()
    await asyncio.sleep(0.1)
    working.cancel()
    await asyncio.wait([working], timeout=5)
    assert working.cancelled()
    assert (await handle2.job()).attempt_count == 0


async def test_a_worker_stops_after_so_many_jobs_and_runs_no_more(crew_on_each: Crew) -> None:
    ran: list[int] = []

    @crew_on_each.forge.job()
    async def work(number: int) -> None:
        ran.append(number)

    await crew_on_each.forge.engine()
    await work.enqueue_many([(number,) for number in range(30)])
    worker = await crew_on_each.start(max_jobs=3)
    await crew_on_each.ended(worker)
    assert (len(ran), worker.executor.done) == (3, 3)
    worker = await crew_on_each.start(max_jobs=27, slots=4)
    await crew_on_each.ended(worker)
    assert sorted(ran) == list(range(30))


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_a_worker_hands_back_at_once_what_is_more_than_it_may_run(crew: Crew) -> None:
    """Two claims may be under way at the same time and both bring jobs."""
    go = asyncio.Event()

    @crew.forge.job()
    async def work(number: int) -> int:
        await go.wait()
        return number

    first = await crew.start(max_jobs=1, slots=4)
    one = await work.enqueue(1)
    await until(lambda: first.executor.busy == 1)
    surplus = await work.enqueue(2)
    engine = await crew.forge.engine()
    [incarnation] = [worker.incarnation for worker in await engine.workers([engine.home])]
    first.executor.add(await engine.claim(Claim(incarnation, 1)))
    await until(lambda: not first.finisher.unsent)
    assert (first.executor.busy, (await crew.forge.get(surplus.id)).status) == (
        1,
        JobStatus.PENDING,
    )
    go.set()
    assert (await crew.end(one)).status is JobStatus.SUCCEEDED


async def test_an_unhealthy_worker_claims_nothing_and_says_so(crew: Crew, monkeypatch: Any) -> None:
    healthy = False
    ran: list[int] = []

    @crew.forge.job()
    async def work() -> None:
        ran.append(1)

    async def check() -> bool:
        return healthy

    worker = await crew.start(health_check=check, health_check_seconds=0.05)
    engine = await crew.forge.engine()

    async def status() -> str:
        [row] = [one for one in await engine.workers([FIRST_PROJECT]) if one.name == worker.name]
        return row.status

    async with asyncio.timeout(10):
        while await status() != "unhealthy":
            await asyncio.sleep(0.05)
    handle = await work.enqueue()
    await asyncio.sleep(0.5)
    assert ran == []
    healthy = True
    await crew.end(handle)
    async with asyncio.timeout(10):
        while await status() != "online":
            await asyncio.sleep(0.05)


async def test_a_store_that_stands_still_and_swallows_a_cancel_does_not_hold_up_the_stop(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `asyncio.wait_for` does before Python 3.12 when the answer and the cancel meet."""
    swallowed = 0

    async def stand_still(source: Any, completions: Sequence[Completion]) -> list[UUID]:
        nonlocal swallowed
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if swallowed:
                raise
            swallowed += 1
        return []

    @crew.forge.job()
    async def work() -> None: ...

    worker = await crew.start()
    for source in (StoreSource, HttpSource):
        monkeypatch.setattr(source, "complete", stand_still)
    await work.enqueue()
    await until(lambda: worker.executor.done == 1)
    monkeypatch.setattr("taskforge.worker.worker.STOP_SECONDS", -2.5)  # the rest is told for 0.5 s
    async with asyncio.timeout(10):
        await crew.stop(worker)
    assert swallowed == 1
