"""Query-plan guards: with 200,000 jobs standing about and tables full of dead rows, a hot call
still touches only its own rows."""

import re
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskforge.domain.execution import Beat
from taskforge.domain.job import NewJob, new_job
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Finish, ToRetry, ToSucceeded
from taskforge.domain.queue import QueueSettings, UpdateQueue
from taskforge.domain.worker import Registered
from taskforge.ports.engine import Engine
from taskforge.storage.sqlite.numbered import CONNECTION
from tests.support.broken import break_statements
from tests.support.reads import WIDE, count_steps, touched
from tests.support.stores import PostgresStore, SqliteStore, Store
from tests.support.world import ERROR, Clock, World

BACKLOG = 200_000
FORMS = ("one lane", "many lanes", "jobs that rise")


async def stand_about(store: Store, clock: Clock) -> World:
    """A backlog nobody handles, at the head of the same queue, and the dead rows of many claims and
    finishes."""
    world = World(store, await store.open(clock), clock)
    await world.queue("default")
    unhandled = NewJob(queue="default", job_type="nobody's", payload=b"null", priority=9)
    later = NewJob(queue="default", job_type="later", payload=b"null", at=1e6)
    for start in range(0, BACKLOG, 5_000):
        await world.insert(*[later if start % 20_000 == 0 else unhandled] * 5_000)
    worker = await world.worker(types=("work",))
    for _ in range(10):
        await world.enqueue_many(500)
        claimed = await world.claim(worker, 500)
        again = [Finish(one.fence, ToRetry(0.0, ERROR)) for one in claimed[:100]]
        await world.engine.finish(
            again + [Finish(one.fence, ToSucceeded()) for one in claimed[100:]]
        )
        clock.advance(1)
    return world


async def be_busy(
    world: World, engine: Engine, worker: Registered, rounds: int, batch: int
) -> float:
    """Every hot call some times over; returns the median seconds of a claim."""
    busy = World(world.store, engine, world.clock)
    took = []
    for _ in range(rounds):
        await busy.insert(*(new_job("default", "work", tags=["t"]) for _ in range(batch)))
        started = time.perf_counter()
        claimed = await busy.claim(worker, batch)
        took.append(time.perf_counter() - started)
        assert len(claimed) == batch
        fences = [one.fence for one in claimed]
        await engine.beat([Beat(fence=fence, progress=0.5) for fence in fences])
        await engine.log([NewLine(fence, Level.INFO, "line") for fence in fences])
        await engine.get([1], fences)
        half = batch // 2
        await engine.finish([Finish(fence, ToRetry(0.5, ERROR)) for fence in fences[:half]])
        await engine.finish([Finish(fence, ToSucceeded()) for fence in fences[half:]])
        world.clock.advance(1)
        assert await engine.stage(batch) == half
        staged = await busy.claim(worker, half)
        await engine.finish([Finish(one.fence, ToSucceeded()) for one in staged])
        await engine.lapsed(10)
    return statistics.median(took)


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    await store.close()


async def check_postgres(store: PostgresStore, world: World, worker: Registered, form: str) -> None:
    rounds, batch = 20, 20
    before = await touched(store)
    engine = await store.open(world.clock)
    if form == "many lanes":
        statements = engine._claims._statements
        statements._one = statements._many
    [queue] = await engine.queues([1])
    settings = QueueSettings(age_boost=7.0 if form == "jobs that rise" else None)
    await engine.change_queue(1, UpdateQueue(queue=queue.id, settings=settings))
    median = await be_busy(world, engine, worker, rounds, batch)
    await engine.close()
    used = await touched(store)
    used.subtract(before)
    assert used["ready", "read"] >= rounds * batch, "the counters did not arrive"
    for table in WIDE:
        scans, read = used[table, "scans"], used[table, "read"]
        assert scans == 0, f"{table} was scanned {scans} times"
        # Dead rows of these very rounds are read too, as nothing is vacuumed meanwhile; a walk of
        # the backlog would be millions.
        assert read <= rounds * batch * 100, (
            f"{read} index entries of {table} were read for {rounds * batch} jobs"
        )
    assert median < 0.1


@pytest.mark.timeout(300)
async def test_postgres_touches_only_the_rows_it_needs(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await stand_about(postgres, Clock())
    worker = await world.worker(types=("work",))
    await world.engine.close()
    for form in FORMS:
        await check_postgres(postgres, world, worker, form)
    # The broken twins: claims that cannot use the lane's index must be found out.
    blind = [("ready.lane = l.number", "ready.lane + 0 = l.number")]
    break_statements(
        monkeypatch,
        "taskforge.storage.postgres.connections",
        {"claim_one": blind, "claim_many": blind, "claim_aging": blind},
    )
    for form in FORMS:
        with pytest.raises(AssertionError, match=r"ready was|of ready were read"):
            await check_postgres(postgres, world, worker, form)


HOT = [
    "add_facts",
    "add_ready",
    "add_waiting",
    "put_ready",
    "heads",
    "occupied",
    "lease",
    "catalog_version",
    "lane",
    "find_lane",
    "turns",
    "take",
    "take_into",
    "take_into_plain",
    "take_from",
    "leave_ready",
    "claims_held",
    "claims_lapsed",
    "claims_in_full",
    "end",
    "end_alike",
    "leave_running",
    "add_execution",
    "beat",
    "free_keys",
    "key_holders",
    "known_ids",
    "get",
]
COLD = [
    "stage",
    "lapsed",
    "locate",
    "end_ready",
    "end_waiting",
    "executions",
    "logs",
    "ends",
    "prune_logs",
    "ready_late",
    "waiting_late",
    "remove_jobs",
    "remove_executions",
    "load",
    "ahead_in_part",
]


def plan_of(path: Path, text: str) -> list[str]:
    numbered = max(map(int, re.findall(r"\?(\d+)", text)), default=0)
    values = [None] * (numbered or text.count("?"))
    connection = sqlite3.connect(path, factory=CONNECTION)
    try:
        return [detail for *_, detail in connection.execute(f"explain query plan {text}", values)]
    finally:
        connection.close()


def scans_of(path: Path, text: str) -> list[str]:
    """The steps of a statement's plan that walk a whole table, or a whole index of it."""
    made = r"VIRTUAL TABLE|\(|CONSTANT ROW"  # lists of arguments, and results of subqueries
    plan = plan_of(path, text)
    subqueries = {
        f"SCAN {step.split()[-1]}"
        for step in plan
        if step.startswith(("CO-ROUTINE", "MATERIALIZE"))
    }
    return [
        step
        for step in plan
        if step.startswith("SCAN") and step not in subqueries and not re.search(made, step)
    ]


def sorts_of(path: Path, text: str) -> list[str]:
    """Those that put in order, for each call, what an index holds in order."""
    return [step for step in plan_of(path, text) if step.startswith("USE TEMP B-TREE FOR ORDER BY")]


@pytest.mark.timeout(300)
async def test_sqlite_touches_only_the_rows_it_needs(tmp_path: Path) -> None:
    from taskforge.storage.sqlite.catalog_cache import sql

    store = SqliteStore(tmp_path, durable=False)
    world = await stand_about(store, Clock())
    worker = await world.worker(types=("work",))
    median = await be_busy(world, world.engine, worker, 20, 20)
    assert median < 0.05
    await store.close()
    walked = {name: scans for name in HOT + COLD if (scans := scans_of(store.path, sql(name)))}
    # What runs is few: looking for lapsed claims reads all of it. Every other walk is a mistake.
    assert set(walked) == {"lapsed"}, walked
    assert not {name: sorts for name in HOT if (sorts := sorts_of(store.path, sql(name)))}
    # The broken twins: the same statements without the column their index begins with, or the order
    # that it has.
    assert sorts_of(store.path, sql("heads").replace("order by r.turn", "order by r.turn + 0"))
    assert scans_of(
        store.path,
        sql("take").replace(
            "r.project = ?7 and r.lane = ?1", "r.project + 0 = ?7 and r.lane + 0 = ?1"
        ),
    )
    assert scans_of(store.path, sql("claims_held").replace("r.fence =", "r.fence || '' ="))


async def read_while_busy(store: Store, world: World, monkeypatch: pytest.MonkeyPatch) -> int:
    """What every hot call reads in a store, some times over: rows of ready, or steps."""
    with monkeypatch.context() as counting:
        steps = count_steps(counting)
        before = await touched(store) if isinstance(store, PostgresStore) else Counter()
        engine = await store.open(world.clock)
        worker = await World(store, engine, world.clock).worker(types=("work",))
        began = steps()
        await be_busy(world, engine, worker, 15, 20)
        taken = steps() - began
        await engine.close()
    if isinstance(store, PostgresStore):
        used = await touched(store)
        taken = used["ready", "read"] - before["ready", "read"]
    assert taken >= 15 * 20, "nothing was counted"
    return taken


async def test_a_backlog_costs_a_claim_nothing_whether_its_worker_handles_it_or_not(
    tmp_path: Path, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores: list[Store] = [SqliteStore(tmp_path, durable=False), postgres]
    for store in stores:
        clock = Clock()
        world = World(store, await store.open(clock), clock)
        await world.queue("default")
        alone = await read_while_busy(store, world, monkeypatch)
        for job_type in ("nobody's", "work"):
            for _ in range(4):
                await world.insert(
                    *[NewJob(queue="default", job_type=job_type, payload=b"null")] * 5_000
                )
            crowded = await read_while_busy(store, world, monkeypatch)
            assert crowded < 2 * alone + 5_000, (
                f"{alone:,} read alone, {crowded:,} behind others of {job_type}"
            )
    await stores[0].close()


async def test_who_registers_finds_others_of_its_machine_without_a_walk_of_all_workers(
    tmp_path: Path, postgres: PostgresStore
) -> None:
    """Its index holds those that have not left, of machines that are known: a statement that does
    not say so cannot use it, when it is planned for any machine at all."""
    from taskforge.storage.sqlite.catalog_cache import sql

    store = SqliteStore(tmp_path, durable=False)
    await store.open(Clock())
    assert any("workers_machine" in step for step in plan_of(store.path, sql("earlier")))
    assert scans_of(store.path, sql("earlier")) == []
    await store.close()
    engine: Any = await postgres.open(Clock())
    connection = await postgres.probe.connection()
    await connection.execute(
        "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; "
        f"prepare earlier as {engine.connections.sql('earlier')}"
    )
    plan = await connection.fetch("explain execute earlier(1, 'this', null, null, 10)")
    assert any("workers_machine" in step for (step,) in plan), plan
