"""What a process tells of jobs that were enqueued and started: sums, and not one write for a job.
Of a retry it tells as of other ends of attempts."""

from typing import Any

import msgspec

from taskforge.domain.job import error_info, new_job
from taskforge.domain.outcome import Finish, ToRetry
from taskforge.domain.query import Event
from taskforge.domain.queue import DeleteQueue
from tests.support.world import World


async def told(world: World, cursor: str) -> list[Event]:
    """What there is of jobs behind a cursor, once this process has told its sums."""
    engine: Any = world.engine
    await engine.event_sums.tell()
    events = (await world.engine.events(cursor, 1_000)).items
    return [event for event in events if event.topic.startswith("job.")]


def details(event: Event) -> Any:
    return msgspec.json.decode(event.details or "null")


async def test_what_is_enqueued_and_started_is_summed_up_by_queue_and_type(world: World) -> None:
    mail = await world.queue("mail")
    start = (await world.engine.events(None, 1)).cursor
    await world.insert(*(new_job("mail", kind, None) for kind in ("a", "a", "b")))
    await world.insert(new_job("mail", "a", None), new_job("nothing", "a", None))
    await world.enqueue(unique_key="one")
    again = await world.insert(new_job("default", "work", None, unique_key="one"))
    assert len(again) == 1
    worker = await world.worker(queues=("mail",))
    assert len(await world.claim(worker, 3)) == 3
    events = {(one.topic, one.queue): details(one) for one in await told(world, start)}
    assert events["job.enqueued", mail.number] == {"count": 4, "types": {"a": 3, "b": 1}}
    assert events["job.started", mail.number]["count"] == 3
    assert sum(events["job.started", mail.number]["types"].values()) == 3
    assert len(events) == 3
    assert [one for one in events.values() if one["types"] == {"work": 1}]
    cursor = (await world.engine.events(None, 1)).cursor
    assert await told(world, cursor) == []
    gone = await world.queue("gone")
    cursor = (await world.engine.events(None, 1)).cursor
    await world.enqueue("gone")
    await world.engine.change_queue(1, DeleteQueue(queue=gone.id))
    assert "job.enqueued" not in [one.topic for one in await told(world, cursor)]


async def test_a_retry_is_told_with_its_jobs(world: World) -> None:
    jobs = await world.enqueue_many(3)
    claimed = await world.claim(await world.worker(), 3)
    start = (await world.engine.events(None, 1)).cursor
    error = error_info("ValueError", "boom")
    delays = (0.0, 5.0, 60.0)
    finishes = [
        Finish(one.fence, ToRetry(delay, error)) for one, delay in zip(claimed, delays, strict=True)
    ]
    assert await world.engine.finish(finishes) == []
    events = [one for one in await told(world, start) if one.topic == "job.retried"]
    assert sorted(job for one in events for job in one.jobs) == sorted(jobs)
    assert len(events) == 1
