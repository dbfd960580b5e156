import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskforge.domain.limiter import Bucket
from taskforge.pool import (
    Adaptive,
    FixedRate,
    LeakyBucket,
    LimiterFull,
    RateLimiter,
    TokenBucket,
    WorkerPool,
)
from tests.support.virtual_time import run


def limiter_of(bucket: Bucket, **options: Any) -> RateLimiter:
    return RateLimiter(bucket, clock=asyncio.get_running_loop().time, **options)


def starts(bucket: Bucket, arrivals: list[float]) -> list[float]:
    """When each caller was let through."""

    async def main() -> list[float]:
        loop, limiter, seen = asyncio.get_running_loop(), limiter_of(bucket), []

        async def caller(after: float) -> None:
            await asyncio.sleep(after)
            await limiter.acquire()
            seen.append(loop.time())

        async with asyncio.TaskGroup() as group:
            for after in arrivals:
                group.create_task(caller(after))
        return seen

    return run(main())


def test_each_algorithm_has_its_own_shape() -> None:
    crowd = [0.0] * 6
    assert starts(TokenBucket(1.0, 3.0), crowd) == pytest.approx([0, 0, 0, 1, 2, 3])
    assert starts(FixedRate(1.0), crowd) == pytest.approx([0, 1, 2, 3, 4, 5])
    assert starts(LeakyBucket(1.0, 3.0), crowd) == pytest.approx([0, 1, 2, 3, 4, 5])
    after_a_pause = [0.0, 100.0, 100.0, 100.0]
    assert starts(TokenBucket(1.0, 3.0), after_a_pause) == pytest.approx([0, 100, 100, 100])
    assert starts(LeakyBucket(1.0, 3.0), after_a_pause) == pytest.approx([0, 100, 101, 102])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [TokenBucket(5.0, 4.0), FixedRate(5.0), LeakyBucket(5.0, 4.0), Adaptive(5.0, 4.0)]
    ),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_no_window_sees_more_than_rate_times_length_plus_burst(
    bucket: Bucket, arrivals: list[float]
) -> None:
    seen = starts(bucket, arrivals)
    assert len(seen) == len(arrivals)
    for first in range(len(seen)):
        for last in range(first, len(seen)):
            assert (
                last - first + 1 <= bucket.burst + bucket.rate * (seen[last] - seen[first]) + 1e-3
            )
    assert seen[-1] <= max(arrivals) + len(arrivals) / bucket.rate + 1e-3


async def test_try_acquire_answers_at_once_and_overtakes_nobody() -> None:
    now = 0.0
    limiter = RateLimiter(TokenBucket(10.0, 2.0), clock=lambda: now)
    assert [limiter.try_acquire() for _ in range(3)] == [True, True, False]
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    now = 0.1
    assert limiter.waiting == 1
    assert not limiter.try_acquire()
    await waiting
    assert not limiter.try_acquire()
    now = 1.0
    assert limiter.try_acquire(2.0)
    with pytest.raises(ValueError, match="never admitted"):
        limiter.try_acquire(3.0)


def test_first_come_first_served_and_dear_ones_are_not_passed_by_cheap_ones() -> None:
    async def main() -> None:
        limiter, order = limiter_of(TokenBucket(1.0, 5.0)), []
        assert limiter.try_acquire(5.0)

        async def caller(name: str, cost: float) -> None:
            await limiter.acquire(cost)
            order.append((name, asyncio.get_running_loop().time()))

        async with asyncio.TaskGroup() as group:
            for name, cost in (("dear", 5.0), ("cheap", 1.0), ("cheaper", 0.5)):
                group.create_task(caller(name, cost))
        assert [name for name, _ in order] == ["dear", "cheap", "cheaper"]
        assert [moment for _, moment in order] == pytest.approx([5, 6, 6.5])

    run(main())


def test_a_caller_that_gives_up_costs_nothing() -> None:
    async def main() -> None:
        limiter, loop = limiter_of(FixedRate(1.0)), asyncio.get_running_loop()
        await limiter.acquire()
        impatient = asyncio.create_task(limiter.acquire())
        patient = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0.5)
        impatient.cancel()
        await patient
        assert loop.time() == pytest.approx(1.0)
        # Let through and cancelled in the same turn of the loop: the next one goes instead.
        first, second = (
            asyncio.create_task(limiter.acquire()),
            asyncio.create_task(limiter.acquire()),
        )
        loop.call_later(1.0, first.cancel)
        await second
        assert loop.time() == pytest.approx(2.0)

    run(main())


def test_a_bucket_that_overflows_says_so() -> None:
    async def main() -> None:
        limiter = limiter_of(LeakyBucket(1.0, 1.0), most_waiting=2)
        callers = [asyncio.create_task(limiter.acquire()) for _ in range(5)]
        results = await asyncio.gather(*callers, return_exceptions=True)
        assert Counter(type(result) for result in results) == {type(None): 3, LimiterFull: 2}

    run(main())


def test_adaptive_learns_from_failures_slowness_and_load() -> None:
    async def main() -> None:
        for news in ({"failed": True}, {"seconds": 3.0}, {"overloaded": True}):
            limiter = limiter_of(Adaptive(100.0, 1.0), slow_seconds=2.0)
            assert limiter.rate == 100
            for _ in range(3):
                limiter.report(**news)  # type: ignore[arg-type]
                await asyncio.sleep(1)
            limiter.report(**news)  # type: ignore[arg-type]
            assert limiter.rate == 12.5
            for _ in range(4):
                await asyncio.sleep(1)
                limiter.report(seconds=1.0)
            assert limiter.rate == 32.5

    run(main())


def test_a_pool_keeps_to_its_limiter_and_reports_to_it() -> None:
    async def main() -> None:
        loop, begun = asyncio.get_running_loop(), []

        async def job(number: int) -> None:
            begun.append(loop.time())
            if number < 20:
                raise ValueError

        limiter = limiter_of(Adaptive(10.0, 1.0))
        async with WorkerPool(5, limiter=limiter) as pool:
            await pool.map(job, range(60), return_exceptions=True)
        pace = [
            sum(second <= moment < second + 1 for moment in begun)
            for second in range(int(begun[-1]))
        ]
        assert 10 <= pace[0] <= 11
        assert pace[1] <= 6
        assert min(pace[:4]) <= 4
        assert pace[-1] > min(pace)

    run(main())


async def test_as_a_context_manager_it_learns_from_what_happens_inside() -> None:
    now = 0.0
    limiter = RateLimiter(Adaptive(10.0, 5.0), clock=lambda: now)
    for _ in range(2):
        with pytest.raises(KeyError):
            async with limiter:
                raise KeyError
        now += 1.0
    async with limiter:
        pass
    assert limiter.rate < 10
