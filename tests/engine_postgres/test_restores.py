"""A dump that was put elsewhere is noticed: by the cluster, the database and the schema of it."""

import asyncio
import logging

import asyncpg
import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable, StoreUnsuitable
from taskforge.domain.job import new_job
from taskforge.domain.query import FIRST
from taskforge.domain.worker import NewWorker
from taskforge.storage.postgres.engine import PostgresEngine

ELSEWHERE = "update {schema}.horizons set store = '1/2/3'"


async def test_whoever_opens_a_restored_store_makes_it_ready_once(
    engine: PostgresEngine,
    connection: asyncpg.Connection,
    postgres_url: str,
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await connection.execute(ELSEWHERE.format(schema=schema))
    engines = [PostgresEngine(postgres_url, schema=schema) for _ in range(4)]
    await asyncio.gather(*(one.open() for one in engines))
    for one in engines:
        await one.close()
    assert await connection.fetchval(f"select restores from {schema}.horizons") == 1
    told = [one for one in caplog.records if "restored" in one.message]
    assert [one.levelno for one in told] == [logging.WARNING]


async def test_who_may_not_make_it_ready_does_not_use_it(
    engine: PostgresEngine, connection: asyncpg.Connection, postgres_url: str, schema: str
) -> None:
    """A lease keeper, say: the worker beside it does."""
    await connection.execute(ELSEWHERE.format(schema=schema))
    with pytest.raises(StoreUnsuitable, match="taskforge migrate"):
        await PostgresEngine(postgres_url, schema=schema).open(migrate=False)


async def test_a_process_that_lives_on_does_not_use_what_took_its_stores_place(
    engine: PostgresEngine, connection: asyncpg.Connection, postgres_url: str, schema: str
) -> None:
    """What it remembers of queues and lanes may mean something else there."""
    await engine.insert(1, [new_job("emails", "work")])
    await connection.execute(f"drop schema {schema} cascade")
    other = PostgresEngine(postgres_url, schema=schema)
    await other.open()
    await other.close()
    await connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'taskforge' and pid <> pg_backend_pid()"
    )
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await engine.insert(1, [new_job("emails", "work")])
    with pytest.raises(StoreUnavailable, match="start this process again"):
        await engine.now()


async def test_events_go_on_where_transactions_begin_anew(
    engine: PostgresEngine, connection: asyncpg.Connection, postgres_url: str, schema: str
) -> None:
    worker = await engine.register(1, NewWorker(name="before"), 60)
    await engine.insert(1, [new_job("emails", "work")])
    await engine.claim(Claim(worker.incarnation, 1))
    before = await engine.events(FIRST, 100)
    assert before.items
    ahead = 10_000_000  # by so much the numbers of the cluster of before were
    await connection.execute(f"update {schema}.outbox set xact = xact + {ahead}")
    await connection.execute(ELSEWHERE.format(schema=schema))
    cursor = before.cursor.split(".")
    after = f"{int(cursor[0]) + ahead}.{cursor[1]}"
    other = PostgresEngine(postgres_url, schema=schema)
    await other.open()
    try:
        again = await other.events(FIRST, 100)
        assert [one.topic for one in again.items] == [one.topic for one in before.items]
        await other.register(1, NewWorker(name="after"), 60)
        [joined] = (await other.events(after, 100)).items
        assert joined.topic == "worker.registered"
        assert (await other.events(joined.cursor, 100)).items == []
        newest = (await other.events(None, 1)).cursor
        await other.register(1, NewWorker(name="last"), 60)
        assert len((await other.events(newest, 100)).items) == 1
    finally:
        await other.close()
