"""A database clock that was set back: time that began to run since then is not taken for older."""

from collections.abc import AsyncIterator

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed, NewJob
from taskforge.domain.outcome import HeartbeatMissed, TimedOut
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.domain.worker import NewWorker, Registered, Sample
from taskforge.storage.postgres.engine import PostgresEngine
from tests.support.world import Clock

RHYTHM = 2.0
LEASE = 10.0


class Site:
    def __init__(self, engine: PostgresEngine, clock: Clock, worker: Registered) -> None:
        self.engine = engine
        self.clock = clock
        self.worker = worker

    async def claim(self) -> Claimed:
        job = NewJob(queue="beating", job_type="work", payload=b"{}", timeout_seconds=60)
        await self.engine.insert(1, [job])
        [claimed] = await self.engine.claim(Claim(self.worker.incarnation, 1))
        return claimed

    async def look(self) -> list[type]:
        return [type(one.outcome) for one in await self.engine.lapsed(10, rhythm=RHYTHM)]

    async def keep(self, seconds: int) -> list[type]:
        """Why claims lapsed within this time, in which the worker renews and somebody looks."""
        found: list[type] = []
        for _ in range(seconds):
            self.clock.advance(1)
            await self.engine.renew(self.worker.incarnation, LEASE, Sample())
            found += await self.look()
        return found


@pytest.fixture
async def site(postgres_url: str, schema: str) -> AsyncIterator[Site]:
    clock = Clock()
    engine = PostgresEngine(postgres_url, schema=schema, clock=clock)
    await engine.open()
    settings = QueueSettings(heartbeat_timeout_seconds=40)
    await engine.change_queue(1, CreateQueue(name="beating", settings=settings))
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=10), LEASE)
    await engine.renew(worker.incarnation, LEASE, Sample())
    assert await engine.lapsed(10, rhythm=RHYTHM) == []
    yield Site(engine, clock, worker)
    await engine.close()


@pytest.mark.parametrize("step", [-120, -3_600])
async def test_a_job_claimed_before_the_next_look_has_all_of_its_time(
    site: Site, step: float
) -> None:
    site.clock.advance(step)
    await site.claim()
    site.clock.advance(0.3)
    assert await site.keep(38) == []
    assert await site.keep(3) == [HeartbeatMissed] * 2


@pytest.mark.parametrize("step", [-120, -3_600])
async def test_a_job_heard_of_before_the_next_look_has_all_of_its_time(
    site: Site, step: float
) -> None:
    claimed = await site.claim()
    assert await site.look() == []
    site.clock.advance(step)
    await site.engine.beat([Beat(fence=claimed.fence, started_seconds_ago=0.0)])
    site.clock.advance(0.3)
    assert await site.keep(38) == []
    await site.engine.beat([Beat(fence=claimed.fence)])
    assert await site.keep(20) == []
    assert (await site.keep(3))[-1] is TimedOut


@pytest.mark.parametrize("ran", [0, 25, 150])
async def test_a_job_that_ran_before_has_what_was_left_of_it(site: Site, ran: int) -> None:
    """However long it had run by then: shorter and longer than the clock was set back by."""
    job = NewJob(queue="beating", job_type="work", payload=b"{}", timeout_seconds=200)
    await site.engine.insert(1, [job])
    [claimed] = await site.engine.claim(Claim(site.worker.incarnation, 1))
    for _ in range(ran):
        assert await site.keep(1) == []
        await site.engine.beat([Beat(fence=claimed.fence)])
    site.clock.advance(-120)
    assert await site.look() == []
    for _ in range(199 - ran):
        await site.engine.beat([Beat(fence=claimed.fence)])
        assert await site.keep(1) == []
    await site.engine.beat([Beat(fence=claimed.fence)])
    assert await site.keep(1) == [TimedOut]
