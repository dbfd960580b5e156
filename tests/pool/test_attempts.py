"""Timeouts, retries and cancellations of single jobs."""

import asyncio
import contextvars
import math
from functools import partial
from typing import Any

import pytest

from taskforge.pool import RateLimiter, RetryPolicy, TokenBucket, WorkerPool
from tests.pool.jobs import Gate, double, fail, nap, turns, virtual


@virtual
async def test_a_job_that_takes_too_long_ends_in_a_timeout() -> None:
    async with WorkerPool(1, timeout=5) as pool:
        slow, own, none = [
            await pool.submit(nap, 60, timeout=limit) for limit in (None, 2, math.inf)
        ]
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError, match="5 s"):
            await slow
        assert loop.time() == 5
        with pytest.raises(TimeoutError, match="2 s"):
            await own
        assert loop.time() == 7
        assert await none is None
        assert loop.time() == 67
    assert pool.stats().timed_out == 2


async def test_a_timeout_of_the_jobs_own_is_not_the_pools() -> None:
    async def impatient() -> None:
        raise TimeoutError("my own")

    async with WorkerPool(1, timeout=60) as pool:
        with pytest.raises(TimeoutError, match="my own"):
            await (await pool.submit(impatient))
    assert pool.stats().timed_out == 0


@virtual
async def test_a_failed_job_is_tried_again_after_its_rest_in_which_others_run() -> None:
    loop, tries, other = asyncio.get_running_loop(), [], []

    async def flaky() -> str:
        tries.append(loop.time())
        if len(tries) < 3:
            raise ValueError
        return "well"

    async def note() -> None:
        other.append(loop.time())

    async with WorkerPool(1, attempts=3, retry=RetryPolicy(delay=10, jitter=0)) as pool:
        handle = await pool.submit(flaky)
        await pool.submit(note)
        assert await handle == "well"
    assert (tries, other, handle.attempt) == ([0, 10, 30], [0], 3)
    assert (pool.stats().retried, pool.stats().succeeded, pool.stats().failed) == (2, 2, 0)
    assert pool.stats().workers[0].failed == 2


@pytest.mark.parametrize(
    "which",
    [ConnectionError, [ConnectionError], {ConnectionError}, (one for one in [ConnectionError])],
)
async def test_the_errors_worth_another_attempt_come_alone_or_in_any_gathering(which: Any) -> None:
    async def away(error: type[Exception]) -> None:
        raise error

    async with (
        asyncio.timeout(10),
        WorkerPool(2, attempts=3, retry=RetryPolicy(delay=0), retry_on=which) as pool,
    ):
        worth, other = await pool.submit(away, ConnectionError), await pool.submit(away, KeyError)
        await asyncio.wait([worth, other])
    assert (worth.attempt, other.attempt) == (3, 1)
    assert [type(one.exception()) for one in (worth, other)] == [ConnectionError, KeyError]


@virtual
async def test_attempts_run_out_and_some_errors_are_not_worth_another() -> None:
    async with WorkerPool(
        2, attempts=3, retry=RetryPolicy(delay=1), retry_on=(ValueError,)
    ) as pool:
        worn, other = await pool.submit(fail, 1), await pool.submit(nap, None)
        results = await asyncio.gather(worn, other, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, TypeError]
    assert (worn.attempt, other.attempt) == (3, 1)


@virtual
async def test_a_resting_job_joins_even_a_full_buffer() -> None:
    async with WorkerPool(1, buffer=1, attempts=2, retry=RetryPolicy(delay=1, jitter=0)) as pool:
        bad = await pool.submit(fail, 1)
        for _ in range(3):
            await pool.submit(nap, 1)
        with pytest.raises(ValueError, match="1"):
            await bad


@pytest.mark.parametrize("where", ["running", "buffered", "just launched", "awaiting task"])
async def test_cancelling_a_handle_cancels_its_job(where: str) -> None:
    gate, cleaned = Gate(), []

    async def job() -> None:
        try:
            await gate()
        finally:
            cleaned.append(True)

    async with WorkerPool(1) as pool:
        if where == "buffered":
            await pool.submit(gate)
        handle = await pool.submit(job)
        if where != "just launched":
            await turns()
        if where == "awaiting task":
            waiter = asyncio.ensure_future(asyncio.wait_for(handle, 0.001))
            with pytest.raises(TimeoutError):
                await waiter
        else:
            assert handle.cancel()
        assert handle.cancelled()
        await turns()
        assert bool(cleaned) == (where in {"running", "awaiting task"})
        gate.open.set()
        assert await (await pool.submit(double, 1)) == 2
    assert pool.stats().cancelled == 1


@virtual
async def test_cancelling_a_resting_job_ends_it() -> None:
    async with WorkerPool(1, attempts=5, retry=RetryPolicy(delay=100)) as pool:
        handle = await pool.submit(fail, 1)
        await asyncio.sleep(1)
        assert pool.stats().resting == 1
        handle.cancel()
        assert (pool.stats().resting, pool.stats().cancelled) == (0, 1)


async def test_jobs_see_their_callers_context_and_not_each_others() -> None:
    color: contextvars.ContextVar[str] = contextvars.ContextVar("color", default="none")

    async def paint(value: str) -> str:
        before = color.get()
        color.set(value)
        return before

    async with WorkerPool(1) as pool:
        assert await pool.map(paint, ["red", "blue", "green"]) == ["none"] * 3
        color.set("mine")
        assert await (await pool.submit(paint, "red")) == "mine"
    assert color.get() == "mine"


async def test_a_plain_function_is_refused_with_a_word_on_what_to_do() -> None:
    async with WorkerPool(1) as pool:
        with pytest.raises(TypeError, match="workers='thread'"):
            await (await pool.submit(len, "abc"))
        assert await (await pool.submit(partial(double, 4))) == 8


class Faulty(RateLimiter):
    """One that a caller has made over, and not well."""

    def report(
        self, *, failed: bool = False, seconds: float = 0.0, overloaded: bool = False
    ) -> None:
        raise LookupError("no report")


class FaultyPolicy(RetryPolicy):
    def wait(self, attempt: int, chance: float) -> float:
        raise LookupError("no wait")


@pytest.mark.parametrize("workers", ["async", "thread"])
@pytest.mark.parametrize(
    "options",
    [{"limiter": Faulty(TokenBucket(1_000, 1_000))}, {"retry": FaultyPolicy(), "attempts": 3}],
)
async def test_a_fault_beside_the_job_ends_it_and_frees_its_worker(
    workers: Any, options: dict[str, Any]
) -> None:
    def broken() -> None:
        raise ValueError

    async def broken_too() -> None:
        raise ValueError

    async with asyncio.timeout(10), WorkerPool(1, workers=workers, **options) as pool:
        for _ in range(2):
            with pytest.raises(LookupError):
                await (await pool.submit(broken_too if workers == "async" else broken))
    assert (pool.stats().failed, pool.stats().running) == (2, 0)


@pytest.mark.parametrize("workers", ["async", "thread"])
async def test_a_stray_stop_iteration_ends_its_job(workers: Any) -> None:
    """No future can carry one: whoever waited for it would wait for ever."""
    async with asyncio.timeout(10), WorkerPool(1, workers=workers) as pool:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await (await pool.submit(next, iter(())))
