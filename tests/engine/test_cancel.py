"""A cancel that meets a running job: asked, told to the worker, and stronger than anything that
would let the job live on."""

import pytest

from taskforge.domain.changes import CancelJob, Changed
from taskforge.domain.ids import epoch_of, job_of
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
from taskforge.domain.worker import Sample
from tests.support.world import ERROR, World


async def test_a_running_job_is_asked_to_stop_and_its_worker_hears_of_it(world: World) -> None:
    worker = await world.worker()
    jobs = await world.enqueue_many(3)
    fences = [claimed.fence for claimed in await world.claim(worker)]
    assert await world.change(jobs[1], CancelJob()) == Changed(
        jobs[1], JobStatus.PROCESSING, "asked to stop"
    )
    assert await world.change(jobs[1], CancelJob()) == Changed(
        jobs[1], JobStatus.PROCESSING, "already asked to stop"
    )
    found = await world.job(jobs[1])
    assert (found.status, found.cancel_requested) == (JobStatus.PROCESSING, True)
    assert not (await world.job(jobs[0])).cancel_requested
    assert (await world.engine.renew(worker.incarnation, 60, Sample())).cancelled == (fences[1],)
    await world.finish(fences[1], ToCancelled("as asked"))
    assert await world.status(jobs[1]) is JobStatus.CANCELLED
    assert (await world.engine.renew(worker.incarnation, 60, Sample())).cancelled == ()


async def test_the_operators_reason_reaches_the_worker_and_is_kept_whatever_that_says(
    world: World,
) -> None:
    worker = await world.worker()
    jobs = await world.enqueue_many(3)
    fences = [claimed.fence for claimed in await world.claim(worker)]
    await world.change(jobs[0], CancelJob("ticket 17"))
    await world.change(jobs[0], CancelJob("another thought"))  # who asked first gave the reason
    await world.change(jobs[1], CancelJob("ticket 18"))
    renewed = await world.engine.renew(worker.incarnation, 60, Sample())
    assert renewed.cancel_reasons == {fences[0]: "ticket 17", fences[1]: "ticket 18"}
    await world.finish(fences[0], ToCancelled("stopped by the worker"))
    await world.finish(fences[1], ToSucceeded())  # it was too late
    await world.finish(fences[2], ToCancelled("by its handler"))
    found = [await world.job(job) for job in jobs]
    assert [(one.status, one.reason) for one in found] == [
        ("cancelled", "ticket 17"),
        ("succeeded", None),
        ("cancelled", "by its handler"),
    ]
    assert [one.reason for one in await world.engine.executions([1], jobs[0])] == ["ticket 17"]


@pytest.mark.parametrize(
    "transition",
    [
        ToRetry(5.0, ERROR),
        ToRetry(0.0, ERROR),
        ToSnoozed(5.0, "z"),
        ToHandBack("stop"),
        ToSkipped("not mine"),
    ],
)
async def test_nothing_that_lets_the_job_live_on_gets_past_a_cancel(
    world: World, transition: Transition
) -> None:
    job, fence = await world.running()
    await world.change(job, CancelJob())
    before = await world.job(job)
    assert await world.finish(fence, transition) == [Lost(fence, cancel_requested=True)]
    assert await world.job(job) == before
    assert await world.place_of(job) == "running"
    assert await world.finish(fence, ToCancelled("cancelled while processing")) == []


async def test_a_dead_letter_is_no_way_past_a_cancel_either(world: World) -> None:
    dead = await world.queue("dead")
    job, fence = await world.running()
    await world.change(job, CancelJob())
    assert await world.finish(fence, ToDeadLetter(dead.id, ERROR, "x")) == [
        Lost(fence, cancel_requested=True)
    ]
    assert (await world.job(job)).queue == "default"


async def test_nor_is_one_whose_queue_is_gone(world: World) -> None:
    dead = await world.queue("dead")
    job, fence = await world.running()
    await world.engine.change_queue(1, DeleteQueue(queue=dead.id))
    await world.change(job, CancelJob())
    assert await world.finish(fence, ToDeadLetter(dead.id, ERROR, "x")) == [
        Lost(fence, cancel_requested=True)
    ]
    assert await world.status(job) is JobStatus.PROCESSING


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (ToSucceeded(), JobStatus.SUCCEEDED),
        (ToFailed(ERROR, "no"), JobStatus.FAILED),
        (ToCancelled("as asked"), JobStatus.CANCELLED),
    ],
)
async def test_an_ending_stands_though_a_cancel_came_first(
    world: World, ending: Transition, status: JobStatus
) -> None:
    job, fence = await world.running()
    await world.change(job, CancelJob())
    assert await world.finish(fence, ending) == []
    found = await world.job(job)
    assert (found.status, found.cancel_requested) == (status, False)


async def test_in_a_batch_only_the_cancelled_one_is_refused(world: World) -> None:
    jobs = await world.enqueue_many(3)
    fences = [claimed.fence for claimed in await world.claim(await world.worker())]
    await world.change(jobs[1], CancelJob())
    lost = await world.engine.finish([Finish(fence, ToRetry(5.0, ERROR)) for fence in fences])
    assert lost == [Lost(fences[1], cancel_requested=True)]
    assert [await world.status(job) for job in jobs] == [
        JobStatus.SCHEDULED,
        JobStatus.PROCESSING,
        JobStatus.SCHEDULED,
    ]


async def test_a_crash_after_a_cancel_ends_the_job_cancelled(world: World) -> None:
    job = await world.enqueue()
    worker = await world.worker(lease=5)
    await world.claim_one(worker)
    await world.change(job, CancelJob())
    world.clock.advance(6)
    [lapsed] = await world.rescue()
    assert lapsed.attempt.cancel_requested
    assert await world.status(job) is JobStatus.CANCELLED


async def test_the_wish_belongs_to_the_claim_and_not_to_the_next_life(world: World) -> None:
    from taskforge.domain.changes import RetryJob

    job, fence = await world.running()
    await world.change(job, CancelJob())
    await world.finish(fence, ToCancelled("as asked"))
    await world.change(job, RetryJob())
    claimed = await world.claim_one(await world.worker())
    assert (job_of(claimed.fence), epoch_of(claimed.fence)) == (job, 2)
    assert not (await world.job(job)).cancel_requested
    assert await world.finish(claimed.fence, ToHandBack("stop")) == []
