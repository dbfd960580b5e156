"""What queues and lanes that stand about cost, in counts that do not depend on the machine: rows
that PostgreSQL reads, steps that SQLite takes. `bench.growth` has the rates."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskforge.domain.job import new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.worker import Registered
from taskforge.ports.engine import Engine
from taskforge.storage.records.schedules import ScheduleRecords
from tests.support.reads import count_steps, touched
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.world import Clock, World

QUEUES = 3_000
ROUNDS = 10
CROWD = {
    "postgres": [
        (
            "insert into queues (id, project, name, created_at, updated_at, stamp) "
            "select gen_random_uuid(), {project}, 'crowd-' || i, now(), now(), 1 "
            f"from generate_series(1, {QUEUES}) i"
        ),
        (
            "insert into lanes (project, queue, job_type, priority) "
            "select project, number, 'work', 0 from queues where name like 'crowd-%'"
        ),
        "analyze",
    ],
    "sqlite": [
        (
            "insert into queues (id, project, name, created_at, updated_at, stamp) "
            f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {QUEUES}) "
            "select randomblob(16), {project}, 'crowd-' || i, 0, 0, 1 from n"
        ),
        (
            "insert into lanes (project, queue, job_type, priority) "
            "select project, number, 'work', 0 from queues where name like 'crowd-%'"
        ),
    ],
}


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    await store.close()


async def work(world: World, engine: Engine, worker: Registered) -> None:
    """What a worker and a reader do all day."""
    busy = World(world.store, engine, world.clock)
    for number in range(ROUNDS):
        # On a busy machine claims are slow and seek past the last turn: turns go on with the clock.
        busy.clock.advance(0.01)
        await busy.insert(*(new_job("default", f"type-{kind}") for kind in range(3)))
        claimed = await busy.claim(worker, 10)
        assert len(claimed) == 3
        await engine.get([1], [one.fence for one in claimed])
        await engine.list_jobs([1], JobFilter(queues=("default",)), Page(limit=5))
        await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
        assert await busy.claim(worker, 10) == []
        if number == ROUNDS // 2:
            queue = next(one for one in await engine.queues([1]) if one.name == "default")
            await busy.update(queue, description="changed")


async def crowd(store: Store, project: int) -> None:
    for text in CROWD["postgres" if isinstance(store, PostgresStore) else "sqlite"]:
        await store.probe.rows(text.format(project=project))


async def rows_read(store: PostgresStore, world: World, worker: Registered) -> int:
    before = await touched(store)
    engine = await store.open(world.clock)
    await work(world, engine, worker)
    await engine.close()
    used = await touched(store)
    used.subtract(before)
    assert used["ready", "read"] >= 3 * ROUNDS, "the counters did not arrive"
    for table in ("queues", "lanes", "ready"):
        # Not for each round; one may be of the session that made the store, and told late.
        assert used[table, "scans"] < ROUNDS // 2
    return used["queues", "read"] + used["lanes", "read"] + used["ready", "read"]


async def test_queues_of_others_cost_postgres_no_row(postgres: PostgresStore) -> None:
    clock = Clock()
    world = World(postgres, await postgres.open(clock), clock)
    await world.queue("default")
    worker = await world.worker(max_concurrent_jobs=100)
    alone = await rows_read(postgres, world, worker)
    await crowd(postgres, await postgres.probe.add_project("neighbour"))
    assert await rows_read(postgres, world, worker) <= 2 * alone + 100


async def test_empty_lanes_of_the_own_project_cost_postgres_no_row(
    postgres: PostgresStore,
) -> None:
    clock = Clock()
    world = World(postgres, await postgres.open(clock), clock)
    await world.queue("default")
    worker = await world.worker(max_concurrent_jobs=100)
    alone = await rows_read(postgres, world, worker)
    await crowd(postgres, 1)
    # They are listed once, when the queue to change is looked for; in each round it would be more.
    assert await rows_read(postgres, world, worker) <= 2 * alone + (ROUNDS // 3) * QUEUES


async def steps_taken(store: SqliteStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> int:
    """By the virtual machines of all connections, in hundreds."""
    with monkeypatch.context() as counting:
        steps = count_steps(counting)
        engine = await store.open(clock)
        world = World(store, engine, clock)
        worker = await world.worker(max_concurrent_jobs=100)
        before = steps()
        await work(world, engine, worker)
        taken = steps() - before
        await engine.close()
    return taken


SCHEDULES = """
insert into schedules (id, project, name, description, timing, job, is_paused, next_at, due_at,
    version, created_at, updated_at)
select {id}, {project}, 'crowd-' || i, '', '{{}}', '{{"queue":"default","job_type":"work"}}', {no},
    {at}, {at}, 1, {at}, {at} from {rows}
"""
CROWDED = 2_000


async def crowd_schedules(store: Store, project: int) -> None:
    if isinstance(store, PostgresStore):
        rows = f"generate_series(1, {CROWDED}) i"
        values = {"id": "gen_random_uuid()", "no": "false", "at": "now()", "rows": rows}
    else:
        rows = (
            f"(with recursive n (i) as (select 1 union all select i + 1 from n "
            f"where i < {CROWDED}) select i from n)"
        )
        values = {"id": "randomblob(16)", "no": "0", "at": "0", "rows": rows}
    await store.probe.rows(SCHEDULES.format(project=project, **values))


async def test_a_page_of_schedules_reads_its_own_rows_alone(
    tmp_path: Path, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside many of another project, and in the middle of many of its own."""
    stores: list[Store] = [SqliteStore(tmp_path, durable=False), postgres]
    for store in stores:
        engine = await store.open(Clock())
        await crowd_schedules(store, await store.probe.add_project("neighbour"))
        await crowd_schedules(store, 1)
        if isinstance(store, PostgresStore):
            await store.probe.rows(
                "analyze"
            )  # of two projects each has half, as the planner sees it
        steps = count_steps(monkeypatch)
        before = await touched(store) if isinstance(store, PostgresStore) else Counter()
        reading = await store.open(Clock())
        began, schedules = steps(), ScheduleRecords(reading)
        numbers = [one.number for one in await schedules.schedules([1], limit=CROWDED)]
        whole = steps() - began
        for number in (0, numbers[CROWDED // 2], numbers[-6]):
            page = await schedules.schedules([1], after=number, limit=5)
            assert [one.number for one in page] == [one for one in numbers if one > number][:5]
        pages = steps() - began - whole
        await reading.close()
        if isinstance(store, PostgresStore):
            used = await touched(store)
            used.subtract(before)
            assert used["schedules", "scans"] == 0
            assert used["schedules", "read"] <= CROWDED + 3 * 6
        else:
            assert 0 < pages < whole / 20, "in hundreds of steps"
        await engine.close()
    await stores[0].close()


@pytest.mark.parametrize("whose", ["own", "others"])
async def test_empty_lanes_cost_sqlite_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    clock, store = Clock(), SqliteStore(tmp_path, durable=False)
    await World(store, await store.open(clock), clock).queue("default")
    alone = await steps_taken(store, clock, monkeypatch)
    assert alone > 10, "the steps were not counted"
    await crowd(store, 1 if whose == "own" else await store.probe.add_project("neighbour"))
    listed = QUEUES if whose == "own" else 0  # once, when the queue to change is looked for
    assert await steps_taken(store, clock, monkeypatch) <= 2 * alone + listed + 50
    await store.close()


# --- A tenant far beyond its quota (S8), in counts ---

TYPES, DEEP = 10_000, 5
GREEDY = {
    "postgres": [
        (
            "insert into lanes (project, queue, job_type, priority) select q.project, q.number, "
            f"'type-' || i, 0 from queues q, generate_series(1, {TYPES}) i "
            "where q.name = 'crowd-1' and q.project = {project}"
        ),
        (
            "insert into ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, "
            "turn) select gen_random_uuid(), gen_random_uuid(), project, number, 0, 1, 0, false, i "
            f"from lanes, generate_series(1, {DEEP}) i where project = {{project}}"
        ),
        "analyze",
    ],
    "sqlite": [
        (
            "insert into lanes (project, queue, job_type, priority) "
            f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {TYPES}) "
            "select q.project, q.number, 'type-' || i, 0 from queues q, n "
            "where q.name = 'crowd-1' and q.project = {project}"
        ),
        (
            "insert into ready (fence, project, lane, attempt, max_attempts, crashes, keyed, turn) "
            f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {DEEP}) "
            "select randomblob(16), project, number, 0, 1, 0, 0, i from lanes, n "
            "where project = {project}"
        ),
    ],
}


async def be_greedy(store: Store) -> None:
    """Thousands of queues, ten thousand types, and a backlog in each of them."""
    project = await store.probe.add_project("neighbour")
    await crowd(store, project)
    for text in GREEDY["postgres" if isinstance(store, PostgresStore) else "sqlite"]:
        await store.probe.rows(text.format(project=project))


@pytest.mark.timeout(120)
async def test_a_tenant_far_beyond_its_quota_costs_its_neighbour_no_row_of_postgres(
    postgres: PostgresStore,
) -> None:
    clock = Clock()
    world = World(postgres, await postgres.open(clock), clock)
    await world.queue("default")
    worker = await world.worker(max_concurrent_jobs=100)
    alone = await rows_read(postgres, world, worker)
    await be_greedy(postgres)
    assert await rows_read(postgres, world, worker) <= 2 * alone + 100


@pytest.mark.timeout(120)
async def test_a_tenant_far_beyond_its_quota_costs_its_neighbour_no_step_of_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, store = Clock(), SqliteStore(tmp_path, durable=False)
    await World(store, await store.open(clock), clock).queue("default")
    alone = await steps_taken(store, clock, monkeypatch)
    await be_greedy(store)
    assert await steps_taken(store, clock, monkeypatch) <= 2 * alone + 50
    await store.close()
