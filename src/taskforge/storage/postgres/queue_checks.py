"""What a change to a queue is checked against: the other queues of its project, as the transaction
sees them that holds the project's version."""

from collections.abc import Collection
from uuid import UUID

import asyncpg

from taskforge.domain.errors import NotFound
from taskforge.domain.queue import Queue, check_dead_letter
from taskforge.domain.queue_changes import QueueValues, check_queue_name
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections


class Changing:
    """One change to the queues of a project."""

    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        connection: Connection,
        project: int,
        version: int,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self.connection = connection
        self.project = project
        self.version = version  # of the catalog once this is committed

    async def queue_with_id(self, identifier: UUID) -> Queue:
        rows = await self.connection.fetch(
            self._connections.sql("cards_named"), self.project, [], [identifier]
        )
        if not rows:
            raise NotFound("queue", str(identifier))
        return codec.card(rows[0]).queue

    async def check(self, queue: UUID | None, values: QueueValues) -> None:
        """Whether a queue may become so; None: one that is not there yet."""
        if values.is_renamed:
            bearer = await self._catalog_cache.read_named(
                self.connection, self.project, values.name
            )
            check_queue_name(values.name, None if bearer is None else bearer.queue)
        target = values.settings.dead_letter_queue_id
        if target is not None:
            rows = await self._dead_letter_targets(target)
            check_dead_letter(queue, target, {row["id"]: row["target"] for row in rows})

    async def dead_letters_to(self, queue: Queue) -> list[tuple[str, UUID | None]]:
        return [(row["name"], row["target"]) for row in await self._dead_letter_targets(queue.id)]

    async def _dead_letter_targets(self, target: UUID) -> list[asyncpg.Record]:
        """As `check_dead_letter` wants it: the queue in question, and those that have a target."""
        return await self.connection.fetch(
            self._connections.sql("dead_letter_targets"), self.project, target
        )

    async def stamp(self, queues: Collection[UUID]) -> None:
        if queues:
            await self.connection.execute(
                self._connections.sql("stamp_queues"), self.version, list(queues)
            )
