"""Waiting for what came of jobs: one, many, those that failed, and those that nobody runs."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from taskforge import JobCancelled, JobDeadLettered, JobFailed, TaskForge
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.sdk.waiter import Waiter
from tests.support.crew import Crew


async def test_each_way_to_end_without_a_result_has_an_exception_of_its_own(
    crew_on_each: Crew,
) -> None:
    forge = crew_on_each.forge
    forge.queue("strict", dead_letter_queue="lost", max_retries=0)

    @forge.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("boom")

    @forge.job(queue="strict")
    async def dies() -> None:
        raise ValueError("boom")

    later = await fails.options(delay=3600).enqueue()
    await later.cancel("ticket 17")
    with pytest.raises(JobCancelled, match="ticket 17"):
        await later.result(20)
    await crew_on_each.start()
    with pytest.raises(JobFailed, match="ValueError: boom") as failed:
        await (await fails.enqueue()).result(20)
    assert type(failed.value) is JobFailed
    with pytest.raises(JobDeadLettered, match="is in dead letter queue 'lost'"):
        await (await dies.enqueue()).result(20)


@pytest.mark.parametrize("timeout", [0.0, 0.05])
async def test_a_timeout_ends_with_why_nothing_happened(crew_on_each: Crew, timeout: float) -> None:
    @crew_on_each.forge.job()
    async def work() -> None: ...

    handle = await work.enqueue()
    with pytest.raises(TimeoutError, match=r"has not ended.*; no worker of its project is online"):
        await handle.result(timeout)


async def test_results_of_many_come_in_their_order(crew: Crew) -> None:
    @crew.forge.job()
    async def double(number: int) -> int:
        return 2 * number

    await crew.start(slots=50)
    handles = await double.enqueue_many([(number,) for number in range(300)])
    assert await crew.forge.results(handles, timeout=60) == [2 * number for number in range(300)]


class Store:
    """Answers looks like a store whose jobs have ended, but for those that run on."""

    def __init__(self, running: Sequence[UUID] = ()) -> None:
        self.running = set(running)
        self.looks: list[int] = []

    async def look(self, jobs: Sequence[UUID]) -> list[Any]:
        self.looks.append(len(jobs))
        await asyncio.sleep(0)
        return [
            Ended(job, JobStatus.PROCESSING if job in self.running else JobStatus.SUCCEEDED)
            for job in jobs
        ]


class Ended:
    is_dead_letter = False

    def __init__(self, identifier: UUID, status: JobStatus) -> None:
        self.id, self.status = identifier, status


async def test_a_result_that_is_there_is_not_waited_for() -> None:
    """One by one took 6 ms each: whoever came while the waiter slept waited for it to wake."""
    store = Store(running=[UUID(int=0)])
    waiter = Waiter(store.look)
    hanging = asyncio.create_task(waiter.wait(UUID(int=0)))
    started = time.monotonic()
    for number in range(1, 1_001):
        assert (await waiter.wait(UUID(int=number))).id == UUID(int=number)
    assert time.monotonic() - started < 2.0  # 6 s before
    # The one that runs on is looked at again meanwhile, and not in every look.
    assert 1 < sum(size > 1 for size in store.looks) < 900
    store.running.clear()
    assert (await asyncio.wait_for(hanging, 10)).status is JobStatus.SUCCEEDED
    await waiter.close()


async def test_whoever_waits_together_is_looked_at_together() -> None:
    store = Store()
    waiter = Waiter(store.look)
    await asyncio.gather(*(waiter.wait(UUID(int=number)) for number in range(10_000)))
    assert store.looks == [10_000]
    await waiter.close()


async def test_one_by_one_costs_little_more_than_a_look(sqlite_url: str) -> None:
    forge = TaskForge(sqlite_url)

    @forge.job()
    async def work(number: int) -> int:
        return number

    async with forge:
        working = asyncio.create_task(forge.work(slots=50))
        handles = await work.enqueue_many([(number,) for number in range(400)])
        await forge.results(handles, timeout=60)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

        async def timed(call: Any) -> float:
            started = time.perf_counter()
            for handle in handles:
                await call(handle)
            return time.perf_counter() - started

        async def look(handle: Any) -> StoredJob:
            return await forge.get(handle.id)

        async def result(handle: Any) -> Any:
            return await handle.result(5)

        ratios = sorted([await timed(result) / await timed(look) for _ in range(5)])
        assert ratios[2] < 2.0, ratios  # 1.2 to 1.5 on a quiet machine, about 20 before
