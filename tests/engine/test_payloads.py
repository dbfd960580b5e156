"""What gets in as a payload, by whatever way, and what was erased."""

import pytest

from taskforge.domain.changes import Changed, DeleteJob, EditJob, ErasePayload, RedriveJob, RetryJob
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.job import JobStatus, Refused, new_job
from taskforge.domain.outcome import ToDeadLetter, ToFailed, ToSucceeded
from tests.support.world import ERROR, World

P, S, R, OK, F, C = JobStatus
LARGE = b'"' + 100 * b"x" + b'"'


async def test_none_is_an_empty_object(world: World) -> None:
    job = await world.enqueue()
    assert bytes((await world.job(job)).payload or b"") == b"{}"
    assert (await world.claim_one(await world.worker())).payload == b"{}"
    assert new_job("default", "work", None).payload == b"null"  # which is something else


@pytest.mark.parametrize("status", [P, S])
async def test_a_queues_limit_holds_for_an_edit(world: World, status: JobStatus) -> None:
    await world.queue("narrow", payload_limit_bytes=50)
    job = await world.bring(status, queue="narrow")
    answer = await world.change(job, EditJob(payload=LARGE, priority=5))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, Invalid)
    assert (answer.error.field, answer.error.problem) == ("payload", "takes 102 bytes as JSON")
    assert "'narrow' allows 50" in answer.error.expected
    found = await world.job(job)
    assert (bytes(found.payload or b""), found.priority) == (b"{}", 0)


async def test_a_queues_limit_holds_for_a_move_and_each_job_is_asked(world: World) -> None:
    await world.queue("narrow", payload_limit_bytes=50)
    large, small = await world.enqueue(payload=100 * "x"), await world.enqueue()
    refused, moved = await world.engine.change([1], [large, small], EditJob(queue="narrow"))
    assert isinstance(moved, Changed)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, Invalid)
    assert (refused.error.field, refused.error.problem) == (
        "queue",
        "'narrow' does not take a payload of 102 bytes",
    )
    assert [(await world.job(job)).queue for job in (large, small)] == ["default", "narrow"]
    both = await world.change(large, EditJob(queue="narrow", payload=b"1"))
    assert isinstance(both, Changed)


async def test_a_limit_counts_bytes_and_not_letters(world: World) -> None:
    await world.queue("narrow", payload_limit_bytes=50)
    job = await world.enqueue(payload=30 * "é")
    for change in (EditJob(queue="narrow"), EditJob(queue="narrow", payload=b'"%b"' % (60 * b"x"))):
        answer = await world.change(job, change)
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, Invalid)
        assert "62 bytes" in answer.error.problem
    assert (await world.job(job)).queue == "default"


async def test_what_was_taken_stays_where_it_is_when_the_limit_sinks(world: World) -> None:
    queue = await world.queue("narrow")
    job = await world.enqueue("narrow", payload=100 * "x")
    await world.update(queue, settings=queue.settings.parse({"payload_limit_bytes": 50}))
    assert isinstance(await world.change(job, EditJob(priority=5)), Changed)
    claimed = await world.claim_one(await world.worker())
    assert claimed.payload == LARGE


async def test_dead_letters_are_not_asked_but_redriven_ones_are(world: World) -> None:
    dead = await world.queue("dead", payload_limit_bytes=10)
    origin = await world.queue("strict", dead_letter_queue_id=str(dead.id))
    job, fence = await world.running(queue="strict", payload=100 * "x")
    assert await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left")) == []
    assert (await world.job(job)).queue == "dead"
    settings = origin.settings.parse(
        {"payload_limit_bytes": 50, "dead_letter_queue_id": str(dead.id)}
    )
    await world.update(origin, settings=settings)
    answer = await world.change(job, RedriveJob())
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, Conflict)
    assert "'strict' does not take a payload of 102 bytes" in str(answer.error)
    await world.update(origin, settings=origin.settings)
    assert isinstance(await world.change(job, RedriveJob()), Changed)


async def test_a_redrive_that_is_refused_takes_no_unique_key(world: World) -> None:
    dead = await world.queue("dead")
    origin = await world.queue("strict", dead_letter_queue_id=str(dead.id))
    job, fence = await world.running(queue="strict", payload=100 * "x", unique_key="k")
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"))
    worker = await world.worker(queues=("dead",))
    await world.finish((await world.claim_one(worker)).fence, ToFailed(ERROR, "no luck"))
    settings = {"payload_limit_bytes": 50, "dead_letter_queue_id": str(dead.id)}
    await world.update(origin, settings=origin.settings.parse(settings))
    assert isinstance(await world.change(job, RedriveJob()), Refused)
    await world.enqueue(unique_key="k")  # a new job: the key is free


@pytest.mark.parametrize("status", [OK, F, C])
async def test_an_erased_payload_is_told_from_null_and_never_run(
    world: World, status: JobStatus
) -> None:
    job = await world.bring(status, payload=None)
    found = await world.job(job)
    assert (bytes(found.payload or b""), found.payload_erased) == (b"null", False)
    await world.change(job, ErasePayload())
    found = await world.job(job)
    assert (found.payload, found.payload_erased) == (None, True)
    if status is not OK:
        answer = await world.change(job, RetryJob(attempts=2))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, Conflict)
        assert str(answer.error) == f"the payload of job {job} was erased; it cannot be run again"
    assert await world.status(job) == status
    assert isinstance(await world.change(job, DeleteJob()), Changed)


async def test_an_erased_dead_letter_is_not_redriven(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("strict", dead_letter_queue_id=str(dead.id))
    job, fence = await world.running(queue="strict")
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left"))
    refused = await world.change(job, ErasePayload())
    assert isinstance(refused, Refused)  # it still waits to be run
    worker = await world.worker(queues=("dead",))
    await world.finish((await world.claim_one(worker)).fence, ToSucceeded())
    assert isinstance(await world.change(job, ErasePayload()), Changed)
    refused = await world.change(job, RedriveJob())
    assert isinstance(refused, Refused)


async def test_a_dead_letter_tells_why_it_is_one_until_it_is_redriven(world: World) -> None:
    dead = await world.queue("dead")
    await world.queue("strict", dead_letter_queue_id=str(dead.id))
    job, fence = await world.running(queue="strict")
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left after 3"))
    for place in ("ready", "running", "finished"):
        assert await world.place_of(job) == place
        found = await world.job(job)
        if place == "finished":  # what became of it there is what counts now
            assert (found.status, found.error, found.reason, found.is_dead_letter) == (
                OK,
                None,
                None,
                False,
            )
            break
        assert (found.error, found.reason, found.origin_queue) == (
            ERROR,
            "no attempts left after 3",
            "strict",
        )
        assert found.is_dead_letter
        if place == "ready":
            worker = await world.worker(queues=("dead",))
            [claimed] = await world.claim(worker)
        else:
            await world.finish(claimed.fence, ToSucceeded())
    other, fence = await world.running(queue="strict")
    await world.finish(fence, ToDeadLetter(dead.id, ERROR, "no attempts left after 3"))
    await world.change(other, RedriveJob())
    found = await world.job(other)
    assert (found.queue, found.error, found.reason, found.is_dead_letter) == (
        "strict",
        None,
        None,
        False,
    )
