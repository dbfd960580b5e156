"""Assigns workers to queues. Every change raises the catalog's version, because it changes what
workers may take."""

from collections.abc import Sequence
from uuid import UUID

from taskforge.domain import trail
from taskforge.domain.assignment import (
    Assign,
    Assignment,
    AssignmentChange,
    check_assignment,
    plan_assignment,
)
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.queue import Queue
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.bookkeeping import enter
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.queue_checks import Changing
from taskforge.storage.postgres.signals import Signals


class PostgresAssignments:
    def __init__(
        self, connections: PostgresConnections, catalog_cache: CatalogCache, signals: Signals
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals

    async def change_assignment(
        self, project: int, change: AssignmentChange, note: Note | None = None
    ) -> Assignment:
        check_assignment(change)
        async with self._connections.transaction() as connection:
            # As for queues, the row with the project's version is the lock: what is checked here
            # cannot change before the commit.
            version = await self._catalog_cache.raise_version(connection, project)
            changing = Changing(
                self._connections, self._catalog_cache, connection, project, version
            )
            queue = await changing.queue_with_id(change.queue)
            name: str | None = await connection.fetchval(
                self._connections.sql("worker_name"), change.worker, project
            )
            # What was assigned once can be changed and removed when the worker is long forgotten.
            if name is None and isinstance(change, Assign):
                raise NotFound("worker", str(change.worker))
            before = await self._assignment(connection, queue, change.worker)
            planned = plan_assignment(change, before)
            row = (queue.number, change.worker)
            if planned is None:
                await connection.execute(self._connections.sql("unassign"), *row)
            else:
                await connection.execute(
                    self._connections.sql("assign"),
                    *row,
                    project,
                    *planned,
                    self._connections.bound_now(),
                )
            await changing.stamp({queue.id})
            after = await self._assignment(connection, queue, change.worker)
            if note is not None:
                await enter(
                    self._connections,
                    connection,
                    [trail.assignment_changed(note, queue, name or "", before, after)],
                )
        self._signals.send()
        changed = after or before
        assert changed is not None
        return changed

    async def _assignment(
        self, connection: Connection, queue: Queue, worker: UUID
    ) -> Assignment | None:
        row = await connection.fetchrow(self._connections.sql("assignment"), queue.number, worker)
        return None if row is None else codec.assignment(row)

    async def assignments(self, projects: Sequence[int]) -> list[Assignment]:
        rows = await self._connections.read(projects, "assignments", list(projects))
        return [codec.assignment(row) for row in rows]
