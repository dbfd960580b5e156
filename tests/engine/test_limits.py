import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.outcome import Finish, ToHandBack, ToRetry, ToSucceeded
from taskforge.ports.engine import Engine
from tests.support.world import ERROR, World


async def test_no_more_run_at_once_than_the_queue_allows(world: World, other: Engine) -> None:
    await world.queue("narrow", max_concurrent_jobs=3)
    await world.enqueue_many(10, "narrow")
    worker = await world.worker()
    first = await world.claim(worker, 2)
    second = await other.claim(Claim(worker.incarnation, 10))
    assert (len(first), len(second)) == (2, 1)
    assert await world.claim(worker) == []
    assert await other.claim(Claim(worker.incarnation, 10)) == []
    await world.finish(first[0].fence, ToSucceeded())
    assert len(await other.claim(Claim(worker.incarnation, 10))) == 1
    assert await world.claim(worker) == []


@pytest.mark.parametrize(
    "transition", [ToSucceeded(), ToRetry(5.0, ERROR), ToRetry(0.0, ERROR), ToHandBack("stop")]
)
async def test_whatever_ends_an_attempt_frees_its_slot(
    world: World, transition: ToSucceeded | ToRetry | ToHandBack
) -> None:
    await world.queue("narrow", max_concurrent_jobs=1)
    await world.enqueue_many(2, "narrow")
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    assert await world.claim(worker) == []
    await world.finish(claimed.fence, transition)
    assert len(await world.claim(worker)) == 1


async def test_a_rescued_job_frees_its_slot(world: World) -> None:
    await world.queue("narrow", max_concurrent_jobs=1)
    await world.enqueue_many(2, "narrow")
    await world.claim_one(await world.worker(lease=5))
    keen = await world.worker()
    assert await world.claim(keen) == []
    world.clock.advance(6)
    assert len(await world.rescue()) == 1
    assert len(await world.claim(keen)) == 1


async def test_a_full_queue_stands_in_nobodys_way(world: World) -> None:
    await world.queue("narrow", priority=9, max_concurrent_jobs=1)
    await world.enqueue_many(5, "narrow")
    free = await world.enqueue()
    worker = await world.worker()
    assert [claimed.queue for claimed in await world.claim(worker, 10)] == ["narrow", "default"]
    assert await world.job(free)


async def test_a_limited_queues_backlog_does_not_shorten_the_claim_of_others(world: World) -> None:
    await world.queue("narrow", priority=9, max_concurrent_jobs=1)
    await world.enqueue_many(50, "narrow")
    await world.enqueue_many(50)
    worker = await world.worker()
    assert [claimed.queue for claimed in await world.claim(worker, 3)] == [
        "narrow",
        "default",
        "default",
    ]
    assert [claimed.queue for claimed in await world.claim(worker, 20)] == ["default"] * 20


async def test_order_holds_within_a_limit(world: World) -> None:
    await world.queue("narrow", max_concurrent_jobs=4)
    low = [await world.enqueue("narrow", priority=1, job_type=f"t{number}") for number in range(3)]
    high = [await world.enqueue("narrow", priority=8, job_type=f"t{number}") for number in range(3)]
    assert await world.claim_jobs(await world.worker(), 10) == [*high, low[0]]


async def test_a_limit_counts_all_types_and_priorities_of_the_queue(world: World) -> None:
    await world.queue("narrow", max_concurrent_jobs=2)
    for number in range(6):
        await world.enqueue("narrow", job_type=f"t{number}", priority=number)
    assert len(await world.claim(await world.worker(), 10)) == 2


async def test_a_new_limit_holds_for_jobs_that_already_run(world: World) -> None:
    queue = await world.queue("narrow")
    await world.enqueue_many(6, "narrow")
    worker = await world.worker()
    running = await world.claim(worker, 3)
    await world.update(queue, settings=queue.settings.__class__(max_concurrent_jobs=2))
    assert await world.claim(worker) == []
    await world.engine.finish([Finish(claimed.fence, ToSucceeded()) for claimed in running[:2]])
    assert len(await world.claim(worker)) == 1
    await world.update(queue, settings=queue.settings.__class__())
    assert len(await world.claim(worker)) == 2


# --- Rate: jobs per minute, tokens that gather up to the burst ---


async def test_a_rate_limit_lets_through_its_burst_and_then_what_flows(
    world: World, other: Engine
) -> None:
    await world.queue("metered", rate_limit=60, rate_limit_burst=3)
    await world.enqueue_many(20, "metered")
    worker = await world.worker()
    ours, theirs = Claim(worker.incarnation, 2), Claim(worker.incarnation, 99)
    assert len(await world.engine.claim(ours)) == 2
    assert len(await other.claim(theirs)) == 1
    assert await world.engine.claim(ours) == []
    world.clock.advance(1)
    assert len(await other.claim(theirs)) == 1
    assert await world.engine.claim(ours) == []
    world.clock.advance(2.5)
    assert len(await world.engine.claim(theirs)) == 2
    world.clock.advance(0.5)
    assert len(await other.claim(theirs)) == 1
    world.clock.advance(3600)
    assert len(await other.claim(theirs)) == 3


async def test_without_a_burst_of_its_own_a_rate_gathers_one_seconds_worth(world: World) -> None:
    await world.queue("metered", rate_limit=600)
    await world.enqueue_many(50, "metered")
    worker = await world.worker()
    assert len(await world.claim(worker, 99)) == 10
    world.clock.advance(0.5)
    assert len(await world.claim(worker, 99)) == 5


async def test_claims_that_find_nothing_spend_no_tokens(world: World) -> None:
    await world.queue("metered", rate_limit=1, rate_limit_burst=2)
    worker = await world.worker()
    for _ in range(5):
        assert await world.claim(worker) == []
    await world.enqueue_many(4, "metered")
    assert len(await world.claim(worker)) == 2


async def test_fewer_jobs_than_tokens_spend_only_what_they_are(world: World) -> None:
    await world.queue("metered", rate_limit=1, rate_limit_burst=5)
    worker = await world.worker()
    await world.enqueue_many(2, "metered")
    assert len(await world.claim(worker, 10)) == 2
    await world.enqueue_many(9, "metered")
    assert len(await world.claim(worker, 10)) == 3


async def test_the_tighter_of_two_limits_wins(world: World) -> None:
    await world.queue("both", max_concurrent_jobs=2, rate_limit=60, rate_limit_burst=5)
    await world.enqueue_many(20, "both")
    worker = await world.worker()
    first = await world.claim(worker, 10)
    assert len(first) == 2
    for claimed in first:
        await world.finish(claimed.fence, ToSucceeded())
    second = await world.claim(worker, 10)
    assert len(second) == 2
    for claimed in second:
        await world.finish(claimed.fence, ToSucceeded())
    assert len(await world.claim(worker, 10)) == 1


async def test_a_spent_rate_stands_in_nobodys_way(world: World) -> None:
    await world.queue("metered", priority=9, rate_limit=1, rate_limit_burst=1)
    await world.enqueue_many(5, "metered")
    await world.enqueue_many(2)
    names = [claimed.queue for claimed in await world.claim(await world.worker(), 10)]
    assert names == ["metered", "default", "default"]


async def test_a_full_slot_spends_no_token(world: World) -> None:
    await world.queue("both", max_concurrent_jobs=1, rate_limit=1, rate_limit_burst=2)
    await world.enqueue_many(5, "both")
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    for _ in range(3):
        assert await world.claim(worker) == []
    await world.finish(claimed.fence, ToSucceeded())
    assert len(await world.claim(worker)) == 1


async def test_queues_without_limits_keep_no_state(world: World) -> None:
    await world.enqueue_many(5)
    await world.claim(await world.worker())
    assert await world.probe.rows("select * from gates where tokens is not null") == []
