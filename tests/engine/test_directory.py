"""Queues, workers and assignments by name and in pages: nothing is missing or shown twice, and a
page costs what it shows."""

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID, uuid4

import msgspec
import pytest

from taskforge.domain.assignment import Assign, Assignment
from taskforge.domain.errors import Invalid
from taskforge.domain.name_pages import AssignmentPage, Listed, NamePage
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue, DeleteQueue
from taskforge.ports.engine import Engine
from tests.support.reads import count_steps, touched
from tests.support.stores import ALSO_WALLED, PostgresStore, Store
from tests.support.world import Clock, World

T = TypeVar("T")
NAMES = [
    *("mail", "mail-1", "mail-10", "mail-2", "Mail", "m_il", "m%il", "ma", "email", "e[m]ail"),
    *("ä", "äpfel", "zoo", "a?c", "abc", "a*c", "\\", "100 %", "日本", "😀", "\uffff"),
]
PATTERNS = [None, "m*", "mail*", "*ail", "*ail*", "m*l", "m_*", "*%*", "*[m]*", "a?*", "日*", "x*"]


def fits(name: str, pattern: str | None) -> bool:
    parts = ("*" if pattern is None else pattern).split("*")
    return re.fullmatch(".*".join(map(re.escape, parts)), name) is not None


async def every(
    read: Callable[[Sequence[int], NamePage], Awaitable[Listed[T]]],
    projects: Sequence[int],
    page: NamePage,
) -> list[T]:
    found: list[T] = []
    for _ in range(200):
        part = await read(projects, page)
        assert len(part.items) <= page.limit
        found += part.items
        if part.cursor is None:
            return found
        page = msgspec.structs.replace(page, cursor=part.cursor)
    raise AssertionError("the list does not end")


@ALSO_WALLED
async def test_pages_of_queues_hold_each_that_fits_once_in_order(world: World) -> None:
    other = await world.probe.add_project("other")
    foreign = await world.probe.add_project("foreign")
    engine = world.engine
    for project in (1, other, foreign):
        for name in NAMES:
            await engine.change_queue(project, CreateQueue(name=f"{name}"))
    gone = await engine.change_queue(1, CreateQueue(name="mail-gone"))
    await engine.change_queue(1, DeleteQueue(queue=gone.id))
    for pattern in PATTERNS:
        for limit in (1, 3, 7, 100):
            page = NamePage(name=pattern, limit=limit)
            found = await every(engine.directory.list_queues, [other, 1], page)
            own = [(1, "default")] if fits("default", pattern) else []
            expected = [
                (project, name) for project in (1, other) for name in NAMES if fits(name, pattern)
            ]
            assert [(one.project, one.name) for one in found] == sorted(own + expected)
    [whole] = [one for one in await engine.queues([1]) if one.name == "mail"]
    assert await engine.directory.find_queues([1], "mail") == [whole]
    assert await engine.directory.find_queues([1], str(whole.id)) == [whole]
    assert await engine.directory.find_queues([other], str(whole.id)) == []
    assert len(await engine.directory.find_queues([1, other], "mail")) == 2
    assert await engine.directory.find_queues([1], "mail-gone") == []
    assert await engine.directory.count_queues([1, other], 1_000) == 2 * len(NAMES) + 1
    assert await engine.directory.count_queues([1, other], 5) == 5


@ALSO_WALLED
async def test_pages_of_workers_hold_each_that_is_listed_once(world: World) -> None:
    engine, order = world.engine, random.Random(5)
    for _ in range(3):  # lives of the same names; those of before are over, or not
        for name in order.sample(NAMES, 15):
            await world.worker(name=name)
        world.clock.advance(order.choice((0.01, 100)))
    listed = sorted(await engine.workers([1]), key=lambda one: (one.name, one.incarnation))
    assert len({one.id for one in listed}) < len(listed) or len(listed) >= 15
    for pattern in PATTERNS:
        for limit in (1, 4, 100):
            page = NamePage(name=pattern, limit=limit)
            found = await every(engine.directory.list_workers, [1], page)
            assert found == [one for one in listed if fits(one.name, pattern)]
    for one in listed:
        assert one in await engine.directory.find_workers([1], one.name)
        assert one in await engine.directory.find_workers([1], str(one.id))
        assert one in await engine.directory.find_workers([1], str(one.incarnation))
    assert await engine.directory.find_workers([1], str(uuid4())) == []
    foreign = await world.probe.add_project("foreign")
    assert await engine.directory.find_workers([foreign], str(listed[0].id)) == []


@ALSO_WALLED
async def test_pages_of_assignments_hold_each_that_is_asked_for_once(world: World) -> None:
    engine = world.engine
    other = await world.probe.add_project("other")
    queues: list[tuple[int, UUID]] = []
    for number in range(6):
        project = 1 if number % 2 else other
        made = await engine.change_queue(project, CreateQueue(name=f"q-{number}"))
        queues.append((project, made.id))
    workers = {
        project: [await world.online_worker(project=project) for _ in range(4)]
        for project in (1, other)
    }
    for place, (project, queue) in enumerate(queues):
        for worker in workers[project][place % 2 :]:
            await engine.change_assignment(project, Assign(queue, worker.worker, 1 + place))
    await engine.change_queue(queues[-1][0], DeleteQueue(queue=queues[-1][1]))
    known = await engine.assignments([1, other])
    everyone = [worker.worker for some in workers.values() for worker in some]

    def key(one: Assignment) -> tuple[UUID, UUID]:
        return one.queue, one.worker

    for limit in (1, 2, 100):
        for some_queues in ((), (queues[0][1],), tuple(queue for _, queue in queues[1:5])):
            for some_workers in ((), (everyone[0],), tuple(everyone[2:6])):
                page = AssignmentPage(queues=some_queues, workers=some_workers, limit=limit)
                found = await every_assignment(engine, [1, other], page)
                assert sorted(found, key=key) == sorted(
                    (
                        one
                        for one in known
                        if (not some_queues or one.queue in some_queues)
                        and (not some_workers or one.worker in some_workers)
                    ),
                    key=key,
                )
        assert {one.project for one in await every_assignment(engine, [1], AssignmentPage())} == {1}


@ALSO_WALLED
async def test_stats_of_some_queues_are_those_of_all(world: World) -> None:
    other = await world.probe.add_project("other")
    foreign = await world.engine.change_queue(other, CreateQueue(name="theirs"))
    for number in range(4):
        await world.queue(f"q-{number}")
        await world.enqueue_many(number + 1, f"q-{number}")
    worker = await world.online_worker()
    claimed = await world.claim(worker, 3)
    await world.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
    every = {one.queue: one for one in await world.engine.stats([1])}
    assert sum(one.succeeded for one in every.values()) == 3
    some = [every[name].queue_id for name in ("q-0", "q-2")]
    assert await world.engine.stats([1], of=some) == [every["q-0"], every["q-2"]]
    await world.engine.fold(100)
    assert await world.engine.stats([1], of=some) == [every["q-0"], every["q-2"]]
    assert await world.engine.stats([1], of=[foreign.id, uuid4()]) == []
    assert await world.engine.stats([1], of=[]) == []


async def every_assignment(
    engine: Engine, projects: Sequence[int], page: AssignmentPage
) -> list[Assignment]:
    found: list[Assignment] = []
    for _ in range(100):
        part = await engine.directory.list_assignments(projects, page)
        found += part.items
        if part.cursor is None:
            return found
        page = msgspec.structs.replace(page, cursor=part.cursor)
    raise AssertionError("the list does not end")


@pytest.mark.parametrize("cursor", ["x", "", "WzEsIlx1MDAwMCJd", "Wy0xLCJhIl0", "💥"])
async def test_a_cursor_that_somebody_made_up_is_refused(world: World, cursor: str) -> None:
    read = world.engine.directory
    with pytest.raises(Invalid, match="cursor"):
        await read.list_queues([1], NamePage(cursor=cursor))
    with pytest.raises(Invalid, match="cursor"):
        await read.list_assignments([1], AssignmentPage(cursor=cursor))


# --- What a page costs ---

MANY = 50_000
CROWD = {
    "postgres": [
        (
            "insert into queues (id, project, name, created_at, updated_at, stamp) "
            "select gen_random_uuid(), {project}, 'crowd-' || lpad(i::text, 6, '0'), now(), "
            f"now(), 1 from generate_series(1, {MANY}) i"
        ),
        (
            "insert into workers (incarnation, id, project, name, given_name, worker_type, "
            "capabilities, max_concurrent_jobs, version, host, lease_until, lease_seconds, "
            "registered_at, updated_at) "
            "select u, u, {project}, n, n, 'general', '{{}}', 1, '1', 'h', now(), 1, now(), now() "
            "from (select gen_random_uuid() as u, 'crowd-' || lpad(i::text, 6, '0') as n "
            f"from generate_series(1, {MANY}) i) x"
        ),
        (
            "insert into assignments (queue, worker, project, weight, is_active, created_at, "
            "updated_at) select q.number, w.id, {project}, 1, true, now(), now() from queues q "
            "join workers w on w.name = q.name and w.project = q.project "
            "where q.project = {project}"
        ),
        "analyze queues",
        "analyze workers",
        "analyze assignments",
    ],
    "sqlite": [
        (
            "insert into queues (id, project, name, created_at, updated_at, stamp) "
            f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {MANY}) "
            "select randomblob(16), {project}, 'crowd-' || printf('%06d', i), 0, 0, 1 from n"
        ),
        (
            "insert into workers (incarnation, id, project, name, given_name, worker_type, "
            "capabilities, max_concurrent_jobs, version, host, lease_until, lease_seconds, "
            "registered_at, updated_at) "
            f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {MANY}) "
            "select randomblob(16), randomblob(16), {project}, 'crowd-' || printf('%06d', i), 'x', "
            "'general', '{{}}', 1, '1', 'h', 0, 1, 0, 0 from n"
        ),
        (
            "insert into assignments (queue, worker, project, weight, is_active, created_at, "
            "updated_at) select q.number, w.id, {project}, 1, 1, 0, 0 from queues q "
            "join workers w on w.name = q.name and w.project = q.project "
            "where q.project = {project}"
        ),
    ],
}
PAGES = 12


async def crowd(store: Store, project: int) -> None:
    for text in CROWD["postgres" if isinstance(store, PostgresStore) else "sqlite"]:
        await store.probe.rows(text.format(project=project))


async def look(engine: Engine) -> None:
    """What a page of a dashboard asks for, from the beginning, by a beginning and from far in."""
    read = engine.directory
    first = await read.list_queues([1], NamePage(limit=20))
    assert len(first.items) == 20
    await read.list_queues([1], NamePage(limit=20, cursor=first.cursor))
    queues = await read.list_queues([1], NamePage(name="crowd-000*", limit=20))
    await read.find_queues([1], "crowd-000007")
    await read.find_queues([1], str(queues.items[3].id))
    first_workers = await read.list_workers([1], NamePage(limit=20))
    workers = await read.list_workers([1], NamePage(limit=20, cursor=first_workers.cursor))
    await read.list_workers([1], NamePage(name="crowd-000*", limit=20))
    await read.find_workers([1], str(workers.items[3].id))
    await read.list_assignments([1], AssignmentPage(limit=20))
    ids = tuple(queue.id for queue in queues.items)
    names = tuple(worker.id for worker in first_workers.items)
    await read.list_assignments([1], AssignmentPage(queues=ids, limit=20))
    await read.list_assignments([1], AssignmentPage(workers=names, limit=20))
    await read.list_assignments([1], AssignmentPage(queues=ids, workers=names, limit=20))
    assert len(await engine.stats([1], of=ids)) == 20


@pytest.mark.timeout(120)
@pytest.mark.new_store
async def test_pages_among_very_many_queues_cost_what_they_show(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In rows; on SQLite by the steps that it takes."""
    engine = await store.open(clock)
    await crowd(store, 1)
    await engine.close()
    assert await cost_of(store, clock, monkeypatch, look) < 14 * 20 * 8

    async def search(engine: Engine) -> None:
        found = await engine.directory.list_queues([1], NamePage(name="*no such*", limit=20))
        assert not found.items
        assert found.cursor is not None

    # Whatever fits: a page ends after so many that do not.
    assert await cost_of(store, clock, monkeypatch, search) < 3 * 10_000

    # The broken twin: what was done before.
    async def whole(engine: Engine) -> None:
        assert len(await engine.queues([1])) >= MANY

    assert await cost_of(store, clock, monkeypatch, whole) >= MANY


async def cost_of(
    store: Store,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Engine], Awaitable[None]],
) -> int:
    if isinstance(store, PostgresStore):
        before = await touched(store)
        engine = await store.open(clock)
        await act(engine)
        await engine.close()
        used = await touched(store)
        used.subtract(before)
        for table in ("queues", "workers", "assignments"):
            assert used[table, "scans"] == 0
        return sum(used[table, "read"] for table in ("queues", "workers", "assignments"))
    with monkeypatch.context() as counting:
        steps = count_steps(counting)
        engine = await store.open(clock)
        before_act = steps()
        await act(engine)
        taken = steps() - before_act
        await engine.close()
    return taken * 100 // 30  # about thirty for a row
