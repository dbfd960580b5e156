"""Events: what readers of the outbox hear, in commit order, each once, wherever they left off."""

import pytest

from taskforge.domain.changes import CancelJob
from taskforge.domain.errors import Conflict, EventsGone, Invalid, NotFound
from taskforge.domain.outcome import Finish, ToCancelled, ToFailed, ToRetry, ToSucceeded
from taskforge.domain.query import FIRST, Event
from taskforge.domain.queue import DeleteQueue, UpdateQueue
from taskforge.domain.worker import NewWorker, UpdateWorker
from taskforge.ports.engine import Engine
from tests.support.world import ERROR, World

DAY = 86_400.0


async def now(world: World) -> str:
    """Where a reader begins that wants to hear what comes."""
    begun = await world.engine.events(None, 10)
    assert begun.items == []
    return begun.cursor


async def heard(world: World, after: str) -> list[Event]:
    return (await world.engine.events(after, 1_000)).items


# --- Jobs ---


async def test_endings_are_announced_with_their_jobs(world: World) -> None:
    jobs = await world.enqueue_many(5)
    fences = [claimed.fence for claimed in await world.claim(await world.worker())]
    start = await now(world)
    assert await heard(world, start) == []
    [queue] = await world.engine.queues([1])
    await world.engine.finish(
        [
            Finish(fences[0], ToSucceeded()),
            Finish(fences[1], ToSucceeded()),
            Finish(fences[2], ToFailed(ERROR, "no")),
            Finish(fences[3], ToCancelled("no")),
            Finish(fences[4], ToRetry(5.0, ERROR)),
        ]
    )
    events = await heard(world, start)
    assert {event.topic: set(event.jobs) for event in events} == {
        "job.succeeded": {jobs[0], jobs[1]},
        "job.failed": {jobs[2]},
        "job.cancelled": {jobs[3]},
        "job.retried": {jobs[4]},
    }
    expected = {(1, queue.number, None, world.clock.now())}
    assert {(event.project, event.queue, event.worker, event.at) for event in events} == expected
    assert len(events) == 4


async def test_endings_before_the_start_are_announced_too(world: World) -> None:
    cancelled, expired = await world.enqueue(), await world.enqueue(expires=5)
    start = await now(world)
    await world.change(cancelled, CancelJob())
    world.clock.advance(6)
    await world.engine.expire(10)
    events = await heard(world, start)
    assert [(event.topic, event.jobs) for event in events] == [
        ("job.cancelled", (cancelled,)),
        ("job.failed", (expired,)),
    ]


async def test_events_name_the_project_and_queue_of_their_jobs(world: World) -> None:
    second = await world.probe.add_project("second")
    theirs = await world.queue("theirs", project=second)
    job = await world.enqueue("theirs", project=second)
    claimed = await world.claim_one(await world.worker(project=second))
    start = await now(world)
    await world.finish(claimed.fence, ToSucceeded())
    [event] = await heard(world, start)
    assert (event.project, event.queue, event.jobs) == (second, theirs.number, (job,))


# --- Queues and workers ---


async def test_what_becomes_of_a_queue_is_announced(world: World) -> None:
    start = await now(world)
    mail = await world.queue("mail")
    world.clock.advance(1)
    await world.update(mail, priority=3)
    await world.pause(mail)
    await world.update(mail, is_active=False, description="still paused")
    await world.resume(mail)
    await world.engine.change_queue(1, DeleteQueue(queue=mail.id))
    events = await heard(world, start)
    assert [event.topic for event in events] == [
        f"queue.{what}"
        for what in ("created", "updated", "paused", "updated", "resumed", "deleted")
    ]
    assert {(event.project, event.queue, event.worker, event.jobs) for event in events} == {
        (1, mail.number, None, ())
    }
    assert events[-1].at == world.clock.now() != events[0].at


async def test_what_becomes_of_a_worker_is_announced(world: World) -> None:
    start = await now(world)
    worker = await world.worker("w")
    for change in (
        {"max_concurrent_jobs": 4},
        {"drain_mode": True},
        {"drain_mode": True},
        {"drain_mode": False},
    ):
        await world.engine.change_worker(1, UpdateWorker(worker=worker.worker, **change))  # type: ignore[arg-type]
    await world.engine.deregister(worker.incarnation)
    await world.engine.deregister(worker.incarnation)
    again = await world.engine.register(1, NewWorker(name="w"), 10)
    events = await heard(world, start)
    assert [event.topic for event in events] == [
        f"worker.{what}"
        for what in (
            "registered",
            "updated",
            "draining",
            "updated",
            "updated",
            "left",
            "registered",
        )
    ]
    assert {(event.project, event.queue, event.worker, event.jobs) for event in events} == {
        (1, None, worker.worker, ())
    }
    assert again.worker == worker.worker


async def test_what_was_refused_is_not_announced(world: World) -> None:
    [queue] = await world.engine.queues([1])
    worker = await world.worker()
    await world.enqueue()
    await world.claim_one(worker)
    start = await now(world)
    with pytest.raises(Conflict):
        await world.queue("default")
    with pytest.raises(Conflict):
        await world.engine.change_queue(1, UpdateQueue(queue=queue.id, expected_version=9))
    with pytest.raises(Conflict):
        await world.engine.change_queue(1, DeleteQueue(queue=queue.id))
    with pytest.raises(Conflict):
        await world.engine.deregister(worker.incarnation)
    with pytest.raises(NotFound):
        await world.engine.change_worker(1, UpdateWorker(worker=queue.id, drain_mode=True))
    assert await heard(world, start) == []


# --- Reading on ---


async def test_a_reader_goes_on_behind_any_event(world: World, other: Engine) -> None:
    start = await now(world)
    jobs = [await world.enqueue(payload=number) for number in range(6)]
    for job in jobs:
        await world.change(job, CancelJob())
    events = await heard(world, start)
    assert [event.jobs for event in events] == [(job,) for job in jobs]
    assert len({event.cursor for event in events}) == 6
    for position, event in enumerate(events):
        rest = await other.events(event.cursor, 1_000)
        assert rest.items == events[position + 1 :]
        assert rest.cursor == events[-1].cursor
    cursor, seen = start, []
    while (page := await world.engine.events(cursor, 2)).items:
        assert len(page.items) <= 2
        cursor, seen = page.cursor, seen + page.items
    assert (seen, page.cursor) == (events, cursor)


async def test_whoever_begins_now_hears_only_what_comes(world: World) -> None:
    await world.change(await world.enqueue(), CancelJob())
    start = await now(world)
    assert await heard(world, start) == []
    assert (await world.engine.events(start, 10)).cursor == start
    job = await world.enqueue()
    await world.change(job, CancelJob())
    [event] = await heard(world, start)
    assert event.jobs == (job,)


async def test_the_first_cursor_hears_everything_there_ever_was(world: World) -> None:
    job = await world.enqueue()
    await world.change(job, CancelJob())
    events = await heard(world, FIRST)
    assert [event.topic for event in events] == ["queue.created", "job.cancelled"]


@pytest.mark.parametrize(
    "cursor", ["", "x", "-1", "1.2.3", "1.", ".1", "1e3", "٣", "9" * 19, " 1", "1\n"]
)
async def test_a_cursor_that_no_store_gave_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(Invalid, match="after"):
        await world.engine.events(cursor, 10)


# --- What is no longer kept ---


async def test_a_reader_that_missed_pruned_events_is_told(world: World) -> None:
    start = await now(world)
    for _ in range(3):
        await world.change(await world.enqueue(), CancelJob())
    first, second, _ = await heard(world, start)
    world.clock.advance(2 * DAY)
    late = await world.enqueue()
    await world.change(late, CancelJob())
    last = (await heard(world, start))[-1]
    await world.engine.prune(30, 100)
    for cursor in (FIRST, start, first.cursor, second.cursor):
        with pytest.raises(EventsGone):
            await world.engine.events(cursor, 10)
    assert await heard(world, last.cursor) == []


async def test_a_reader_that_had_heard_all_that_was_pruned_goes_on(world: World) -> None:
    start = await now(world)
    await world.change(await world.enqueue(), CancelJob())
    [event] = await heard(world, start)
    world.clock.advance(2 * DAY)
    await world.engine.prune(30, 100)
    await world.engine.prune(30, 100)
    assert await heard(world, event.cursor) == []
    fresh = await now(world)
    job = await world.enqueue()
    await world.change(job, CancelJob())
    for cursor in (event.cursor, fresh):
        assert [one.jobs for one in await heard(world, cursor)] == [(job,)]


async def test_pruning_takes_only_so_many_events_at_once(world: World) -> None:
    start = await now(world)
    for _ in range(5):
        await world.change(await world.enqueue(), CancelJob())
    events = await heard(world, start)
    world.clock.advance(2 * DAY)
    await world.engine.prune(30, 3)  # the queue's own first
    assert await world.probe.count("outbox") == 3
    assert await heard(world, events[1].cursor) == events[2:]
    with pytest.raises(EventsGone):
        await world.engine.events(events[0].cursor, 10)
