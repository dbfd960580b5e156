"""Every verb in every status: where it leads, or that it is refused and changes nothing.
`TRANSITIONS` is the truth."""

import pytest

from taskforge.domain.changes import (
    CancelJob,
    Changed,
    DeleteJob,
    EditJob,
    ErasePayload,
    ExpireJob,
    JobChange,
    RedriveJob,
    RetryJob,
)
from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.ids import IdMint, epoch_of, fence_of
from taskforge.domain.job import FINAL, TRANSITIONS, JobStatus
from taskforge.domain.outcome import ToDeadLetter, ToFailed, ToHandBack, ToRetry
from tests.support.world import ERROR, World, refusal

P, S, R, OK, F, C = JobStatus
WAYS: list[tuple[JobChange, dict[JobStatus, JobStatus | None]]] = [
    (CancelJob("why"), {P: C, S: C, R: R}),
    (ExpireJob("why"), {P: F, S: F}),
    (RetryJob(), {F: P, C: P}),
    (RetryJob(attempts=5), {F: P, C: P}),
    (EditJob(priority=5), {P: P, S: S}),
    (EditJob(at=60.0), {P: S, S: S}),
    (EditJob(at=0.0), {P: P, S: P}),
    (EditJob(payload=b"[2]"), {P: P, S: S}),
    (EditJob(queue="second"), {P: P, S: S}),
    (EditJob(queue="second", at=60.0, priority=1, payload=b"3"), {P: S, S: S}),
    (RedriveJob(), {}),
    (DeleteJob(), dict.fromkeys(FINAL)),
    (ErasePayload(), {status: status for status in FINAL}),
]
PLACE = {P: "ready", S: "waiting", R: "running"}


@pytest.mark.parametrize("status", list(JobStatus))
@pytest.mark.parametrize(("change", "ways"), WAYS, ids=[repr(change) for change, _ in WAYS])
async def test_each_verb_in_each_status(
    world: World, change: JobChange, ways: dict[JobStatus, JobStatus | None], status: JobStatus
) -> None:
    await world.queue("second")
    job = await world.bring(status, payload=[1], unique_key="u")
    before = await world.job(job)
    answer = await world.change(job, change)
    if status not in ways:
        refusal(answer, Conflict)
        assert await world.job(job) == before
        return
    after = ways[status]
    assert isinstance(answer, Changed)
    assert (answer.job, answer.status) == (job, after)
    assert after == status or after in TRANSITIONS[status]
    if after is None:
        assert await world.engine.get([1], [job]) == []
        assert await world.place_of(job) is None
    else:
        assert await world.status(job) is after
        assert await world.place_of(job) == PLACE.get(after, "finished")


# --- What each one leaves behind ---


async def test_a_cancelled_job_says_why_and_when(world: World) -> None:
    job = await world.enqueue()
    world.clock.advance(5)
    await world.change(job, CancelJob("changed my mind"))
    found = await world.job(job)
    assert (found.status, found.reason, found.completed_at) == (
        C,
        "changed my mind",
        world.clock.now(),
    )
    assert (found.epoch, found.attempt_count, found.started_at) == (0, 0, None)
    assert await world.engine.executions([1], job) == []
    assert await world.claim(await world.worker()) == []


async def test_a_job_that_ran_before_keeps_its_history_when_it_is_cancelled(world: World) -> None:
    job, fence = await world.running()
    await world.finish(fence, ToRetry(60.0, ERROR))
    await world.change(job, CancelJob("enough"))
    found = await world.job(job)
    assert (found.status, found.reason, found.attempt_count) == (C, "enough", 1)
    assert [one.id for one in await world.engine.executions([1], job)] == [fence]
    await world.change(job, RetryJob())
    claimed = await world.claim_one(await world.worker())
    assert claimed.fence == fence_of(job, 2)
    assert [epoch_of(one.id) for one in await world.engine.executions([1], job)] == [1, 2]


async def test_an_expired_job_carries_an_error(world: World) -> None:
    job = await world.enqueue()
    await world.change(job, ExpireJob("expired"))
    found = await world.job(job)
    assert (found.status, found.reason) == (F, "expired")
    assert found.error is not None
    assert found.error.type == "Expired"


async def test_a_retried_job_runs_under_a_new_epoch_and_keeps_its_past(world: World) -> None:
    job = await world.enqueue(max_attempts=1)
    first = await world.claim_one(await world.worker())
    await world.finish(first.fence, ToFailed(ERROR, "no attempts left"), ran=1.0)
    world.clock.advance(5)
    assert await world.change(job, RetryJob()) == Changed(
        job, P, "1 attempts left, 1 of them granted now"
    )
    found = await world.job(job)
    assert (found.attempt_count, found.max_attempts, found.crash_count) == (1, 2, 0)
    assert (found.completed_at, found.error, found.reason, found.result) == (None, None, None, None)
    second = await world.claim_one(await world.worker())
    assert (second.fence, second.attempt, second.waited_seconds) == (fence_of(job, 2), 2, 0.0)
    past, present = await world.engine.executions([1], job)
    assert (past.id, past.status, past.error, past.reason) == (
        first.fence,
        "failed",
        ERROR,
        "no attempts left",
    )
    assert (present.id, present.attempt_number) == (second.fence, 2)
    assert past.duration_ms == pytest.approx(1_000)
    assert (await world.stats()).failed == 0


async def test_a_retry_of_one_that_never_ran_is_its_first_claim(world: World) -> None:
    job = await world.enqueue()
    await world.change(job, CancelJob())
    assert await world.change(job, RetryJob()) == Changed(job, P, "3 attempts left")
    assert (await world.claim_one(await world.worker())).fence == fence_of(job, 1)
    assert len(await world.engine.executions([1], job)) == 1


async def test_a_retry_may_grant_more(world: World) -> None:
    job = await world.bring(F)
    await world.change(job, RetryJob(attempts=5))
    assert (await world.job(job)).max_attempts == 6


async def test_times_that_have_passed_are_cleared_by_a_retry_and_others_kept(world: World) -> None:
    late = await world.bring(F, deadline=10, expires=5)
    early = await world.bring(F, deadline=1_000, expires=900)
    world.clock.advance(20)
    for job in (late, early):
        await world.change(job, RetryJob())
    assert await world.engine.expire(10) == 0
    found = await world.job(late)
    assert (found.timeout_at, found.expires_at) == (None, None)
    found = await world.job(early)
    assert (found.timeout_at, found.expires_at) == (world.clock.after(980), world.clock.after(880))


async def test_an_edit_moves_a_job_within_the_order(world: World) -> None:
    jobs = await world.enqueue_many(3)
    await world.change(jobs[2], EditJob(priority=1))
    await world.change(jobs[1], EditJob(payload=b'{"new":true}'))
    claimed = await world.claim(await world.worker(), 3)
    assert [one.fence for one in claimed] == [
        fence_of(job, 1) for job in (jobs[2], jobs[0], jobs[1])
    ]
    assert (claimed[0].priority, claimed[2].payload) == (1, b'{"new":true}')
    assert (await world.job(jobs[2])).priority == 1


async def test_a_new_time_gives_a_new_turn_and_none_keeps_the_old(world: World) -> None:
    first, second = await world.enqueue_many(2)
    waiting = await world.enqueue(at=60)
    world.clock.advance(5)
    await world.change(first, EditJob(at=0.0))
    await world.change(waiting, EditJob(priority=2))
    found = await world.job(waiting)
    assert (found.scheduled_for, found.priority) == (world.clock.after(55), 2)
    assert await world.claim_jobs(await world.worker()) == [second, first]
    world.clock.advance(56)
    await world.engine.stage(10)
    assert (await world.claim_one(await world.worker())).priority == 2


async def test_an_edit_without_a_time_leaves_a_job_that_is_due_to_be_staged(world: World) -> None:
    job = await world.enqueue(at=10)
    world.clock.advance(11)
    assert await world.change(job, EditJob(priority=3)) == Changed(job, S)
    assert (await world.job(job)).scheduled_for == world.clock.after(-1)
    assert await world.engine.stage(10) == 1


async def test_an_edit_may_name_an_instant(world: World) -> None:
    job = await world.enqueue()
    await world.change(job, EditJob(at=world.clock.after(90)))
    assert (await world.job(job)).scheduled_for == world.clock.after(90)
    await world.change(job, EditJob(at=world.clock.after(-90)))
    assert await world.status(job) is P


async def test_a_move_needs_a_queue_of_the_project(world: World) -> None:
    second = await world.probe.add_project("second")
    await world.queue("theirs", project=second)
    job = await world.enqueue()
    before = await world.job(job)
    for name in ("theirs", "defualt"):
        missing = refusal(await world.change(job, EditJob(queue=name)), NotFound)
        assert (missing.kind, missing.name) == ("queue", name)
    assert await world.job(job) == before


async def test_a_moved_job_is_the_other_queues(world: World) -> None:
    second = await world.queue("second", timeout_seconds=7)
    job = await world.enqueue()
    await world.change(job, EditJob(queue="second"))
    found = await world.job(job)
    assert (found.queue, found.queue_id, found.max_attempts) == ("second", second.id, 3)
    assert ((await world.stats()).pending, (await world.stats("second")).pending) == (0, 1)
    assert (await world.claim_one(await world.worker(queues=("second",)))).timeout_seconds == 7


async def test_a_dead_letter_is_redriven_to_where_it_came_from(world: World) -> None:
    dead = await world.queue("dead", max_retries=6)
    job, fence = await world.running(max_attempts=2, priority=4)
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"))
    world.clock.advance(1)
    answer = await world.change(job, RedriveJob())
    assert isinstance(answer, Changed)
    found = await world.job(job)
    assert (found.queue, found.origin_queue, found.status, found.priority) == (
        "default",
        None,
        P,
        4,
    )
    assert (found.attempt_count, found.crash_count) == (0, 0)
    claimed = await world.claim_one(await world.worker(queues=("default",)))
    assert (claimed.fence, claimed.attempt, claimed.max_attempts) == (
        fence_of(job, 2),
        1,
        found.max_attempts,
    )
    await world.finish(claimed.fence, ToHandBack("stop"))
    refusal(await world.change(job, RedriveJob()), Conflict)


async def test_a_dead_letter_that_failed_again_is_redriven_too(world: World) -> None:
    dead = await world.queue("dead")
    job, fence = await world.running()
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"))
    again = await world.claim_one(await world.worker(queues=("dead",)))
    refusal(await world.change(job, RedriveJob()), Conflict)
    await world.finish(again.fence, ToFailed(ERROR, "again"))
    await world.change(job, RedriveJob())
    found = await world.job(job)
    assert (found.queue, found.status, found.epoch) == ("default", P, 2)
    assert [epoch_of(one.id) for one in await world.engine.executions([1], job)] == [1, 2]
    assert ((await world.stats("dead")).failed, (await world.stats()).pending) == (0, 1)


async def test_a_redrive_needs_the_queue_it_came_from(world: World) -> None:
    from taskforge.domain.queue import DeleteQueue

    dead, source = await world.queue("dead"), await world.queue("source")
    job, fence = await world.running(queue="source")
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"))
    await world.engine.change_queue(1, DeleteQueue(queue=source.id))
    before = await world.job(job)
    refusal(await world.change(job, RedriveJob()), NotFound)
    assert await world.job(job) == before


async def test_a_deleted_job_leaves_nothing(world: World) -> None:
    from taskforge.domain.log import Level, NewLine

    job, fence = await world.running(tags=["a"], idempotency_key="i")
    await world.engine.log([NewLine(fence, Level.INFO, "line")])
    await world.finish(fence, ToRetry(0.0, ERROR))
    claimed = await world.claim_one(await world.worker())
    await world.finish(claimed.fence, ToFailed(ERROR, "no"))
    assert await world.change(job, DeleteJob()) == Changed(job, None)
    for table in ("jobs", "finished", "executions", "logs", "job_tags", "keys"):
        assert await world.probe.count(table) == 0, table
    assert (await world.stats()).failed == 0
    refusal(await world.change(job, DeleteJob()), NotFound)


async def test_an_erased_payload_is_gone_and_the_rest_stays(world: World) -> None:
    job = await world.bring(OK, payload={"secret": 1})
    await world.change(job, ErasePayload())
    found = await world.job(job)
    assert (found.payload, bytes(found.result or b"")) == (None, b"42")


async def test_answers_come_in_order_and_a_refusal_harms_nobody(world: World) -> None:
    pending, done, running = await world.bring(P), await world.bring(OK), await world.bring(R)
    unknown = IdMint(lambda: int(world.clock.now().timestamp() * 1000))()
    answers = await world.engine.change([1], [done, pending, unknown, running], CancelJob())
    refusal(answers[0], Conflict)
    assert answers[1] == Changed(pending, C)
    assert refusal(answers[2], NotFound).kind == "job"
    assert answers[3] == Changed(running, R, "asked to stop")
    assert await world.engine.change([1], [], CancelJob()) == []


async def test_a_large_batch_of_changes(world: World) -> None:
    jobs = await world.enqueue_many(1_200)
    answers = await world.engine.change([1], jobs, CancelJob())
    assert answers == [Changed(job, C) for job in jobs]
    answers = await world.engine.change([1], list(reversed(jobs)), RetryJob())
    assert [answer.job for answer in answers if isinstance(answer, Changed)] == list(reversed(jobs))
    stats = await world.stats()
    assert (stats.pending, stats.cancelled) == (1_200, 0)
