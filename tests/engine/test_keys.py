from collections.abc import Awaitable, Callable

import pytest

from taskforge.domain.changes import CancelJob, DeleteJob, EditJob, RetryJob
from taskforge.domain.errors import (
    Conflict,
    Invalid,
    KeyTaken,
    NotFound,
    QueuePaused,
    TaskForgeError,
)
from taskforge.domain.ids import IdMint
from taskforge.domain.job import Inserted, JobStatus, NewJob, new_job
from taskforge.domain.outcome import (
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
from taskforge.domain.queue import DeleteQueue, Queue, QueueSettings
from tests.support.world import ERROR, World, refusal

# --- Idempotency: for a time, whatever becomes of the job ---


async def test_the_same_key_and_body_answer_with_the_first_job(world: World) -> None:
    first = await world.enqueue(payload=1, idempotency_key="k")
    assert await world.insert(new_job("default", "work", 1, idempotency_key="k")) == [
        Inserted(first, existed=True)
    ]
    assert await world.probe.count("jobs") == 1


async def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    first = await world.enqueue(payload=1, idempotency_key="k")
    [answer] = await world.insert(new_job("default", "work", 2, idempotency_key="k"))
    taken = refusal(answer, KeyTaken)
    assert (taken.key, taken.job) == ("k", first)
    assert await world.probe.count("jobs") == 1


async def test_the_key_outlives_the_job_but_not_its_time(world: World) -> None:
    first, fence = await world.running(idempotency_key="k", idempotency_seconds=100)
    body = await world.job(first)
    again = new_job("default", body.job_type, idempotency_key="k", idempotency_seconds=100)
    await world.finish(fence, ToSucceeded())
    world.clock.advance(99)
    assert await world.insert(again) == [Inserted(first, existed=True)]
    world.clock.advance(2)
    [answer] = await world.insert(again)
    assert isinstance(answer, Inserted)
    assert not answer.existed
    assert answer.job != first
    assert await world.insert(again) == [Inserted(answer.job, existed=True)]


async def test_an_expired_key_takes_a_new_body(world: World) -> None:
    await world.enqueue(payload=1, idempotency_key="k", idempotency_seconds=10)
    world.clock.advance(11)
    await world.enqueue(payload=2, idempotency_key="k", idempotency_seconds=10)
    refusal((await world.insert(new_job("default", "work", 1, idempotency_key="k")))[0], KeyTaken)


async def pause(world: World, queue: Queue) -> None:
    await world.pause(queue)


async def allow_less(world: World, queue: Queue) -> None:
    await world.update(queue, settings=QueueSettings(payload_limit_bytes=1))


async def remove(world: World, queue: Queue) -> None:
    await world.engine.change_queue(1, DeleteQueue(queue=queue.id))


@pytest.mark.parametrize(
    ("shut", "error"), [(pause, QueuePaused), (allow_less, Invalid), (remove, NotFound)]
)
async def test_a_repetition_is_answered_whatever_the_queue_says_to_new_jobs(
    world: World, shut: Callable[[World, Queue], Awaitable[None]], error: type[TaskForgeError]
) -> None:
    """Who never heard the answer would else conclude that the job was refused."""
    queue = await world.queue("mail")
    identifier = IdMint(lambda: int(world.clock.now().timestamp() * 1000))()
    given = NewJob(queue="mail", job_type="work", payload=b"100", id=identifier)
    first = await world.enqueue("mail", payload=100, idempotency_key="k", idempotency_seconds=50)
    await world.insert(given)
    await shut(world, queue)
    again = new_job("mail", "work", 100, idempotency_key="k")
    repeated, other, new, elsewhere, known = await world.insert(
        again,
        new_job("mail", "work", 200, idempotency_key="k"),
        new_job("mail", "work", 100, idempotency_key="new"),
        new_job("default", "work", 100, idempotency_key="new"),
        given,
    )
    assert repeated == Inserted(first, existed=True)
    assert refusal(other, KeyTaken).job == first
    refusal(new, error)  # and takes no key
    assert isinstance(elsewhere, Inserted)
    assert not elsewhere.existed
    assert known == Inserted(identifier, existed=True)
    assert await world.insert(again) == [Inserted(first, existed=True)]
    world.clock.advance(51)
    refusal((await world.insert(again))[0], error)


async def test_keys_belong_to_their_project(world: World) -> None:
    second = await world.probe.add_project("second")
    await world.queue("default", project=second)
    options = {"idempotency_key": "k", "unique_key": "u"}
    first = await world.enqueue(payload=1, **options)
    assert first != await world.enqueue(payload=2, project=second, **options)


@pytest.mark.parametrize(
    ("shut", "error"), [(pause, QueuePaused), (allow_less, Invalid), (remove, NotFound)]
)
async def test_another_projects_key_says_nothing_about_a_job_that_is_refused(
    world: World, shut: Callable[[World, Queue], Awaitable[None]], error: type[TaskForgeError]
) -> None:
    second = await world.probe.add_project("second")
    await world.queue("mail", project=second)
    await world.enqueue("mail", payload=100, project=second, idempotency_key="k")
    await shut(world, await world.queue("mail"))
    [answer] = await world.insert(new_job("mail", "work", 100, idempotency_key="k"))
    refusal(answer, error)


async def test_a_deleted_jobs_keys_are_free(world: World) -> None:
    job, fence = await world.running(idempotency_key="k")
    await world.finish(fence, ToSucceeded())
    await world.change(job, DeleteJob())
    assert await world.enqueue(payload="other", idempotency_key="k") != job


# --- Uniqueness: while the job is not over ---


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.SCHEDULED, JobStatus.PROCESSING])
async def test_a_unique_key_is_held_while_the_job_is_unfinished(
    world: World, status: JobStatus
) -> None:
    holder = await world.bring(status, unique_key="u")
    [answer] = await world.insert(new_job("default", "quite different", "body", unique_key="u"))
    assert answer == Inserted(holder, existed=True)
    assert await world.probe.count("jobs") == 1


@pytest.mark.parametrize("ending", [ToSucceeded(), ToFailed(ERROR, "no"), ToCancelled("no")])
async def test_every_ending_releases_it(world: World, ending: Transition) -> None:
    _, fence = await world.running(unique_key="u")
    await world.finish(fence, ending)
    await world.enqueue(unique_key="u")


@pytest.mark.parametrize(
    "transition",
    [
        ToRetry(5.0, ERROR),
        ToRetry(0.0, ERROR),
        ToSnoozed(5.0, "later"),
        ToHandBack("stop"),
        ToSkipped("not mine"),
    ],
)
async def test_a_job_that_lives_on_keeps_it(world: World, transition: Transition) -> None:
    job, fence = await world.running(unique_key="u")
    assert await world.finish(fence, transition) == []
    assert await world.insert(new_job("default", "work", unique_key="u")) == [
        Inserted(job, existed=True)
    ]


async def test_a_dead_letter_releases_it(world: World) -> None:
    dead = await world.queue("dead")
    job, fence = await world.running(unique_key="u")
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"))
    assert await world.enqueue(unique_key="u") != job


async def test_cancelling_and_expiring_before_the_start_release_it(world: World) -> None:
    first = await world.enqueue(unique_key="u")
    await world.change(first, CancelJob())
    await world.enqueue(unique_key="u", expires=10)
    world.clock.advance(11)
    assert await world.engine.expire(10) == 1
    await world.enqueue(unique_key="u")


async def test_an_edit_keeps_it(world: World) -> None:
    job = await world.enqueue(unique_key="u")
    await world.change(job, EditJob(at=60.0))
    await world.change(job, EditJob(priority=4))
    assert await world.insert(new_job("default", "work", unique_key="u")) == [
        Inserted(job, existed=True)
    ]


async def test_a_retried_job_takes_its_key_again(world: World) -> None:
    job = await world.bring(JobStatus.FAILED, unique_key="u")
    await world.change(job, RetryJob())
    assert await world.insert(new_job("default", "work", unique_key="u")) == [
        Inserted(job, existed=True)
    ]


async def test_a_retry_is_refused_while_another_job_holds_the_key(world: World) -> None:
    job = await world.bring(JobStatus.FAILED, unique_key="u")
    holder = await world.enqueue(unique_key="u")
    before = await world.job(job)
    refusal(await world.change(job, RetryJob()), Conflict)
    assert await world.job(job) == before
    await world.change(holder, CancelJob())
    await world.change(job, RetryJob())
    assert await world.status(job) is JobStatus.PENDING


# --- Both, and batches ---


async def test_within_one_batch_the_first_of_equal_keys_wins(world: World) -> None:
    answers = await world.insert(
        new_job("default", "work", 1, unique_key="u"),
        new_job("default", "work", 2, unique_key="u"),
        new_job("default", "work", 3, idempotency_key="i"),
        new_job("default", "work", 3, idempotency_key="i"),
        new_job("default", "work", 4, idempotency_key="i"),
        new_job("default", "work", 5),
    )
    first, second, third, fourth, fifth, sixth = answers
    assert isinstance(first, Inserted)
    assert isinstance(third, Inserted)
    assert (first.existed, third.existed) == (False, False)
    assert second == Inserted(first.job, existed=True)
    assert fourth == Inserted(third.job, existed=True)
    assert refusal(fifth, KeyTaken).job == third.job
    assert isinstance(sixth, Inserted)
    assert await world.probe.count("jobs") == 3


async def test_idempotency_is_asked_first(world: World) -> None:
    once = await world.enqueue(payload=1, idempotency_key="i", unique_key="mine")
    await world.enqueue(payload=2, unique_key="theirs")
    same = new_job("default", "work", 1, idempotency_key="i", unique_key="mine")
    other = new_job("default", "work", 1, idempotency_key="i", unique_key="theirs")
    assert (await world.insert(same)) == [Inserted(once, existed=True)]
    refusal((await world.insert(other))[0], KeyTaken)


async def test_the_idempotency_key_of_a_job_turned_away_stands_for_the_holder(world: World) -> None:
    """The same request gets the same answer for as long as its key lasts, though the holder has
    ended by then."""
    holder = await world.enqueue(payload=1, unique_key="u")
    turned_away = new_job("default", "work", 2, unique_key="u", idempotency_key="i")
    assert await world.insert(turned_away) == [Inserted(holder, existed=True)]
    await world.change(holder, CancelJob())
    assert await world.insert(turned_away) == [Inserted(holder, existed=True)]
    refusal((await world.insert(new_job("default", "work", 3, idempotency_key="i")))[0], KeyTaken)
    assert await world.probe.count("jobs") == 1


async def test_an_answer_never_names_a_job_that_was_turned_away(world: World) -> None:
    holder = await world.enqueue(unique_key="u")
    twin = new_job("default", "work", 2, unique_key="u", idempotency_key="i")
    assert await world.insert(twin, twin) == [Inserted(holder, existed=True)] * 2


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.FAILED])
async def test_a_repeated_insert_takes_no_key_that_its_job_no_longer_holds(
    world: World, status: JobStatus
) -> None:
    identifier = IdMint(lambda: int(world.clock.now().timestamp() * 1000))()
    job = NewJob(
        queue="default",
        job_type="work",
        payload=b"1",
        id=identifier,
        unique_key="u",
        idempotency_key="i",
    )
    assert await world.insert(job) == [Inserted(identifier)]
    if status is not JobStatus.PENDING:
        claimed = await world.claim_one(await world.worker())
        if status is JobStatus.FAILED:
            await world.finish(claimed.fence, ToFailed(ERROR, "no"))
    assert await world.insert(job) == [Inserted(identifier, existed=True)]
    world.clock.advance(2 * 86_400)
    assert await world.insert(job) == [Inserted(identifier, existed=True)]
    await world.probe.check_keys()
    [other] = await world.insert(new_job("default", "work", unique_key="u"))
    assert isinstance(other, Inserted)
    assert other.existed == (status is not JobStatus.FAILED)


async def test_keys_may_be_as_long_as_allowed_and_look_alike(world: World) -> None:
    jobs = {
        await world.enqueue(unique_key=key)
        for key in ("k" * 255, "k" * 254, "K" * 255, "k ", "k", "ключ")
    }
    assert len(jobs) == 6
