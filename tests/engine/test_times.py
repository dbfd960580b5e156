"""When a job or an execution was last changed, and who ran it, as long as history tells of it."""

from datetime import timedelta
from uuid import UUID

from taskforge.domain.changes import EditJob, ErasePayload, RetryJob
from taskforge.domain.execution import Beat
from taskforge.domain.outcome import ToFailed, ToHandBack, ToRetry, ToSucceeded
from tests.support.world import ERROR, World

DAY = 86_400


async def updated(world: World, job: UUID) -> float:
    """Seconds ago. A job that became ready has the microseconds of its place in the batch behind
    it."""
    return round((world.clock.now() - (await world.job(job)).updated_at).total_seconds(), 3)


async def test_each_step_of_a_job_is_its_last_change(world: World) -> None:
    job = await world.enqueue(payload=1, max_attempts=5)
    found = await world.job(job)
    assert timedelta() <= found.updated_at - found.created_at < timedelta(milliseconds=1)
    world.clock.advance(10)
    assert await updated(world, job) == 10
    await world.change(job, EditJob(priority=3))
    assert await updated(world, job) == 0
    world.clock.advance(10)
    claimed = await world.claim_one(await world.worker())
    assert await updated(world, job) == 0
    world.clock.advance(10)
    await world.engine.beat([Beat(fence=claimed.fence, started_seconds_ago=4.0, alive=False)])
    assert await updated(world, job) == 4
    await world.engine.beat([Beat(fence=claimed.fence, progress=0.5)])
    assert await updated(world, job) == 0
    world.clock.advance(10)
    await world.finish(claimed.fence, ToRetry(100.0, ERROR))
    world.clock.advance(10)
    assert await updated(world, job) == 10  # waiting for its next attempt
    world.clock.advance(100)
    await world.engine.stage(10)
    assert await updated(world, job) == 0
    claimed = await world.claim_one(await world.worker())
    world.clock.advance(10)
    await world.finish(claimed.fence, ToHandBack("back at its old turn"))
    assert await updated(world, job) == 0
    world.clock.advance(10)
    claimed = await world.claim_one(await world.worker())
    await world.finish(claimed.fence, ToFailed(ERROR, "no"))
    world.clock.advance(10)
    assert await updated(world, job) == 10
    await world.change(job, RetryJob())
    assert await updated(world, job) == 0
    claimed = await world.claim_one(await world.worker())
    await world.finish(claimed.fence, ToSucceeded())
    world.clock.advance(10)
    await world.change(job, ErasePayload())
    world.clock.advance(1)
    assert await updated(world, job) == 1


async def test_an_edit_of_the_time_alone_is_a_change(world: World) -> None:
    job = await world.enqueue(at=1_000.0)
    world.clock.advance(10)
    await world.change(job, EditJob(at=2_000.0))
    world.clock.advance(5)
    assert await updated(world, job) == 5


async def test_executions_are_updated_by_whatever_is_known_of_them(world: World) -> None:
    job, fence = await world.running()
    [execution] = await world.engine.executions([1], job)
    assert execution.updated_at == execution.created_at
    world.clock.advance(2)
    await world.engine.beat([Beat(fence=fence)])
    [execution] = await world.engine.executions([1], job)
    assert execution.updated_at == world.clock.now()
    world.clock.advance(2)
    await world.finish(fence, ToSucceeded())
    [execution] = await world.engine.executions([1], job)
    assert execution.updated_at == world.clock.now()


async def test_who_ran_it_is_known_by_id_and_name_in_every_place(world: World) -> None:
    first = await world.worker("anna")
    job = await world.enqueue()
    claimed = await world.claim_one(first)
    for found in (
        await world.job(job),
        *await world.engine.active_executions([1], timed_out=False, limit=10),
    ):
        assert (found.worker, found.worker_id, found.worker_name) == (
            first.incarnation,
            first.worker,
            "anna",
        )
    await world.finish(claimed.fence, ToRetry(0.0, ERROR))
    waiting = await world.job(job)
    assert (waiting.worker, waiting.worker_id, waiting.worker_name) == (None, None, None)
    second = await world.worker("anna")
    assert (second.worker, second.incarnation != first.incarnation) == (first.worker, True)
    await world.finish((await world.claim_one(second)).fence, ToSucceeded())
    executions = await world.engine.executions([1], job)
    assert [one.worker for one in executions] == [first.incarnation, second.incarnation]
    assert {(one.worker_id, one.worker_name) for one in (*executions, await world.job(job))} == {
        (first.worker, "anna")
    }
    assert first.worker in {one.id for one in await world.engine.workers([1])}


async def test_a_worker_that_is_long_gone_is_known_while_history_tells_of_it(world: World) -> None:
    await world.queue("kept", retention_days=100)
    worker = await world.worker("anna", lease=10)
    kept = await world.enqueue("kept")
    claimed = await world.claim_one(worker)
    await world.finish(claimed.fence, ToSucceeded())
    while await world.engine.fold(100):
        pass
    world.clock.advance(8 * DAY)
    await world.engine.prune(7, 100)
    assert await world.engine.workers([1]) == []
    found, [execution] = await world.job(kept), await world.engine.executions([1], kept)
    assert (
        (found.worker_id, found.worker_name)
        == (execution.worker_id, execution.worker_name)
        == (worker.worker, "anna")
    )
    assert await world.probe.count("former_workers") == 1
    world.clock.advance(110 * DAY)
    await world.engine.prune(7, 100)
    # a retry may have been older than the end it led to
    assert await world.probe.count("former_workers") == 1
    world.clock.advance(30 * DAY)
    await world.engine.prune(7, 100)
    assert await world.probe.count("former_workers") == 0
    assert await world.engine.get([1], [kept]) == []
