"""Bridges a silence in which nobody could look at the store, so that it is not taken for anybody's
death."""

import logging
from uuid import UUID

from taskforge.storage.postgres.connections import PostgresConnections

logger = logging.getLogger("taskforge.storage")


async def bridge(connections: PostgresConnections, incarnation: UUID | None = None) -> None:
    """If nobody was heard of for longer than was promised, give leases and timeouts back what they
    lost by it. Of several that find the same silence one does so; for the others it is over then.
    `incarnation`: who asks, which may run nothing."""

    async def once() -> int:
        async with connections.transaction() as connection:
            await connection.execute(connections.sql("lock_look"))
            kept: int = await connection.fetchval(
                connections.sql("bridge"), incarnation, connections.bound_now()
            )
            return kept

    if kept := await connections.until_undisturbed(once):
        logger.warning(
            "nobody could look at the store for a while: %d leases of before go on", kept
        )
