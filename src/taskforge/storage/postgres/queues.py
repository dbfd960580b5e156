"""Creates, changes and deletes queues. Every change raises the catalog's version: no process goes
on with what it remembers."""

import asyncio
from collections.abc import Sequence
from typing import assert_never

import asyncpg

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.changes import CancelJob
from taskforge.domain.errors import NotFound, StoreUnavailable
from taskforge.domain.limiter import Adaptive
from taskforge.domain.queue import (
    CreateQueue,
    DeleteQueue,
    Queue,
    QueueChange,
    QueueSettings,
    UpdateQueue,
    queue_topic,
)
from taskforge.domain.queue_changes import (
    changed_targets,
    check_runs_nothing,
    name_is_taken,
    plan_queue_change,
    plan_queue_deletion,
)
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.bookkeeping import announce, enter
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.job_changes import PostgresJobChanges
from taskforge.storage.postgres.queue_checks import Changing
from taskforge.storage.postgres.refusals import Disturbed
from taskforge.storage.postgres.signals import Signals

LOCK_TRIES, LOCK_SECONDS = 20, 0.05  # as in wait_shortly.sql
CANCELLED_AT_ONCE = 1_000


class ClaimsInTheWay(Disturbed):
    """A lock that claims hold was not to be had in time."""


class PostgresQueues:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        signals: Signals,
        job_changes: PostgresJobChanges,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._job_changes = job_changes

    async def change_queue(
        self, project: int, change: QueueChange, note: Note | None = None
    ) -> Queue:
        queue = await self._change_in_turns(project, change, note)
        if isinstance(change, DeleteQueue):
            await self.cancel_jobs_of_deleted(CANCELLED_AT_ONCE)
        return queue

    async def _change_in_turns(self, project: int, change: QueueChange, note: Note | None) -> Queue:
        """Whoever finds claims in the way lets go of everything before it tries again: other queues
        change meanwhile."""
        tries = 1
        while True:
            try:
                return await self._change_queue(project, change, note)
            except ClaimsInTheWay as error:
                if tries >= LOCK_TRIES:
                    raise StoreUnavailable(str(error)) from error
            tries += 1
            await asyncio.sleep(LOCK_SECONDS)

    async def _change_queue(self, project: int, change: QueueChange, note: Note | None) -> Queue:
        async with self._connections.transaction() as connection:
            # The row with the project's version is the lock under which its queues change: what is
            # checked here cannot change before the commit.
            version = await self._catalog_cache.raise_version(connection, project)
            changing = Changing(
                self._connections, self._catalog_cache, connection, project, version
            )
            before: Queue | None = None
            match change:
                case CreateQueue():
                    number = await self._create(changing, change)
                case UpdateQueue():
                    before = await changing.queue_with_id(change.queue)
                    number = await self._update(changing, before, change)
                case DeleteQueue():
                    before = await changing.queue_with_id(change.queue)
                    number = await self._delete(changing, before, change)
                case _:
                    assert_never(change)
            [row] = await connection.fetch(self._connections.sql("cards"), [number])
            after = codec.card(row).queue
            await changing.stamp(changed_targets(before, after))
            await announce(
                self._connections, connection, project, queue_topic(before, after), queue=number
            )
            if note is not None:
                await enter(
                    self._connections, connection, [trail.queue_changed(note, before, after)]
                )
        self._signals.send()
        return after

    async def _create(self, changing: Changing, change: CreateQueue) -> int:
        values = plan_queue_change(change, None)
        await changing.check(None, values)
        try:
            number: int = await changing.connection.fetchval(
                self._connections.sql("add_queue"),
                self._connections.mint(),
                changing.project,
                values.name,
                values.description,
                values.priority,
                codec.settings_text(values.settings),
                values.is_active,
                self._connections.bound_now(),
                changing.version,
            )
        except asyncpg.UniqueViolationError:
            raise name_is_taken(values.name) from None
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("project", str(changing.project)) from None
        await self._open_gate(changing, number, values.settings)
        return number

    async def _open_gate(self, changing: Changing, number: int, settings: QueueSettings) -> None:
        if settings.is_gated:
            await changing.connection.execute(
                self._connections.sql("open_gate"), number, isinstance(settings.bucket, Adaptive)
            )

    async def _update(self, changing: Changing, old: Queue, change: UpdateQueue) -> int:
        values = plan_queue_change(change, old)
        await changing.check(old.id, values)
        try:
            await changing.connection.execute(
                self._connections.sql("set_queue"),
                old.number,
                values.name,
                values.description,
                values.priority,
                codec.settings_text(values.settings),
                values.is_active,
                self._connections.bound_now(),
                changing.version,
            )
        except asyncpg.UniqueViolationError:
            raise name_is_taken(values.name) from None
        await self._open_gate(changing, old.number, values.settings)
        return old.number

    async def _delete(self, changing: Changing, old: Queue, change: DeleteQueue) -> int:
        plan_queue_deletion(change, old, await changing.dead_letters_to(old))
        connection = changing.connection
        await self._hold_up_claims(connection, old.name)
        processing = await connection.fetchval(self._connections.sql("running_in"), old.number)
        check_runs_nothing(old, processing)
        await connection.execute(
            self._connections.sql("delete_queue"),
            old.number,
            self._connections.bound_now(),
            changing.version,
        )
        return old.number

    async def _hold_up_claims(self, connection: Connection, name: str) -> None:
        """Until the commit nothing starts to run, and what was being claimed is there to be
        counted. A claim reads the catalog's version without a lock, so one that began before would
        be seen by nobody; the table's lock is one that it takes. Whoever waits for that lock holds
        up all who want it later: it is waited for in short turns, in case somebody has it for
        long."""
        await connection.execute(self._connections.sql("wait_shortly"))
        try:
            await connection.execute(self._connections.sql("lock_claims"))
        except asyncpg.LockNotAvailableError as error:
            text = (
                f"queue {name!r} cannot be deleted just now: a claim or an end of jobs takes "
                f"long; try again"
            )
            raise ClaimsInTheWay(text) from error
        await connection.execute(self._connections.sql("wait_as_usual"))

    async def queues(self, projects: Sequence[int]) -> list[Queue]:
        rows = await self._connections.read(projects, "queues", list(projects))
        return [codec.queue(row) for row in rows]

    async def cancel_jobs_of_deleted(self, limit: int) -> int:
        """Pending and scheduled jobs of deleted queues, among them those whose insert raced with
        the deletion."""
        rows = await self._connections.fetch("stranded", limit)
        return await self._job_changes.change_rows(rows, CancelJob("queue deleted"))
