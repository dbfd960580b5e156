"""What comes back from a pool: handles, lists, iterators."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from taskforge.pool import WorkerPool
from tests.pool.jobs import Gate, double, fail, nap, turns, virtual


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
        assert (stats.failed, stats.cancelled, stats.running, stats.buffered) == (
            1,
            stats.submitted - 1,
            0,
            0,
        )


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
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: heard.append(context["message"])
    )
    async with WorkerPool(1) as pool:
        await pool.submit(fail, 1)
    gc.collect()
    assert heard == ["Handle exception was never retrieved"]
