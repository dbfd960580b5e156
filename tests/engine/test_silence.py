"""A silence in which nobody could look at the store (away, disk full, frozen, clock stepped) is
nobody's death."""

import pytest

from taskforge.domain.errors import LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import (
    DeadlinePassed,
    Finish,
    HeartbeatMissed,
    LeaseRanOut,
    TimedOut,
    ToSucceeded,
)
from taskforge.domain.worker import Registered, Sample
from taskforge.ports.engine import Engine
from tests.support.world import World

RHYTHM = 2.0
LEASE = 10.0


async def look(world: World) -> list[type]:
    """Somebody looks for lapsed claims, as upkeep does; returns why they have lapsed."""
    return [type(one.outcome) for one in await world.engine.lapsed(100, rhythm=RHYTHM)]


async def at_work(
    world: World, queue: str = "default", lease: float = LEASE, **options: object
) -> tuple[Registered, Claimed]:
    """A worker that runs one job, renewed just now, at a time when somebody looked."""
    await world.enqueue(queue, **options)
    worker = await world.worker(lease=lease)
    await world.engine.renew(worker.incarnation, lease, Sample())
    claimed = await world.claim_one(worker)
    assert await look(world) == []
    return worker, claimed


async def keep(world: World, worker: Registered, seconds: float) -> None:
    """Time in which this worker renews and somebody looks."""
    for _ in range(int(seconds)):
        world.clock.advance(1)
        await world.engine.renew(worker.incarnation, LEASE, Sample())
        await look(world)


@pytest.mark.parametrize("step", [16.0, 3_600.0, -120.0])
async def test_whoever_was_alive_before_gets_a_lease_from_when_it_is_over(
    world: World, step: float
) -> None:
    worker, claimed = await at_work(world)
    world.clock.advance(step)
    assert await look(world) == []
    for _ in range(9):
        world.clock.advance(1)
        assert await look(world) == []
    await world.engine.renew(worker.incarnation, LEASE, Sample())
    world.clock.advance(1.5)
    assert await look(world) == []
    assert await world.finish(claimed.fence, ToSucceeded()) == []


async def test_whoever_was_heard_of_before_the_clock_was_set_back_was_not_in_the_future(
    world: World,
) -> None:
    await at_work(world)
    world.clock.advance(-120)
    assert await look(world) == []
    [worker] = await world.engine.workers([1])
    assert worker.last_heartbeat == world.clock.now()


@pytest.mark.parametrize("step", [16.0, -120.0])
async def test_whoever_died_meanwhile_is_found_a_lease_later(world: World, step: float) -> None:
    await at_work(world)
    world.clock.advance(step)
    for _ in range(9):
        assert await look(world) == []
        world.clock.advance(1)
    assert await look(world) == []
    world.clock.advance(1.5)
    assert await look(world) == [LeaseRanOut]


async def test_whoever_comes_when_nobody_had_to_look_meets_no_silence(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        await world.engine.lapsed(100, unless_within=RHYTHM / 4, rhythm=RHYTHM)
        world.clock.advance(1)
    job = await world.enqueue(timeout_seconds=30)
    worker = await world.worker(lease=LEASE)
    world.clock.advance(0.4)
    await world.claim_one(worker)
    begun = await world.job(job)
    world.clock.advance(0.4)
    assert await look(world) == []
    assert (await world.job(job)).timeout_at == begun.timeout_at
    assert "nobody could look" not in caplog.text
    world.clock.advance(60)  # and a silence that is one is bridged as ever
    assert await look(world) == []
    assert "nobody could look at the store for a while: 1 leases of before go on" in caplog.text


async def test_a_new_worker_that_comes_first_ends_no_silence(world: World) -> None:
    """It has a lease from now, and has renewed nothing: that it could register says nothing of the
    time before."""
    worker, _ = await at_work(world)
    world.clock.advance(16.0)
    await world.worker(lease=LEASE, name="newcomer")
    assert await look(world) == []
    await world.engine.renew(worker.incarnation, LEASE, Sample())


async def test_whoever_was_gone_before_stays_so(world: World) -> None:
    witness = await world.worker(lease=1e6)
    await at_work(world)
    await keep(world, witness, 11)
    assert await look(world) == [LeaseRanOut]
    for step in (60.0, -30.0):
        world.clock.advance(step)
        assert await look(world) == [LeaseRanOut]


async def test_a_death_that_was_told_is_not_taken_back(world: World) -> None:
    worker, _ = await at_work(world)
    world.clock.advance(1)  # told after the last look: at that time the worker was there
    await world.engine.deregister(worker.incarnation, died=True)
    world.clock.advance(60)
    assert len(await look(world)) == 1
    with pytest.raises(LeaseLost):
        await world.engine.renew(worker.incarnation, LEASE, Sample())


async def test_a_short_silence_gives_back_no_more_than_itself(world: World) -> None:
    """What is longer than the rhythm, but shorter than half a lease, may have been a slow round."""
    await at_work(world)
    passed = 0.0
    while passed < 3 * LEASE:
        world.clock.advance(4)  # nobody was there for four seconds, somebody for two
        await look(world)
        world.clock.advance(2)
        passed += 2
        if await look(world) == [LeaseRanOut]:
            break
    assert passed == LEASE


async def test_the_one_who_comes_back_first_may_be_the_worker_itself(world: World) -> None:
    """It renews, or claims, before anybody has looked; and so does another, whose lease was
    shorter."""
    worker, claimed = await at_work(world)
    brief, held = await at_work(world, lease=3)
    world.clock.advance(16)
    assert not (await world.engine.renew(worker.incarnation, LEASE, Sample())).drain
    assert await look(world) == []
    world.clock.advance(16)
    assert await world.claim(brief) == []
    assert await look(world) == []
    assert await world.finish(claimed.fence, ToSucceeded()) == []
    assert await world.finish(held.fence, ToSucceeded()) == []


async def test_a_renewal_that_came_in_time_bridges_for_those_whose_lease_is_over(
    world: World,
) -> None:
    """Else it would be taken for a sign that the store was there all the time."""
    worker, _ = await at_work(world, lease=60)
    await at_work(world)
    world.clock.advance(16)
    await world.engine.renew(worker.incarnation, 60, Sample())
    world.clock.advance(1)
    assert await look(world) == []


async def test_an_idle_worker_goes_on_too(world: World) -> None:
    await at_work(world)
    idle = await world.worker(lease=LEASE)
    world.clock.advance(16)
    await world.engine.renew(idle.incarnation, LEASE, Sample())


async def test_while_others_renew_the_store_was_there(world: World) -> None:
    """All who look stood still, as with a blocked loop; their keepers renewed. A worker that did
    not is lost."""
    witness = await world.worker(lease=60)
    silent, claimed = await at_work(world)
    for _ in range(16):
        world.clock.advance(1)
        await world.engine.renew(witness.incarnation, 60, Sample())
    with pytest.raises(LeaseLost):
        await world.engine.renew(silent.incarnation, LEASE, Sample())
    assert await look(world) == [LeaseRanOut]
    with pytest.raises(LeaseLost):
        await world.claim(silent)
    assert await world.engine.finish([Finish(claimed.fence, ToSucceeded())]) == []


@pytest.mark.parametrize("step", [16.0, -120.0])
async def test_timeouts_and_heartbeats_wait_and_deadlines_do_not(world: World, step: float) -> None:
    await world.queue("watched", heartbeat_timeout_seconds=12)
    worker, timed = await at_work(world, timeout_seconds=14)
    await world.enqueue("watched")
    beating = await world.claim_one(worker)
    await world.enqueue(deadline=15)
    await world.claim_one(worker)
    world.clock.advance(1)
    assert await look(world) == []
    world.clock.advance(step)
    assert await look(world) == ([DeadlinePassed] if step > 0 else [])
    await world.rescue()
    await look(world)
    await keep(world, worker, 10)
    assert await look(world) == []
    await keep(world, worker, 1.0)
    [missed] = await world.engine.lapsed(10, rhythm=RHYTHM)
    assert (missed.fence, type(missed.outcome)) == (beating.fence, HeartbeatMissed)
    await world.engine.beat([Beat(fence=beating.fence)])
    await keep(world, worker, 2)
    [late] = await world.engine.lapsed(10, rhythm=RHYTHM)
    assert (late.fence, type(late.outcome)) == (timed.fence, TimedOut)


async def test_a_silence_after_the_clock_was_set_back_is_like_any_other(world: World) -> None:
    """Whoever registered, and what was claimed, in what is the future now was there before the
    silence."""
    worker, claimed = await at_work(world, timeout_seconds=20)
    world.clock.advance(-120)
    assert await look(world) == []
    for silence in (4.0, 16.0):  # less than half a lease, and more than one
        world.clock.advance(silence)
        assert await look(world) == []
    await keep(world, worker, 19)
    assert await look(world) == []
    await keep(world, worker, 1)
    [late] = await world.engine.lapsed(10, rhythm=RHYTHM)
    assert (late.fence, type(late.outcome)) == (claimed.fence, TimedOut)


async def test_a_job_claimed_in_the_silence_gets_no_more_than_it_lost(world: World) -> None:
    """A store that nobody looked at for an hour, because nothing ran, was there all the same."""
    worker = await world.worker(lease=1e6)
    assert await look(world) == []
    world.clock.advance(3_600)
    await world.enqueue(timeout_seconds=10)
    await world.claim_one(worker)
    world.clock.advance(1)
    assert await look(world) == []
    await keep(world, worker, 9)
    assert await look(world) == []
    await keep(world, worker, 1)
    assert await look(world) == [TimedOut]


async def test_without_a_promise_to_look_again_there_is_no_silence(world: World) -> None:
    await world.enqueue()
    worker = await world.worker(lease=LEASE)
    claimed = await world.claim_one(worker)
    assert await world.engine.lapsed(10) == []
    world.clock.advance(16)
    with pytest.raises(LeaseLost):
        await world.engine.renew(worker.incarnation, LEASE, Sample())
    assert [one.fence for one in await world.engine.lapsed(10)] == [claimed.fence]


async def test_what_was_bridged_by_one_is_over_for_the_others(world: World, other: Engine) -> None:
    _, claimed = await at_work(world)
    world.clock.advance(16)
    assert await look(world) == []
    assert await other.lapsed(10, rhythm=RHYTHM) == []
    for _ in range(6):
        world.clock.advance(1.8)
        found = await other.lapsed(10, rhythm=RHYTHM)
    assert [one.fence for one in found] == [claimed.fence]
