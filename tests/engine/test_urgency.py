"""Jobs that rise as they wait (`age_boost`), or are held back while more are ready than slots are
free (`priority_pacing`); and what `explain` says of both."""

import asyncio
import random
from typing import Any
from uuid import UUID

import pytest

from taskforge.control.dispatcher import Dispatcher
from taskforge.domain.explanation import Explanation, Reason
from taskforge.domain.ids import job_of
from taskforge.domain.outcome import ToHandBack, ToSkipped, ToSucceeded
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Registered
from taskforge.ports.engine import Engine
from taskforge.storage.records.cluster import ClusterRecords
from tests.support.nodes import a_node
from tests.support.world import World

TICK = 0.001  # jobs of one instant have turns some microseconds apart


async def explain(world: World, job: UUID) -> Explanation:
    return await world.engine.explain([FIRST_PROJECT], job)


async def reason(world: World, job: UUID, code: str) -> Reason | None:
    found = [one for one in (await explain(world, job)).reasons if one.code == code]
    return found[0] if found else None


async def busy(world: World, slots: int = 2) -> Registered:
    """A worker with so many slots, none of which is free."""
    worker = await world.online_worker(max_concurrent_jobs=slots, types=("busy",))
    await world.queue("busy", priority=9)
    for _ in range(slots):
        await world.enqueue("busy", "busy")
    assert len(await world.claim(worker, slots)) == slots
    return worker


# --- age_boost ---


async def test_what_one_worker_skipped_is_there_for_others_when_it_has_taken_the_rest(
    world: World,
) -> None:
    """A lane was forgotten when its end was seen behind what that worker may not take."""
    await world.queue("q", priority=5, age_boost=10)
    picky, other = await world.online_worker(), await world.online_worker()
    skipped = await world.enqueue("q")
    await world.finish((await world.claim_one(picky)).fence, ToSkipped("not mine"))
    world.clock.advance(TICK)
    newer = await world.enqueue("q")
    assert await world.claim_jobs(picky) == [newer]
    await world.enqueue("default")
    assert await world.claim_jobs(other, 1) == [skipped]


async def test_a_job_goes_as_the_next_priority_after_each_so_many_seconds(world: World) -> None:
    await world.queue("q", age_boost=10)
    worker = await world.online_worker()
    old = await world.enqueue("q", priority=1)
    world.clock.advance(25)
    other, same, new = [await world.enqueue("q", priority=one) for one in (4, 3, 2)]
    assert await reason(world, new, "risen") is None
    said = await reason(world, old, "risen")
    assert said is not None
    assert said.text == "goes as priority 3 for having waited 25 s"
    assert [(await explain(world, job)).ahead for job in (other, old, same, new)] == [0, 1, 2, 3]
    assert await world.claim_jobs(worker) == [other, old, same, new]


async def test_of_one_lane_some_go_as_of_a_better_tier_than_the_rest(world: World) -> None:
    """Also where another lane's jobs come between them, and the claim is small."""
    await world.queue("q", age_boost=10)
    worker = await world.online_worker()
    jobs = []
    for _ in range(4):
        jobs.append(await world.enqueue("q", priority=0))
        world.clock.advance(8)
    # they have waited 32, 24, 16 and 8 s, and go as 3, 2, 1 and 0
    between = {one: await world.enqueue("q", priority=one) for one in (1, 2, 3)}
    wanted = [jobs[0], between[3], jobs[1], between[2], jobs[2], between[1], jobs[3]]
    assert [(await explain(world, job)).ahead for job in wanted] == list(range(7))
    assert await world.claim_jobs(worker, 3) == wanted[:3]
    assert await world.claim_jobs(worker, 10) == wanted[3:]


async def test_a_queue_without_it_keeps_its_order_beside_one_that_has_it(world: World) -> None:
    await world.queue("rising", age_boost=10)
    worker = await world.online_worker()
    risen, plain = await world.enqueue("rising"), await world.enqueue(priority=1)
    later = await world.enqueue(priority=0)
    world.clock.advance(10 + TICK)
    assert await world.claim_jobs(worker, 1) == [risen]  # as of 1, and older
    assert await world.claim_jobs(worker) == [plain, later]


async def test_nothing_rises_above_nine_nor_into_another_queues_priority(world: World) -> None:
    await world.queue("q", age_boost=1)
    await world.queue("above", priority=1)
    worker = await world.online_worker()
    first, old = await world.enqueue("q", priority=9), await world.enqueue("q", priority=0)
    world.clock.advance(1_000)
    new, above = await world.enqueue("q", priority=9), await world.enqueue("above", priority=0)
    assert await world.claim_jobs(worker) == [above, first, old, new]


async def test_a_flood_of_nines_cannot_starve_a_zero(world: World) -> None:
    """With a boost of 10 s it goes as 9 after 90 s, and then only nines that came before it go
    first: here those of one second."""
    await world.queue("q", age_boost=10)
    worker = await world.online_worker()
    await world.enqueue_many(2, "q", priority=9)
    low = await world.enqueue("q", priority=0)
    waited = 0
    while waited < 120:
        world.clock.advance(1)
        waited += 1
        await world.enqueue_many(2, "q", priority=9)  # as many as are run
        if low in await world.claim_jobs(worker, 2):
            break
    assert waited in (90, 91)


async def test_without_it_the_zero_starves(world: World) -> None:
    await world.queue("q")
    worker = await world.online_worker()
    await world.enqueue_many(2, "q", priority=9)
    low = await world.enqueue("q", priority=0)
    for _ in range(120):
        world.clock.advance(1)
        await world.enqueue_many(2, "q", priority=9)
        assert low not in await world.claim_jobs(worker, 2)


async def test_the_best_of_very_many_lanes_are_found_whatever_they_have_risen_to(
    world: World,
) -> None:
    """More lanes than a claim asks: what is remembered of them decides which."""
    await world.queue("q", age_boost=10)
    worker = await world.online_worker()
    jobs = []
    for number in range(100):
        # the priority rises by one while a job of the one below rises by one
        jobs.append(await world.enqueue("q", f"type {number}", priority=number % 10))
        world.clock.advance(3.0004)

    def risen(number: int) -> tuple[int, int]:
        waited = int(3.0004 * (100 - number))
        return -min(9, number % 10 + waited // 10), number

    wanted = [jobs[number] for number in sorted(range(100), key=risen)]
    claimed = []
    while len(claimed) < 100:
        claimed += await world.claim_jobs(worker, 7)
    assert claimed == wanted


# --- priority_pacing ---


async def test_jobs_wait_by_their_priority_while_more_are_ready_than_slots_are_free(
    world: World,
) -> None:
    await world.queue("q", priority_pacing={})
    worker = await world.online_worker(max_concurrent_jobs=9)
    jobs = [await world.enqueue("q", priority=one) for one in range(10)]
    assert await world.claim_jobs(worker) == [jobs[9], jobs[8]]  # whatever the load
    world.clock.advance(TICK)
    for seconds, taken in ((4.9, []), (0.1, [7, 6]), (5, [5, 4, 3]), (19.9, []), (0.1, [2, 1])):
        world.clock.advance(seconds)
        assert await world.claim_jobs(worker) == [jobs[one] for one in taken]
    assert await world.claim_jobs(worker) == []  # no slot is left


async def test_they_start_at_once_when_the_project_is_not_loaded_or_no_longer(
    world: World,
) -> None:
    await world.queue("q", priority_pacing={})
    worker = await world.online_worker(max_concurrent_jobs=3)
    jobs = await world.enqueue_many(3, "q")
    assert await world.claim_jobs(worker) == jobs
    held = await world.enqueue_many(2, "q")
    assert await world.claim_jobs(worker) == []
    helper = await world.online_worker(max_concurrent_jobs=1)
    assert await world.claim_jobs(helper) == []
    assert await world.claim_jobs(await world.online_worker(max_concurrent_jobs=1)) == [held[0]]
    assert await world.claim_jobs(helper) == [held[1]]


async def test_what_cannot_start_does_not_make_a_project_loaded(world: World) -> None:
    await world.queue("q", priority_pacing={})
    await world.queue("paused", is_active=False, accept_while_paused=True)
    await world.enqueue_many(50, "paused")
    worker = await world.online_worker(max_concurrent_jobs=2)
    gone = await world.online_worker(max_concurrent_jobs=50, lease=5)
    jobs = await world.enqueue_many(3, "q")
    assert gone is not None
    world.clock.advance(6)  # a worker whose lease is over has no free slot
    assert await world.claim_jobs(worker) == []
    world.clock.advance(24 + TICK)
    assert await world.claim_jobs(worker) == jobs[:2]


async def test_the_table_is_the_queues_own(world: World) -> None:
    await world.queue(
        "q", priority_pacing={"low_seconds": 7, "medium_seconds": 3} | {"high_seconds": 0}
    )
    worker = await world.online_worker(max_concurrent_jobs=2)
    low, medium, high = [await world.enqueue("q", priority=one) for one in (2, 5, 6)]
    assert await world.claim_jobs(worker, 1) == [high]
    world.clock.advance(3 + TICK)
    assert await world.claim_jobs(worker, 1) == [medium]
    again = await world.claim(worker)
    assert again == []
    world.clock.advance(4)
    assert (await explain(world, low)).ahead == 0


async def test_a_job_that_rises_meanwhile_waits_no_longer_than_one_it_goes_as(
    world: World,
) -> None:
    await world.queue("q", priority_pacing={}, age_boost=4)
    worker = await world.online_worker(max_concurrent_jobs=2)
    jobs = await world.enqueue_many(3, "q", priority=0)
    world.clock.advance(11.9)
    assert await world.claim_jobs(worker) == []
    world.clock.advance(0.1 + TICK)  # it goes as 3, which waits 10 s
    assert await world.claim_jobs(worker) == jobs[:2]


async def test_keys_take_turns_among_those_that_are_not_held_back(world: World) -> None:
    await world.queue("q", priority_pacing={}, fairness={})
    worker = await world.online_worker(max_concurrent_jobs=3)
    old = [await world.enqueue("q", fairness_key="a") for _ in range(3)]
    world.clock.advance(30 + TICK)
    new = await world.enqueue("q", fairness_key="b")
    urgent = await world.enqueue("q", fairness_key="b", priority=8)
    assert await world.claim_jobs(worker, 2) == [urgent, old[0]]
    said = await reason(world, new, "paced")
    assert said is not None
    assert said.until is not None
    assert abs((said.until - world.clock.after(30)).total_seconds()) < TICK
    assert await world.claim_jobs(worker, 2) == [old[1]]


async def test_what_is_placed_on_a_worker_waits_its_pace_there(world: World) -> None:
    await world.queue("q", priority_pacing={}, load_balancing="round_robin")
    worker = await world.online_worker(max_concurrent_jobs=2)
    low = [await world.enqueue("q") for _ in range(3)]
    urgent = await world.enqueue("q", priority=8)
    cluster = ClusterRecords(world.engine)
    term = await cluster.take(a_node(), (await cluster.look(a_node())).reign, 60.0)
    assert term is not None
    await Dispatcher(world.engine).once(term)
    assert await world.claim_jobs(worker) == [urgent]
    assert await reason(world, low[0], "paced") is not None
    world.clock.advance(30 + TICK)
    assert await world.claim_jobs(worker) == low[:1]


async def test_a_limit_of_the_queue_goes_by_the_order_of_what_has_risen(world: World) -> None:
    await world.queue("q", age_boost=10, max_concurrent_jobs=2)
    await world.queue("rated", age_boost=10, rate_limit=60, rate_limit_burst=1)
    worker = await world.online_worker()
    old, rated = await world.enqueue("q"), await world.enqueue("rated")
    world.clock.advance(45)
    new = [await world.enqueue("q", priority=one) for one in (3, 5, 4)]
    late = await world.enqueue("rated", priority=3)
    assert await world.claim_jobs(worker, 1) == [new[1]]
    assert await world.claim_jobs(worker, 5) == [old, rated]
    assert late is not None


async def test_explain_says_until_when_pacing_holds_a_job_back(world: World) -> None:
    await world.queue("q", priority_pacing={})
    worker = await world.online_worker(max_concurrent_jobs=1)
    world.clock.advance(15)
    first, second = await world.enqueue_many(2, "q", priority=4)
    urgent = await world.enqueue("q", priority=8)
    found = await explain(world, second)
    assert [one.code for one in found.reasons] == ["paced", "behind"]
    assert found.reasons[0].until is not None
    assert abs((found.reasons[0].until - world.clock.after(10)).total_seconds()) < TICK
    assert found.reasons[0].text == (
        "held back by pacing until 12:00:25 UTC, or until no more jobs are ready than slots are "
        "free: jobs of priority 4 of queue 'q' wait 10 s while the project is loaded"
    )
    assert (found.ahead, found.expected_start) == (2, None)
    assert await reason(world, urgent, "paced") is None
    assert await world.claim_jobs(worker, 5) == [urgent]
    await world.online_worker(max_concurrent_jobs=2)
    assert await reason(world, first, "paced") is None


async def test_a_worker_that_waits_is_woken_when_the_pace_is_over(
    world: World, engine: Engine
) -> None:
    await world.queue(
        "q", priority_pacing={"low_seconds": 0.3, "medium_seconds": 0.3, "high_seconds": 0.3}
    )
    worker = await world.online_worker(max_concurrent_jobs=1)
    woken = asyncio.Event()
    forget = engine.on_work(woken.set)
    try:
        jobs = await world.enqueue_many(2, "q")
        await asyncio.sleep(0.2)  # until what the jobs themselves signal has come
        woken.clear()
        assert await world.claim_jobs(worker) == []
        async with asyncio.timeout(0.9):  # sooner than one looks again whatever the pace
            await woken.wait()
        world.clock.advance(0.3 + TICK)
        assert await world.claim_jobs(worker) == jobs[:1]
    finally:
        forget()


async def test_what_was_held_back_is_not_forgotten(world: World) -> None:
    """A claim that takes the older jobs of a lane leaves the younger ones, and remembers them."""
    await world.queue("q", priority_pacing={})
    worker = await world.online_worker(max_concurrent_jobs=4)
    old = await world.enqueue_many(3, "q")
    world.clock.advance(30 + TICK)
    new = await world.enqueue_many(3, "q")
    assert await world.claim_jobs(worker, 4) == old
    await world.enqueue("q", priority=5)
    world.clock.advance(30 + TICK)
    claimed = await world.claim(worker, 4)
    assert [job.priority for job in claimed] == [5]
    await world.finish(claimed[0].fence, ToSucceeded(None))
    assert await world.claim_jobs(worker, 4) == new[:1]


async def test_a_job_that_is_handed_back_waits_its_pace_no_second_time(world: World) -> None:
    """It keeps its turn."""
    await world.queue("q", priority_pacing={})
    worker = await world.online_worker(max_concurrent_jobs=1)
    job, _ = await world.enqueue_many(2, "q")
    world.clock.advance(30 + TICK)
    [claimed] = await world.claim(worker)
    await world.finish(claimed.fence, ToHandBack("stopping"))
    assert await world.claim_jobs(worker) == [job]


# --- Both, and claims against explanations ---


@pytest.mark.parametrize("seed", range(8))
async def test_claims_go_in_the_order_that_explanations_tell(world: World, seed: int) -> None:
    """Random queues, types, priorities and ages; as many are taken as are not held back, and each
    after as many as go first."""
    chance = random.Random(seed)
    names = ["a", "b", "c"]
    for name in names:
        options: dict[str, Any] = {}
        if chance.random() < 0.7:
            options["age_boost"] = chance.choice([2.00037, 7.00011, 40.0003])
        if chance.random() < 0.6:
            options["priority_pacing"] = chance.choice(
                [{}, {"low_seconds": 12, "medium_seconds": 12}]
            )
        await world.queue(name, priority=chance.choice([0, 0, 1]), **options)
    worker = await world.online_worker(max_concurrent_jobs=chance.choice([8, 60, 200]))
    jobs = []
    for _ in range(60):
        jobs.append(
            await world.enqueue(
                chance.choice(names), chance.choice(["x", "y"]), priority=chance.randrange(10)
            )
        )
        world.clock.advance(chance.choice([0.001, 0.1, 1.0]))
    for _ in range(3):
        found = {job: await explain(world, job) for job in jobs}
        free = {
            job for job, one in found.items() if "paced" not in {why.code for why in one.reasons}
        }
        places = {job: ahead(one) for job, one in found.items() if job in free}
        wanted = sorted(places, key=places.__getitem__)
        assert sorted(places.values()) == list(range(len(places)))
        most = chance.choice([3, 20])
        taken: list[UUID] = []
        fences = []
        while claimed := await world.claim(worker, most):
            fences += [one.fence for one in claimed]
            taken += [job_of(one.fence) for one in claimed]
            if len(taken) >= min(len(wanted), most):
                break
        assert taken == wanted[: len(taken)]
        assert taken or not wanted
        jobs = [job for job in jobs if job not in taken]
        for fence in fences:
            await world.finish(fence, ToSucceeded(None))
        world.clock.advance(chance.choice([1.0, 4.0, 9.0]))


def ahead(found: Explanation) -> int:
    elsewhere = [one.text for one in found.reasons if one.code == "other_queues"]
    return (found.ahead or 0) + sum(int(text.split()[0]) for text in elsewhere)
