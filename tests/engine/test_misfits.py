"""Jobs whose arguments do not fit a worker's handler, as while a deploy is under way: offered to
others, then out of the way."""

from datetime import timedelta
from uuid import UUID

from taskforge.domain.changes import CancelJob, EditJob
from taskforge.domain.job import JobStatus, error_info
from taskforge.domain.outcome import (
    MISFIT_SECONDS,
    OFFERED_AT_ONCE,
    Attempt,
    Finish,
    MisfitOutcome,
    ToDeadLetter,
    ToFailed,
    ToHandBack,
    ToMisfit,
    ToRetry,
    ToSkipped,
    ToSucceeded,
    Transition,
    decide,
)
from taskforge.domain.queue import QueueSettings
from taskforge.domain.worker import Registered, Sample
from tests.support.world import World

P, S, F = JobStatus.PENDING, JobStatus.SCHEDULED, JobStatus.FAILED
UNFIT = error_info("InvalidArguments", "greet(): missing `last_name`")
REASON = "its arguments do not fit this worker's handler: greet(): missing `last_name`"


def misfit(attempt: int = 1, most: int = 3) -> Transition:
    return decide(
        Attempt(attempt, most, 0, 1), MisfitOutcome(UNFIT), QueueSettings(retry_jitter=0.0), 0.5
    )


async def _misfit(world: World, worker: Registered, transition: Transition | None = None) -> UUID:
    claimed = await world.claim_one(worker)
    assert (
        await world.finish(
            claimed.fence, transition or misfit(claimed.attempt, claimed.max_attempts)
        )
        == []
    )
    return claimed.fence


async def test_it_goes_to_another_worker_at_once_and_unspent(world: World) -> None:
    old, new = await world.online_worker("old"), await world.online_worker("new")
    job = await world.enqueue()
    await _misfit(world, old)
    assert await world.claim(old) == []
    claimed = await world.claim_one(new)
    assert (claimed.attempt, claimed.waited_seconds) == (1, 0.0)
    await world.finish(claimed.fence, ToSucceeded())
    first, _ = await world.engine.executions([1], job)
    assert (first.status, first.reason, first.attempt_number) == ("cancelled", REASON, 1)


async def test_the_same_worker_with_new_code_may_take_it(world: World) -> None:
    """By incarnation: what did not fit the last life of a worker may fit its next."""
    old = await world.online_worker("w", lease=10)
    job = await world.enqueue()
    await _misfit(world, old)
    await world.engine.deregister(old.incarnation)
    again = await world.online_worker("w")
    assert again.worker == old.worker
    assert await world.claim_jobs(again) == [job]


async def test_a_worker_that_skipped_it_does_not_take_it_in_its_next_life_either(
    world: World,
) -> None:
    old = await world.online_worker("w", lease=10)
    await world.enqueue()
    claimed = await world.claim_one(old)
    await world.finish(claimed.fence, ToSkipped("not mine"))
    again = await world.online_worker("w")
    assert await world.claim(again) == []


async def test_while_it_fits_nobody_it_stands_in_no_claims_way_and_does_not_fail(
    world: World,
) -> None:
    old = await world.online_worker("old")
    job = await world.enqueue()
    await _misfit(world, old)
    assert await world.engine.expire(100) == 1
    assert await world.engine.expire(100) == 0
    found = await world.job(job)
    assert (found.status, found.attempt_count, found.crash_count) == (S, 0, 0)
    assert await world.place_of(job) == "waiting"
    await world.probe.check()


async def test_it_does_not_stand_in_the_way_for_a_worker_that_takes_nothing_more(
    world: World,
) -> None:
    """As while a deploy drains the old ones: nobody can take it until the next registers."""
    old, leaving = await world.online_worker("old"), await world.online_worker("leaving")
    job = await world.enqueue()
    await _misfit(world, old)
    assert await world.engine.expire(100) == 0
    await world.engine.renew(leaving.incarnation, 1e6, Sample(stopping=True))
    told = await world.engine.explain([1], job)
    assert [reason.code for reason in told.reasons] == ["misfit"]
    assert await world.engine.expire(100) == 1
    assert await world.place_of(job) == "waiting"


async def test_a_worker_that_registers_has_it_offered_at_once_and_only_to_itself(
    world: World,
) -> None:
    old = await world.online_worker("old")
    job = await world.enqueue()
    await _misfit(world, old)
    await world.engine.expire(100)
    new = await world.online_worker("new")
    assert await world.engine.stage(100) == 1
    assert await world.status(job) == P
    assert await world.claim(old) == []
    assert await world.claim_jobs(new) == [job]


async def test_a_registration_offers_so_many_at_once_and_upkeep_the_rest_in_slices(
    world: World,
) -> None:
    await world.enqueue_many(OFFERED_AT_ONCE + 60)
    old = await world.online_worker("old")
    claimed = await world.claim(old, 1_000)
    assert await world.engine.finish([Finish(one.fence, misfit()) for one in claimed]) == []
    assert await world.engine.expire(1_000) == len(claimed) == OFFERED_AT_ONCE + 60
    new = await world.online_worker("new")
    assert await world.engine.stage(1_000) == OFFERED_AT_ONCE
    assert [await world.engine.expire(50) for _ in range(3)] == [50, 10, 0]
    assert await world.engine.stage(1_000) == 60
    assert len(await world.claim(new, 1_000)) == OFFERED_AT_ONCE + 60


async def test_a_worker_for_other_jobs_wakes_nothing(world: World) -> None:
    old = await world.online_worker("old")
    await world.enqueue()
    await _misfit(world, old)
    await world.engine.expire(100)
    await world.worker("another", types=("other",))
    await world.worker("elsewhere", project=await world.probe.add_project("elsewhere"))
    assert await world.engine.expire(100) == 0
    assert await world.engine.stage(100) == 0


async def test_a_deadline_holds_for_what_is_out_of_the_way(world: World) -> None:
    old = await world.online_worker("old")
    job = await world.enqueue(deadline=10)
    await _misfit(world, old)
    assert await world.engine.expire(100) == 1
    assert await world.place_of(job) == "waiting"
    world.clock.advance(10)
    await world.engine.expire(100)
    found = await world.job(job)
    assert (found.status, found.reason) == (F, "deadline passed")


async def test_it_is_looked_at_again_by_itself_for_what_else_may_have_changed(world: World) -> None:
    old = await world.online_worker("old")
    job = await world.enqueue()
    await _misfit(world, old)
    await world.engine.expire(100)
    world.clock.advance(5)
    assert await world.engine.stage(100) == 1
    assert await world.claim(old) == []  # still known not to fit
    await world.engine.expire(100)
    assert await world.status(job) == S


async def test_after_an_hour_it_fails_like_any_other_and_every_retry_at_once(world: World) -> None:
    worker = await world.online_worker("old", lease=1e5)
    job = await world.enqueue(max_attempts=2)
    await _misfit(world, worker)
    await world.engine.expire(100)
    for _ in range(20):  # what upkeep does in the hour
        world.clock.advance(MISFIT_SECONDS / 20)
        await world.engine.stage(100)
        await world.engine.expire(100)
    await _misfit(world, worker)
    found = await world.job(job)
    assert (found.status, found.attempt_count) == (S, 1)
    world.clock.advance(60)
    await world.engine.stage(100)
    await _misfit(world, worker)
    found = await world.job(job)
    assert (found.status, found.attempt_count, found.reason) == (F, 2, "no attempts left after 2")
    assert found.error == UNFIT
    assert [one.status.value for one in await world.engine.executions([1], job)] == [
        "cancelled",
        "retry_scheduled",
        "failed",
    ]


async def test_after_an_hour_it_becomes_a_dead_letter_where_there_are_some(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("strict", dead_letter_queue_id=str(dead.id))
    worker = await world.online_worker(queues=("strict",), lease=1e5)
    job = await world.enqueue("strict", max_attempts=1)
    await _misfit(
        world, worker, ToMisfit(UNFIT, ToDeadLetter(dead.id, UNFIT, "no attempts left after 1"))
    )
    world.clock.advance(MISFIT_SECONDS)
    await world.engine.expire(100)
    await _misfit(
        world, worker, ToMisfit(UNFIT, ToDeadLetter(dead.id, UNFIT, "no attempts left after 1"))
    )
    found = await world.job(job)
    assert (found.queue, found.error, found.reason) == ("dead", UNFIT, "no attempts left after 1")


async def test_a_dead_letter_begins_anew_with_those_who_take_dead_letters(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("strict", dead_letter_queue_id=str(dead.id))
    worker = await world.online_worker(queues=("strict",), lease=1e5)
    job = await world.enqueue("strict", max_attempts=1)
    buried = ToMisfit(UNFIT, ToDeadLetter(dead.id, UNFIT, "no attempts left after 1"))
    await _misfit(world, worker, buried)
    world.clock.advance(MISFIT_SECONDS)
    await world.engine.expire(100)
    await _misfit(world, worker, buried)
    await _misfit(
        world,
        await world.online_worker("sexton", queues=("dead",)),
        ToMisfit(UNFIT, ToFailed(UNFIT, "no attempts left")),
    )
    found = await world.job(job)
    assert (found.queue, found.status, found.attempt_count) == ("dead", P, 0)


async def test_what_was_handed_back_still_counts_from_its_first_misfit(world: World) -> None:
    old, other = await world.online_worker("old"), await world.online_worker("other")
    job = await world.enqueue(max_attempts=1)
    await _misfit(world, old)
    claimed = await world.claim_one(other)
    await world.finish(claimed.fence, ToHandBack("worker stopped"))
    world.clock.advance(MISFIT_SECONDS)
    assert await world.claim(old) == []
    await _misfit(world, other, ToMisfit(UNFIT, ToFailed(UNFIT, "no attempts left after 1")))
    assert await world.status(job) == F


async def test_the_hour_counts_from_the_first_of_several_misfits(world: World) -> None:
    """Else a deploy now and then would keep a job waiting that nobody will ever fit."""
    job = await world.enqueue(max_attempts=1)
    failing = ToMisfit(UNFIT, ToFailed(UNFIT, "no attempts left after 1"))
    for name in ("first", "second"):
        await _misfit(world, await world.online_worker(name), failing)
        assert await world.status(job) == P
        world.clock.advance(MISFIT_SECONDS / 2)
    await _misfit(world, await world.online_worker("third"), failing)
    assert await world.status(job) == F


async def test_arguments_that_fitted_begin_anew(world: World) -> None:
    old, new = await world.online_worker("old"), await world.online_worker("new")
    job = await world.enqueue()
    await _misfit(world, old)
    claimed = await world.claim_one(new)
    await world.finish(claimed.fence, ToRetry(1.0, UNFIT))
    world.clock.advance(MISFIT_SECONDS)
    await world.engine.stage(100)
    await _misfit(world, old)
    assert (await world.job(job)).attempt_count == 1  # the new worker's


async def test_a_cancel_ends_it_wherever_it_waits(world: World) -> None:
    worker = await world.online_worker()
    job = await world.enqueue()
    claimed = await world.claim_one(worker)
    await world.change(job, CancelJob("enough"))
    [lost] = await world.finish(claimed.fence, misfit())
    assert lost.cancel_requested
    assert await world.finish(claimed.fence, ToFailed(UNFIT, "whatever")) == []
    other = await world.enqueue()
    await _misfit(world, worker)
    await world.engine.expire(100)
    await world.change(other, CancelJob("enough"))
    assert await world.status(other) == JobStatus.CANCELLED
    await world.probe.check()


async def test_an_edit_gives_it_another_chance_at_once(world: World) -> None:
    worker = await world.online_worker()
    job = await world.enqueue()
    await _misfit(world, worker)
    await world.engine.expire(100)
    await world.change(job, EditJob(payload=b'{"last_name": "Hopper"}'))
    assert await world.status(job) == P
    assert await world.claim_jobs(worker) == [job]


async def test_explain_says_what_it_waits_for(world: World) -> None:
    worker = await world.online_worker("old")
    job = await world.enqueue()
    await _misfit(world, worker)
    for status in (P, S):
        found = await world.engine.explain([1], job)
        assert (found.status, [reason.code for reason in found.reasons]) == (status, ["misfit"])
        assert "greet(): missing `last_name`" in found.reasons[0].text
        assert "as after a deploy" in found.reasons[0].text
        assert found.reasons[0].until == world.clock.now() + timedelta(seconds=MISFIT_SECONDS)
        assert [one.hindrance for one in found.workers] == ["misfit"]
        await world.engine.expire(100)
    await world.online_worker("new")
    await world.engine.stage(100)
    found = await world.engine.explain([1], job)
    assert [reason.code for reason in found.reasons] == ["next"]


async def test_a_list_of_misfits_forgets_incarnations_that_are_gone(world: World) -> None:
    await world.enqueue()
    for _ in range(30):
        worker = await world.worker("w", lease=10)
        await _misfit(world, worker)
        world.clock.advance(11)
    [(skipped,)] = await world.probe.rows("select skipped from ready")
    assert len(str(skipped)) < 150  # of one or two, however an engine writes them
