"""Memory stays flat however many jobs one worker runs."""

import asyncio
import contextlib
import ctypes
import gc
import time
from collections import Counter
from collections.abc import Callable

import psutil
import pytest

from taskforge import Context, Fail, TaskForge
from tests.support.crew import Crew

FIRST = 10_000
BATCH = 2_000
MOST_GROWTH_MB = 4.0


async def _drain(crew: Crew, jobs: int) -> tuple[float, float, float]:
    """Memory in MB after the first 10,000 jobs and after all of them, and the seconds it took."""

    @crew.forge.job()
    async def tiny(ctx: Context, number: int) -> int:
        return number

    worker = await crew.start(slots=100)
    started = time.monotonic()
    first = 0.0
    for done in range(0, jobs, BATCH):
        await tiny.enqueue_many([(number,) for number in range(BATCH)])
        async with asyncio.timeout(60):
            while worker.executor.done < done + BATCH:
                await asyncio.sleep(0.01)
        if done + BATCH == FIRST:
            first = await _memory()
    return first, await _memory(), time.monotonic() - started


async def _memory() -> float:
    """What is in use: free memory goes back first, of which earlier tests in this process leave
    more or less behind. The least of three looks: the last batch may still be on its way to the
    store."""
    looks = []
    for _ in range(3):
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        looks.append(psutil.Process().memory_info().rss / 2**20)
        await asyncio.sleep(0.1)
    return min(looks)


def _report(
    figure: Callable[[str], None], jobs: int, first: float, last: float, seconds: float
) -> None:
    figure(
        f"{jobs:,} jobs through one worker in {seconds:.1f} s: {first:.1f} MB after {FIRST:,}, "
        f"{last:.1f} MB after all"
    )
    assert last - first < MOST_GROWTH_MB


async def test_memory_is_flat_over_30_000_jobs(
    tmp_path: object, figure: Callable[[str], None]
) -> None:
    async with Crew(TaskForge(f"sqlite:///{tmp_path}/jobs.db", durable=False)) as crew:
        _report(figure, 30_000, *await _drain(crew, 30_000))


async def test_a_job_that_is_over_leaves_nothing_for_the_garbage_collector(
    tmp_path: object,
) -> None:
    """Its payload, its context and what it raised are freed at once, not with the next ten
    thousand."""
    async with Crew(TaskForge(f"sqlite:///{tmp_path}/jobs.db", durable=False)) as crew:

        @crew.forge.job()
        async def tiny(ctx: Context, number: int) -> int:
            ctx.progress(0.5)
            if number % 2:
                raise Fail(f"{number} is odd")
            if number % 3 == 0:
                raise ValueError(number)
            return number

        @crew.forge.job()
        def threaded(ctx: Context, number: int) -> int:
            return number

        worker = await crew.start(slots=100, upkeep=False)

        async def run(jobs: int) -> None:
            before = worker.executor.done
            await tiny.enqueue_many([(number,) for number in range(jobs)])
            await threaded.enqueue_many([(number,) for number in range(jobs)])
            async with asyncio.timeout(60):
                while worker.executor.done < before + 2 * jobs or worker.finisher.unsent:
                    await asyncio.sleep(0.01)

        await run(50)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await run(200)
            gc.collect()
            left = Counter(type(one).__name__ for one in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.enable()
            gc.garbage.clear()
        assert not {name: count for name, count in left.items() if count >= 100}, left


@pytest.mark.long
async def test_memory_is_flat_over_100_000_jobs(
    tmp_path: object, figure: Callable[[str], None]
) -> None:
    async with Crew(TaskForge(f"sqlite:///{tmp_path}/jobs.db", durable=False)) as crew:
        _report(figure, 100_000, *await _drain(crew, 100_000))
