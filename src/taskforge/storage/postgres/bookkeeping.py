"""Keeps the books of one transaction: the audit log, and the outbox of what came of queues and
workers. Tallies, events and rollups of jobs are kept by the statements that end them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.trail import Entry
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections


async def enter(
    connections: PostgresConnections, connection: Any, entries: Sequence[Entry]
) -> None:
    """Append to the audit log, in the transaction of what it tells of."""
    if entries:
        await connection.execute(
            connections.sql("enter"), codec.json_text(entries), connections.bound_now()
        )


async def announce(
    connections: PostgresConnections,
    connection: Connection,
    project: int,
    topic: str,
    *,
    queue: int | None = None,
    worker: UUID | None = None,
) -> None:
    """Tell readers of the outbox what came of a queue or a worker."""
    await connection.execute(
        connections.sql("announce"), project, topic, queue, worker, connections.bound_now()
    )


async def tell_sums(connections: PostgresConnections, sums: str) -> None:
    """Tell readers of the outbox what this process has counted."""
    async with connections.connection() as connection:
        await connection.execute(connections.sql("tell_sums"), sums, connections.bound_now())
