"""A pool ends in order or at once, and loses nothing."""

import asyncio
from typing import Any

import pytest

from taskforge.pool import Handle, PoolClosed, RetryPolicy, WorkerPool
from tests.pool.jobs import Gate, double, fail, nap, turns, virtual


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
            handles.extend(
                [await pool.submit(fail, 1), *[await pool.submit(nap, 60) for _ in range(5)]]
            )
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
