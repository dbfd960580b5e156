"""Jobs in threads and in processes of their own."""

import asyncio
import contextvars
import os
import signal
import threading
import time

import pytest

from taskforge.pool import RemoteError, RetryPolicy, WorkerDied, WorkerPool

COLOR: contextvars.ContextVar[str] = contextvars.ContextVar("color", default="none")


# --- Threads ---


async def test_threads_run_side_by_side_and_no_more_than_the_size() -> None:
    met = threading.Barrier(3, timeout=10)
    async with WorkerPool(3, workers="thread") as pool:
        names = await pool.map(lambda _: (met.wait(), threading.current_thread().name)[1], range(9))
    assert len(set(names)) <= 3
    assert all(name.startswith("taskforge-pool") for name in names)


async def test_a_thread_sees_the_callers_context_and_fails_like_any_job() -> None:
    async with WorkerPool(1, workers="thread") as pool:
        COLOR.set("mine")
        assert await (await pool.submit(COLOR.get)) == "mine"
        with pytest.raises(ZeroDivisionError):
            await (await pool.submit(divmod, 1, 0))

        async def wrong() -> None: ...

        with pytest.raises(TypeError, match="workers='async'"):
            await (await pool.submit(wrong))


async def test_a_thread_that_runs_over_its_time_keeps_its_worker_until_it_is_done() -> None:
    free, after = threading.Event(), []
    async with WorkerPool(1, workers="thread") as pool:
        slow = await pool.submit(free.wait, 30, timeout=0.01)
        following = await pool.submit(after.append, 1)
        with pytest.raises(TimeoutError):
            await slow
        assert not following.done()
        assert after == []
        free.set()
        await following
    assert after == [1]


async def test_stopping_now_does_not_wait_for_threads() -> None:
    free, begun = threading.Event(), threading.Event()
    pool = await WorkerPool(1, workers="thread").start()

    def hold() -> None:
        begun.set()
        free.wait(30)

    held, queued = await pool.submit(hold), await pool.submit(hold)
    await asyncio.to_thread(begun.wait, 10)
    async with asyncio.timeout(10):
        await pool.stop(now=True)
    assert held.cancelled()
    assert queued.cancelled()
    free.set()


# --- Processes ---


def square(value: int) -> tuple[int, int]:
    return value * value, os.getpid()


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def complain(value: int) -> None:
    raise ValueError(f"no {value}")


class ApiError(Exception):
    """One that takes other arguments than it passes on, as most do: pickle cannot make it anew."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")


class HeldError(Exception):
    """One that holds what no pipe can carry, and cannot say what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise RuntimeError("no words")


def refuse(kind: str) -> None:
    raise ApiError(503, "busy") if kind == "api" else HeldError


def unspeakable() -> object:
    return threading.Lock()


def sleepless() -> None:
    while True:
        time.sleep(60)


async def test_a_process_runs_many_jobs_and_tells_what_went_wrong() -> None:
    async with WorkerPool(1, workers="process") as pool:
        results = await pool.map(square, range(5))
        assert [value for value, _ in results] == [0, 1, 4, 9, 16]
        assert len({pid for _, pid in results}) == 1
        assert os.getpid() not in {pid for _, pid in results}
        with pytest.raises(ValueError, match="no 7") as caught:
            await (await pool.submit(complain, 7))
        assert "in complain" in caught.value.__notes__[0]
        with pytest.raises(TypeError, match="cannot be sent back"):
            await (await pool.submit(unspeakable))
        with pytest.raises(Exception, match=r"pickle|local object"):  # the second since Python 3.13
            await (await pool.submit(lambda: None))
        assert (await (await pool.submit(square, 3)))[0] == 9


async def test_an_error_that_pickle_cannot_carry_is_told_in_words() -> None:
    async with WorkerPool(1, workers="process") as pool:
        with pytest.raises(RemoteError) as caught:
            await (await pool.submit(refuse, "api"))
        assert str(caught.value) == "ApiError: 503: busy"
        assert (caught.value.name, caught.value.message) == ("ApiError", "503: busy")
        assert "in refuse" in caught.value.frames
        assert "in refuse" in caught.value.__notes__[0]
        with pytest.raises(RemoteError, match="HeldError: "):
            await (await pool.submit(refuse, "held"))


async def test_a_process_that_dies_or_is_too_slow_is_replaced() -> None:
    async with WorkerPool(1, workers="process", attempts=1) as pool:
        with pytest.raises(WorkerDied, match="exit code -9"):
            await (await pool.submit(die, signal.SIGKILL))
        with pytest.raises(TimeoutError):
            await (await pool.submit(sleepless, timeout=0.2))
        assert (await (await pool.submit(square, 3)))[0] == 9


async def test_a_death_is_worth_another_attempt_and_a_stop_kills() -> None:
    pool = await WorkerPool(
        1, workers="process", attempts=2, retry=RetryPolicy(delay=0, jitter=0)
    ).start()
    with pytest.raises(WorkerDied):
        await (await pool.submit(die, signal.SIGTERM))
    assert pool.stats().retried == 1
    _, pid = await (await pool.submit(square, 1))
    endless = await pool.submit(sleepless)
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await pool.stop(now=True)
    assert endless.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
