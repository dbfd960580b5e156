"""Changes of many jobs on PostgreSQL: a few statements for each slice, whatever the slice holds."""

from collections import Counter
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from taskforge.domain.changes import CancelJob, Changed, EditJob, JobChange, RedriveJob, RetryJob
from taskforge.domain.ids import job_of
from taskforge.domain.job import JobStatus, Refused
from taskforge.domain.outcome import Finish, ToDeadLetter
from taskforge.storage.postgres.connections import PostgresConnections
from tests.support.stores import PostgresStore
from tests.support.world import ERROR, Clock, World


@pytest.fixture
async def world(postgres_url: str) -> AsyncIterator[World]:
    store, clock = PostgresStore(postgres_url), Clock()
    try:
        made = World(store, await store.open(clock), clock)
        await made.queue("default")
        yield made
        await store.probe.check()
    finally:
        await store.close()


async def statements(
    monkeypatch: pytest.MonkeyPatch, world: World, jobs: list[UUID], change: JobChange
) -> int:
    """How many were sent for one change of these jobs."""
    sent: Counter[str] = Counter()
    right = PostgresConnections.sql

    def counted(connections: PostgresConnections, name: str) -> str:
        sent[name] += 1
        return right(connections, name)

    with monkeypatch.context() as counting:
        counting.setattr(PostgresConnections, "sql", counted)
        answers = await world.engine.change([1], jobs, change)
    assert [answer for answer in answers if not isinstance(answer, Changed)] == []
    return sum(sent.values())


async def test_a_change_of_many_takes_as_many_statements_as_one_of_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.queue("other")
    few, many = await world.enqueue_many(2), await world.enqueue_many(300)
    for change in (
        EditJob(priority=4),
        EditJob(queue="other"),
        EditJob(at=60.0),
        CancelJob(),
        RetryJob(),
    ):
        for_few = await statements(monkeypatch, world, few, change)
        assert 3 < for_few < 20
        world.clock.advance(1)
        assert await statements(monkeypatch, world, many, change) <= for_few + 5
    found = await world.engine.get([1], many)
    assert {(one.status, one.queue, one.priority) for one in found} == {
        (JobStatus.PENDING, "other", 4)
    }
    worker = await world.worker(max_concurrent_jobs=1_000)
    claimed = [job_of(one.fence) for one in await world.claim(worker, 400)]
    assert claimed == few + many, "in the order asked"


async def test_dead_letters_are_redriven_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await world.queue("dead")
    jobs = await world.enqueue_many(50)
    worker = await world.worker(max_concurrent_jobs=100)
    to = ToDeadLetter(dead.id, ERROR, "no")
    await world.engine.finish([Finish(one.fence, to) for one in await world.claim(worker, 100)])
    assert await statements(monkeypatch, world, jobs, RedriveJob()) < 20
    found = await world.engine.get([1], jobs)
    assert {(one.status, one.queue, one.origin_queue) for one in found} == {
        (JobStatus.PENDING, "default", None)
    }


async def test_refusals_among_many_leave_the_others_alone(world: World) -> None:
    first = await world.enqueue(unique_key="k")
    await world.engine.change([1], [first], CancelJob())
    second = await world.enqueue(unique_key="k")
    await world.engine.change([1], [second], CancelJob())
    plain = await world.enqueue_many(3)
    await world.engine.change([1], plain, CancelJob())
    runs = await world.enqueue_many(2)
    answers = await world.engine.change([1], [*plain, first, second, *runs], RetryJob())
    assert [isinstance(one, Refused) for one in answers] == [False] * 4 + [True] * 3
    assert "unique key" in str(answers[4].error if isinstance(answers[4], Refused) else "")
    statuses = [one.status for one in await world.engine.get([1], [*plain, first, second])]
    assert statuses == [JobStatus.PENDING] * 4 + [JobStatus.CANCELLED]
