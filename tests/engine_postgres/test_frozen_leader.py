"""A leader that stands still in the middle of a write holds the row that its successor needs, but
not for longer than half a lease."""

import time

import asyncpg
import pytest

from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.storage.records.cluster import ClusterRecords
from tests.support.nodes import a_node

LEASE = 2.0


@pytest.mark.parametrize("statement", ["hold_term", "renew_term"])
async def test_a_leader_that_stands_still_in_a_write_is_not_waited_for(
    engine: PostgresEngine, statement: str
) -> None:
    cluster = ClusterRecords(engine)
    leader, other = a_node("leader"), a_node("other")
    term = await cluster.take(leader, (await cluster.look(leader)).reign, LEASE)
    assert term is not None
    values = (term,) if statement == "hold_term" else (term, leader.id)
    frozen = await engine.connections.connect("leader")
    await frozen.execute("begin")
    assert await frozen.fetch(engine.connections.sql(statement), *values)
    began = time.monotonic()
    seen = await cluster.look(other)
    assert await cluster.take(other, seen.reign, LEASE) == term + 1
    assert time.monotonic() - began < LEASE
    # Its transaction was ended under it; which error depends on how far the driver has read.
    with pytest.raises(
        (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    ):
        await frozen.execute("commit")
    frozen.terminate()


async def test_a_leader_that_goes_on_is_not_cut_off(engine: PostgresEngine) -> None:
    """The limit is that of one transaction, not of the session."""
    cluster = ClusterRecords(engine)
    node = a_node()
    term = await cluster.take(node, (await cluster.look(node)).reign, LEASE)
    assert term is not None
    async with engine.connections.connection() as connection:
        async with connection.transaction():
            await connection.fetch(engine.connections.sql("hold_term"), term)
        shown = await connection.fetchval("show idle_in_transaction_session_timeout")
    assert shown == "10s"
