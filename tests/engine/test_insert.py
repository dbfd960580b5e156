from datetime import timedelta
from uuid import UUID, uuid4

import msgspec
import pytest

from taskforge.domain.errors import Invalid, NotFound, QueuePaused
from taskforge.domain.ids import IdMint, fence_of, is_job_id
from taskforge.domain.job import Inserted, JobStatus, NewJob, new_job
from taskforge.ports.engine import Engine
from tests.support.world import Clock, World, refusal

MILLISECOND = timedelta(milliseconds=1)


async def test_a_job_is_stored_as_asked_with_defaults_for_the_rest(world: World) -> None:
    job_id = await world.enqueue(payload={"b": 1, "a": [1.5, None, "é"]})
    assert is_job_id(job_id)
    job = await world.job(job_id)
    assert (job.id, job.project, job.queue, job.job_type) == (job_id, 1, "default", "work")
    assert job.queue_id == (await world.engine.queues([1]))[0].id
    assert (job.status, job.priority, job.attempt_count, job.max_attempts) == (
        JobStatus.PENDING,
        0,
        0,
        3,
    )
    assert (job.epoch, job.crash_count, job.cancel_requested) == (0, 0, False)
    assert bytes(job.payload or b"") == '{"b":1,"a":[1.5,null,"é"]}'.encode()
    assert world.clock.now() - job.created_at < MILLISECOND
    unset = (
        job.scheduled_for,
        job.timeout_at,
        job.expires_at,
        job.started_at,
        job.completed_at,
        job.result,
        job.error,
    )
    assert unset == (None,) * 7
    assert (job.tags, job.requires, job.unique_key, job.origin_queue, job.worker) == (
        (),
        "",
        None,
        None,
        None,
    )
    assert await world.place_of(job_id) == "ready"


async def test_every_option_comes_back(world: World) -> None:
    deadline = world.clock.after(3600)
    job = await world.job(
        await world.enqueue(
            payload="p",
            priority=7,
            max_attempts=9,
            deadline=deadline,
            expires=60,
            timeout_seconds=12.5,
            tags=["b", "a"],
            requires={"gpu": True},
            unique_key="u",
            idempotency_key="i",
            fairness_key="f",
            trace="00-abc",
        )
    )
    assert (job.priority, job.max_attempts, job.timeout_at, job.expires_at) == (
        7,
        9,
        deadline,
        world.clock.after(60),
    )
    assert (job.timeout_seconds, set(job.tags), job.requires) == (12.5, {"a", "b"}, '{"gpu":true}')
    assert (job.unique_key, job.idempotency_key, job.fairness_key, job.trace) == (
        "u",
        "i",
        "f",
        "00-abc",
    )


async def test_no_jobs_is_no_work(world: World) -> None:
    assert await world.insert() == []
    assert await world.probe.count("jobs") == 0


async def test_a_batch_is_answered_in_order_and_ids_rise(world: World) -> None:
    jobs = await world.enqueue_many(2_500)
    assert jobs == sorted(set(jobs))
    assert len(jobs) == 2_500
    found = await world.engine.get([1], [jobs[0], jobs[1_234], jobs[-1]])
    assert [bytes(job.payload or b"") for job in found] == [b"0", b"1234", b"2499"]


async def test_a_refused_job_does_not_harm_the_others(world: World) -> None:
    await world.queue("resting", is_active=False)
    await world.queue("small", payload_limit_bytes=10)
    answers = await world.insert(
        new_job("default", "work", 1),
        new_job("defualt", "work", 2),
        new_job("resting", "work", 3),
        new_job("small", "work", "x" * 9),
        new_job("small", "work", "x" * 8),
        new_job("nowhere near", "work", 6),
    )
    assert [isinstance(answer, Inserted) for answer in answers] == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    unknown = refusal(answers[1], NotFound)
    assert (unknown.kind, unknown.name, unknown.nearest) == ("queue", "defualt", "default")
    assert refusal(answers[2], QueuePaused).queue == "resting"
    assert refusal(answers[3], Invalid).field == "payload"
    assert "10" in str(refusal(answers[3], Invalid))
    assert refusal(answers[5], NotFound).nearest is None
    assert await world.probe.count("jobs") == 2


async def test_a_paused_queue_is_told_before_a_payload_that_is_too_large(world: World) -> None:
    await world.queue("both", is_active=False, payload_limit_bytes=1)
    refusal((await world.insert(new_job("both", "work", "too large")))[0], QueuePaused)


async def test_a_paused_queue_may_accept_jobs(world: World) -> None:
    await world.queue("gathering", is_active=False, accept_while_paused=True)
    assert await world.status(await world.enqueue("gathering")) is JobStatus.PENDING


async def test_a_pause_by_another_process_holds_for_the_next_insert(
    world: World, other: Engine
) -> None:
    [queue] = await world.engine.queues([1])
    await world.enqueue()
    await World(world.store, other, world.clock).pause(queue)
    refusal((await world.insert(new_job("default", "work")))[0], QueuePaused)
    await World(world.store, other, world.clock).resume(queue)
    await world.enqueue()


async def test_a_queue_made_by_another_process_takes_jobs_at_once(
    world: World, other: Engine
) -> None:
    refusal((await world.insert(new_job("fresh", "work")))[0], NotFound)
    await World(world.store, other, world.clock).queue("fresh")
    await world.enqueue("fresh")


async def test_the_queues_retries_set_the_default_budget(world: World) -> None:
    await world.queue("stubborn", max_retries=9)
    assert (await world.job(await world.enqueue("stubborn"))).max_attempts == 10
    assert (await world.job(await world.enqueue("stubborn", max_attempts=2))).max_attempts == 2


@pytest.mark.parametrize("seconds", [0.5, 60, 86_400])
async def test_a_time_ahead_schedules(world: World, seconds: float) -> None:
    for when in (seconds, world.clock.after(seconds)):
        job_id = await world.enqueue(at=when)
        job = await world.job(job_id)
        assert (job.status, job.scheduled_for) == (JobStatus.SCHEDULED, world.clock.after(seconds))
        assert await world.place_of(job_id) == "waiting"


async def test_a_time_that_has_come_is_now(world: World) -> None:
    for when in (0, world.clock.now(), world.clock.after(-60)):
        job_id = await world.enqueue(at=when)
        assert await world.status(job_id) is JobStatus.PENDING
        assert await world.place_of(job_id) == "ready"


async def test_one_batch_may_hold_both_and_several_queues(world: World) -> None:
    await world.queue("second")
    answers = await world.insert(
        new_job("default", "a"),
        new_job("second", "b", at=5),
        new_job("default", "c", priority=3, tags=["x"]),
    )
    jobs = await world.engine.get(
        [1], [answer.job for answer in answers if isinstance(answer, Inserted)]
    )
    assert [(job.queue, job.job_type, job.status, job.priority) for job in jobs] == [
        ("default", "a", JobStatus.PENDING, 0),
        ("second", "b", JobStatus.SCHEDULED, 0),
        ("default", "c", JobStatus.PENDING, 3),
    ]


# --- Ids that the caller brings ---


def with_id(identifier: UUID, payload: bytes = b"1") -> NewJob:
    return NewJob(queue="default", job_type="work", payload=payload, id=identifier)


def some_id(clock: Clock) -> UUID:
    return IdMint(lambda: int(clock.now().timestamp() * 1000))()


async def test_an_insert_may_be_repeated_after_a_lost_answer(world: World) -> None:
    identifier = some_id(world.clock)
    assert await world.insert(with_id(identifier)) == [Inserted(identifier)]
    before = await world.job(identifier)
    assert await world.insert(with_id(identifier, b"2")) == [Inserted(identifier, existed=True)]
    assert await world.job(identifier) == before


async def test_an_id_is_remembered_while_the_job_runs_and_after_it_ended(world: World) -> None:
    identifier = some_id(world.clock)
    await world.insert(with_id(identifier))
    worker = await world.worker()
    await world.claim_one(worker)
    assert await world.insert(with_id(identifier)) == [Inserted(identifier, existed=True)]
    from taskforge.domain.outcome import ToSucceeded

    assert await world.finish(fence_of(identifier, 1), ToSucceeded()) == []
    assert await world.insert(with_id(identifier)) == [Inserted(identifier, existed=True)]
    assert await world.status(identifier) is JobStatus.SUCCEEDED


async def test_an_id_twice_in_one_batch_is_one_job(world: World) -> None:
    identifier = some_id(world.clock)
    answers = await world.insert(
        with_id(identifier, b"1"), with_id(identifier, b"2"), new_job("default", "work")
    )
    assert answers[:2] == [Inserted(identifier), Inserted(identifier, existed=True)]
    assert isinstance(answers[2], Inserted)
    assert bytes((await world.job(identifier)).payload or b"") == b"1"
    assert await world.probe.count("jobs") == 2


async def test_what_is_no_job_id_is_refused(world: World) -> None:
    for wrong in (uuid4(), fence_of(some_id(world.clock), 3)):
        answers = await world.insert(with_id(wrong), new_job("default", "work"))
        assert refusal(answers[0], Invalid).field == "id"
        assert isinstance(answers[1], Inserted)


async def test_a_large_payload_within_the_limit_is_kept_to_the_byte(world: World) -> None:
    await world.queue("large", payload_limit_bytes=1_000_000)
    text = 'é\\"\u2028' * 50_000
    job_id = await world.enqueue("large", payload=text)
    stored = (await world.job(job_id)).payload
    assert stored is not None
    assert msgspec.json.decode(stored) == text
    claimed = await world.claim_one(await world.worker())
    assert claimed.payload == bytes(stored)
