"""Rate limits by other algorithms than the token bucket, whose own tests are in test_limits.py."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed
from taskforge.domain.limiter import BucketState
from taskforge.domain.outcome import (
    Finish,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToRetry,
    ToSnoozed,
    ToSucceeded,
    Transition,
)
from taskforge.domain.queue import ALGORITHMS, QueueSettings
from taskforge.ports.engine import Engine
from tests.support.stores import Store
from tests.support.world import ERROR, World

COLUMNS = "tokens, refreshed_at, rate, judged_at, behind"


async def kept(world: World) -> BucketState:
    [(tokens, at, rate, judged_at, behind)] = await world.probe.rows(
        f"select {COLUMNS} from gates where tokens is not null"
    )
    return BucketState(tokens, at, rate, judged_at, bool(behind))


async def end(world: World, claimed: list[Claimed], transition: Transition) -> None:
    assert await world.engine.finish([Finish(one.fence, transition) for one in claimed]) == []


# --- Fixed rate ---


async def test_fixed_rate_starts_one_at_a_time_however_late_the_claim(
    world: World, other: Engine
) -> None:
    await world.queue("paced", rate_limit=60, rate_limit_algorithm="fixed_rate")
    await world.enqueue_many(20, "paced")
    worker = await world.worker()
    assert len(await world.claim(worker)) == 1
    assert await other.claim(Claim(worker.incarnation, 9)) == []
    world.clock.advance(0.9)
    assert await world.claim(worker) == []
    world.clock.advance(0.1)
    assert len(await other.claim(Claim(worker.incarnation, 9))) == 1
    world.clock.advance(3600)
    assert len(await world.claim(worker)) == 1
    assert await world.claim(worker) == []


# --- Leaky bucket ---


async def test_a_leaky_bucket_makes_up_for_late_claims_while_jobs_wait(
    world: World, other: Engine
) -> None:
    await world.queue(
        "shaped", rate_limit=60, rate_limit_burst=5, rate_limit_algorithm="leaky_bucket"
    )
    await world.enqueue_many(30, "shaped")
    worker = await world.worker()
    assert len(await world.claim(worker)) == 1
    world.clock.advance(3)
    assert len(await other.claim(Claim(worker.incarnation, 99))) == 3
    world.clock.advance(60)
    assert len(await world.claim(worker, 99)) == 5


async def test_a_leaky_bucket_gathers_nothing_while_its_queue_is_empty(world: World) -> None:
    await world.queue(
        "shaped", rate_limit=60, rate_limit_burst=5, rate_limit_algorithm="leaky_bucket"
    )
    worker = await world.worker()
    await world.enqueue_many(2, "shaped")
    assert len(await world.claim(worker)) == 1
    world.clock.advance(4)
    assert len(await world.claim(worker)) == 1
    assert not (await kept(world)).behind
    world.clock.advance(3600)
    await world.enqueue_many(9, "shaped")
    assert len(await world.claim(worker)) == 1


async def test_an_empty_queue_is_noticed_by_a_claim_that_finds_nothing(world: World) -> None:
    await world.queue(
        "shaped", rate_limit=60, rate_limit_burst=5, rate_limit_algorithm="leaky_bucket"
    )
    worker = await world.worker()
    await world.enqueue("shaped")
    assert len(await world.claim(worker)) == 1
    assert (await kept(world)).behind  # all that was granted was used: more may wait
    world.clock.advance(2)
    assert await world.claim(worker) == []
    assert not (await kept(world)).behind
    world.clock.advance(3600)
    await world.enqueue_many(9, "shaped")
    assert len(await world.claim(worker)) == 1


async def test_a_full_claim_does_not_mean_that_nothing_waits(world: World) -> None:
    await world.queue(
        "shaped", rate_limit=60, rate_limit_burst=5, rate_limit_algorithm="leaky_bucket"
    )
    worker = await world.worker()
    await world.enqueue_many(30, "shaped")
    assert len(await world.claim(worker)) == 1
    world.clock.advance(5)
    assert len(await world.claim(worker, 2)) == 2
    assert len(await world.claim(worker, 99)) == 3


# --- Adaptive ---


async def rates(world: World, worker: Any, ending: Transition, seconds: int) -> list[float]:
    """The learned rate after each second in which everything that was claimed ended so."""
    seen = []
    for _ in range(seconds):
        await end(world, await world.claim(worker, 99), ending)
        world.clock.advance(1)
        await end(world, await world.claim(worker, 99), ending)
        seen.append((await kept(world)).rate or 0.0)
    return seen


async def test_adaptive_falls_when_executions_fail_and_climbs_when_they_succeed(
    world: World,
) -> None:
    await world.queue("learning", rate_limit=6_000, rate_limit_algorithm="adaptive")
    await world.enqueue_many(900, "learning")
    worker = await world.worker()
    assert await rates(world, worker, ToFailed(ERROR, "no luck"), 3) == [50.0, 25.0, 12.5]
    # What failed in the last second is heard first; then it climbs by a twentieth of the limit.
    assert (await rates(world, worker, ToSucceeded(), 4))[1:] == pytest.approx(
        [11.25, 16.25, 21.25], abs=6
    )


async def test_adaptive_lets_through_no_more_than_it_learned(world: World, other: Engine) -> None:
    await world.queue(
        "learning", rate_limit=6_000, rate_limit_burst=1, rate_limit_algorithm="adaptive"
    )
    await world.enqueue_many(50, "learning")
    worker = await world.worker()
    for _ in range(3):
        await end(world, await world.claim(worker, 1), ToFailed(ERROR, "no luck"))
        world.clock.advance(1)
    assert len(await world.claim(worker, 1)) == 1
    assert (await kept(world)).rate == 12.5
    world.clock.advance(0.07)
    assert await other.claim(Claim(worker.incarnation, 9)) == []
    world.clock.advance(0.02)
    assert len(await other.claim(Claim(worker.incarnation, 9))) == 1


@pytest.mark.parametrize(
    ("transition", "rate"),
    [
        (ToSucceeded(), 100.0),
        (ToFailed(ERROR, "no luck"), 50.0),
        (ToRetry(1.0, ERROR), 50.0),
        (ToRetry(0.0, ERROR), 50.0),
        (ToCancelled("not wanted"), 100.0),
        (ToSnoozed(1.0, "later"), 100.0),
        (ToHandBack("stop"), 100.0),
    ],
)
async def test_only_failures_slow_an_adaptive_queue_down(
    world: World, transition: Transition, rate: float
) -> None:
    await world.queue(
        "learning", rate_limit=6_000, rate_limit_burst=1, rate_limit_algorithm="adaptive"
    )
    await world.enqueue_many(20, "learning")
    worker = await world.worker()
    await end(world, await world.claim(worker, 1), transition)
    world.clock.advance(1)
    assert len(await world.claim(worker, 1)) == 1
    assert (await kept(world)).rate == rate


async def test_a_dead_letter_is_a_failure_of_the_queue_it_leaves(world: World) -> None:
    grave = await world.queue("grave", rate_limit=6_000, rate_limit_algorithm="adaptive")
    await world.queue(
        "learning", rate_limit=6_000, rate_limit_algorithm="adaptive", dead_letter_queue_id=grave.id
    )
    await world.enqueue_many(2, "learning")
    worker = await world.worker()
    await end(
        world, await world.claim(worker, 1), ToDeadLetter(grave.id, ERROR, "no attempts left")
    )
    world.clock.advance(1)
    assert len(await world.claim(worker, 1)) == 1
    assert (await kept(world)).rate == 50.0


async def test_a_rescued_job_counts_as_failed(world: World) -> None:
    await world.queue(
        "learning", rate_limit=6_000, rate_limit_burst=1, rate_limit_algorithm="adaptive"
    )
    await world.enqueue_many(2, "learning")
    worker = await world.worker()
    await world.claim_one(worker)
    keen = await world.worker()
    world.clock.advance(6)
    await world.engine.deregister(worker.incarnation, died=True)
    assert len(await world.rescue()) == 1
    assert len(await world.claim(keen, 1)) == 1
    assert (await kept(world)).rate == 50.0


async def test_what_was_learned_from_is_removed_and_other_queues_leave_nothing(
    world: World,
) -> None:
    await world.queue("learning", rate_limit=60_000, rate_limit_algorithm="adaptive")
    await world.queue("narrow", max_concurrent_jobs=5, rate_limit=60_000)
    for queue in ("learning", "narrow", "default"):
        await world.enqueue_many(4, queue)
    worker = await world.worker()
    claimed = await world.claim(worker, 12)
    await end(world, claimed[:6], ToSucceeded())
    await end(world, claimed[6:], ToRetry(0.0, ERROR))
    [(good, bad)] = await world.probe.rows("select sum(good), sum(bad) from gate_deltas")
    assert good + bad == 4
    world.clock.advance(1)
    await world.claim(worker, 1)
    assert await world.probe.rows("select * from gate_deltas") == []


# --- All of them ---


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_claims_of_many_processes_together_keep_to_the_rate(
    world: World, store: Store, algorithm: str
) -> None:
    await world.queue("metered", rate_limit=600, rate_limit_algorithm=algorithm)
    await world.enqueue_many(200, "metered")
    worker = await world.worker()
    engines = [world.engine, *[await store.open(world.clock) for _ in range(3)]]
    burst = 1 if algorithm == "fixed_rate" else 10
    total = 0
    for step in range(8):
        rounds = await asyncio.gather(
            *(engine.claim(Claim(worker.incarnation, 7)) for engine in engines)
        )
        total += sum(len(claimed) for claimed in rounds)
        assert total <= burst + 10 * 0.25 * step + 1e-6
        world.clock.advance(0.25)
    assert total >= (8 if algorithm == "fixed_rate" else 17)


async def test_an_algorithm_may_be_changed_and_what_was_spent_stays_spent(world: World) -> None:
    queue = await world.queue("metered", rate_limit=60, rate_limit_burst=3)
    await world.enqueue_many(50, "metered")
    worker = await world.worker()
    assert len(await world.claim(worker)) == 3
    for algorithm in (*ALGORITHMS[1:], ALGORITHMS[0]):
        await world.update(
            queue,
            settings=QueueSettings.parse({"rate_limit": 60, "rate_limit_algorithm": algorithm}),
        )
        assert await world.claim(worker) == []
        world.clock.advance(1)
        assert len(await world.claim(worker)) == 1


async def test_a_process_that_was_held_back_looks_again_by_itself(store: Store) -> None:
    """By the real clock: the worker is woken when the rate lets the next job through, long before
    its poll."""
    engine = await store.open(None)
    world = World(store, engine, None)  # type: ignore[arg-type]
    await world.queue("paced", rate_limit=600, rate_limit_algorithm="fixed_rate")
    await world.enqueue_many(3, "paced")
    worker = await world.worker()
    work = asyncio.Event()
    stop = engine.on_work(work.set)
    got: list[UUID] = []
    async with asyncio.timeout(10):
        while len(got) < 3:
            work.clear()
            claimed = await engine.claim(Claim(worker.incarnation, 9))
            got += [one.fence for one in claimed]
            if len(got) < 3:
                await work.wait()
    stop()


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    steps=st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 9), st.integers(0, 4), st.booleans()),
        min_size=1,
        max_size=12,
    ),
)
def test_no_window_sees_more_than_rate_times_length_plus_burst(
    tmp_path_factory: pytest.TempPathFactory,
    algorithm: str,
    steps: list[tuple[float, int, int, bool]],
) -> None:
    """The domain's bound through the store, with jobs that come, fail and run out in between. On
    the quick engine: the step is the same on both."""
    asyncio.run(_walk(tmp_path_factory, algorithm, steps))


async def _walk(
    paths: pytest.TempPathFactory, algorithm: str, steps: list[tuple[float, int, int, bool]]
) -> None:
    from tests.support.stores import SqliteStore
    from tests.support.world import Clock

    store, clock = SqliteStore(paths.mktemp("store")), Clock()
    try:
        world = World(store, await store.open(clock), clock)
        queue = await world.queue("metered", rate_limit=120, rate_limit_algorithm=algorithm)
        assert queue.settings.bucket is not None
        burst, worker, passed = queue.settings.bucket.burst, await world.worker(), []
        for pause, limit, added, failing in steps:
            clock.advance(pause)
            await world.enqueue_many(added, "metered") if added else None
            claimed = await world.claim(worker, limit)
            passed.append((clock.now(), len(claimed)))
            await end(world, claimed, ToFailed(ERROR, "no luck") if failing else ToSucceeded())
        for first in range(len(passed)):
            total = 0
            for moment, count in passed[first:]:
                total += count
                assert (
                    total
                    <= burst + 2.0 * ((moment - passed[first][0]) / timedelta(seconds=1)) + 1e-3
                )
    finally:
        await store.close()
