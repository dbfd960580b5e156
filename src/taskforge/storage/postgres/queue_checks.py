"""What a change to a queue is checked against: the other queues of its project, as the transaction
sees them that holds the project's version."""

from uuid import UUID

from taskforge.domain.errors import Conflict, NotFound
from taskforge.domain.queue import Queue, QueueSettings, check_dead_letter
from taskforge.storage.catalog import check_name
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

    async def check_name(self, name: str) -> None:
        bearer = await self._catalog_cache.read_named(self.connection, self.project, name)
        check_name(name, None if bearer is None else bearer.queue)

    async def check_dead_letters(self, queue: UUID | None, settings: QueueSettings) -> None:
        target = settings.dead_letter_queue_id
        if target is not None:
            check_dead_letter(queue, target, await self._dead_letter_targets(target))

    async def check_buries_nobody(self, queue: Queue) -> None:
        rows = await self.connection.fetch(
            self._connections.sql("dead_letter_targets"), self.project, queue.id
        )
        for row in rows:
            if row["target"] == queue.id:
                raise Conflict(
                    f"queue {queue.name!r} is the dead letter queue of {row['name']!r}; change "
                    f"that first"
                )

    async def _dead_letter_targets(self, target: UUID) -> dict[UUID, UUID | None]:
        """As `check_dead_letter` wants it: the queue in question, and those that have a target."""
        rows = await self.connection.fetch(
            self._connections.sql("dead_letter_targets"), self.project, target
        )
        return {row["id"]: row["target"] for row in rows}

    async def stamp_targets(self, before: Queue | None, after: Queue) -> None:
        """Where dead letters went before and where they go from now on, who may take them
        changes."""
        targets = {
            None if queue is None else queue.settings.dead_letter_queue_id
            for queue in (before, after)
        }
        if before is not None and len(targets) == 1 and after.deleted_at is None:
            return
        await self.stamp(targets - {None})

    async def stamp(self, queues: set[UUID | None]) -> None:
        if queues:
            await self.connection.execute(
                self._connections.sql("stamp_queues"), self.version, list(queues)
            )
