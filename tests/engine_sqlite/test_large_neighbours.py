"""What is large in some jobs costs nobody anything who looks for others, or adds them."""

import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from taskforge.domain.job_parts import BRIEF
from taskforge.domain.outcome import ToSucceeded
from tests.support.stores import SqliteStore
from tests.support.world import Clock, World

LARGE = "x" * (2 * 2**20)


@pytest.mark.parametrize("part", ["payload", "result"])
async def test_a_search_reads_no_large_neighbours(
    tmp_path: Path, figure: Callable[[str], None], part: str
) -> None:
    """Without rowids it compared whole rows: every look and every insert read some MiB."""
    store, clock = SqliteStore(tmp_path, durable=False), Clock()
    world = World(store, await store.open(clock), clock)
    await world.queue("default", payload_limit_bytes=8 * 2**20)
    worker = await world.worker()

    async def one(payload: str, result: str) -> None:
        job = await world.enqueue(payload=payload)
        claimed = await world.claim_one(worker)
        await world.finish(claimed.fence, ToSucceeded(f'"{result}"'.encode()))
        await world.engine.get([1], [job], BRIEF)

    async def timed(act: Callable[[], Awaitable[None]]) -> float:
        times = []
        for _ in range(30):
            begun = time.process_time()
            await act()
            times.append(time.process_time() - begun)
        return statistics.median(times)

    for _ in range(16):
        await one("small", "small")
    alone = await timed(lambda: one("small", "small"))
    for _ in range(16):
        await one(*((LARGE, "small") if part == "payload" else ("small", LARGE)))
    beside = await timed(lambda: one("small", "small"))
    figure(f"SQLite, beside large {part}s: {beside * 1e3:.2f} ms, alone {alone * 1e3:.2f} ms")
    assert beside < 2 * alone
    await store.close()
