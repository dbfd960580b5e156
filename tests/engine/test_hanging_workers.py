"""A worker that hangs says so when it renews: how many slots are held, and which job holds its
event loop, if one does."""

import pytest

from taskforge.domain.changes import CancelJob
from taskforge.domain.ids import job_of
from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import MOST_UNEXPLAINED, Crashed, HandBackOutcome, TimedOut
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Sample, WorkerStatus
from tests.support.world import World


async def test_stuck_slots_are_shown_and_make_a_worker_unhealthy_which_claims_on(
    world: World,
) -> None:
    worker = await world.worker(max_concurrent_jobs=3)
    await world.engine.renew(worker.incarnation, 60, Sample(stuck_slots=2))
    [found] = await world.engine.workers([FIRST_PROJECT])
    assert (found.status, found.stuck_slots, found.blocking, found.healthy) == (
        WorkerStatus.UNHEALTHY,
        2,
        None,
        True,
    )
    await world.enqueue()
    assert len(await world.claim(worker)) == 1
    await world.engine.renew(worker.incarnation, 60, Sample())
    [found] = await world.engine.workers([FIRST_PROJECT])
    assert (found.status, found.stuck_slots) == (WorkerStatus.ONLINE, 0)


async def test_explain_counts_stuck_slots_as_taken(world: World) -> None:
    worker = await world.worker(max_concurrent_jobs=3)
    job = await world.enqueue()
    await world.engine.renew(worker.incarnation, 60, Sample(stuck_slots=2))
    told = await world.engine.explain([FIRST_PROJECT], job)
    [candidate] = told.workers
    assert candidate.hindrance is None
    assert (
        candidate.text
        == "would take it; 0 of 3 slots are taken, 2 are held by handlers that did not end"
    )
    await world.engine.renew(worker.incarnation, 60, Sample(stuck_slots=3))
    told = await world.engine.explain([FIRST_PROJECT], job)
    [candidate], [reason] = told.workers, told.reasons
    assert (candidate.hindrance, reason.code, told.expected_start, candidate.stuck_slots) == (
        "stuck",
        "stuck",
        None,
        3,
    )
    assert candidate.text == "0 of 3 slots are taken, 3 are held by handlers that did not end"
    assert candidate.text in reason.text


@pytest.mark.parametrize("lease_is_over", [False, True])
async def test_what_could_not_run_beside_the_job_that_held_the_loop_is_not_charged(
    world: World, lease_is_over: bool
) -> None:
    await world.queue("held", max_retries=4, timeout_seconds=10)
    jobs = [await world.enqueue("held") for _ in range(3)]
    worker = await world.worker(queues=("held",), lease=1e6)
    culprit, *neighbours = await world.claim(worker)
    jobs.sort(key=lambda one: one != job_of(culprit.fence))  # all three became ready at once
    await world.engine.renew(
        worker.incarnation,
        5.0 if lease_is_over else 1e6,
        Sample(blocking=culprit.fence, stuck_slots=3),
    )
    world.clock.advance(9.9)
    if not lease_is_over:
        assert await world.engine.lapsed(10) == []
    world.clock.advance(0.2)
    rescued = {one.fence: one.outcome for one in await world.rescue()}
    # Its timeout goes before the death that it brought about.
    assert rescued[culprit.fence] == TimedOut(10.0)
    assert [type(rescued[one.fence]) for one in neighbours] == [HandBackOutcome, HandBackOutcome]
    assert [(await world.job(one)).attempt_count for one in jobs] == [1, 0, 0]
    assert [await world.status(one) for one in jobs[1:]] == [JobStatus.PENDING, JobStatus.PENDING]
    assert [(await world.job(one)).crash_count for one in jobs] == [0, 0, 0]


async def test_a_worker_that_died_while_one_job_held_its_loop_is_that_jobs_crash_alone(
    world: World,
) -> None:
    await world.enqueue_many(2)
    worker = await world.worker()
    culprit, neighbour = await world.claim(worker)
    await world.engine.renew(worker.incarnation, 60, Sample(blocking=culprit.fence))
    await world.engine.deregister(worker.incarnation, died=True)
    world.clock.advance(0.1)
    rescued = {one.fence: type(one.outcome) for one in await world.rescue()}
    assert rescued == {culprit.fence: Crashed, neighbour.fence: HandBackOutcome}
    assert (await world.job(job_of(neighbour.fence))).attempt_count == 0


@pytest.mark.parametrize("is_dead", [False, True])
async def test_a_job_that_was_held_up_ten_times_is_excused_no_more(
    world: World, is_dead: bool
) -> None:
    """It may be the one that holds up, and the other blamed for it: it must end some day."""
    await world.queue("held", timeout_seconds=10, max_retries=99)
    job = await world.enqueue("held")
    outcomes = []
    for _ in range(MOST_UNEXPLAINED + 1):
        culprit, worker = (
            await world.enqueue("held", priority=9),
            await world.worker(queues=("held",)),
        )
        first, second = await world.claim(worker)
        assert (job_of(first.fence), job_of(second.fence)) == (culprit, job)
        await world.engine.renew(worker.incarnation, 1e6, Sample(blocking=first.fence))
        if is_dead:
            await world.engine.deregister(worker.incarnation, died=True)
        world.clock.advance(11)
        rescued = {one.fence: type(one.outcome) for one in await world.rescue()}
        outcomes.append(rescued[second.fence])
        await world.change(culprit, CancelJob())
    assert outcomes == [HandBackOutcome] * MOST_UNEXPLAINED + [Crashed if is_dead else TimedOut]
    assert ((await world.job(job)).attempt_count, (await world.job(job)).crash_count) == (
        1,
        int(is_dead),
    )


async def test_a_loop_that_came_back_excuses_nobody(world: World) -> None:
    await world.queue("held", timeout_seconds=10)
    [await world.enqueue("held") for _ in range(2)]
    worker = await world.worker(queues=("held",))
    culprit, _ = await world.claim(worker)
    await world.engine.renew(worker.incarnation, 1e6, Sample(blocking=culprit.fence))
    await world.engine.renew(worker.incarnation, 1e6, Sample())
    world.clock.advance(11)
    assert {type(one.outcome) for one in await world.rescue()} == {TimedOut}
