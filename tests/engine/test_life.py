"""Opening, closing, clocks and wake-ups."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from taskforge.domain.changes import CancelJob, RetryJob
from taskforge.domain.errors import StoreUnavailable, StoreUnsuitable
from taskforge.domain.outcome import ToHandBack, ToRetry
from taskforge.ports.engine import Engine
from tests.support.stores import Store
from tests.support.world import ERROR, Clock, World


async def test_several_processes_may_open_a_new_store_at_once(store: Store, clock: Clock) -> None:
    engines = await asyncio.gather(*(store.open(clock) for _ in range(4)))
    worlds = [World(store, engine, clock) for engine in engines]
    await worlds[0].queue("default")
    for world in worlds:
        await world.enqueue()
    assert await store.probe.count("jobs") == 4
    assert await store.probe.count("projects") == 1


async def test_what_was_stored_is_there_after_a_restart(store: Store, clock: Clock) -> None:
    first = World(store, await store.open(clock), clock)
    await first.queue("default")
    job = await first.enqueue(payload="kept", tags=["t"])
    before = await first.job(job)
    await first.engine.close()
    second = World(store, await store.open(clock), clock)
    assert await second.job(job) == before
    assert await second.claim_jobs(await second.worker()) == [job]


@pytest.mark.new_store
async def test_without_migrating_an_empty_store_is_unsuitable(store: Store, clock: Clock) -> None:
    engine = store.make(clock)
    with pytest.raises(StoreUnsuitable):
        await engine.open(migrate=False)
    await engine.close()
    await store.open(clock)


async def test_a_closed_engine_is_unavailable_and_may_be_closed_twice(
    store: Store, clock: Clock
) -> None:
    engine = await store.open(clock)
    await engine.close()
    await engine.close()
    with pytest.raises(StoreUnavailable):
        await engine.now()


async def test_now_is_the_clock_that_was_given(world: World) -> None:
    assert await world.engine.now() == world.clock.now()
    world.clock.advance(60)
    assert await world.engine.now() == world.clock.now()


async def test_without_one_the_stores_own_clock_rules(store: Store) -> None:
    engine = await store.open(None)
    now = await engine.now()
    assert now.utcoffset() == timedelta(0)
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=5)
    world = World(store, engine, Clock())
    await world.queue("default")
    job = await world.job(await world.enqueue(at=60))
    assert job.scheduled_for is not None
    assert timedelta(seconds=55) < job.scheduled_for - now < timedelta(seconds=65)


async def test_a_store_put_back_to_an_earlier_state_is_served(world: World) -> None:
    """After a failover or a restore the catalog's version may be lower than what this process
    remembers."""
    first = await world.enqueue()
    worker = await world.worker()
    await world.probe.turn_catalog_back()
    async with asyncio.timeout(5):
        second = await world.enqueue()
        assert await world.claim_jobs(worker) == [first, second]


# --- Wake-ups ---


class Bell:
    def __init__(self, engine: Engine) -> None:
        self._rung = asyncio.Event()
        self.stop = engine.on_work(self._rung.set)

    async def rings(self) -> None:
        async with asyncio.timeout(5):
            await self._rung.wait()
        self._rung.clear()

    async def settle(self) -> None:
        """Let hints of what came before arrive, until none came for a while."""
        while True:
            try:
                async with asyncio.timeout(0.15):
                    await self._rung.wait()
            except TimeoutError:
                return
            self._rung.clear()


async def test_work_that_appears_is_hinted_at_here_and_elsewhere(
    world: World, other: Engine
) -> None:
    [queue] = await world.engine.queues([1])
    bells = Bell(world.engine), Bell(other)

    async def expect() -> None:
        for bell in bells:
            await bell.rings()
            await bell.settle()

    for bell in bells:
        await bell.settle()
    await world.enqueue()
    await expect()
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    await world.finish(claimed.fence, ToHandBack("stop"))
    await expect()
    claimed = await world.claim_one(worker)
    await world.finish(claimed.fence, ToRetry(0.0, ERROR))
    await expect()
    await world.enqueue(at=10)
    world.clock.advance(11)
    for bell in bells:
        await bell.settle()
    await world.engine.stage(10)
    await expect()
    await world.pause(queue)
    for bell in bells:
        await bell.settle()
    await world.resume(queue)
    await expect()
    job = await world.enqueue()
    await expect()
    await world.change(job, CancelJob())
    for bell in bells:
        await bell.settle()
    await world.change(job, RetryJob())
    await expect()
    for bell in bells:
        bell.stop()


async def test_whoever_stops_listening_hears_nothing_more(world: World) -> None:
    calls: list[int] = []
    stop = world.engine.on_work(lambda: calls.append(1))
    bell = Bell(world.engine)
    await bell.settle()
    await world.enqueue()
    await bell.rings()
    assert calls
    await bell.settle()
    stop()
    calls.clear()
    await world.enqueue()
    await bell.rings()
    await bell.settle()
    assert calls == []
    stop()
    bell.stop()


async def test_hints_are_few_however_many_jobs_come(world: World, other: Engine) -> None:
    calls: list[int] = []
    stop = other.on_work(lambda: calls.append(1))
    bell = Bell(other)
    await bell.settle()
    calls.clear()
    await world.enqueue_many(2_000)
    await bell.rings()
    await bell.settle()
    assert 1 <= len(calls) <= 20
    stop()
    bell.stop()
