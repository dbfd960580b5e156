from typing import Any

import pytest

from taskforge.domain.changes import CancelJob
from taskforge.domain.execution import Beat
from taskforge.domain.ids import job_of
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import (
    LEASE_RAN_OUT,
    MOST_UNEXPLAINED,
    NOT_BEGUN,
    Crashed,
    DeadlinePassed,
    DiedBeforeStart,
    Finish,
    HeartbeatMissed,
    LeaseRanOut,
    Lost,
    Outcome,
    TimedOut,
    ToHandBack,
    ToRetry,
    ToSkipped,
    ToSucceeded,
)
from taskforge.domain.queue import QueueSettings
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Sample, UpdateWorker
from taskforge.ports.engine import Engine
from tests.support.world import ERROR, World

# --- Staging ---


async def test_due_jobs_become_pending_in_the_order_of_their_time(world: World) -> None:
    jobs = [await world.enqueue(at=seconds) for seconds in (30, 10, 20, 40)]
    world.clock.advance(9)
    assert await world.engine.stage(10) == 0
    world.clock.advance(21)
    assert await world.engine.stage(2) == 2
    world.clock.advance(0.001)
    assert await world.engine.stage(2) == 1
    assert await world.engine.stage(2) == 0
    worker = await world.worker()
    claimed = await world.claim(worker)
    assert [job_of(one.fence) for one in claimed] == [jobs[1], jobs[2], jobs[0]]
    assert all(one.waited_seconds <= 0.001 for one in claimed)
    assert (await world.job(jobs[3])).status is JobStatus.SCHEDULED


async def test_staged_jobs_stand_behind_those_already_ready(world: World) -> None:
    late = await world.enqueue(at=10)
    world.clock.advance(15)
    early = await world.enqueue()
    world.clock.advance(1)
    await world.engine.stage(10)
    assert await world.claim_jobs(await world.worker()) == [early, late]


# --- Lapsed claims ---


async def lapse(
    world: World, queue: str = "default", *, lease: float = 1e6, **options: Any
) -> None:
    await world.enqueue(queue, **options)
    await world.claim_one(await world.worker(lease=lease))


@pytest.mark.parametrize(
    ("settings", "options", "lease", "kind"),
    [
        ({}, {}, 10, LeaseRanOut),
        ({"timeout_seconds": 10}, {}, 1e6, TimedOut),
        ({}, {"timeout_seconds": 10}, 1e6, TimedOut),
        ({"heartbeat_timeout_seconds": 10}, {}, 1e6, HeartbeatMissed),
        ({}, {"deadline": 10}, 1e6, DeadlinePassed),
        # Several at once: deadline, lease, timeout, beat.
        (
            {"timeout_seconds": 10, "heartbeat_timeout_seconds": 10},
            {"deadline": 10},
            10,
            DeadlinePassed,
        ),
        ({"timeout_seconds": 10, "heartbeat_timeout_seconds": 10}, {}, 10, LeaseRanOut),
        ({"timeout_seconds": 10, "heartbeat_timeout_seconds": 10}, {}, 1e6, TimedOut),
    ],
)
async def test_what_a_claim_lapses_of(
    world: World,
    settings: dict[str, Any],
    options: dict[str, Any],
    lease: float,
    kind: type[Outcome],
) -> None:
    await world.queue("watched", max_retries=4, **settings)
    await lapse(world, "watched", lease=lease, **options)
    world.clock.advance(9.9)
    assert await world.engine.lapsed(10) == []
    world.clock.advance(0.2)
    [lapsed] = await world.engine.lapsed(10)
    assert type(lapsed.outcome) is kind
    if isinstance(lapsed.outcome, TimedOut | HeartbeatMissed):
        assert lapsed.outcome.seconds == 10.0
    assert (lapsed.attempt.attempt, lapsed.attempt.max_attempts, lapsed.attempt.epoch) == (1, 5, 1)
    assert lapsed.attempt.deadline_passed == (kind is DeadlinePassed)
    assert lapsed.policy.max_retries == 4
    assert await world.engine.finish([Finish(lapsed.fence, ToRetry(1.0, ERROR))], lapsed=True) == []
    assert await world.engine.lapsed(10) == []


async def test_a_timeout_counts_from_the_start(world: World) -> None:
    _, fence = await world.running(timeout_seconds=10)
    world.clock.advance(8)
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=0.0)])
    world.clock.advance(8)
    assert await world.engine.lapsed(10) == []
    world.clock.advance(3)
    assert len(await world.engine.lapsed(10)) == 1


async def test_lapsed_is_bounded(world: World) -> None:
    await world.enqueue_many(5)
    await world.claim(await world.worker(lease=5))
    world.clock.advance(6)
    assert len(await world.engine.lapsed(3)) == 3
    assert len(await world.rescue()) == 5


async def test_a_renewed_lease_keeps_every_job_of_the_worker(world: World) -> None:
    await world.enqueue_many(5)
    worker = await world.worker(lease=10)
    await world.claim(worker)
    world.clock.advance(9)
    await world.engine.renew(worker.incarnation, 10, Sample())
    world.clock.advance(9)
    assert await world.engine.lapsed(10) == []


async def test_a_rescue_that_comes_too_late_changes_nothing(world: World) -> None:
    """Between looking and finishing the worker beat: what lapsed a moment ago has not lapsed
    now."""
    await world.queue("watched", heartbeat_timeout_seconds=10)
    job, fence = await world.running(queue="watched")
    world.clock.advance(11)
    [lapsed] = await world.engine.lapsed(10)
    await world.engine.beat([Beat(fence=fence)])
    assert await world.engine.finish([Finish(lapsed.fence, ToRetry(1.0, ERROR))], lapsed=True) == [
        Lost(fence)
    ]
    assert await world.status(job) is JobStatus.PROCESSING
    assert await world.finish(fence, ToSucceeded()) == []


async def test_a_rescue_of_what_never_lapsed_is_refused_for_every_transition(world: World) -> None:
    job, fence = await world.running()
    for transition in (ToSucceeded(), ToRetry(0.0, ERROR), ToSkipped("x")):
        assert await world.finish(fence, transition, lapsed=True) == [Lost(fence)]
    assert await world.status(job) is JobStatus.PROCESSING


async def test_the_worker_may_still_finish_what_nobody_rescued_yet(world: World) -> None:
    job = await world.enqueue()
    claimed = await world.claim_one(await world.worker(lease=5))
    world.clock.advance(100)
    assert await world.finish(claimed.fence, ToSucceeded()) == []
    assert await world.engine.lapsed(10) == []
    assert await world.status(job) is JobStatus.SUCCEEDED


async def test_a_rescued_job_is_lost_to_its_worker(world: World) -> None:
    job = await world.enqueue()
    claimed = await world.claim_one(await world.worker(lease=5))
    world.clock.advance(6)
    await world.rescue()
    found = await world.job(job)
    assert (found.status, found.crash_count, found.attempt_count) == (JobStatus.PENDING, 0, 0)
    assert await world.finish(claimed.fence, ToSucceeded()) == [Lost(claimed.fence)]


async def test_a_poison_pill_ends_after_its_crashes(world: World) -> None:
    job = await world.enqueue(max_attempts=99)
    for crashes in range(3):
        await die(world, begun=crashes == 2)
    found = await world.job(job)
    assert (found.status, found.reason) == (
        JobStatus.FAILED,
        "poison pill: its workers died 3 times",
    )


async def test_the_death_of_a_worker_is_the_last_of_no_job_that_had_not_begun(world: World) -> None:
    """What must run alone waits in its worker's hands while others run, and one of them may be the
    killer."""
    job = await world.enqueue(max_attempts=99)
    for crashes in (1, 2):
        await die(world)
        assert (await world.job(job)).crash_count == crashes
    for losses in range(MOST_UNEXPLAINED):
        assert await die(world) == DiedBeforeStart("dying", losses)
        found = await world.job(job)
        assert (found.status, found.crash_count, found.attempt_count) == (JobStatus.PENDING, 2, 2)
    claimed = await world.claim_one(await world.worker(lease=5))
    assert await world.finish(claimed.fence, ToHandBack("something else befell it")) == []
    for losses in range(MOST_UNEXPLAINED):
        assert await die(world) == DiedBeforeStart("dying", losses)
    assert await die(world) == DiedBeforeStart("dying", MOST_UNEXPLAINED)
    found = await world.job(job)
    assert (found.status, found.reason) == (
        JobStatus.FAILED,
        "poison pill: its workers died 3 times",
    )
    assert [one.reason for one in await world.engine.executions([1], job)].count(
        NOT_BEGUN
    ) == 2 * MOST_UNEXPLAINED


async def die(world: World, *, begun: bool = False) -> Outcome:
    """A worker takes the only job and dies with it; what the look found of it."""
    worker = await world.worker("dying", lease=5)
    claimed = await world.claim_one(worker)
    if begun:
        assert (
            await world.engine.beat(
                [Beat(fence=claimed.fence, started_seconds_ago=0.0, alive=False)]
            )
            == []
        )
    await world.engine.deregister(worker.incarnation, died=True)
    [lapsed] = await world.rescue()
    world.clock.advance(400)
    await world.engine.stage(10)
    return lapsed.outcome


async def test_ten_losses_that_nobody_can_explain_spend_nothing_and_then_each_is_a_crash(
    world: World,
) -> None:
    job = await world.enqueue(max_attempts=99)
    for losses in range(MOST_UNEXPLAINED):
        name = f"lost-{losses}"
        await world.claim_one(await world.worker(name, lease=5))
        world.clock.advance(6)
        [lapsed] = await world.rescue()
        assert lapsed.outcome == LeaseRanOut(name, losses)
        found = await world.job(job)
        assert (found.status, found.crash_count, found.attempt_count) == (JobStatus.PENDING, 0, 0)
    for crashes in range(1, 4):
        await world.claim_one(await world.worker(lease=5))
        world.clock.advance(6)
        await world.rescue()
        assert (await world.job(job)).crash_count == min(crashes, 2)
        world.clock.advance(400)
        await world.engine.stage(10)
    found = await world.job(job)
    assert (found.status, found.reason) == (
        JobStatus.FAILED,
        "poison pill: its workers died 3 times",
    )
    ended = [one.reason for one in await world.engine.executions([1], job)]
    assert ended.count(LEASE_RAN_OUT) == MOST_UNEXPLAINED


async def test_a_death_that_is_told_is_a_crash_though_the_lease_would_hold(world: World) -> None:
    job = await world.enqueue()
    worker = await world.worker("dead", lease=1e6)
    await world.claim_one(worker)
    await world.engine.deregister(worker.incarnation, died=True)
    [lapsed] = await world.rescue()
    assert lapsed.outcome == Crashed("dead")
    assert (await world.job(job)).crash_count == 1


async def test_one_look_for_lapsed_claims_serves_all_processes(world: World) -> None:
    """Each look reads all that runs: with fifty processes it must not be read a hundred times a
    second."""
    await lapse(world, lease=10)
    assert await world.engine.lapsed(10, unless_within=0.4) == []
    world.clock.advance(60)
    [found] = await world.engine.lapsed(10, unless_within=0.4)
    world.clock.advance(0.3)
    assert await world.engine.lapsed(10, unless_within=0.4) == []
    assert await world.engine.lapsed(10) == [found]
    world.clock.advance(0.4)
    assert await world.engine.lapsed(10, unless_within=0.4) == [found]
    world.clock.advance(-5)
    assert await world.engine.lapsed(10, unless_within=0.4) == [found]


# --- Expiry ---


@pytest.mark.parametrize("at", [None, 500])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"expires": 10}, "expired"),
        ({"deadline": 10}, "deadline passed"),
        ({"expires": 5, "deadline": 10}, "deadline passed"),
    ],
)
async def test_waiting_too_long_fails_a_job(
    world: World, options: dict[str, Any], reason: str, at: float | None
) -> None:
    job = await world.enqueue(at=at, **options)
    kept = await world.enqueue(expires=1_000, deadline=2_000)
    world.clock.advance(11)
    assert await world.engine.expire(10) == 1
    found = await world.job(job)
    assert (found.status, found.reason, found.completed_at) == (
        JobStatus.FAILED,
        reason,
        world.clock.now(),
    )
    assert await world.status(kept) is JobStatus.PENDING
    assert await world.engine.expire(10) == 0


async def test_expiry_is_bounded(world: World) -> None:
    await world.enqueue_many(5, expires=1)
    world.clock.advance(2)
    assert await world.engine.expire(3) == 3
    assert await world.engine.expire(3) == 2


async def test_a_job_skipped_by_every_able_worker_fails(world: World) -> None:
    job = await world.enqueue()
    one, two = await world.worker("one"), await world.worker("two")
    await world.worker("unable", types=("other",))
    await world.finish((await world.claim_one(one)).fence, ToSkipped("not mine"))
    assert await world.engine.expire(10) == 0
    await world.finish((await world.claim_one(two)).fence, ToSkipped("nor mine"))
    assert await world.engine.expire(10) == 1
    found = await world.job(job)
    assert (found.status, found.reason) == (JobStatus.FAILED, "skipped by every able worker")
    assert found.error is not None
    assert (found.error.type, found.error.message) == (
        "SkippedByAll",
        "every worker that could take the job has skipped it",
    )


@pytest.mark.parametrize("stopping", [False, True])
async def test_a_skipped_job_does_not_wait_for_a_worker_that_takes_nothing_more(
    world: World, stopping: bool
) -> None:
    job = await world.enqueue()
    picky, leaving = await world.online_worker("picky"), await world.online_worker("leaving")
    await world.finish((await world.claim_one(picky)).fence, ToSkipped("not mine"))
    assert await world.engine.expire(10) == 0
    if stopping:
        await world.engine.renew(leaving.incarnation, 1e6, Sample(stopping=True))
    else:
        await world.engine.change_worker(
            FIRST_PROJECT, UpdateWorker(worker=leaving.worker, drain_mode=True)
        )
    told = await world.engine.explain([FIRST_PROJECT], job)
    assert [reason.code for reason in told.reasons] == ["skipped"]
    assert await world.engine.expire(10) == 1
    assert await world.status(job) is JobStatus.FAILED


async def test_what_waits_for_a_busy_worker_keeps_no_other_job_from_being_looked_at(
    world: World,
) -> None:
    """However many were skipped before it, and whosever they are."""
    await world.enqueue_many(35)
    rare = await world.enqueue(job_type="rare")
    picky = await world.worker("picky")
    await world.worker("busy", types=("work",))
    for claimed in await world.claim(picky, 100):
        await world.finish(claimed.fence, ToSkipped("not mine"))
    ended = [await world.engine.expire(1) for _ in range(4)]
    assert sum(ended) == 1
    assert await world.status(rare) is JobStatus.FAILED


async def test_slices_of_skipped_jobs_are_full_to_the_end(world: World) -> None:
    await world.enqueue_many(15)
    picky = await world.worker()
    for claimed in await world.claim(picky, 100):
        await world.finish(claimed.fence, ToSkipped("not mine"))
    assert [await world.engine.expire(1) for _ in range(16)] == [1] * 15 + [0]


async def test_a_job_waits_when_the_one_worker_that_skipped_it_drains(world: World) -> None:
    job = await world.enqueue()
    picky = await world.online_worker("picky")
    await world.finish((await world.claim_one(picky)).fence, ToSkipped("not mine"))
    await world.engine.change_worker(
        FIRST_PROJECT, UpdateWorker(worker=picky.worker, drain_mode=True)
    )
    told = await world.engine.explain([FIRST_PROJECT], job)
    assert [reason.code for reason in told.reasons] == ["draining"]
    assert await world.engine.expire(10) == 0
    assert await world.claim_jobs(await world.worker("keen")) == [job]


async def test_a_skipped_job_waits_while_nobody_able_lives(world: World) -> None:
    job = await world.enqueue()
    picky = await world.worker("picky", lease=10)
    await world.finish((await world.claim_one(picky)).fence, ToSkipped("not mine"))
    world.clock.advance(11)
    assert await world.engine.expire(10) == 0
    keen = await world.worker("keen")
    assert await world.engine.expire(10) == 0
    assert await world.claim_jobs(keen) == [job]


async def test_a_cancelled_or_running_job_does_not_expire(world: World) -> None:
    cancelled = await world.enqueue(expires=10)
    await world.change(cancelled, CancelJob())
    running, _ = await world.running(expires=10)
    world.clock.advance(11)
    assert await world.engine.expire(10) == 0
    assert await world.status(running) is JobStatus.PROCESSING


async def test_a_job_past_its_time_is_not_handed_out_by_staging(world: World) -> None:
    job = await world.enqueue(at=10, expires=5)
    world.clock.advance(20)
    await world.engine.expire(10)
    assert await world.engine.stage(10) == 0
    assert await world.status(job) is JobStatus.FAILED


# --- A process that keeps the store and does nothing else ---


async def test_a_rescuer_goes_by_settings_that_were_changed_elsewhere(
    world: World, other: Engine
) -> None:
    dead, main = await world.queue("dead"), await world.queue("main")
    await lapse(world, "main", lease=10)
    assert await other.expire(10) == 0  # it has read the catalog
    await world.update(main, settings=QueueSettings(max_retries=0, dead_letter_queue_id=dead.id))
    world.clock.advance(11)
    [lapsed] = await other.lapsed(10)
    assert (lapsed.policy.max_retries, lapsed.policy.dead_letter_queue_id) == (0, dead.id)


async def test_expiry_goes_by_queues_that_were_changed_elsewhere(
    world: World, other: Engine
) -> None:
    queue = await world.queue("main")
    job = await world.enqueue("main")
    await world.finish((await world.claim_one(await world.worker())).fence, ToSkipped("not mine"))
    await world.pause(queue)
    assert await other.expire(10) == 0
    await world.resume(queue)
    assert await other.expire(10) == 1
    assert await world.status(job) is JobStatus.FAILED
