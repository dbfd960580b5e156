"""Pruning: old history goes with all its rows, and whatever is unfinished or recent stays."""

import pytest

from taskforge.domain.changes import CancelJob, Changed, RetryJob
from taskforge.domain.errors import Gone, KeyTaken, NotFound
from taskforge.domain.ids import IdMint, job_of
from taskforge.domain.job import Inserted, JobStatus, new_job
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import ToFailed, ToSucceeded
from taskforge.domain.queue import QueueSettings
from taskforge.ports.engine import Engine
from tests.support.world import ERROR, World, ids, refusal

DAY = 86_400.0


@pytest.fixture(params=["on its first day", "later on"])
async def kept(request: pytest.FixtureRequest, world: World) -> World:
    """A store whose upkeep has made ready for the jobs that come, by which all of a day may go at
    once; or not yet."""
    if request.param == "later on":
        assert await prune(world, 30) == 0
    return world


async def prune(world: World, retention_days: float) -> int:
    """Whole days first, as the leader does, then slice after slice, until there is no more."""
    jobs = (await world.engine.keep_partitions(retention_days, None)).jobs
    more = True
    while more:
        pruned = await world.engine.prune(retention_days, 100)
        jobs, more = jobs + pruned.jobs, pruned.more
    return jobs


async def test_old_history_goes_and_the_unfinished_stay(kept: World) -> None:
    world = kept
    done, fence = await world.running(tags=["t"], idempotency_key="i")
    await world.engine.log([NewLine(fence, Level.INFO, "line")])
    await world.finish(fence, ToSucceeded())
    waiting, pending = (
        await world.enqueue(payload="later", at=100 * DAY, tags=["s"]),
        await world.enqueue(tags=["s"], unique_key="u"),
    )
    running, held = await world.running()
    world.clock.advance(31 * DAY)
    recent = await world.bring(JobStatus.FAILED)
    assert await prune(world, 30) == 1
    assert [
        job.id for job in await world.engine.get([1], [done, waiting, pending, running, recent])
    ] == [
        waiting,
        pending,
        running,
        recent,
    ]
    stats = await world.stats()
    assert (stats.succeeded, stats.failed, stats.pending, stats.scheduled, stats.processing) == (
        0,
        1,
        1,
        1,
        1,
    )
    assert [await world.probe.count(table) for table in ("logs", "finished", "job_tags")] == [
        0,
        1,
        2,
    ]
    assert await world.probe.rows("select scope from keys") == [(0,)]
    # Survivors live on as before.
    assert await world.finish(held, ToSucceeded()) == []
    assert await world.claim_jobs(await world.worker()) == [pending]
    world.clock.advance(70 * DAY)
    assert await world.engine.stage(10) == 1
    claimed = await world.claim_one(await world.worker())
    assert (job_of(claimed.fence), claimed.payload) == (waiting, b'"later"')
    refusal(await world.change(done, CancelJob()), Gone)


async def test_a_queue_may_keep_its_history_shorter_or_longer(kept: World) -> None:
    world = kept
    await world.queue("brief", retention_days=1)
    await world.queue("long", retention_days=90)
    jobs = {
        name: await world.bring(JobStatus.SUCCEEDED, queue=name)
        for name in ("default", "brief", "long")
    }
    world.clock.advance(2 * DAY)
    assert await prune(world, 30) == 1
    assert await world.engine.get([1], [jobs["brief"]]) == []
    world.clock.advance(40 * DAY)
    assert await prune(world, 30) == 1
    assert await world.engine.get([1], [jobs["default"]]) == []
    assert [job.id for job in await world.engine.get([1], list(jobs.values()))] == [jobs["long"]]
    world.clock.advance(90 * DAY)
    assert await prune(world, 30) == 1


async def test_retention_that_was_raised_elsewhere_counts(world: World, other: Engine) -> None:
    queue = await world.queue("books", retention_days=1)
    job = await world.bring(JobStatus.SUCCEEDED, queue="books")
    assert (await other.prune(30, 100)).jobs == 0
    await world.update(queue, settings=QueueSettings(retention_days=365))
    world.clock.advance(2 * DAY)
    assert (await other.prune(30, 100)).jobs == 0
    assert await world.status(job) is JobStatus.SUCCEEDED


async def test_pruning_in_slices_says_whether_there_is_more(world: World) -> None:
    jobs = await world.enqueue_many(25)
    await world.engine.change([1], jobs, CancelJob())
    world.clock.advance(31 * DAY)
    slices = [await world.engine.prune(30, 10)]
    while slices[-1].more:
        slices.append(await world.engine.prune(30, 10))
    assert sum(one.jobs for one in slices) == 25
    assert await world.engine.get([1], jobs) == []
    assert (await world.stats()).total == 0
    assert (await world.engine.prune(30, 10)).jobs == 0


@pytest.mark.parametrize("ends", [False, True])
async def test_a_job_that_is_retried_while_it_is_pruned_keeps_all_it_has(
    world: World, other: Engine, ends: bool
) -> None:
    job, fence = await world.running(payload={"to": "a"}, tags=["t"])
    await world.engine.log([NewLine(fence, Level.INFO, "line")])
    await world.finish(fence, ToFailed(ERROR, "no"))
    old = await world.bring(JobStatus.FAILED)
    world.clock.advance(31 * DAY)

    async def retry() -> None:
        [answer] = await other.change([1], [job], RetryJob())
        assert isinstance(answer, Changed), answer
        if ends:
            await other.change([1], [job], CancelJob())

    world.store.when_chosen(world.engine, retry)
    assert (await world.engine.prune(30, 100)).jobs == 1
    assert ids(await world.engine.get([1], [job, old])) == [job]
    assert [
        await world.probe.count(table) for table in ("jobs", "executions", "logs", "job_tags")
    ] == [1, 1, 1, 1]
    if not ends:
        claimed = await world.claim_one(await world.worker())
        assert (job_of(claimed.fence), claimed.payload) == (job, b'{"to":"a"}')


async def test_an_idempotency_key_holds_for_its_time_though_its_job_is_gone(world: World) -> None:
    await world.queue("brief", retention_days=0.1)
    order = new_job("brief", "work", 1, idempotency_key="order", idempotency_seconds=DAY)
    [first] = await world.insert(order)
    assert isinstance(first, Inserted)
    await world.change(first.job, CancelJob())
    world.clock.advance(0.2 * DAY)
    assert (await world.engine.prune(30, 100)).jobs == 1
    assert await world.insert(order) == [Inserted(first.job, existed=True)]
    refusal((await world.insert(new_job("brief", "work", 2, idempotency_key="order")))[0], KeyTaken)
    assert await world.engine.get([1], [first.job]) == []
    refusal(await world.change(first.job, RetryJob()), Gone)
    world.clock.advance(DAY)
    [again] = await world.insert(order)
    assert isinstance(again, Inserted)
    assert (again.existed, await world.status(again.job)) == (False, JobStatus.PENDING)


async def test_expired_keys_and_old_events_go_with_it(world: World) -> None:
    job = await world.enqueue(idempotency_key="i", idempotency_seconds=60)
    await world.enqueue(idempotency_key="j", idempotency_seconds=10 * DAY)
    await world.change(job, CancelJob())
    world.clock.advance(2 * DAY)
    await world.engine.prune(30, 100)
    assert await world.probe.rows("select key from keys") == [("j",)]
    assert await world.probe.count("outbox") == 0


async def test_jobs_can_be_stored_and_run_as_before_after_pruning(world: World) -> None:
    for _ in range(3):
        world.clock.advance(40 * DAY)
        await world.engine.prune(30, 100)
        job = await world.enqueue()
        claimed = await world.claim_one(await world.worker())
        await world.finish(claimed.fence, ToSucceeded())
        assert await world.status(job) is JobStatus.SUCCEEDED


async def test_an_id_never_seen_and_not_old_is_simply_unknown(world: World) -> None:
    world.clock.advance(31 * DAY)
    await world.engine.prune(30, 100)
    fresh = IdMint(lambda: int(world.clock.now().timestamp() * 1000))()
    refusal(await world.change(fresh, CancelJob()), NotFound)
    assert await world.insert(new_job("default", "work"))
