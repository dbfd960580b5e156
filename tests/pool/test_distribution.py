"""Workers with queues of their own."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from taskforge.pool import PoolFull, WorkerPool
from tests.support.virtual_time import run


def shares(distribution: Any, jobs: list[tuple[float, str | None]], **options: Any) -> list[int]:
    """How many jobs each worker got; each job is (seconds, key)."""

    async def main() -> list[int]:
        async with WorkerPool(
            **({"size": 4, "buffer": 400} | options), distribution=distribution
        ) as pool:
            for seconds, key in jobs:
                await pool.submit(asyncio.sleep, seconds, key=key)
        return [worker.succeeded for worker in pool.stats().workers]

    return run(main())


def test_round_robin_and_weights_share_out_by_count() -> None:
    jobs = [(1.0, None)] * 70
    assert shares("round_robin", jobs[:40]) == [10, 10, 10, 10]
    assert shares("weighted", jobs, weights=[4, 1, 1, 1]) == [40, 10, 10, 10]


def test_least_load_avoids_those_with_long_jobs() -> None:
    counts = shares("least_load", [(1_000.0, None), *[(1.0, None)] * 40], buffer=40)
    assert counts[0] <= 11
    assert sum(counts) == 41


def test_the_same_key_goes_to_the_same_worker() -> None:
    async def main() -> None:
        seen: dict[str, set[str]] = {}
        async with WorkerPool(5, distribution="sticky") as pool:
            before = {worker.name: worker.succeeded for worker in pool.stats().workers}
            for key in [f"user {number}" for number in range(20)] * 5:
                await (await pool.submit(asyncio.sleep, 0.0, key=key))
                now = {worker.name: worker.succeeded for worker in pool.stats().workers}
                seen.setdefault(key, set()).update(name for name in now if now[name] > before[name])
                before = now
        assert {len(names) for names in seen.values()} == {1}
        assert len(set.union(*seen.values())) >= 4

    run(main())


def test_without_a_key_nothing_sticks_and_a_full_home_is_left() -> None:
    assert shares("sticky", [(1.0, None)] * 40) == [10, 10, 10, 10]
    crowded = shares("sticky", [(1.0, "all the same")] * 12, buffer=8)
    assert Counter(crowded)[0] < 3


def test_adaptive_prefers_the_fast_worker() -> None:
    async def main() -> Counter[str]:
        counts: Counter[str] = Counter()
        async with WorkerPool(3, distribution="adaptive", buffer=3) as pool:

            async def job() -> None:
                # The second worker is slow, however it came to be.
                name = next(
                    worker.name
                    for worker in pool._crew.workers
                    if worker.task is asyncio.current_task()
                )  # type: ignore[union-attr]
                counts[name] += 1
                await asyncio.sleep(10.0 if name == "worker-1" else 1.0)

            for _ in range(200):
                await pool.submit(job)
        return counts

    counts = run(main())
    assert counts["worker-1"] < counts.total() / 6


async def test_each_queue_holds_its_part_of_the_buffer() -> None:
    free = asyncio.Event()
    async with WorkerPool(2, buffer=4, when_full="reject", distribution="round_robin") as pool:
        for _ in range(6):
            await pool.submit(free.wait)
        assert [worker.buffered for worker in pool.stats().workers] == [2, 2]
        with pytest.raises(PoolFull):
            await pool.submit(free.wait)
        free.set()


def test_weights_fit_the_size() -> None:
    with pytest.raises(ValueError, match="use 2 whole numbers"):
        WorkerPool(2, distribution="weighted", weights=[1, 2, 3])
    with pytest.raises(ValueError, match="weights"):
        WorkerPool(2, distribution="least_load", weights=[1, 2])
