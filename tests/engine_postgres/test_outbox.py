"""Events are read in the order of transactions, because numbers are not given in the order of
commits."""

import asyncpg
import pytest

from taskforge.domain.errors import EventsGone
from taskforge.domain.query import Events
from taskforge.storage.postgres.engine import PostgresEngine

EVENT = (
    "insert into {schema}.outbox (project, topic, jobs, at) values (1, '{topic}', '{{}}', now())"
)
# What the statement was before: numbers are its order, and where readers go on.
BY_NUMBER = (
    "select number, topic from {schema}.outbox where number > $1 and xact < "
    "pg_snapshot_xmin(pg_current_snapshot())::text::bigint "
    "order by number limit 100"
)


async def test_an_event_that_commits_late_with_a_smaller_number_is_not_skipped(
    engine: PostgresEngine, connection: asyncpg.Connection, postgres_url: str, schema: str
) -> None:
    start = (await engine.events(None, 1)).cursor
    [last] = [
        row["last"]
        for row in await connection.fetch(f"select max(number) as last from {schema}.outbox")
    ]
    late = await asyncpg.connect(postgres_url)
    early, tardy = connection.transaction(), late.transaction()
    await early.start()
    await connection.execute("select pg_current_xact_id()")
    await tardy.start()
    await late.execute("select pg_current_xact_id()")
    # The older transaction takes the greater number and commits first.
    await late.execute(EVENT.format(schema=schema, topic="tardy"))
    await connection.execute(EVENT.format(schema=schema, topic="early"))
    await early.commit()
    by_number = await connection.fetch(BY_NUMBER.format(schema=schema), last)
    first = await engine.events(start, 100)
    await tardy.commit()
    by_number += await connection.fetch(BY_NUMBER.format(schema=schema), by_number[-1]["number"])
    second = await engine.events(first.cursor, 100)
    await late.close()
    assert [row["topic"] for row in by_number] == ["early"], (
        "the order of numbers was expected to lose the late one"
    )
    assert [event.topic for event in first.items + second.items] == ["early", "tardy"]


async def test_nothing_is_told_that_an_unfinished_transaction_may_precede(
    engine: PostgresEngine, connection: asyncpg.Connection, postgres_url: str, schema: str
) -> None:
    start = (await engine.events(None, 1)).cursor
    async with connection.transaction():
        await connection.execute(EVENT.format(schema=schema, topic="slow"))
        late = await asyncpg.connect(postgres_url)
        await late.execute(EVENT.format(schema=schema, topic="quick"))
        await late.close()
        assert await engine.events(start, 10) == Events([], start)
        begun_meanwhile = (await engine.events(None, 1)).cursor
    assert [event.topic for event in (await engine.events(start, 10)).items] == ["slow", "quick"]
    assert [event.topic for event in (await engine.events(begun_meanwhile, 10)).items] == [
        "slow",
        "quick",
    ]


async def prune_one_by_one(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> list[str]:
    """Make every event old and prune them, one in each slice; returns their cursors, in order."""
    rows = await connection.fetch(
        f"update {schema}.outbox set at = now() - interval '2 days' returning xact, number"
    )
    for left in range(len(rows), 0, -1):
        await engine.prune(30, 1)
        assert await connection.fetchval(f"select count(*) from {schema}.outbox") == left - 1
    return [f"{xact}.{number}" for xact, number in sorted(map(tuple, rows))]


async def test_who_stopped_between_two_events_of_one_transaction_hears_that_the_second_is_gone(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    async with connection.transaction():
        await connection.execute(EVENT.format(schema=schema, topic="first"))
        await connection.execute(EVENT.format(schema=schema, topic="second"))
    *_, first, second = await prune_one_by_one(engine, connection, schema)
    with pytest.raises(EventsGone):
        await engine.events(first, 10)
    assert (await engine.events(second, 10)).items == []


async def test_a_late_event_with_a_smaller_number_is_known_to_be_gone(
    engine: PostgresEngine, connection: asyncpg.Connection, postgres_url: str, schema: str
) -> None:
    late = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await connection.execute("select pg_current_xact_id()")
        async with late.transaction():
            await late.execute(EVENT.format(schema=schema, topic="late"))
            await connection.execute(EVENT.format(schema=schema, topic="early"))
    await late.close()
    *_, early, last = await prune_one_by_one(engine, connection, schema)
    assert int(early.partition(".")[2]) > int(last.partition(".")[2]), (
        "the numbers were expected out of order"
    )
    with pytest.raises(EventsGone):
        await engine.events(early, 10)
    assert (await engine.events(last, 10)).items == []
