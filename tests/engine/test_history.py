"""Executions, statistics and rollups: what the store says happened."""

import pytest

from taskforge.domain.changes import CancelJob, DeleteJob, RetryJob
from taskforge.domain.execution import Beat, ExecutionStatus
from taskforge.domain.job import JobStatus, new_job
from taskforge.domain.outcome import (
    Finish,
    ToCancelled,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToRetry,
    ToSnoozed,
    ToSucceeded,
)
from tests.support.stores import ALSO_WALLED
from tests.support.world import ERROR, World

pytestmark = ALSO_WALLED

# --- Executions ---


async def test_a_running_execution_is_queued_then_started_then_running(world: World) -> None:
    job = await world.enqueue(timeout_seconds=100)
    assert await world.engine.executions([1], job) == []
    worker = await world.worker()
    claimed = await world.claim_one(worker)
    [execution] = await world.engine.executions([1], job)
    assert (execution.id, execution.job, execution.attempt_number) == (claimed.fence, job, 1)
    assert (execution.status, execution.worker) == (ExecutionStatus.QUEUED, worker.incarnation)
    assert (execution.created_at, execution.timeout_at) == (
        world.clock.now(),
        world.clock.after(100),
    )
    unset = (
        execution.started_at,
        execution.finished_at,
        execution.heartbeat_at,
        execution.output,
        execution.error,
    )
    assert unset == (None,) * 5
    assert execution.duration_ms is None
    world.clock.advance(1)
    await world.engine.beat([Beat(fence=claimed.fence, started_seconds_ago=0.0, alive=False)])
    [execution] = await world.engine.executions([1], job)
    assert (execution.status, execution.started_at, execution.heartbeat_at) == (
        ExecutionStatus.STARTED,
        world.clock.now(),
        None,
    )
    assert await world.engine.active_executions([1], timed_out=False, limit=10) == [execution]
    await world.engine.beat([Beat(fence=claimed.fence, progress=0.1)])
    [execution] = await world.engine.executions([1], job)
    assert execution.status is ExecutionStatus.RUNNING
    assert await world.engine.active_executions([1], timed_out=False, limit=10) == [execution]


async def test_every_attempt_is_kept_oldest_first_the_running_one_included(world: World) -> None:
    job = await world.enqueue(max_attempts=9)
    for transition in (ToRetry(0.0, ERROR), ToSnoozed(0.0, "later"), ToHandBack("stop")):
        world.clock.advance(1)
        claimed = await world.claim_one(await world.worker())
        await world.finish(claimed.fence, transition, ran=0.5)
    await world.claim_one(await world.worker())
    found = await world.engine.executions([1], job)
    assert [(one.status, one.attempt_number, one.reason) for one in found] == [
        (ExecutionStatus.RETRY_SCHEDULED, 1, None),
        (ExecutionStatus.CANCELLED, 2, "later"),
        (ExecutionStatus.CANCELLED, 2, "stop"),
        (ExecutionStatus.QUEUED, 2, None),
    ]
    assert found[0].error == ERROR


async def test_the_last_execution_of_a_finished_job_comes_last(world: World) -> None:
    job = await world.enqueue()
    for transition in (ToRetry(0.0, ERROR), ToSucceeded(b"7")):
        claimed = await world.claim_one(await world.worker())
        await world.finish(claimed.fence, transition)
    first, last = await world.engine.executions([1], job)
    assert (first.status, last.status) == (
        ExecutionStatus.RETRY_SCHEDULED,
        ExecutionStatus.SUCCEEDED,
    )
    assert bytes(last.output or b"") == b"7"
    assert await world.probe.count("executions") == 1


async def test_active_executions_and_those_past_their_time(world: World) -> None:
    short, long = await world.enqueue(timeout_seconds=10), await world.enqueue(timeout_seconds=100)
    worker = await world.worker()
    claimed = await world.claim(worker)
    active = await world.engine.active_executions([1], timed_out=False, limit=10)
    assert {one.id for one in active} == {one.fence for one in claimed}
    assert await world.engine.active_executions([1], timed_out=True, limit=10) == []
    world.clock.advance(11)
    [late] = await world.engine.active_executions([1], timed_out=True, limit=10)
    assert late.job == short
    assert len(await world.engine.active_executions([1], timed_out=False, limit=1)) == 1
    for one in claimed:
        await world.finish(one.fence, ToSucceeded())
    assert await world.engine.active_executions([1], timed_out=False, limit=10) == []
    assert await world.status(long) is JobStatus.SUCCEEDED


# --- Statistics ---


async def test_statistics_count_every_status(world: World) -> None:
    await world.queue("mail", is_active=False)
    for number, status in enumerate(JobStatus):
        for _ in range(number + 1):
            await world.bring(status)
    world.clock.advance(30)
    mail, stats = sorted(await world.engine.stats([1]), key=lambda one: one.total)
    assert [getattr(stats, status.value) for status in JobStatus] == [1, 2, 3, 4, 5, 6]
    assert (stats.total, stats.is_active, stats.oldest_pending_seconds) == (
        21,
        True,
        pytest.approx(30),
    )
    assert (mail.queue, mail.total, mail.is_active, mail.oldest_pending_seconds) == (
        "mail",
        0,
        False,
        None,
    )


async def test_statistics_follow_every_way_out_of_history(world: World) -> None:
    failed, cancelled = await world.bring(JobStatus.FAILED), await world.bring(JobStatus.CANCELLED)
    await world.change(failed, RetryJob())
    await world.change(cancelled, DeleteJob())
    stats = await world.stats()
    assert (stats.pending, stats.failed, stats.cancelled, stats.total) == (1, 0, 0, 1)
    while await world.engine.fold(10):
        pass
    assert await world.stats() == stats


# --- Rollups ---


async def test_every_transition_adds_its_execution_to_the_rollups(world: World) -> None:
    dead = await world.queue("dead")
    await world.enqueue_many(7)
    fences = [claimed.fence for claimed in await world.claim(await world.worker())]
    endings = [
        ToSucceeded(),
        ToSucceeded(),
        ToFailed(ERROR, "no"),
        ToCancelled("no"),
        ToRetry(5.0, ERROR),
        ToHandBack("stop"),
        ToDeadLetter(dead.id, ERROR, "x"),
    ]
    await world.engine.finish(
        [Finish(fence, ending, 1.0) for fence, ending in zip(fences, endings, strict=True)]
    )
    counts = sorted((await world.probe.rollups()).values())
    assert counts == [1, 1, 1, 2, 2]
    folded = await world.probe.rollups()
    while await world.engine.fold(2):
        pass
    assert await world.probe.rollups() == folded
    assert await world.probe.count("rollup_deltas") == 0


async def test_jobs_that_never_ran_leave_no_rollup(world: World) -> None:
    [one, two] = await world.enqueue_many(2)
    await world.change(one, CancelJob())
    await world.insert(new_job("default", "work", expires=1))
    world.clock.advance(2)
    await world.engine.expire(10)
    assert await world.probe.rollups() == {}
    assert await world.status(two) is JobStatus.PENDING
