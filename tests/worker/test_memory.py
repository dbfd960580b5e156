"""Memory stays flat however many jobs one worker runs."""

import asyncio
import contextlib
import ctypes
import gc
import time
from collections.abc import Callable

import psutil
import pytest

from taskforge import Context, TaskForge
from tests.worker.crew import Crew

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
            first = _memory()
    return first, _memory(), time.monotonic() - started


def _memory() -> float:
    """What is in use: free memory goes back first, of which earlier tests in this process leave more or less behind."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss / 2**20


def _report(figure: Callable[[str], None], jobs: int, first: float, last: float, seconds: float) -> None:
    figure(f"{jobs:,} jobs through one worker in {seconds:.1f} s: {first:.1f} MB after {FIRST:,}, {last:.1f} MB after all")
    assert last - first < MOST_GROWTH_MB


async def test_memory_is_flat_over_30_000_jobs(tmp_path: object, figure: Callable[[str], None]) -> None:
    async with Crew(TaskForge(f"sqlite:///{tmp_path}/jobs.db", durable=False)) as crew:
        _report(figure, 30_000, *await _drain(crew, 30_000))


@pytest.mark.long
async def test_memory_is_flat_over_100_000_jobs(tmp_path: object, figure: Callable[[str], None]) -> None:
    async with Crew(TaskForge(f"sqlite:///{tmp_path}/jobs.db", durable=False)) as crew:
        _report(figure, 100_000, *await _drain(crew, 100_000))
