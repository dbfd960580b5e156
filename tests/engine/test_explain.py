"""Why a job is not running, on both engines; and that claims agree with what is said."""

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.changes import CancelJob
from taskforge.domain.eligibility import Hindrance
from taskforge.domain.errors import NotFound
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import Retry, Skip, Succeed
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Sample, UpdateWorker
from tests.engine.world import ERROR, World


async def explain(world: World, job: UUID) -> Explanation:
    return await world.engine.explain([FIRST_PROJECT], job)


async def codes(world: World, job: UUID) -> list[str]:
    return [reason.code for reason in (await explain(world, job)).reasons]


async def test_a_job_waits_for_a_worker_then_is_next_then_runs_then_has_ended(world: World) -> None:
    job = await world.enqueue("default")
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["no_worker"]
    assert (found.status, found.workers, found.ahead, found.expected_start) == (JobStatus.PENDING, (), 0, None)
    worker = await world.worker(lease=60)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["next"]
    assert found.expected_start == world.clock.now()
    assert [one.hindrance for one in found.workers] == [None]
    claimed = await world.claim_one(worker)
    world.clock.advance(3)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["running"]
    assert [one.text for one in found.workers] == ["runs it"]
    await world.change(job, CancelJob("enough"))
    assert await codes(world, job) == ["cancelling"]
    world.clock.advance(100)
    assert await codes(world, job) == ["worker_lost"]
    assert await codes(world, await world.enqueue("default")) == ["no_worker"]
    await world.finish(claimed.fence, Succeed(None))
    world.clock.advance(7_300)
    [reason] = (await explain(world, job)).reasons
    assert (reason.code, reason.text) == ("ended", "it has ended: succeeded 2 h ago")


async def test_a_scheduled_job_says_when_and_why(world: World) -> None:
    worker = await world.worker()
    job = await world.enqueue("default", at=90.0)
    [reason] = (await explain(world, job)).reasons
    assert (reason.code, reason.text, reason.until) == ("scheduled", "it is due in 90 s", world.clock.after(90))
    world.clock.advance(60 + 90)
    [reason] = (await explain(world, job)).reasons
    assert reason.code == "overdue"
    assert "60 s" in reason.text
    await world.engine.stage(10)
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    await world.finish(claimed.fence, Retry(5.0, ERROR, crashed=False))
    found = await explain(world, job)
    assert [(reason.code, reason.text) for reason in found.reasons] == [
        ("retry", "attempt 1 of 3 failed; the next one is due in 5.0 s")
    ]
    assert found.expected_start == world.clock.after(5)


async def test_each_worker_says_what_keeps_it_from_the_job(world: World) -> None:
    queue = await world.queue("mail")
    job = await world.enqueue("mail", job_type="send", requires={"gpu": True})
    kinds: dict[str, dict[str, Any]] = {
        "elsewhere": {"queues": ("other", "more")},
        "ignorant": {"types": ("other",), "capabilities": {"gpu": True}},
        "poor": {"types": ("send",)},
        "drains": {"capabilities": {"gpu": True}},
        "ill": {"capabilities": {"gpu": True}},
        "skips": {"capabilities": {"gpu": True}},
    }
    for name, options in kinds.items():
        made = await world.worker(name=name, **options)
        await world.engine.renew(made.incarnation, 60, Sample(healthy=True))
        if name == "skips":
            claimed = await world.claim_one(made)
            await world.finish(claimed.fence, Skip("not mine"))
        if name == "drains":
            await world.engine.update_worker(FIRST_PROJECT, UpdateWorker(worker=made.worker, drain_mode=True))
        if name == "ill":
            await world.engine.renew(made.incarnation, 60, Sample(healthy=False))
    found = await explain(world, job)
    assert {one.name: one.hindrance for one in found.workers} == {
        "elsewhere": Hindrance.NOT_SUBSCRIBED,
        "ignorant": Hindrance.NO_HANDLER,
        "poor": Hindrance.LACKS_CAPABILITY,
        "drains": Hindrance.DRAINING,
        "ill": Hindrance.UNHEALTHY,
        "skips": Hindrance.SKIPPED,
    }
    [reason] = found.reasons
    assert reason.code == "no_able_worker"
    assert "1 not subscribed to queue 'mail'" in reason.text
    assert '{"gpu":true}' in reason.text
    assert "ignorant" not in reason.text  # names are for those who may see workers
    able = await world.worker(name="able", capabilities={"gpu": True, "big": True}, max_concurrent_jobs=1)
    assert await codes(world, job) == ["next"]
    await world.pause(queue)
    assert await codes(world, job) == ["paused"]
    await world.resume(queue)
    other = await world.enqueue("default", job_type="x")
    assert await world.claim_jobs(able, 1) == [job]
    assert await codes(world, other) == ["next"]  # "elsewhere" is not the only other one
    again = await world.enqueue("mail", job_type="send", requires={"big": True})
    [busy] = (await explain(world, again)).reasons
    assert (busy.code, busy.text) == ("busy", "every worker that may take it is busy: 1 of 1 slots are taken")


async def test_limits_and_those_who_go_first(world: World) -> None:
    await world.queue("few", max_concurrent_jobs=2)
    await world.queue("slow", rate_limit=60, rate_limit_burst=1)
    worker = await world.worker(types=("work",))
    await world.enqueue_many(5, "few")
    await world.enqueue("few", job_type="nobody handles it")
    world.clock.advance(0.001)
    last = await world.enqueue("few")
    urgent = await world.enqueue("few", priority=9)
    found = await explain(world, last)
    assert [reason.text for reason in found.reasons] == ["6 jobs of its queue go first"]
    assert (found.ahead, found.expected_start) == (6, None)
    assert len(await world.claim(worker, 10)) == 2
    found = await explain(world, last)
    assert [reason.code for reason in found.reasons] == ["concurrency", "behind"]
    assert found.reasons[0].text == "queue 'few' runs 2 jobs, and at most 2 at once"
    assert await world.status(urgent) is JobStatus.PROCESSING
    first, *rest = await world.enqueue_many(4, "slow")
    assert await world.claim_jobs(worker, 10) == [first]
    found = await explain(world, rest[2])
    assert [reason.code for reason in found.reasons] == ["rate_limit", "behind"]
    assert found.reasons[0].until == world.clock.after(1)
    assert found.expected_start == world.clock.after(3)
    for job in rest:
        expected = (await explain(world, job)).expected_start
        assert expected is not None
        world.clock.advance((expected - world.clock.now()).total_seconds())
        await world.engine.renew(worker.incarnation, 60, Sample())
        assert await world.claim_jobs(worker, 10) == [job]


async def test_a_job_whose_time_is_over_and_one_that_is_not_there(world: World) -> None:
    job = await world.enqueue("default", expires=5.0)
    world.clock.advance(6)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["expired", "no_worker"]
    assert found.reasons[0].until == world.clock.now() - timedelta(seconds=1)
    with pytest.raises(NotFound):
        await world.engine.explain([FIRST_PROJECT + 7], job)


@pytest.mark.parametrize("seed", range(4))
async def test_a_claim_takes_just_what_the_explanation_says_it_would(world: World, seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c"]
    queues = [
        await world.queue(name, priority=chance.randrange(3), is_active=chance.random() < 0.7, accept_while_paused=True)
        for name in names
    ]
    await world.queue("source", dead_letter_queue_id=chance.choice(queues).id)
    options: list[dict[str, Any]] = [
        {
            "queues": chance.choice([None, ("a",), ("a", "b"), ("c", "source")]),
            "types": chance.choice([None, ("x",), ("x", "y")]),
            "capabilities": chance.choice([{}, {"gpu": True}, {"gpu": True, "memory_gb": 16}]),
            "worker_type": chance.choice(["general", "specialized_gpu"]),
        }
        for _ in range(4)
    ]
    for number, chosen in enumerate(options):
        name = f"w{number}"
        worker = await world.worker(name=name, **chosen)
        jobs = [
            await world.enqueue(
                chance.choice(names),
                job_type=chance.choice(["x", "y", "z"]),
                requires=chance.choice([None, {"gpu": True}, {"memory_gb": {">=": 16}}, {"worker_type": "specialized_gpu"}]),
                priority=chance.randrange(3),
                expires=chance.choice([None, 3_600.0]),
            )
            for _ in range(15)
        ]
        explained = {job: await explain(world, job) for job in jobs}
        would = {
            job
            for job, found in explained.items()
            if not {"paused", "expired"} & {reason.code for reason in found.reasons}
            and any(one.name == name and one.hindrance is None for one in found.workers)
        }
        assert set(await world.claim_jobs(worker, 1_000)) & set(jobs) == would
