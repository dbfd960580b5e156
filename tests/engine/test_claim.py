import random
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.ids import epoch_of, job_of
from taskforge.domain.job import Inserted, JobStatus, new_job
from taskforge.domain.outcome import Finish, ToHandBack, ToRetry, ToSkipped, ToSucceeded
from taskforge.domain.worker import Sample, UpdateWorker
from taskforge.ports.engine import Engine
from tests.support.world import ERROR, World


async def test_a_claim_carries_what_the_handler_needs(world: World) -> None:
    job = await world.enqueue(
        payload={"n": 1},
        priority=3,
        max_attempts=5,
        timeout_seconds=12.5,
        tags=["a"],
        trace="t",
        deadline=100,
    )
    world.clock.advance(2.5)
    claimed = await world.claim_one(await world.worker())
    assert (job_of(claimed.fence), epoch_of(claimed.fence)) == (job, 1)
    assert (claimed.queue, claimed.job_type, claimed.payload) == ("default", "work", b'{"n":1}')
    assert (claimed.attempt, claimed.max_attempts, claimed.crashes, claimed.priority) == (
        1,
        5,
        0,
        3,
    )
    assert (claimed.timeout_seconds, claimed.heartbeat_timeout_seconds) == (12.5, None)
    assert claimed.waited_seconds == pytest.approx(2.5)
    assert claimed.deadline_seconds == pytest.approx(97.5)
    assert (claimed.tags, claimed.trace) == (("a",), "t")
    assert await world.place_of(job) == "running"


async def test_a_claimed_job_is_processing_and_says_who_has_it(world: World) -> None:
    job = await world.enqueue()
    worker = await world.worker()
    await world.claim_one(worker)
    found = await world.job(job)
    assert (found.status, found.attempt_count, found.epoch) == (JobStatus.PROCESSING, 1, 1)
    assert found.worker == worker.incarnation
    assert await world.claim(worker) == []


async def test_settings_of_the_queue_apply_where_the_job_says_nothing(world: World) -> None:
    await world.queue("slow", timeout_seconds=77, heartbeat_timeout_seconds=5)
    await world.enqueue("slow")
    claimed = await world.claim_one(await world.worker())
    assert (claimed.timeout_seconds, claimed.heartbeat_timeout_seconds) == (77.0, 5.0)
    assert claimed.deadline_seconds is None


async def test_order_is_queue_priority_then_job_priority_then_age(world: World) -> None:
    await world.queue("high", priority=5)
    await world.queue("low", priority=1)
    expected: dict[tuple[int, int, int], UUID] = {}
    for age, (queue, rank) in enumerate([("default", 0), ("high", 5), ("low", 1)] * 3):
        for priority in (0, 9, 4):
            job = await world.enqueue(queue, priority=priority)
            expected[-rank, -priority, age] = job
            world.clock.advance(0.01)
    worker = await world.worker()
    got = [
        *await world.claim_jobs(worker, 4),
        *await world.claim_jobs(worker, 1),
        *await world.claim_jobs(worker, 99),
    ]
    assert got == [job for _, job in sorted(expected.items())]


async def test_age_rules_across_types_and_queues_of_one_priority(world: World) -> None:
    await world.queue("second")
    jobs = []
    for number in range(30):
        jobs.append(await world.enqueue(["default", "second"][number % 2], f"type-{number % 5}"))
        world.clock.advance(0.001)
    worker = await world.worker()
    got: list[UUID] = []
    while claimed := await world.claim_jobs(worker, 7):
        got += claimed
    assert got == jobs


async def test_one_batch_is_claimed_in_the_order_it_was_given(world: World) -> None:
    jobs = await world.enqueue_many(50)
    assert await world.claim_jobs(await world.worker(), 50) == jobs


async def test_a_limit_is_kept(world: World) -> None:
    jobs = await world.enqueue_many(5)
    worker = await world.worker()
    assert await world.claim_jobs(worker, 2) == jobs[:2]
    assert await world.claim_jobs(worker, 99) == jobs[2:]


async def test_a_claim_is_not_short_where_one_of_many_lanes_holds_nearly_everything(
    world: World,
) -> None:
    others = [await world.enqueue(job_type=f"type-{number}") for number in range(20)]
    jobs = await world.enqueue_many(200)
    worker = await world.worker()
    assert await world.claim_jobs(worker, 150) == [*others, *jobs[:130]]
    assert await world.claim_jobs(worker, 150) == jobs[130:]


async def test_scheduled_jobs_are_nobodys_until_they_are_staged(world: World) -> None:
    job = await world.enqueue(at=10)
    worker = await world.worker()
    world.clock.advance(11)
    assert await world.claim(worker) == []
    assert await world.engine.stage(10) == 1
    assert await world.claim_jobs(worker) == [job]


# --- Who may take what ---


async def test_only_named_queues_and_types(world: World) -> None:
    await world.queue("mail")
    await world.enqueue("default", "a")
    mail_a, mail_b = await world.enqueue("mail", "a"), await world.enqueue("mail", "b")
    assert await world.claim_jobs(await world.worker(queues=("mail",), types=("b",))) == [mail_b]
    assert await world.claim_jobs(await world.worker(queues=())) == []
    assert await world.claim_jobs(await world.worker(types=())) == []
    assert await world.claim_jobs(await world.worker(queues=("mail", "unknown"))) == [mail_a]


async def test_a_type_that_appears_later_is_taken_by_a_worker_registered_before(
    world: World, other: Engine
) -> None:
    worker = await world.worker()
    assert await world.claim(worker) == []
    job = await World(world.store, other, world.clock).enqueue(job_type="never seen")
    assert await world.claim_jobs(worker) == [job]


async def test_requirements_are_met_or_the_job_stays(world: World) -> None:
    job = await world.enqueue(requires={"gpu": True, "memory_gb": {">=": 16}})
    for capabilities in ({}, {"gpu": True}, {"gpu": True, "memory_gb": 8}):
        assert await world.claim(await world.worker(capabilities=capabilities)) == []
    assert await world.claim_jobs(
        await world.worker(capabilities={"gpu": True, "memory_gb": 16})
    ) == [job]


async def test_worker_type_and_role_can_be_required(world: World) -> None:
    typed = await world.enqueue(requires={"worker_type": "specialized_io"})
    cast = await world.enqueue(requires={"role": "cleanup"})
    assert await world.claim(await world.worker()) == []
    assert await world.claim_jobs(await world.worker(worker_type="specialized_io")) == [typed]
    assert await world.claim_jobs(await world.worker(role="cleanup")) == [cast]


async def test_capabilities_may_change_while_a_worker_lives(world: World, other: Engine) -> None:
    job = await world.enqueue(requires={"gpu": True})
    worker = await world.worker()
    assert await world.claim(worker) == []
    await other.change_worker(1, UpdateWorker(worker=worker.worker, capabilities={"gpu": True}))
    assert await world.claim_jobs(worker) == [job]


async def test_jobs_nobody_handles_stand_in_nobodys_way(world: World) -> None:
    await world.insert(
        *(new_job("default", "unknown", number, priority=9) for number in range(300))
    )
    job = await world.enqueue(job_type="known")
    assert await world.claim_jobs(await world.worker(types=("known",)), 5) == [job]


async def test_dead_letter_queues_are_taken_by_name_only(world: World) -> None:
    dead = await world.queue("dead")
    user = await world.queue("user", dead_letter_queue_id=str(dead.id))
    job = await world.enqueue("dead")
    assert await world.claim(await world.worker()) == []
    assert await world.claim_jobs(await world.worker(queues=("dead",))) == [job]
    second = await world.enqueue("dead")
    from taskforge.domain.queue import DeleteQueue

    await world.engine.change_queue(1, DeleteQueue(queue=user.id))
    assert await world.claim_jobs(await world.worker()) == [second]


async def test_other_projects_are_another_world(world: World) -> None:
    second = await world.probe.add_project("second")
    await world.queue("default", project=second)
    job = await world.enqueue(project=second)
    assert await world.claim(await world.worker()) == []
    assert await world.claim_jobs(await world.worker(project=second)) == [job]


# --- Pause, skip, drain, lease ---


async def test_a_pause_holds_from_the_next_claim_on_also_from_another_process(
    world: World, other: Engine
) -> None:
    [queue] = await world.engine.queues([1])
    first, second = await world.enqueue(), await world.enqueue()
    worker = await world.worker()
    assert await world.claim_jobs(worker, 1) == [first]
    elsewhere = World(world.store, other, world.clock)
    await elsewhere.pause(queue)
    assert await world.claim(worker) == []
    await elsewhere.resume(queue)
    assert await world.claim_jobs(worker, 1) == [second]


async def test_a_new_priority_of_the_queue_holds_at_once(world: World, other: Engine) -> None:
    second = await world.queue("second")
    older = await world.enqueue()
    world.clock.advance(1)
    newer = [await world.enqueue("second"), await world.enqueue("second")]
    worker = await world.worker()
    await World(world.store, other, world.clock).update(second, priority=3)
    assert await world.claim_jobs(worker) == [*newer, older]


async def test_a_skipped_job_goes_to_other_workers_only(world: World) -> None:
    job, after = await world.enqueue(), await world.enqueue()
    picky, keen = await world.worker("picky"), await world.worker("keen")
    claimed = await world.claim_one(picky)
    await world.finish(claimed.fence, ToSkipped("not mine"))
    assert await world.claim_jobs(picky) == [after]
    assert await world.claim_jobs(keen) == [job]


async def test_a_skip_is_the_workers_and_outlives_its_restart(world: World) -> None:
    job = await world.enqueue()
    await world.finish(
        (await world.claim_one(await world.worker("picky"))).fence, ToSkipped("not mine")
    )
    assert await world.claim(await world.worker("picky")) == []
    # What was skipped stays so through later claims that lead nowhere.
    keen = await world.worker("keen")
    await world.finish((await world.claim_one(keen)).fence, ToHandBack("stopping"))
    assert await world.claim(await world.worker("picky")) == []
    assert await world.claim_jobs(keen) == [job]


async def test_many_skipped_jobs_do_not_hide_the_rest(world: World) -> None:
    picky = await world.worker("picky")
    await world.enqueue_many(40)
    for claimed in await world.claim(picky, 40):
        await world.finish(claimed.fence, ToSkipped("not mine"))
    world.clock.advance(1)
    job = await world.enqueue()
    assert await world.claim_jobs(picky, 3) == [job]


async def test_a_draining_or_unhealthy_worker_gets_nothing(world: World) -> None:
    job = await world.enqueue()
    worker = await world.worker()
    await world.engine.renew(worker.incarnation, 60, Sample(healthy=False))
    assert await world.claim(worker) == []
    await world.engine.renew(worker.incarnation, 60, Sample(healthy=True))
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=True))
    assert await world.claim(worker) == []
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=False))
    assert await world.claim_jobs(worker) == [job]


async def test_a_worker_that_claimed_before_gets_nothing_while_it_is_unhealthy(
    world: World,
) -> None:
    """What it may take is remembered between two claims; its health is not."""
    await world.enqueue_many(3)
    worker = await world.worker()
    for healthy, gets in ((True, 1), (False, 0), (True, 1)):
        await world.engine.renew(worker.incarnation, 60, Sample(healthy=healthy))
        assert len(await world.claim(worker, 1)) == gets


async def test_without_a_lease_there_is_no_claim(world: World) -> None:
    await world.enqueue()
    worker = await world.worker(lease=10)
    world.clock.advance(10)
    with pytest.raises(LeaseLost):
        await world.claim(worker)
    with pytest.raises(LeaseLost):
        await world.engine.claim(Claim(uuid4(), 1))
    assert (await world.stats()).pending == 1


async def test_a_lost_lease_is_told_also_when_there_is_nothing_to_claim(world: World) -> None:
    worker = await world.worker(lease=10)
    assert await world.claim(worker) == []
    world.clock.advance(11)
    with pytest.raises(LeaseLost):
        await world.claim(worker)


async def test_a_retried_job_waits_behind_those_that_came_before_its_time(world: World) -> None:
    first, second = await world.enqueue_many(2)
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    world.clock.advance(1)
    await world.finish(claimed.fence, ToRetry(0.0, ERROR))
    assert await world.claim_jobs(worker) == [second, first]


async def test_what_another_process_puts_back_at_an_old_turn_is_found(
    world: World, other: Engine
) -> None:
    jobs = await world.enqueue_many(20)
    elsewhere = World(world.store, other, world.clock)
    theirs = await elsewhere.claim(await elsewhere.worker(), 5)
    worker = await world.worker()
    assert await world.claim_jobs(worker, 10) == jobs[5:15]
    for claimed in theirs:
        await elsewhere.finish(claimed.fence, ToHandBack("stopping"))
    assert await world.claim_jobs(worker, 10) == [*jobs[:5], *jobs[15:]]


async def test_claims_over_many_lanes_miss_nothing_and_keep_order(world: World) -> None:
    jobs: list[UUID] = []
    for number in range(120):
        jobs.append(await world.enqueue(job_type=f"type-{(number * 7) % 40}"))
        world.clock.advance(0.001)
    worker = await world.worker()
    got: list[UUID] = []
    while claimed := await world.claim_jobs(worker, 25):
        got += claimed
    assert got == jobs


async def test_claims_of_less_than_a_hundred_are_exact_however_uneven_the_lanes(
    world: World,
) -> None:
    jobs: list[UUID] = []
    for job_type in ("old", "young", "youngest"):
        jobs += [
            answer.job
            for answer in await world.insert(*[new_job("default", job_type, None)] * 90)
            if isinstance(answer, Inserted)
        ]
        world.clock.advance(0.001)
    worker = await world.worker()
    assert [job for _ in range(3) for job in await world.claim_jobs(worker, 90)] == jobs


async def test_claims_over_uneven_lanes_and_a_limit_take_exactly_what_comes_first(
    world: World,
) -> None:
    dice = random.Random(11)
    await world.queue("limited", max_concurrent_jobs=15)
    waiting: list[tuple[str, UUID]] = []
    for _ in range(60):
        queue, job_type = (
            dice.choice(["default", "default", "limited"]),
            f"type-{min(dice.randrange(12), dice.randrange(12))}",
        )
        answers = await world.insert(*[new_job(queue, job_type, None)] * dice.randrange(1, 9))
        waiting += [(queue, answer.job) for answer in answers if isinstance(answer, Inserted)]
        world.clock.advance(0.001)
    worker, room = await world.worker(), 15
    while True:
        limit, expected = dice.randrange(1, 60), list[UUID]()
        for queue, job in waiting:
            if len(expected) < limit and (queue == "default" or room > 0):
                expected.append(job)
                room -= queue == "limited"
        assert await world.claim_jobs(worker, limit) == expected
        if not expected:
            break
        waiting = [one for one in waiting if one[1] not in expected]
    assert {queue for queue, _ in waiting} == {"limited"}


async def test_a_rate_on_one_queue_does_not_make_claims_from_the_others_fall_short(
    world: World,
) -> None:
    await world.queue("limited", rate_limit=100)
    await world.enqueue(queue="limited")
    for number in range(9):
        await world.enqueue(job_type=f"type-{number}")
    await world.insert(*[new_job("default", "hot", None)] * 300)
    assert len(await world.claim(await world.worker(), 100)) == 100


async def test_large_claims_keep_priorities_and_let_nobody_wait_for_much_longer(
    world: World,
) -> None:
    urgent = await world.enqueue_many(300, priority=5)
    for job_type in ("old", "young", "youngest"):
        await world.insert(*[new_job("default", job_type, None)] * 500)
        world.clock.advance(0.001)
    worker = await world.worker()
    first = await world.claim(worker, 200)
    assert [job_of(job.fence) for job in first] == urgent[:200]
    taken: list[str] = []
    while claimed := await world.claim(worker, 200):
        taken += [job.job_type for job in claimed]
        await world.engine.finish([Finish(job.fence, ToSucceeded()) for job in claimed])
    assert Counter(taken) == {"work": 100, "old": 500, "young": 500, "youngest": 500}
    last = {job_type: len(taken) - taken[::-1].index(job_type) for job_type in set(taken)}
    assert last["work"] == 100
    assert last["old"] <= 600 + 2 * 200
    assert last["young"] <= 1_100 + 2 * 200


async def test_no_worker_gets_more_than_it_has_slots(world: World, other: Engine) -> None:
    jobs = await world.enqueue_many(12)
    worker = await world.worker(max_concurrent_jobs=3)
    first = await world.claim(worker, 2)
    assert [job_of(job.fence) for job in first] == jobs[:2]
    third = await other.claim(Claim(worker.incarnation, 10))
    assert [job_of(job.fence) for job in third] == jobs[2:3]
    assert await world.claim(worker) == await other.claim(Claim(worker.incarnation, 1)) == []
    await world.finish(first[0].fence, ToSucceeded())
    assert len(await other.claim(Claim(worker.incarnation, 10))) == 1
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, max_concurrent_jobs=5))
    assert len(await other.claim(Claim(worker.incarnation, 10))) == 2, "more slots hold at once"
    await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, max_concurrent_jobs=1))
    await world.finish(first[1].fence, ToSucceeded())
    await world.finish(third[0].fence, ToSucceeded())
    assert await world.claim(worker) == [], "fewer as soon as what runs has ended"
    [found] = await world.engine.workers([1])
    assert (found.active_jobs, found.max_concurrent_jobs) == (3, 1)
    assert len(await world.claim(await world.worker(max_concurrent_jobs=4), 100)) == 4, (
        "others have slots of their own"
    )


async def test_what_a_worker_is_reporting_takes_no_slot_up_to_twice_as_many(world: World) -> None:
    await world.enqueue_many(20)
    worker = await world.worker(max_concurrent_jobs=2)
    claimed = [
        len(await world.engine.claim(Claim(worker.incarnation, 10, reporting=count)))
        for count in (0, 1, 2, 2, 100, 100)
    ]
    assert claimed == [2, 1, 1, 0, 2, 0]


async def test_what_was_reported_before_the_claim_came_makes_no_slots(world: World) -> None:
    await world.enqueue_many(20)
    worker = await world.worker(max_concurrent_jobs=2)
    first = await world.claim(worker, 2)
    await world.engine.finish([Finish(job.fence, ToSucceeded()) for job in first])
    assert len(await world.engine.claim(Claim(worker.incarnation, 10, reporting=2))) == 2
    assert await world.claim(worker) == []


async def test_slots_are_kept_when_the_clock_was_set_back(world: World) -> None:
    await world.enqueue_many(20)
    worker = await world.worker(max_concurrent_jobs=3)
    await world.claim(worker, 1)
    world.clock.advance(-120)
    claimed = [len(await world.claim(worker, 1)) for _ in range(4)]
    assert sum(claimed) == 2


async def test_a_limit_of_nothing_takes_nothing(world: World) -> None:
    await world.enqueue()
    assert await world.claim(await world.worker(), 0) == []


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize(
    "options", [{"expires": 10}, {"deadline": 10}, {"expires": 10, "deadline": 900}]
)
async def test_a_job_past_its_time_is_nobodys_though_upkeep_was_away(
    world: World, options: dict[str, Any], lanes: int
) -> None:
    async def enqueue_six(**options: Any) -> list[UUID]:
        answers = await world.insert(
            *(new_job("default", f"type-{number % lanes}", **options) for number in range(6))
        )
        return [answer.job for answer in answers if isinstance(answer, Inserted)]

    worker = await world.worker()
    late = await enqueue_six(**options)
    world.clock.advance(9)
    assert await world.claim_jobs(worker, 2) == late[:2]
    world.clock.advance(1)
    assert await world.claim(worker) == []
    fresh = await enqueue_six(expires=10)
    assert await world.claim_jobs(worker, 5) == fresh[:5]
    world.clock.advance(10)
    assert await world.claim(worker) == []
    assert await world.engine.expire(100) == 5
    assert {await world.status(job) for job in (*late[2:], fresh[5])} == {JobStatus.FAILED}


async def test_a_retry_past_the_deadline_is_nobodys(world: World) -> None:
    """After the first start the start-by time no longer counts, and the deadline does."""
    worker = await world.worker()
    job = await world.enqueue(expires=5, deadline=20)
    for seconds in (4, 6):
        world.clock.advance(seconds)
        claimed = await world.claim_one(worker)
        assert job_of(claimed.fence) == job
        assert await world.finish(claimed.fence, ToHandBack("stop")) == []
    world.clock.advance(10)
    assert await world.claim(worker) == []


async def test_many_jobs_past_their_time_do_not_hide_the_rest(world: World) -> None:
    worker = await world.worker()
    await world.enqueue_many(1_500, expires=1)
    world.clock.advance(2)
    fresh = await world.enqueue_many(20)
    assert await world.claim_jobs(worker, 15) == fresh[:15]
    assert await world.claim_jobs(worker, 15) == fresh[15:]
