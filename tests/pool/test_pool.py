"""What a pool promises to whoever hands in jobs. Clocks are virtual where something sleeps."""

import asyncio
import contextvars
import gc
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial, wraps
from typing import Any

import pytest

from taskforge.pool import Dropped, Handle, PoolClosed, PoolFull, RetryPolicy, WorkerPool
from tools.virtual_time import run


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def wrapped(*arguments: Any, **options: Any) -> None:
        run(test(*arguments, **options))

    return wrapped


async def double(value: int) -> int:
    return value * 2


async def fail(value: int) -> int:
    raise ValueError(value)


async def nap(seconds: float, value: Any = None) -> Any:
    await asyncio.sleep(seconds)
    return value


class Gate:
    """Jobs that stay where they are until they are let go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun: list[Any] = []

    async def __call__(self, value: Any = None) -> Any:
        self.begun.append(value)
        await self.open.wait()
        return value


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# --- Results ---


async def test_a_handle_gives_the_value_or_the_exception() -> None:
    async with WorkerPool(2) as pool:
        good, bad = await pool.submit(double, 4), await pool.submit(fail, 5)
        assert await good == 8
        with pytest.raises(ValueError, match="5"):
            await bad


@virtual
async def test_map_gives_results_in_order_and_as_completed() -> None:
    async with WorkerPool(3) as pool:
        seconds = [3.0, 1.0, 2.0]
        echo = lambda each: nap(each, each)  # noqa: E731
        assert await pool.map(echo, seconds) == seconds
        assert [each async for each in pool.map(echo, seconds)] == seconds
        assert [each async for each in pool.map(echo, seconds, ordered=False)] == [1.0, 2.0, 3.0]


async def test_map_reads_from_an_async_iterator_and_from_none() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(5):
            await asyncio.sleep(0)
            yield number

    async with WorkerPool(2) as pool:
        assert await pool.map(double, numbers()) == [0, 2, 4, 6, 8]
        assert await pool.map(double, []) == []


@virtual
async def test_results_come_while_the_source_still_thinks() -> None:
    async def slow_source() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(60)
        yield 2

    loop = asyncio.get_running_loop()
    async with WorkerPool(2) as pool:
        arrived = [(result, loop.time()) async for result in pool.map(double, slow_source())]
    assert arrived == [(2, 0.0), (4, 60.0)]


async def test_map_reads_no_further_ahead_than_size_and_buffer() -> None:
    read = 0

    def endless() -> Any:
        nonlocal read
        while True:
            read += 1
            yield read

    async with WorkerPool(2, buffer=3) as pool:
        async for _ in pool.map(double, endless()):
            await turns()
            assert read <= 10
            if read >= 10:
                break


async def test_the_first_failure_ends_a_map_and_cancels_the_rest() -> None:
    gate = Gate()
    async with WorkerPool(3) as pool:

        async def job(value: int) -> int:
            return await (fail(value) if value == 1 else gate(value))

        with pytest.raises(ValueError, match="1"):
            async for _ in pool.map(job, range(10), ordered=False):
                pass
        await turns()
        stats = pool.stats()
        assert (stats.failed, stats.cancelled, stats.running, stats.buffered) == (1, stats.submitted - 1, 0, 0)


async def test_exceptions_may_be_returned() -> None:
    async with WorkerPool(2) as pool:

        async def job(value: int) -> int:
            return await (fail(value) if value % 2 else double(value))

        results: list[Any] = await pool.map(job, range(4), return_exceptions=True)
    assert results[0::2] == [0, 4]
    assert [str(each) for each in results[1::2]] == ["1", "3"]


async def test_the_sources_failure_is_raised_after_what_came_before_it() -> None:
    def broken() -> Any:
        yield 1
        raise LookupError("no more")

    async with WorkerPool(2) as pool:
        results = aiter(pool.map(double, broken()))
        assert await anext(results) == 2
        with pytest.raises(LookupError, match="no more"):
            await anext(results)


async def test_results_are_taken_once() -> None:
    async with WorkerPool(1) as pool:
        results = pool.map(double, [1])
        assert await results == [2]
        with pytest.raises(RuntimeError, match="once"):
            await results


async def test_a_failure_nobody_asks_for_is_not_silent() -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    async with WorkerPool(1) as pool:
        await pool.submit(fail, 1)
    gc.collect()
    assert heard == ["Handle exception was never retrieved"]


# --- The buffer ---


async def test_a_full_pool_makes_its_callers_wait_in_order() -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=2) as pool:
        for number in range(3):
            await pool.submit(gate, number)
        late = [asyncio.create_task(pool.submit(gate, number)) for number in (3, 4)]
        await turns()
        assert not any(task.done() for task in late)
        with pytest.raises(PoolFull):
            pool.submit_nowait(gate, 5)
        gate.open.set()
        handles = await asyncio.gather(*late)
        assert await asyncio.gather(*handles) == [3, 4]
    assert gate.begun == [0, 1, 2, 3, 4]


async def test_a_full_pool_may_reject() -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=1, when_full="reject") as pool:
        handles = [await pool.submit(gate, number) for number in range(2)]
        with pytest.raises(PoolFull):
            await pool.submit(gate, 2)
        assert (pool.stats().rejected, pool.stats().submitted) == (1, 2)
        gate.open.set()
        assert await asyncio.gather(*handles) == [0, 1]


@pytest.mark.parametrize("distribution", [None, "round_robin"])
async def test_a_full_pool_may_drop_the_oldest(distribution: Any) -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=2, when_full="drop_oldest", distribution=distribution) as pool:
        handles = [await pool.submit(gate, number) for number in range(5)]
        gate.open.set()
        results = await asyncio.gather(*handles, return_exceptions=True)
    assert [type(result) for result in results] == [int, Dropped, Dropped, int, int]
    assert pool.stats().dropped == 2


async def test_priority_goes_first_and_equals_in_order() -> None:
    gate, order = Gate(), []

    async def note(value: str) -> None:
        order.append(value)

    async with WorkerPool(1, order="priority") as pool:
        await pool.submit(gate)
        for name, priority in (("low a", 1), ("high a", 9), ("low b", 1), ("none", 0), ("high b", 9)):
            await pool.submit(note, name, priority=priority)
        gate.open.set()
    assert order == ["high a", "high b", "low a", "low b", "none"]
    with pytest.raises(ValueError, match="0 to 9"):
        await pool.submit(note, "", priority=10)


async def test_the_least_urgent_is_dropped_even_if_it_is_the_newcomer() -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=2, when_full="drop_oldest", order="priority") as pool:
        await pool.submit(gate)
        handles = [await pool.submit(gate, number, priority=number) for number in (5, 3, 1, 9)]
        gate.open.set()
        results = await asyncio.gather(*handles, return_exceptions=True)
    assert [type(result) for result in results] == [int, Dropped, Dropped, int]


async def test_a_cancelled_job_makes_room_and_leaves_nothing_behind() -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=2) as pool:
        await pool.submit(gate)
        kept = await pool.submit(gate, "kept")
        for _ in range(1_000):
            (await pool.submit(gate)).cancel()
        waiting = await pool.submit(gate, "last")
        assert (pool.stats().buffered, pool.stats().cancelled) == (2, 1_000)
        gate.open.set()
        assert (await kept, await waiting) == ("kept", "last")
    assert gate.begun == [None, "kept", "last"]


async def test_a_caller_that_gives_up_waiting_hands_nothing_in() -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=1) as pool:
        for _ in range(2):
            await pool.submit(gate)
        given_up = asyncio.create_task(pool.submit(gate, "given up"))
        patient = asyncio.create_task(pool.submit(gate, "patient"))
        await turns()
        given_up.cancel()
        await turns()
        gate.open.set()
        assert await (await patient) == "patient"
    assert "given up" not in gate.begun
    assert pool.stats().submitted == 3


# --- Timeout, retry, cancel ---


@virtual
async def test_a_job_that_takes_too_long_ends_in_a_timeout() -> None:
    async with WorkerPool(1, timeout=5) as pool:
        slow, own, none = [await pool.submit(nap, 60, timeout=limit) for limit in (None, 2, math.inf)]
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


@virtual
async def test_attempts_run_out_and_some_errors_are_not_worth_another() -> None:
    async with WorkerPool(2, attempts=3, retry=RetryPolicy(delay=1), retry_on=(ValueError,)) as pool:
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


# --- The end ---


@virtual
async def test_leaving_finishes_everything() -> None:
    async with WorkerPool(2, buffer=50, attempts=2, retry=RetryPolicy(delay=30)) as pool:
        handles = [await pool.submit(nap, 1, number) for number in range(20)]
        bad = await pool.submit(fail, 1)
    assert [handle.result() for handle in handles] == list(range(20))
    assert isinstance(bad.exception(), ValueError)
    with pytest.raises(PoolClosed):
        await pool.submit(nap, 1)


@virtual
async def test_leaving_by_an_exception_cancels_everything() -> None:
    handles: list[Handle[Any]] = []
    loop = asyncio.get_running_loop()
    pool = WorkerPool(2, attempts=2, retry=RetryPolicy(delay=30))

    async def leave_early() -> None:
        async with pool:
            handles.extend([await pool.submit(fail, 1), *[await pool.submit(nap, 60) for _ in range(5)]])
            await asyncio.sleep(1)
            raise KeyError

    with pytest.raises(KeyError):
        await leave_early()
    assert all(handle.cancelled() for handle in handles)
    assert loop.time() == 1
    assert pool.stats().cancelled == 6


@virtual
async def test_what_a_job_makes_of_its_cancellation_is_kept() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "saved"
        return "slept"

    async def clumsy() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("while cleaning up")

    pool = await WorkerPool(2, attempts=3).start()
    kept, broken = await pool.submit(stubborn), await pool.submit(clumsy)
    await asyncio.sleep(1)
    await pool.stop(now=True)
    assert kept.result() == "saved"
    assert isinstance(broken.exception(), ValueError)


@virtual
async def test_an_orderly_stop_may_be_hurried() -> None:
    pool = await WorkerPool(1).start()
    handle = await pool.submit(nap, 1e6)
    orderly = asyncio.create_task(pool.stop())
    await asyncio.sleep(1)
    assert not orderly.done()
    await pool.stop(now=True)
    await orderly
    assert handle.cancelled()
    await pool.stop()


async def test_those_who_wait_for_room_hear_that_there_will_be_none() -> None:
    gate = Gate()
    pool = await WorkerPool(1, buffer=1).start()
    for _ in range(2):
        await pool.submit(gate)
    waiting = asyncio.create_task(pool.submit(gate))
    feeding = asyncio.ensure_future(pool.map(gate, range(5)).__aiter__().__anext__())
    await turns()
    stopping = asyncio.create_task(pool.stop())
    await turns()
    gate.open.set()
    for task in (waiting, feeding):
        with pytest.raises(PoolClosed):
            await task
    await stopping


async def test_a_pool_is_started_once_and_not_stopped_from_within() -> None:
    pool = WorkerPool(1)
    with pytest.raises(PoolClosed, match="not started"):
        await pool.submit(double, 1)
    await pool.stop()
    async with pool:
        with pytest.raises(PoolClosed, match="started once"):
            await pool.start()
        with pytest.raises(RuntimeError, match="cannot wait"):
            await (await pool.submit(pool.stop))


@pytest.mark.parametrize("options", [{"size": 0}, {"buffer": 0}, {"attempts": 0}, {"weights": [1]}])
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|weights"):
        WorkerPool(**({"size": 1} | options))
