"""Why a job is not running, on both engines; and that claims agree with what is said."""

import itertools
import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from taskforge.control.dispatcher import Dispatcher
from taskforge.domain.breaker import Mode
from taskforge.domain.changes import CancelJob
from taskforge.domain.circuit import CircuitName
from taskforge.domain.eligibility import Hindrance
from taskforge.domain.errors import NotFound
from taskforge.domain.explanation import Explanation
from taskforge.domain.ids import job_of
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import ToFailed, ToHandBack, ToRetry, ToSkipped, ToSucceeded
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Sample, UpdateWorker
from taskforge.storage.records.circuits import CircuitRecords
from taskforge.storage.records.cluster import ClusterRecords
from tests.support.nodes import a_node
from tests.support.stores import ALSO_WALLED
from tests.support.world import ERROR, World

pytestmark = ALSO_WALLED


async def explain(world: World, job: UUID) -> Explanation:
    return await world.engine.explain([FIRST_PROJECT], job)


async def codes(world: World, job: UUID) -> list[str]:
    return [reason.code for reason in (await explain(world, job)).reasons]


async def test_a_job_waits_for_a_worker_then_is_next_then_runs_then_has_ended(world: World) -> None:
    job = await world.enqueue("default")
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["no_worker"]
    assert (found.status, found.workers, found.ahead, found.expected_start) == (
        JobStatus.PENDING,
        (),
        0,
        None,
    )
    worker = await world.online_worker(lease=60)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["next"]
    assert found.expected_start == world.clock.now()
    assert [one.hindrance for one in found.workers] == [None]
    assert [one.id for one in found.workers] == [one.id for one in await world.engine.workers([1])]
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
    await world.finish(claimed.fence, ToSucceeded(None))
    world.clock.advance(7_300)
    [reason] = (await explain(world, job)).reasons
    assert (reason.code, reason.text) == ("ended", "it has ended: succeeded 2 h ago")


async def test_a_scheduled_job_says_when_and_why(world: World) -> None:
    worker = await world.online_worker()
    job = await world.enqueue("default", at=80.0)
    [reason] = (await explain(world, job)).reasons
    assert (reason.code, reason.text, reason.until) == (
        "scheduled",
        "it is due in 80 s",
        world.clock.after(80),
    )
    world.clock.advance(80 + 85)
    [reason] = (await explain(world, job)).reasons
    assert reason.code == "overdue"
    assert "85 s" in reason.text
    await world.engine.stage(10)
    worker = await world.online_worker()
    claimed = await world.claim_one(worker)
    await world.finish(claimed.fence, ToRetry(5.0, ERROR, crashed=False))
    found = await explain(world, job)
    assert [(reason.code, reason.text) for reason in found.reasons] == [
        ("retry", "attempt 2 of 3 is due in 5.0 s")
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
        made = await world.online_worker(name=name, **options)
        await world.engine.renew(made.incarnation, 60, Sample(healthy=True))
        if name == "skips":
            claimed = await world.claim_one(made)
            await world.finish(claimed.fence, ToSkipped("not mine"))
        if name == "drains":
            await world.engine.change_worker(
                FIRST_PROJECT, UpdateWorker(worker=made.worker, drain_mode=True)
            )
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
    able = await world.online_worker(
        name="able", capabilities={"gpu": True, "big": True}, max_concurrent_jobs=1
    )
    assert await codes(world, job) == ["next"]
    await world.pause(queue)
    assert await codes(world, job) == ["paused"]
    await world.resume(queue)
    assert await world.claim_jobs(able, 1) == [job]
    again = await world.enqueue("mail", job_type="send", requires={"big": True})
    [busy] = (await explain(world, again)).reasons
    assert (busy.code, busy.text) == (
        "busy",
        "every worker that may take it is busy: 1 of 1 slots are taken",
    )


async def test_limits_and_those_who_go_first(world: World) -> None:
    await world.queue("few", max_concurrent_jobs=2)
    await world.queue("slow", rate_limit=60, rate_limit_burst=1)
    worker = await world.online_worker(types=("work",))
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


HELD = {"paused", "expired", "circuit_open", "unplaced"}


async def lead(world: World) -> int:
    cluster = ClusterRecords(world.engine)
    term = await cluster.take(a_node(), (await cluster.look(a_node())).reign, 60.0)
    assert term is not None
    return term


@pytest.mark.parametrize("seed", range(6))
async def test_a_claim_takes_just_what_the_explanation_says_it_would(
    world: World, seed: int
) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c"]
    queues = [
        await world.queue(
            name,
            priority=chance.randrange(3),
            is_active=chance.random() < 0.7,
            accept_while_paused=True,
            load_balancing=chance.choice(["pull", "round_robin", "least_load", "sticky"]),
        )
        for name in names
    ]
    term = await lead(world)
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
        worker = await world.online_worker(name=name, **chosen)
        jobs = [
            await world.enqueue(
                chance.choice(names),
                job_type=chance.choice(["x", "y", "z"]),
                requires=chance.choice(
                    [
                        None,
                        {"gpu": True},
                        {"memory_gb": {">=": 16}},
                        {"worker_type": "specialized_gpu"},
                    ]
                ),
                priority=chance.randrange(3),
                expires=chance.choice([None, 3_600.0]),
            )
            for _ in range(15)
        ]
        circuits = CircuitRecords(world.engine)
        for name_of_queue, job_type in itertools.product(names, "xy"):
            wanted = CircuitName(name_of_queue, job_type)
            mode = chance.choice([Mode.OPEN, Mode.CLOSED, Mode.CLOSED])
            await circuits.move(FIRST_PROJECT, wanted, mode)
        if chance.random() < 0.7:
            await Dispatcher(world.engine).once(term)
        explained = {job: await explain(world, job) for job in jobs}
        would = {
            job
            for job, found in explained.items()
            if not HELD & {reason.code for reason in found.reasons}
            and any(one.name == name and one.hindrance is None for one in found.workers)
        }
        assert set(await world.claim_jobs(worker, 1_000)) & set(jobs) == would


async def test_what_goes_first_in_other_queues_counts(world: World) -> None:
    urgent = await world.queue("urgent", priority=9)
    await world.queue("limited", priority=9, max_concurrent_jobs=1)
    await world.online_worker(queues=("default", "urgent", "limited"), types=("work",))
    await world.enqueue_many(3, "urgent")
    await world.enqueue("urgent", job_type="nobody handles it")
    await world.enqueue("limited")
    job = await world.enqueue("default")
    found = await explain(world, job)
    assert [(reason.code, reason.text) for reason in found.reasons] == [
        ("other_queues", "3 jobs of other queues go first")
    ]
    assert (found.ahead, found.expected_start) == (0, None)
    await world.pause(urgent)
    assert await codes(world, job) == ["next"]


async def test_a_job_that_has_been_next_for_long_is_not_promised_anything(world: World) -> None:
    await world.online_worker()
    job = await world.enqueue("default")
    world.clock.advance(600)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["waiting"]
    assert "10 m" in found.reasons[0].text
    assert found.expected_start is None


async def test_a_start_by_time_counts_until_the_first_start(world: World) -> None:
    worker = await world.online_worker()
    job = await world.enqueue("default", expires=5.0)
    await world.finish((await world.claim_one(worker)).fence, ToHandBack("not now"))
    world.clock.advance(6)
    assert await codes(world, job) == ["next"]
    late = await world.enqueue("default", expires=1.0)
    world.clock.advance(2)
    after = await world.enqueue("default")
    assert (await explain(world, after)).ahead == 1  # the one that is over goes nowhere
    assert await world.claim_jobs(worker) == [job, after]
    assert await codes(world, late) == ["expired"]


async def test_when_a_rate_limit_lets_it_start_follows_what_it_has_gathered_and_learned(
    world: World,
) -> None:
    await world.queue("burst", rate_limit=60, rate_limit_burst=100)
    worker = await world.online_worker(max_concurrent_jobs=1_000)
    jobs = await world.enqueue_many(51, "burst")
    found = await explain(world, jobs[-1])
    # slots decide
    assert ([reason.code for reason in found.reasons], found.expected_start) == (["behind"], None)
    assert len(await world.claim_jobs(worker, 1_000)) == 51
    await world.queue("wary", rate_limit=6_000, rate_limit_burst=1, rate_limit_algorithm="adaptive")
    await world.enqueue_many(200, "wary")
    for _ in range(60):
        for one in await world.claim(worker, 10):
            await world.finish(one.fence, ToFailed(ERROR, "no"))
        world.clock.advance(1)
    assert len(await world.claim(worker, 10)) == 1
    job = await world.enqueue("wary")
    found = await explain(world, job)
    assert found.ahead is not None
    assert found.ahead > 50
    [limit] = [reason for reason in found.reasons if reason.code == "rate_limit"]
    assert "has learned to start" in limit.text
    assert found.expected_start is not None
    # slower than the setting says
    assert found.expected_start > world.clock.after(found.ahead / 100 * 1.5)


async def test_a_job_that_everyone_skipped_is_about_to_fail(world: World) -> None:
    worker = await world.online_worker()
    await world.online_worker(types=("other",))
    job = await world.enqueue("default")
    await world.finish((await world.claim_one(worker)).fence, ToSkipped("not mine"))
    assert [(one.code, one.text) for one in (await explain(world, job)).reasons] == [
        ("skipped", "every worker that could take it has skipped it: it is about to fail")
    ]
    await world.engine.expire(10)
    assert await world.status(job) is JobStatus.FAILED


async def test_a_scheduled_job_says_what_will_hold_it_up(world: World) -> None:
    queue = await world.queue("mail", accept_while_paused=True)
    job = await world.enqueue("mail", at=90.0)
    assert await codes(world, job) == ["scheduled", "no_worker"]
    await world.online_worker()
    await world.pause(queue)
    found = await explain(world, job)
    assert ([reason.code for reason in found.reasons], found.expected_start) == (
        ["scheduled", "paused"],
        None,
    )


async def test_a_silent_worker_with_a_long_lease_may_claim(world: World) -> None:
    worker = await world.online_worker(lease=3_600)
    await world.engine.renew(worker.incarnation, 3_600, Sample())
    world.clock.advance(60)
    job = await world.enqueue("default")
    assert await codes(world, job) == ["next"]
    assert await world.claim_jobs(worker) == [job]


async def test_of_many_workers_a_hundred_are_listed_those_who_would_take_it_first(
    world: World,
) -> None:
    for _ in range(103):
        await world.online_worker(types=("other",))
    await world.online_worker("zoe", types=("work",))
    found = await explain(world, await world.enqueue("default"))
    assert (len(found.workers), found.workers_online, found.workers[0].name) == (100, 104, "zoe")


async def test_only_workers_that_would_take_it_now_have_a_say_in_what_goes_first(
    world: World,
) -> None:
    """One that is gone, one that stops and one with a choice of queues hold up nothing that an idle
    one would take."""
    await world.queue("urgent", priority=9)
    gone = await world.online_worker(queues=("default", "urgent"), lease=5)
    stops = await world.online_worker(queues=("default", "urgent"))
    await world.online_worker(queues=("default",))
    await world.enqueue_many(5, "urgent")
    job = await world.enqueue("default")
    assert await codes(world, job) == ["next"]  # the last of them takes it at once
    first = await world.online_worker(queues=("default", "urgent"), max_concurrent_jobs=100)
    assert await codes(world, job) == ["next"]
    world.clock.advance(6)
    for worker in await world.engine.workers([FIRST_PROJECT]):
        if worker.incarnation not in (gone.incarnation, stops.incarnation, first.incarnation):
            await world.engine.deregister(worker.incarnation)
    await world.engine.renew(stops.incarnation, 1e6, Sample(stopping=True))
    assert await codes(world, job) == ["other_queues"]
    await world.engine.deregister(first.incarnation)
    await world.online_worker(queues=("default",))
    assert await codes(world, job) == ["next"]


async def test_a_worker_that_called_itself_unhealthy_stays_so_when_it_is_silent(
    world: World,
) -> None:
    worker = await world.online_worker(lease=3_600)
    await world.engine.renew(worker.incarnation, 3_600, Sample(healthy=False))
    world.clock.advance(60)
    job = await world.enqueue("default")
    assert await codes(world, job) == ["unhealthy"]
    assert await world.claim_jobs(worker) == []


async def test_nothing_is_about_to_fail_in_a_paused_queue(world: World) -> None:
    queue = await world.queue("mail")
    worker = await world.online_worker()
    job = await world.enqueue("mail")
    await world.finish((await world.claim_one(worker)).fence, ToSkipped("not mine"))
    await world.pause(queue)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["paused", "skipped"]
    assert "fail" not in found.reasons[1].text
    await world.engine.expire(10)
    assert await world.status(job) is JobStatus.PENDING


async def test_a_worker_that_was_never_heard_of_is_not_online_and_a_silent_one_is_unhealthy(
    world: World,
) -> None:
    job = await world.enqueue()
    await world.worker("never")
    told = await world.engine.explain([FIRST_PROJECT], job)
    assert ([reason.code for reason in told.reasons], told.workers_online) == (["no_worker"], 0)
    await world.online_worker("silent", lease=15)
    world.clock.advance(11)
    told = await world.engine.explain([FIRST_PROJECT], job)
    assert ([reason.code for reason in told.reasons], told.workers_online) == (["unhealthy"], 1)


async def test_a_job_of_a_balanced_queue_waits_to_be_placed_then_for_its_worker(
    world: World,
) -> None:
    await world.queue("spread", load_balancing="round_robin")
    job = await world.enqueue("spread")
    assert await codes(world, job) == ["no_worker"]
    workers = [await world.online_worker(lease=60, max_concurrent_jobs=1) for _ in range(2)]
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["unplaced"]
    assert "round_robin" in found.reasons[0].text
    term = await lead(world)
    await Dispatcher(world.engine).once(term)
    found = await explain(world, job)
    assert [reason.code for reason in found.reasons] == ["next"]
    assert sorted(str(one.hindrance) for one in found.workers) == ["None", "placed_elsewhere"]
    # What is placed behind it on the same worker waits for it, and for nobody else.
    later = [await world.enqueue("spread") for _ in range(2)]
    await Dispatcher(world.engine).once(term)
    behind = [(await explain(world, one)).ahead for one in later]
    assert sorted(behind) == [0, 1]
    claimed = {one: await world.claim_one(one) for one in workers}
    home = next(one for one in workers if job_of(claimed[one].fence) == job)
    away = next(one for one in workers if one is not home)
    waits = next(one for one in later if job_of(claimed[away].fence) != one)
    assert await codes(world, waits) == ["busy"]
    drain = UpdateWorker(worker=home.worker, drain_mode=True)
    await world.engine.change_worker(FIRST_PROJECT, drain)
    assert await codes(world, waits) == ["misplaced"]
    await Dispatcher(world.engine).once(term)
    assert await codes(world, waits) == ["busy", "unplaced"]
    await Dispatcher(world.engine).once(term)
    assert await codes(world, waits) == ["busy"]
    await world.finish(claimed[away].fence, ToSucceeded())
    assert await codes(world, waits) == ["next"]
    assert await world.claim_jobs(away) == [waits]
