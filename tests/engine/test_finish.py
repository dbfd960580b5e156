"""Each row of the contract's table: where the job goes, what its attempt costs, what its execution
says."""

from datetime import timedelta
from uuid import UUID

import pytest

from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.ids import epoch_of, fence_of
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import (
    Finish,
    Lost,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToRetry,
    ToSkipped,
    ToSnoozed,
    ToSucceeded,
    Transition,
)
from taskforge.domain.queue import DeleteQueue
from tests.support.world import ERROR, World

ROWS: list[tuple[Transition, JobStatus, int, ExecutionStatus, str | None]] = [
    (ToSucceeded(b'{"ok":1}'), JobStatus.SUCCEEDED, 1, ExecutionStatus.SUCCEEDED, None),
    (ToFailed(ERROR, "no luck"), JobStatus.FAILED, 1, ExecutionStatus.FAILED, "no luck"),
    (ToCancelled("not wanted"), JobStatus.CANCELLED, 1, ExecutionStatus.CANCELLED, "not wanted"),
    (ToRetry(9.0, ERROR), JobStatus.SCHEDULED, 1, ExecutionStatus.RETRY_SCHEDULED, None),
    (ToRetry(0.0, ERROR), JobStatus.PENDING, 1, ExecutionStatus.RETRY_SCHEDULED, None),
    (ToSnoozed(9.0, "later"), JobStatus.SCHEDULED, 0, ExecutionStatus.CANCELLED, "later"),
    (ToSnoozed(0.0, "later"), JobStatus.PENDING, 0, ExecutionStatus.CANCELLED, "later"),
    (ToHandBack("stopping"), JobStatus.PENDING, 0, ExecutionStatus.CANCELLED, "stopping"),
    (ToSkipped("not mine"), JobStatus.PENDING, 0, ExecutionStatus.CANCELLED, "not mine"),
]
PLACE = {JobStatus.PENDING: "ready", JobStatus.SCHEDULED: "waiting"}


@pytest.mark.parametrize(("transition", "status", "spent", "execution", "reason"), ROWS)
async def test_where_a_transition_leads(
    world: World,
    transition: Transition,
    status: JobStatus,
    spent: int,
    execution: ExecutionStatus,
    reason: str | None,
) -> None:
    job, fence = await world.running(unique_key="u")
    world.clock.advance(5)
    assert await world.finish(fence, transition, ran=2.0) == []
    found = await world.job(job)
    assert (found.status, found.attempt_count, found.epoch, found.crash_count) == (
        status,
        spent,
        1,
        0,
    )
    assert await world.place_of(job) == PLACE.get(status, "finished")
    assert found.completed_at == (world.clock.now() if status.is_final else None)
    assert found.scheduled_for == (world.clock.after(9) if status is JobStatus.SCHEDULED else None)
    assert found.error == (ERROR if isinstance(transition, ToFailed) else None)
    assert found.reason == (reason if status.is_final else None)
    [ran] = await world.engine.executions([1], job)
    assert (ran.id, ran.job, ran.attempt_number, ran.status, ran.reason) == (
        fence,
        job,
        1,
        execution,
        reason,
    )
    assert (ran.started_at, ran.finished_at) == (world.clock.after(-2), world.clock.now())
    assert ran.duration_ms == pytest.approx(2_000)
    assert ran.error == getattr(transition, "error", None)


async def test_a_result_is_kept_to_the_byte(world: World) -> None:
    job, fence = await world.running()
    await world.finish(fence, ToSucceeded(b'{"b": 1,  "a": null}'))
    found = await world.job(job)
    assert bytes(found.result or b"") == b'{"b": 1,  "a": null}'
    [ran] = await world.engine.executions([1], job)
    assert bytes(ran.output or b"") == b'{"b": 1,  "a": null}'
    job, fence = await world.running()
    await world.finish(fence, ToSucceeded(None))
    assert (await world.job(job)).result is None


async def test_only_a_crash_raises_the_crash_count(world: World) -> None:
    job, fence = await world.running()
    await world.finish(fence, ToRetry(0.0, ERROR, crashed=True))
    assert (await world.job(job)).crash_count == 1
    claimed = await world.claim_one(await world.worker())
    assert (claimed.crashes, claimed.attempt) == (1, 2)
    await world.finish(claimed.fence, ToRetry(0.0, ERROR))
    assert (await world.job(job)).crash_count == 1


@pytest.mark.parametrize("transition", [ToHandBack("stopping"), ToSkipped("not mine")])
async def test_a_job_given_back_keeps_its_turn(world: World, transition: Transition) -> None:
    first, second = await world.enqueue_many(2)
    claimed = await world.claim_one(await world.worker())
    world.clock.advance(60)
    await world.finish(claimed.fence, transition)
    third = await world.enqueue()
    fresh = await world.worker()
    again = await world.claim(fresh, 3)
    assert [fence_of(job, epoch) for job, epoch in ((first, 2), (second, 1), (third, 1))] == [
        one.fence for one in again
    ]
    assert again[0].waited_seconds == pytest.approx(60)
    assert again[0].attempt == 1


async def test_epochs_rise_with_every_claim_and_attempts_only_when_spent(world: World) -> None:
    job = await world.enqueue(max_attempts=9)
    steps: list[Transition] = [
        ToHandBack("a"),
        ToSnoozed(0.0, "b"),
        ToRetry(0.0, ERROR),
        ToSkipped("c"),
        ToRetry(0.0, ERROR),
    ]
    seen = []
    for step in steps:
        claimed = await world.claim_one(await world.worker())
        seen.append((epoch_of(claimed.fence), claimed.attempt))
        await world.finish(claimed.fence, step)
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]
    assert (await world.job(job)).attempt_count == 2
    executions = await world.engine.executions([1], job)
    assert [epoch_of(one.id) for one in executions] == [1, 2, 3, 4, 5]


# --- Dead letters ---


async def test_a_dead_letter_stands_in_the_other_queue_with_a_fresh_budget(world: World) -> None:
    dead = await world.queue("dead", max_retries=6)
    job, fence = await world.running(
        max_attempts=2,
        deadline=1_000,
        expires=900,
        unique_key="u",
        priority=4,
        tags=["t"],
        requires={"worker_type": "general"},
    )
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"), ran=1.0)
    found = await world.job(job)
    assert (found.queue, found.queue_id, found.origin_queue) == ("dead", dead.id, "default")
    assert (found.status, found.attempt_count, found.crash_count, found.max_attempts) == (
        JobStatus.PENDING,
        0,
        0,
        7,
    )
    assert (found.timeout_at, found.expires_at, found.priority, found.tags) == (
        None,
        None,
        4,
        ("t",),
    )
    [ran] = await world.engine.executions([1], job)
    assert (ran.status, ran.reason, ran.error) == (
        ExecutionStatus.DEAD_LETTER,
        "no attempts left",
        ERROR,
    )
    claimed = await world.claim_one(await world.worker(queues=("dead",)))
    assert (claimed.fence, claimed.queue, claimed.attempt) == (fence_of(job, 2), "dead", 1)
    assert claimed.deadline_seconds is None


async def test_the_first_origin_is_kept_through_a_chain(world: World) -> None:
    deader = await world.queue("deader")
    dead = await world.queue("dead")
    job, fence = await world.running()
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "once"))
    claimed = await world.claim_one(await world.worker(queues=("dead",)))
    await world.finish(claimed.fence, ToDeadLetter(deader.id, ERROR, "twice"))
    found = await world.job(job)
    assert (found.queue, found.origin_queue) == ("deader", "default")


async def test_a_paused_dead_letter_queue_still_receives(world: World) -> None:
    dead = await world.queue("dead", is_active=False)
    job, fence = await world.running()
    assert await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left")) == []
    assert (await world.job(job)).queue == "dead"


async def test_without_the_dead_letter_queue_the_job_fails_for_good(world: World) -> None:
    dead = await world.queue("dead")
    job, fence = await world.running(unique_key="u")
    await world.engine.change_queue(1, DeleteQueue(queue=dead.id))
    assert await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left")) == []
    found = await world.job(job)
    assert (found.status, found.queue, found.origin_queue, found.error) == (
        JobStatus.FAILED,
        "default",
        None,
        ERROR,
    )
    assert (found.reason or "").startswith("no attempts left")
    await world.enqueue(unique_key="u")


async def test_a_queue_of_another_project_is_no_dead_letter_queue(world: World) -> None:
    second = await world.probe.add_project("second")
    foreign = await world.queue("dead", project=second)
    job, fence = await world.running()
    assert await world.finish(fence, ToDeadLetter(foreign.id, ERROR, "no attempts left")) == []
    assert (await world.job(job)).status is JobStatus.FAILED


# --- Fences ---


async def test_a_fence_works_once(world: World) -> None:
    job, fence = await world.running()
    assert await world.finish(fence, ToSucceeded(b"1")) == []
    before = await world.job(job)
    assert await world.finish(fence, ToSucceeded(b"2")) == [Lost(fence)]
    assert await world.finish(fence, ToRetry(0.0, ERROR)) == [Lost(fence)]
    assert await world.job(job) == before


@pytest.mark.parametrize("late", [row[0] for row in ROWS])
async def test_a_stale_fence_changes_nothing_though_the_same_process_has_the_job_again(
    world: World, late: Transition
) -> None:
    job = await world.enqueue()
    worker = await world.worker()
    stale = (await world.claim_one(worker)).fence
    await world.finish(stale, ToHandBack("by mistake"))
    current = (await world.claim_one(worker)).fence
    assert current == fence_of(job, 2)
    before = await world.job(job)
    assert await world.finish(stale, late) == [Lost(stale)]
    assert await world.job(job) == before
    assert await world.finish(current, ToSucceeded()) == []


@pytest.mark.parametrize("epoch", [0, 2, 0xFFFFFF])
async def test_a_fence_that_was_never_given_out_is_lost(world: World, epoch: int) -> None:
    job, _ = await world.running()
    made_up = fence_of(job, epoch)
    assert await world.finish(made_up, ToSucceeded()) == [Lost(made_up)]
    assert await world.status(job) is JobStatus.PROCESSING


async def test_jobs_that_wait_cannot_be_finished(world: World) -> None:
    for job in (await world.enqueue(), await world.enqueue(at=60)):
        assert await world.finish(fence_of(job, 1), ToSucceeded()) == [Lost(fence_of(job, 1))]


async def test_a_batch_reports_what_it_lost_and_does_the_rest(world: World) -> None:
    await world.enqueue_many(6)
    fences = [claimed.fence for claimed in await world.claim(await world.worker(), 6)]
    await world.finish(fences[1], ToSucceeded())
    lost = await world.engine.finish(
        [
            Finish(fences[0], ToSucceeded()),
            Finish(fences[1], ToFailed(ERROR, "late")),
            Finish(fences[2], ToRetry(5.0, ERROR)),
            Finish(fences[3], ToFailed(ERROR, "no")),
            Finish(UUID(int=5), ToSucceeded()),
            Finish(fences[4], ToHandBack("stop")),
            Finish(fences[5], ToSnoozed(3.0, "zzz")),
        ]
    )
    assert sorted(one.fence for one in lost) == sorted([fences[1], UUID(int=5)])
    stats = await world.stats()
    assert (stats.succeeded, stats.failed, stats.scheduled, stats.pending, stats.processing) == (
        2,
        1,
        2,
        1,
        0,
    )
    assert await world.engine.finish([]) == []


async def test_a_fence_given_twice_counts_once_and_the_first_wins(world: World) -> None:
    job, fence = await world.running()
    await world.engine.finish(
        [
            Finish(fence, ToSucceeded(b"1")),
            Finish(fence, ToSucceeded(b"2")),
            Finish(fence, ToFailed(ERROR, "x")),
        ]
    )
    found = await world.job(job)
    assert (found.status, bytes(found.result or b"")) == (JobStatus.SUCCEEDED, b"1")
    job, fence = await world.running()
    await world.engine.finish([Finish(fence, ToRetry(60.0, ERROR)), Finish(fence, ToSucceeded())])
    assert await world.status(job) is JobStatus.SCHEDULED
    assert len(await world.engine.executions([1], job)) == 1
    stats = await world.stats()
    assert (stats.succeeded, stats.failed, stats.scheduled) == (1, 0, 1)


async def test_a_started_job_no_longer_expires_but_keeps_its_deadline(world: World) -> None:
    kept, fence = await world.running(expires=10, deadline=1_000)
    await world.finish(fence, ToRetry(0.0, ERROR))
    world.clock.advance(20)
    assert await world.engine.expire(10) == 0
    assert await world.status(kept) is JobStatus.PENDING
    world.clock.advance(1_000)
    assert await world.engine.expire(10) == 1
    assert (await world.job(kept)).reason == "deadline passed"


async def test_without_a_word_on_how_long_it_ran_the_beat_that_started_it_counts(
    world: World,
) -> None:
    from taskforge.domain.execution import Beat

    job, fence = await world.running()
    world.clock.advance(10)
    await world.engine.beat([Beat(fence=fence, started_seconds_ago=4.0)])
    world.clock.advance(1)
    await world.finish(fence, ToSucceeded())
    [ran] = await world.engine.executions([1], job)
    assert ran.started_at == world.clock.now() - timedelta(seconds=5)
    job, fence = await world.running()
    await world.finish(fence, ToSucceeded())
    [ran] = await world.engine.executions([1], job)
    assert ran.started_at is None
