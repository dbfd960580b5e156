"""Who waits, who is refused, who is dropped, and who goes first."""

import asyncio
from typing import Any

import pytest

from taskforge.pool import Dropped, PoolFull, WorkerPool
from tests.pool.jobs import Gate, turns


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
        for name, priority in (
            ("low a", 1),
            ("high a", 9),
            ("low b", 1),
            ("none", 0),
            ("high b", 9),
        ):
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


async def test_a_caller_that_gives_up_in_the_moment_it_is_let_in_hands_nothing_in() -> None:
    gate = Gate()
    async with WorkerPool(1, buffer=1) as pool:
        first = await pool.submit(gate)
        await pool.submit(gate)
        given_up = asyncio.create_task(pool.submit(gate, "given up"))
        await turns()
        # whose end lets it in, and comes before it hears of that
        first.add_done_callback(lambda _: given_up.cancel())
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    assert "given up" not in gate.begun
    assert (pool.stats().succeeded, pool.stats().cancelled) == (2, 1)
