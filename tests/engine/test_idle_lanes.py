"""Lanes that nobody uses any more are retired, whatever is enqueued meanwhile; what was done in
them is still told by queue and type."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from taskforge.domain.changes import EditJob
from taskforge.domain.errors import StoreFault
from taskforge.domain.ids import job_of
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.outcome import Finish, ToFailed, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.ports.engine import Engine
from taskforge.storage import lane_numbers
from tests.support.broken import break_statements
from tests.support.stores import PostgresStore
from tests.support.world import ERROR, World

HOUR = 3_600
DAY = 24 * HOUR


@pytest.fixture(autouse=True)
def one_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What processes remember ages with the store."""
    monkeypatch.setattr(lane_numbers, "steady_seconds", lambda: world.clock.now().timestamp())


async def types(world: World) -> set[str]:
    return {name for (name,) in await world.probe.rows("select job_type from lanes")}


async def retire(world: World, days: int = 3) -> None:
    for _ in range(days):
        world.clock.advance(DAY + 60)
        await world.engine.retire_lanes(100)


async def test_lanes_without_jobs_go_after_some_days_and_their_history_stays(world: World) -> None:
    worker = await world.online_worker()
    for name in ("old", "failing", "used"):
        await world.enqueue(job_type=name)
    for one in await world.claim(worker):
        how = ToFailed(ERROR, "failed") if one.job_type == "failing" else ToSucceeded()
        await world.engine.finish([Finish(one.fence, how)])
    await world.engine.fold(100)
    await world.probe.rows("update projects set most_lanes = 3 where number = 1 returning number")
    [refused] = await world.insert(new_job("default", "new"))
    assert not isinstance(refused, Inserted)
    world.clock.advance(DAY + 60)
    await world.engine.retire_lanes(100)  # doubts all
    assert await types(world) == {"old", "failing", "used"}
    used = await world.enqueue(job_type="used")
    world.clock.advance(DAY + 60)
    await world.engine.retire_lanes(100)
    assert await types(world) == {"used"}
    assert await world.enqueue(job_type="new")
    page = await world.engine.list_jobs([1], JobFilter(), Page())
    assert {(job.queue, job.job_type) for job in page.jobs} == {
        ("default", name) for name in ("old", "failing", "used", "new")
    }
    # What is gone is made again when it is needed: for a retry, an edit, a new job.
    [failed] = [job for job in page.jobs if job.job_type == "failing"]
    await world.change(failed.id, EditJob(priority=3))
    await world.probe.rows(
        "update projects set most_lanes = null where number = 1 returning number"
    )
    await world.enqueue(job_type="old")
    worker = await world.online_worker(max_concurrent_jobs=20)
    claimed = {one.job_type for one in await world.claim(worker, 20)}
    assert claimed >= {"old", "used", "new"}
    assert used


async def test_lanes_that_hold_something_stay(world: World) -> None:
    worker = await world.online_worker()
    await world.enqueue(job_type="running", timeout_seconds=20 * DAY)
    [running] = await world.claim(worker)
    await world.enqueue(job_type="ready")
    await world.enqueue(job_type="waiting", at=world.clock.after(30 * DAY))
    await retire(world, days=5)
    assert await types(world) == {"running", "ready", "waiting"}
    assert running.job_type == "running"


async def interrupted(
    world: World, act: Callable[[Any], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retires, while somebody does this between the look at what is empty and its removal, or in a
    transaction that is still open then."""
    if isinstance(world.store, PostgresStore):
        connection = await asyncpg.connect(world.store.url)
        transaction = connection.transaction()
        await transaction.start()
        await act(connection)
        retiring = asyncio.create_task(world.engine.retire_lanes(100))
        await asyncio.wait([retiring], timeout=0.3)
        await transaction.commit()
        await retiring
        await connection.close()
        return
    readers: Any = world.engine._readers  # type: ignore[attr-defined]
    right, looks = readers.search, []

    async def search(work: Any) -> Any:
        found = await right(work)
        looks.append(work)
        if len(looks) == 2:
            await act(None)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(readers, "search", search)
        await world.engine.retire_lanes(100)


async def enqueue_while_it_is_retired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other: Any = await world.another()
    await world.enqueue()
    claimed = await world.claim(await world.online_worker())
    await world.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
    await world.engine.fold(100)
    world.clock.advance(DAY + 60)
    await world.engine.retire_lanes(100)
    world.clock.advance(DAY + 60)
    made: list[UUID] = []

    async def act(connection: Any) -> None:
        job = new_job("default", "work")
        answers = (
            await other.insert(1, [job])
            if connection is None
            else await other.insert_within(connection, 1, [job])
        )
        made.extend(answer.job for answer in answers)

    await interrupted(world, act, monkeypatch)
    assert len(made) == 1
    # A process that remembers nothing of before.
    fresh = World(world.store, await world.another(), world.clock)
    assert await fresh.claim_jobs(await fresh.online_worker()) == made


async def test_a_job_that_comes_while_its_lane_is_retired_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enqueue_while_it_is_retired(world, monkeypatch)


BROKEN = {
    "postgres": {"keep_lanes": [("doubted_at = null, ", "")]},
    "sqlite": {"keep_lane": [("doubted_at = null, ", "")]},
}


async def test_whoever_looks_for_a_lane_and_leaves_the_doubt_loses_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    engine = "postgres" if isinstance(world.store, PostgresStore) else "sqlite"
    module = "connections" if engine == "postgres" else "catalog_cache"
    break_statements(monkeypatch, f"taskforge.storage.{engine}.{module}", BROKEN[engine])
    with pytest.raises((AssertionError, KeyError, TypeError, StoreFault)):
        await enqueue_while_it_is_retired(world, monkeypatch)
    await world.probe.forget_jobs()


async def test_no_job_is_lost_and_no_insert_fails_while_lanes_come_and_go(world: World) -> None:
    """Several processes enqueue over few types, now and then, while others retire lanes."""
    order = random.Random(11)
    engines = [world.engine, await world.another(), await world.another()]
    expected: set[UUID] = set()
    taken: set[UUID] = set()

    async def put(engine: Engine) -> None:
        for _ in range(3):
            jobs = [new_job("default", f"type-{order.randrange(6)}") for _ in range(2)]
            for answer in await engine.insert(1, jobs):
                assert isinstance(answer, Inserted)
                expected.add(answer.job)
            await asyncio.sleep(0)

    async def take() -> None:
        worker = await world.online_worker(max_concurrent_jobs=100)
        while claimed := await world.claim(worker, 50):
            taken.update(job_of(one.fence) for one in claimed)
            await world.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])

    for _ in range(25):
        world.clock.advance(order.choice((0.1, HOUR / 2, 13 * HOUR, 25 * HOUR)))
        puts = [put(engine) for engine in engines if order.random() < 0.5]
        retires = [engine.retire_lanes(100) for engine in engines]
        await asyncio.gather(*puts, *retires)
        if order.random() < 0.7:
            await take()
            await world.engine.fold(1_000)
            await asyncio.gather(*(engine.retire_lanes(100) for engine in engines), take())
    await take()
    assert taken == expected
