"""Keys of a queue that take turns."""

from collections import Counter
from uuid import UUID

import pytest

from taskforge.domain.changes import EditJob
from taskforge.domain.claim import Claim
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, Inserted, JobStatus, new_job
from taskforge.domain.outcome import (
    Finish,
    ToDeadLetter,
    ToHandBack,
    ToRetry,
    ToSkipped,
    ToSnoozed,
    ToSucceeded,
)
from taskforge.domain.queue import QueueSettings
from taskforge.domain.worker import Registered
from tests.support.world import ERROR, World


async def flood(world: World, key: str | None, count: int, **options: object) -> list[UUID]:
    """So many jobs of one key, whose payload names it."""
    named = {"queue": "fair", "job_type": "work"} | options
    answers = await world.insert(
        *(
            new_job(
                str(named["queue"]),
                str(named["job_type"]),
                f"{key}",
                fairness_key=key,
                priority=int(str(named.get("priority", 0))),
            )
            for _ in range(count)
        )
    )
    world.clock.advance(0.01)
    return [answer.job for answer in answers if isinstance(answer, Inserted)]


def keys(claimed: list[Claimed]) -> Counter[str]:
    return Counter(one.payload.decode().strip('"') for one in claimed)


async def end(world: World, claimed: list[Claimed]) -> None:
    assert not await world.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])


async def drain(world: World, worker: Registered, limit: int = 10) -> list[Claimed]:
    taken: list[Claimed] = []
    while claimed := await world.claim(worker, limit):
        await end(world, claimed)
        taken += claimed
    return taken


async def test_a_flood_of_one_key_lets_the_others_have_their_turns(world: World) -> None:
    await world.queue("fair", fairness={})
    await flood(world, "flood", 60)
    await flood(world, "b", 5)
    await flood(world, "c", 5)
    worker = await world.worker()
    assert keys(await world.claim(worker, 9)) == {"flood": 3, "b": 3, "c": 3}
    assert keys(await world.claim(worker, 9)) == {"flood": 5, "b": 2, "c": 2}
    # Who comes later does not make up for the time it was not there.
    await flood(world, "d", 20)
    assert keys(await world.claim(worker, 20))["d"] == pytest.approx(10, abs=1)
    assert len(await drain(world, worker)) == 52


async def test_a_queue_that_is_not_fair_goes_by_age_alone(world: World) -> None:
    first = await flood(world, "flood", 20, queue="default")
    await flood(world, "b", 5, queue="default")
    assert await world.claim_jobs(await world.worker(), 20) == first


async def test_a_key_gets_by_its_weight(world: World) -> None:
    await world.queue("fair", fairness={"weights": {"a": 3, "c": 0.5}})
    for key in "abc":
        await flood(world, key, 120)
    worker = await world.worker()
    taken: Counter[str] = Counter()
    for limit in (7, 1, 13, 40, 5, 24):
        claimed = await world.claim(worker, limit)
        assert len(claimed) == limit
        taken += keys(claimed)
    assert taken["a"] == pytest.approx(60, abs=2)
    assert taken["b"] == pytest.approx(20, abs=2)
    assert taken["c"] == pytest.approx(10, abs=2)


async def test_a_changed_weight_holds_at_once_also_for_jobs_that_wait(world: World) -> None:
    queue = await world.queue("fair", fairness={})
    await flood(world, "a", 200)
    await flood(world, "b", 200)
    worker = await world.worker()
    assert keys(await world.claim(worker, 20)) == {"a": 10, "b": 10}
    settings = QueueSettings.parse({"fairness": {"weights": {"b": 9}}})
    await world.update(queue, settings=settings)
    taken = keys(await world.claim(worker, 50)) + keys(await world.claim(worker, 50))
    assert taken["b"] == pytest.approx(90, abs=2)


async def test_keys_share_a_queue_whatever_the_types_of_their_jobs(world: World) -> None:
    await world.queue("fair", fairness={})
    for job_type in ("mail", "work"):
        await flood(world, "flood", 30, job_type=job_type)
    await flood(world, "b", 10)
    worker = await world.worker()
    taken = keys(await world.claim(worker, 10)) + keys(await world.claim(worker, 10))
    assert taken == {"flood": 10, "b": 10}


async def test_jobs_without_a_key_take_turns_as_one(world: World) -> None:
    await world.queue("fair", fairness={})
    await flood(world, None, 30)
    await flood(world, "b", 10)
    worker = await world.worker()
    assert keys(await world.claim(worker, 20)) == {"None": 10, "b": 10}
    assert keys(await world.claim(worker, 5)) == {"None": 5}


async def test_priorities_go_before_turns_and_each_key_by_age(world: World) -> None:
    await world.queue("fair", fairness={})
    await world.queue("urgent", priority=5)
    low = {key: await flood(world, key, 4) for key in "ab"}
    high = await flood(world, "a", 3, priority=5)
    urgent = await flood(world, "z", 2, queue="urgent")
    worker = await world.worker()
    assert await world.claim_jobs(worker, 2) == urgent
    assert await world.claim_jobs(worker, 3) == high
    order = [job for _ in range(8) for job in await world.claim_jobs(worker, 1)]
    for jobs in low.values():
        assert [job for job in order if job in jobs] == jobs
    for pair in zip(order[::2], order[1::2], strict=True):
        assert len({job in low["a"] for job in pair}) == 2


async def test_a_queue_beside_a_fair_one_goes_by_its_age(world: World) -> None:
    await world.queue("fair", fairness={})
    old = await flood(world, "x", 4, queue="default")
    await flood(world, "a", 10)
    young = await flood(world, "y", 4, queue="default")
    worker = await world.worker()
    taken = [job for _ in range(7) for job in await world.claim_jobs(worker, 2)]
    assert taken[:4] == old
    assert not set(taken) & set(young)
    assert set(await world.claim_jobs(worker, 9)) == set(young)


async def test_a_job_that_lives_on_keeps_its_key(world: World) -> None:
    await world.queue("fair", fairness={})
    await flood(world, None, 30)
    await flood(world, "a", 1, job_type="mine")
    own = await world.worker(types=("mine",))
    for transition in (
        ToRetry(0, ERROR),
        ToRetry(5, ERROR),
        ToSnoozed(5, "later"),
        ToHandBack("back"),
    ):
        claimed = await world.claim_one(own)
        await world.finish(claimed.fence, transition)
        world.clock.advance(6)
        await world.engine.stage(10)
    # Without its key it would stand behind all that were there before.
    worker = await world.worker()
    assert keys(await world.claim(worker, 3)) == {"a": 1, "None": 2}
    job = await world.enqueue("fair", fairness_key="b", at=5, payload="b")
    world.clock.advance(6)
    await world.engine.stage(10)
    assert keys(await world.claim(worker, 3)) == {"None": 2, "b": 1}
    assert await world.status(job) == JobStatus.PROCESSING


async def test_a_moved_job_takes_turns_where_it_goes(world: World) -> None:
    await world.queue("fair", fairness={})
    await flood(world, "flood", 30)
    [moved] = await flood(world, "b", 1, queue="default")
    await world.change(moved, EditJob(queue="fair"))
    assert keys(await world.claim(await world.worker(), 2)) == {"flood": 1, "b": 1}


async def test_dead_letters_of_a_fair_queue_are_taken_whatever_their_queue_is(
    world: World,
) -> None:
    for number, settings in enumerate(({}, {"fairness": {}})):
        grave = await world.queue(f"grave-{number}", **settings)
        await world.queue(f"fair-{number}", fairness={}, dead_letter_queue_id=grave.id)
        await flood(world, "a", 3, queue=f"fair-{number}")
        await flood(world, "b", 3, queue=f"fair-{number}")
        worker = await world.worker(queues=(f"fair-{number}",))
        for one in await world.claim(worker, 10):
            await world.finish(one.fence, ToDeadLetter(grave.id, ERROR, "no more attempts"))
        digger = await world.worker(queues=(grave.name,))
        assert keys(await world.claim(digger, 10)) == {"a": 3, "b": 3}


async def test_turning_fairness_on_and_off_loses_no_job(world: World) -> None:
    queue = await world.queue("fair")
    before = await flood(world, "a", 5) + await flood(world, "b", 5)
    worker = await world.worker()
    assert await world.claim_jobs(worker, 2) == before[:2]
    queue = await world.update(queue, settings=QueueSettings.parse({"fairness": {}}))
    since = await flood(world, "a", 5) + await flood(world, "b", 5)
    # What was there before counts as one.
    assert len(set(await world.claim_jobs(worker, 3)) & set(before)) == 1
    await world.update(queue, settings=QueueSettings())
    after = await flood(world, "c", 5)
    assert len(await drain(world, worker, 4)) == 20
    jobs = [await world.status(job) for job in (*since, *after)]
    assert Counter(jobs)[JobStatus.PENDING] == 0


async def test_another_process_finds_the_keys_and_takes_nothing_twice(world: World) -> None:
    await world.queue("fair", fairness={})
    other = await world.another()
    worker, helper = await world.worker(), await world.worker()
    jobs = set(await flood(world, "flood", 40))
    for number in range(30):
        jobs |= set(await flood(world, f"key-{number}", 1))
    taken: list[Claimed] = []
    helped = World(world.store, other, world.clock)
    while more := [*await helped.claim(helper, 7), *await world.claim(worker, 7)]:
        taken += more
    assert len(taken) == len(jobs)
    assert len({one.fence for one in taken}) == len(jobs)
    # In the first sixty, each small key has had its turn.
    assert keys(taken[:62])["flood"] <= 34
    await other.close()


async def test_explain_tells_what_goes_before_a_job_and_its_share(world: World) -> None:
    await world.queue("fair", fairness={"weights": {"b": 2}})
    await flood(world, "flood", 50)
    mine = await flood(world, "b", 3)
    await world.online_worker()
    first, last = [await world.engine.explain([1], job) for job in (mine[0], mine[-1])]
    assert [reason.code for reason in first.reasons] == ["turns"]
    assert [reason.code for reason in last.reasons] == ["behind", "turns"]
    assert last.ahead == 2
    assert "2 keys of its queue take turns; of each 1.5 jobs" in last.reasons[-1].text
    [other] = await flood(world, "x", 1, queue="default")
    found = await world.engine.explain([1], other)
    assert [reason.code for reason in found.reasons] == ["other_queues"]


async def test_a_thousand_keys_are_found_by_a_process_that_heard_of_none(world: World) -> None:
    await world.queue("fair", fairness={})
    jobs = [new_job("fair", "work", str(key), fairness_key=str(key)) for key in range(1_000)]
    await world.insert(*jobs)
    other = World(world.store, await world.another(), world.clock)
    worker = await other.worker()
    taken = keys(await other.claim(worker, 900)) + keys(await other.claim(worker, 900))
    assert taken == {str(key): 1 for key in range(1_000)}
    await other.engine.close()


# --- Limits by key ---


async def test_no_more_of_a_key_run_at_once_than_its_queue_allows(world: World) -> None:
    await world.queue("fair", fairness={"max_concurrent_per_key": 2})
    for key in ("a", "b"):
        await flood(world, key, 10)
    await flood(world, None, 3)
    other = World(world.store, await world.another(), world.clock)
    worker, helper = await world.worker(), await world.worker()
    first = await world.claim(worker, 3)
    both = first + await other.claim(helper, 20)
    # Jobs without a key have no limit.
    assert keys(both) == {"a": 2, "b": 2, "None": 3}
    assert await world.claim(worker, 20) == []
    ended = next(one for one in both if keys([one])["a"])
    await end(world, [ended])
    assert keys(await other.claim(helper, 20)) == {"a": 1}
    await other.engine.close()


@pytest.mark.parametrize("types", [("work",), ("work", "mail")])
async def test_a_limit_by_key_holds_over_all_priorities_and_types_of_a_queue(
    world: World, types: tuple[str, ...]
) -> None:
    await world.queue("fair", fairness={"max_concurrent_per_key": 2})
    for priority in (0, 5, 7, 9):
        for job_type in types:
            await flood(world, "a", 1, priority=priority, job_type=job_type)
    await flood(world, "b", 1)
    worker = await world.worker()
    claimed = await world.claim(worker, 10)
    assert keys(claimed) == {"a": 2, "b": 1}
    for _ in range(2 * len(types) - 1):
        assert await world.claim(worker, 10) == []
        await end(world, claimed)
        claimed = await world.claim(worker, 10)
        assert keys(claimed) == {"a": 2}
    await end(world, claimed)
    assert await world.claim(worker, 10) == []


async def test_a_job_that_a_worker_skips_keeps_its_key_from_no_other_priority(
    world: World,
) -> None:
    await world.queue("fair", fairness={"max_concurrent_per_key": 1})
    [first] = await flood(world, "a", 1, priority=5)
    [second] = await flood(world, "a", 1)
    worker = await world.worker()
    [claimed] = await world.claim(worker, 10)
    assert job_of(claimed.fence) == first
    await world.engine.finish([Finish(claimed.fence, ToSkipped("not mine"))])
    assert await world.claim_jobs(worker, 10) == [second]


async def test_a_rate_by_key_holds_over_all_priorities_of_a_queue(world: World) -> None:
    fairness = {"rate_limit_per_key": 60, "rate_limit_burst_per_key": 2}
    await world.queue("fair", fairness=fairness)
    for priority in (0, 5, 9):
        await flood(world, "a", 1, priority=priority)
    worker = await world.worker()
    assert len(await world.claim(worker, 10)) == 2
    assert await world.claim(worker, 10) == []


@pytest.mark.parametrize("keys_beside", [0, 40])  # that give a few jobs each by other statements
async def test_what_a_job_costs_beyond_one_unit_is_paid_before_the_next_of_its_key(
    world: World, keys_beside: int
) -> None:
    """Units a minute hold over time, across processes, and other keys pay nothing."""
    other = await world.another()
    await world.queue("fair", fairness={"rate_limit_per_key": 60})
    worker = await world.online_worker()
    dear = [await world.enqueue("fair", fairness_key="dear", cost=10) for _ in range(3)]
    for number in range(keys_beside):
        await flood(world, f"plain {number}", 1)
    plain = await flood(world, "plain", 2)
    first = await world.claim_jobs(worker, 50)
    assert set(first) & {*dear, *plain} == {dear[0], plain[0]}
    assert len(first) == 2 + keys_beside
    assert (await world.job(dear[0])).cost == 10
    world.clock.advance(1)
    assert await world.claim_jobs(worker, 50) == [plain[1]]
    for _ in range(9):
        world.clock.advance(0.98)
        assert await other.claim(Claim(worker.incarnation, 50)) == []
        # What is owed is not forgotten while others use their rate.
        await flood(world, f"late {world.clock.now()}", 1)
        assert len(await world.claim(worker, 50)) == 1
    world.clock.advance(0.2)
    assert await world.claim_jobs(worker, 50) == [dear[1]]
    found = await world.engine.explain([1], dear[2])
    assert found.reasons[0].code == "key_rate_limit"
    assert found.reasons[0].text.startswith(
        "its key has 60 units a minute, of which its start takes 10: the next one in "
    )


async def test_a_key_that_may_start_nothing_keeps_no_other_from_its_turn(world: World) -> None:
    await world.queue("fair", fairness={"max_concurrent_per_key": 1})
    worker = await world.worker()
    for number in range(40):
        await flood(world, f"busy-{number}", 2)
    assert len(await world.claim(worker, 40)) == 40
    await flood(world, "late", 2)
    assert keys(await world.claim(worker, 1)) == {"late": 1}
    assert await world.claim(worker, 1) == []


async def test_one_at_a_time_is_in_order_whatever_comes_of_a_job(world: World) -> None:
    await world.queue("fair", fairness={"max_concurrent_per_key": 1})
    jobs = await flood(world, "a", 3)
    worker = await world.worker()
    for transition in (ToRetry(0, ERROR), ToRetry(5, ERROR), ToSnoozed(5, "x"), ToHandBack("x")):
        claimed = await world.claim(worker, 1)
        assert [job_of(one.fence) for one in claimed] == [jobs[0]]
        assert await world.claim(worker, 5) == []
        await world.finish(claimed[0].fence, transition)
        if await world.status(jobs[0]) == JobStatus.SCHEDULED:
            # It counts as running while it waits to be tried again.
            assert await world.claim(worker, 5) == []
            world.clock.advance(6)
            await world.engine.stage(10)
    for job in jobs:
        [claimed] = await world.claim(worker, 5)
        assert await world.status(job) == JobStatus.PROCESSING
        await end(world, [claimed])


async def test_explain_tells_the_limit_of_a_key(world: World) -> None:
    await world.queue("fair", fairness={"max_concurrent_per_key": 1})
    first, second = await flood(world, "a", 2)
    worker = await world.online_worker()
    claimed = await world.claim_one(worker)
    for text in ("one of them runs", "one before it waits to be tried again"):
        found = await world.engine.explain([1], second)
        assert found.reasons[0].code == "key_concurrency"
        assert text in found.reasons[0].text
        await world.finish(claimed.fence, ToRetry(60, ERROR))
    assert await world.status(first) == JobStatus.SCHEDULED


async def test_a_key_starts_no_more_than_its_rate_whoever_claims(world: World) -> None:
    await world.queue("fair", fairness={"rate_limit_per_key": 60, "rate_limit_burst_per_key": 3})
    for key in ("a", "b"):
        await flood(world, key, 20)
    other = World(world.store, await world.another(), world.clock)
    worker, helper = await world.worker(), await world.worker()
    both = await world.claim(worker, 4) + await other.claim(helper, 20)
    assert keys(both) == {"a": 3, "b": 3}
    assert await world.claim(worker, 20) == []
    world.clock.advance(2)
    assert keys(await other.claim(helper, 20)) == {"a": 2, "b": 2}
    # What nobody used gathers, up to the burst; and a key that is new has all of it.
    world.clock.advance(60)
    await flood(world, "c", 20)
    assert keys(await world.claim(worker, 50)) == {"a": 3, "b": 3, "c": 3}
    await other.engine.close()


async def test_a_rate_that_is_full_again_takes_no_row(world: World) -> None:
    await world.queue("fair", fairness={"rate_limit_per_key": 6_000})
    worker = await world.worker()
    for number in range(30):
        await flood(world, f"key-{number}", 1)
        assert len(await world.claim(worker, 5)) == 1
        world.clock.advance(10)
    [[rows]] = await world.probe.rows("select count(*) from key_gates")
    assert rows <= 1


async def test_explain_tells_when_the_rate_of_a_key_lets_the_next_one_start(world: World) -> None:
    await world.queue("fair", fairness={"rate_limit_per_key": 6})
    jobs = await flood(world, "a", 2)
    worker = await world.online_worker()
    assert len(await world.claim(worker, 5)) == 1
    found = await world.engine.explain([1], jobs[1])
    assert found.reasons[0].code == "key_rate_limit"
    assert found.reasons[0].until == world.clock.after(10)
