"""Bad input: one clear error each, naming the field, and nothing written."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from taskforge.domain.changes import EditJob, RetryJob
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.job import NewJob, Refused, new_job
from taskforge.domain.queue import CreateQueue, QueueSettings, UpdateQueue
from taskforge.domain.worker import UpdateWorker
from tests.support.world import World

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the mistake under test
Attempt = Callable[[World], Awaitable[Any]]


def inserting(**options: Any) -> Attempt:
    return lambda world: world.insert(
        new_job(**({"queue": "default", "job_type": "work"} | options))
    )


async def a_cycle(world: World) -> None:
    last = await world.queue("last")
    first = await world.queue("first", dead_letter_queue_id=str(last.id))
    await world.update(last, settings=QueueSettings(dead_letter_queue_id=first.id))


async def an_unknown_setting(world: World) -> None:
    await world.queue("new", max_concurrent=3)


async def too_large_for_its_queue(world: World) -> None:
    await world.queue("small", payload_limit_bytes=100)
    [answer] = await world.insert(new_job("small", "work", "x" * 100))
    assert isinstance(answer, Refused)
    raise answer.error


async def an_unknown_queue(world: World) -> None:
    [answer] = await world.insert(new_job("defalt", "work"))
    assert isinstance(answer, Refused)
    raise answer.error


CASES: list[tuple[str, str, Attempt]] = [
    (
        "name too long",
        "name",
        lambda world: world.engine.change_queue(1, CreateQueue(name="q" * 101)),
    ),
    ("type too long", "job_type", inserting(job_type="t" * 101)),
    ("priority 10", "priority", inserting(priority=10)),
    (
        "queue priority 10",
        "priority",
        lambda world: world.engine.change_queue(1, CreateQueue(name="q", priority=10)),
    ),
    ("NaN in payload", "payload.deep[1]", inserting(payload={"deep": [1, float("nan")]})),
    ("payload too large", "payload", too_large_for_its_queue),
    ("unknown setting", "settings.max_concurrent", an_unknown_setting),
    ("DLQ cycle", "settings.dead_letter_queue_id", a_cycle),
    ("naive datetime", "at", inserting(at=NAIVE)),
    ("naive deadline", "deadline", inserting(deadline=NAIVE)),
    ("negative delay", "at", inserting(at=-1)),
]


@pytest.mark.parametrize(
    ("field", "attempt"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_bad_input_is_refused_and_nothing_is_written(
    world: World, field: str, attempt: Attempt
) -> None:
    before = await world.probe.counts()
    with pytest.raises(Invalid) as caught:
        await attempt(world)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    after = await world.probe.counts()
    assert {table: after[table] for table in before if table != "queues"} == {
        table: before[table] for table in before if table != "queues"
    }
    known = {"default", "small", "first", "last"}
    assert {queue.name for queue in await world.engine.queues([1])} <= known


async def test_an_unknown_queue_is_refused_with_the_nearest_name(world: World) -> None:
    with pytest.raises(NotFound, match="queue 'defalt' does not exist; did you mean 'default'"):
        await an_unknown_queue(world)
    assert (await world.probe.counts())["jobs"] == 0


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("priority", EditJob(priority=10)),
        ("at", EditJob(at=-1.0)),
        ("at", EditJob(at=NAIVE)),
        ("edit", EditJob()),
        ("attempts", RetryJob(attempts=0)),
    ],
)
async def test_a_bad_change_is_refused_before_anything_is_touched(
    world: World, field: str, change: EditJob
) -> None:
    job = await world.enqueue()
    before = await world.job(job)
    with pytest.raises(Invalid) as caught:
        await world.change(job, change)
    assert caught.value.field == field
    assert await world.job(job) == before


async def test_a_bad_update_of_a_queue_leaves_it_as_it_was(world: World) -> None:
    before = await world.engine.queues([1])
    for change in (
        UpdateQueue(queue=before[0].id, priority=11),
        UpdateQueue(queue=before[0].id, name=""),
        UpdateQueue(queue=before[0].id, settings=QueueSettings(dead_letter_queue_id=uuid4())),
    ):
        with pytest.raises(Invalid):
            await world.engine.change_queue(1, change)
    assert await world.engine.queues([1]) == before


@pytest.mark.parametrize(
    "text",
    [
        "'; drop table jobs; --",
        '"',
        "%s $1 ?1 :a",
        "\u05d0é\U0001f600 ",
        "{}",
        "NULL",
        "\\",
        "a,b",
        '{"a":1}',
    ],
)
async def test_odd_texts_are_only_texts(world: World, text: str) -> None:
    queue = await world.queue(text.strip())
    job = await world.enqueue(
        text.strip(),
        text,
        {text: text},
        tags=[text, "x"],
        unique_key=text,
        idempotency_key=text,
        trace=text,
    )
    found = await world.job(job)
    assert (found.queue_id, found.job_type, found.unique_key, found.trace) == (
        queue.id,
        text,
        text,
        text,
    )
    assert set(found.tags) == {text, "x"}
    claimed = await world.claim_one(await world.worker(text, types=(text,), queues=(text.strip(),)))
    assert (claimed.job_type, set(claimed.tags)) == (text, {text, "x"})


async def test_a_nul_in_a_payload_survives_or_is_refused_but_never_breaks_the_batch(
    world: World,
) -> None:
    """JSON may carry NUL as an escape; a store that cannot keep it must say so for that job
    alone."""
    odd = new_job("default", "work", {"text": "a\x00b"})
    answers = await world.insert(new_job("default", "work", 1), odd, new_job("default", "work", 2))
    assert [isinstance(answer, Refused) for answer in answers] == [False, False, False]
    claimed = await world.claim(await world.worker())
    assert [one.payload for one in claimed] == [b"1", odd.payload, b"2"]


@pytest.mark.parametrize("odd", [{"a": "\x00"}, {"\x00": 1}, {"a": ["\\\x00"]}])
async def test_a_nul_in_capabilities_is_refused(world: World, odd: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="capabilities: contains NUL"):
        await world.worker(capabilities=odd)
    registered = await world.worker(capabilities={"a": "\\u0000"})  # a backslash and five letters
    [worker] = await world.engine.workers([1])
    assert worker.capabilities == {"a": "\\u0000"}
    with pytest.raises(Invalid, match="capabilities: contains NUL"):
        await world.engine.change_worker(
            1, UpdateWorker(worker=registered.worker, capabilities=odd)
        )


async def test_a_payload_that_is_no_json_text_is_stored_as_it_came_or_refused(world: World) -> None:
    """The builder makes only JSON; whatever reaches the engine otherwise must not poison the shared
    batch of others."""
    broken = NewJob(queue="default", job_type="work", payload=b"\xff\xfe")
    answers: list[Any] = []
    try:
        answers = await world.insert(new_job("default", "work", 1), broken)
    except Exception:  # noqa: BLE001 - refusing the whole call of the one who broke the rule is right as well
        answers = []
    job = await world.enqueue(payload=2)
    assert len(answers) in (0, 2)
    assert await world.job(job)
