"""Whatever happens, every job that was accepted ends, no more run at once than there are workers,
and the books balance."""

import asyncio
import contextlib
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from taskforge.pool import (
    Dropped,
    Handle,
    PoolClosed,
    PoolFull,
    RateLimiter,
    RetryPolicy,
    TokenBucket,
    WorkerPool,
)
from tests.support.virtual_time import run

JOBS = st.lists(
    st.tuples(
        st.sampled_from(["value", "failure", "stubborn", "at once"]),
        st.floats(0, 5),  # how long it takes
        st.floats(0, 2),  # how long after the one before it is handed in
        st.none() | st.floats(0, 6),  # when its handle is cancelled
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=40,
)
POOLS = st.fixed_dictionaries(
    {
        "size": st.integers(1, 4),
        "buffer": st.integers(1, 6),
        "when_full": st.sampled_from(["wait", "reject", "drop_oldest"]),
        "order": st.sampled_from(["fifo", "priority"]),
        "timeout": st.none() | st.floats(0.5, 4),
        "attempts": st.integers(1, 3),
        "distribution": st.sampled_from(
            [None, None, "round_robin", "least_load", "weighted", "adaptive", "sticky"]
        ),
        "limited": st.booleans(),
    }
)
STOPS = st.tuples(st.floats(0, 30), st.booleans())


@settings(max_examples=200, deadline=None)
@given(POOLS, JOBS, STOPS, st.integers())
def test_every_accepted_job_ends(
    options: dict[str, Any], jobs: list[Any], stop: tuple[float, bool], seed: int
) -> None:
    random.seed(seed)
    run(_live(dict(options), jobs, *stop))


async def _live(options: dict[str, Any], jobs: list[Any], stop_at: float, now: bool) -> None:
    limiter = (
        RateLimiter(TokenBucket(2.0, 3.0), clock=asyncio.get_running_loop().time)
        if options.pop("limited")
        else None
    )
    pool = await WorkerPool(**options, limiter=limiter, retry=RetryPolicy(delay=1)).start()
    running = most = 0

    async def job(kind: str, seconds: float) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            if kind == "at once":
                return kind
            await asyncio.sleep(seconds)
            if kind == "failure":
                raise ValueError
        except asyncio.CancelledError:
            if kind != "stubborn":
                raise
            await asyncio.sleep(0.5)
        finally:
            running -= 1
        return kind

    handles: list[Handle[str]] = []
    rejected = 0

    async def hand_in() -> None:
        nonlocal rejected
        for kind, seconds, pause, cancel_after, priority in jobs:
            await asyncio.sleep(pause)
            try:
                handle = await pool.submit(job, kind, seconds, priority=priority, key=str(priority))
            except PoolFull:
                rejected += 1
                continue
            handles.append(handle)
            if cancel_after is not None:
                asyncio.get_running_loop().call_later(cancel_after, handle.cancel)
            _balance(pool, len(handles))

    producer = asyncio.create_task(hand_in())
    await asyncio.sleep(stop_at)
    async with asyncio.timeout(1_000):
        await pool.stop(now=now)
        with contextlib.suppress(PoolClosed):
            await producer
    assert all(handle.done() for handle in handles)
    for handle in handles:
        if not handle.cancelled():
            error = handle.exception()
            assert error is None or isinstance(error, ValueError | TimeoutError | Dropped), error
    assert most <= options["size"]
    assert running == 0
    stats = _balance(pool, len(handles))
    assert (stats.buffered, stats.running, stats.resting) == (0, 0, 0)
    assert stats.rejected == rejected
    ends = [handle.cancelled() for handle in handles]
    assert stats.cancelled == sum(ends)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _balance(pool: WorkerPool, accepted: int) -> Any:
    stats = pool.stats()
    assert stats.submitted == accepted
    parts = (
        stats.succeeded,
        stats.failed,
        stats.cancelled,
        stats.dropped,
        stats.buffered,
        stats.running,
        stats.resting,
    )
    assert sum(parts) == accepted
    assert min(parts) >= 0
    return stats
