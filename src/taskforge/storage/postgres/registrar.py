"""Keeps queues and workers."""

import asyncio
import logging
from collections.abc import Sequence
from typing import assert_never
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound, StoreUnavailable, TaskForgeError
from taskforge.domain.ids import uuid_from_int
from taskforge.domain.marks import check_same
from taskforge.domain.outcome import OFFERED_AT_ONCE
from taskforge.domain.query import QueueStats, WorkerTotals
from taskforge.domain.queue import (
    CreateQueue,
    DeleteQueue,
    Queue,
    QueueChange,
    QueueSettings,
    UpdateQueue,
    check_dead_letter,
    check_queue,
    queue_topic,
)
from taskforge.domain.worker import (
    MOST_EARLIER,
    Earlier,
    NewWorker,
    Registered,
    RegisterWorker,
    Renewed,
    Sample,
    Worker,
    WorkerChange,
    check_may_register,
    check_name_is_free,
    check_worker,
    name_beside,
    worker_topic,
)
from taskforge.storage.catalog import Catalog
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.connections import Connection
from taskforge.storage.postgres.refusals import Disturbed
from taskforge.storage.postgres.steward import Steward

logger = logging.getLogger("taskforge.storage")
LOCK_TRIES, LOCK_MILLISECONDS = 20, 50


class ClaimsInTheWay(Disturbed):
    """A lock that claims hold was not to be had in time."""


class Registrar(Steward):
    # --- Queues ---

    async def change_queue(self, project: int, change: QueueChange, note: Note | None = None) -> Queue:
        """Whoever finds claims in the way lets go of everything before it tries again: other queues change meanwhile."""
        tries = 1
        while True:
            try:
                return await self._change_queue(project, change, note)
            except ClaimsInTheWay as error:
                if tries >= LOCK_TRIES:
                    raise StoreUnavailable(str(error)) from error
            tries += 1
            await asyncio.sleep(LOCK_MILLISECONDS / 1_000)

    async def _change_queue(self, project: int, change: QueueChange, note: Note | None) -> Queue:
        try:
            async with self.transaction() as connection:
                # The catalog's row is the lock under which queues change: what is checked here cannot change before the commit.
                await self.raise_version(connection)
                catalog = await self.read_catalog(connection)
                match change:
                    case CreateQueue():
                        number = await self._create(connection, catalog, project, change)
                    case UpdateQueue():
                        number = await self._update(connection, catalog, project, change)
                    case DeleteQueue():
                        number = await self._delete(connection, catalog, project, change)
                    case _:
                        assert_never(change)
                before, after = catalog.queues.get(number), (await self.read_catalog(connection)).queues[number]
                await self.announce(connection, project, queue_topic(before, after), queue=number)
                if note is not None:
                    await self.enter(connection, [trail.queue_changed(note, before, after)])
        finally:
            self.forget_catalog()
        self.signals.send()
        return after

    async def _create(self, connection: Connection, catalog: Catalog, project: int, change: CreateQueue) -> int:
        check_queue(change)
        catalog.check_name(project, change.name)
        self._check_settings(catalog, project, None, change.settings)
        try:
            number: int = await connection.fetchval(
                self.sql("add_queue"),
                self.mint(),
                project,
                change.name,
                change.description,
                change.priority,
                codec.settings_text(change.settings),
                change.is_active,
                self.bound_now(),
            )
        except asyncpg.UniqueViolationError:
            raise Conflict(f"queue {change.name!r} already exists in this project") from None
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("project", str(project)) from None
        if change.settings.is_gated:
            await connection.execute(self.sql("open_gate"), number)
        return number

    async def _update(self, connection: Connection, catalog: Catalog, project: int, change: UpdateQueue) -> int:
        check_queue(change)
        old = catalog.queue_with_id(project, change.queue)
        check_same(f"queue {old.name!r}", change.expected_version, old.version)
        if change.name is not None and change.name != old.name:
            catalog.check_name(project, change.name)
        settings = old.settings if change.settings is None else change.settings
        self._check_settings(catalog, project, old.id, settings)
        try:
            await connection.execute(
                self.sql("set_queue"),
                old.number,
                old.name if change.name is None else change.name,
                old.description if change.description is None else change.description,
                old.priority if change.priority is None else change.priority,
                codec.settings_text(settings),
                old.is_active if change.is_active is None else change.is_active,
                self.bound_now(),
            )
        except asyncpg.UniqueViolationError:
            raise Conflict(f"queue {change.name!r} already exists in this project") from None
        if settings.is_gated:
            await connection.execute(self.sql("open_gate"), old.number)
        return old.number

    async def _delete(self, connection: Connection, catalog: Catalog, project: int, change: DeleteQueue) -> int:
        old = catalog.queue_with_id(project, change.queue)
        check_same(f"queue {old.name!r}", change.expected_version, old.version)
        for queue, target in catalog.dead_letter_targets_of(project).items():
            if target == old.id:
                user = catalog.queue_with_id(project, queue).name
                raise Conflict(f"queue {old.name!r} is the dead letter queue of {user!r}; change that first")
        await self._hold_up_claims(connection, old.name)
        busy = await connection.fetchval(
            self.in_schema("select count(*) from taskforge.running where lane = any ($1::int[])"),
            catalog.lanes_of([old.number]),
        )
        if busy:
            raise Conflict(f"queue {old.name!r} has {busy} jobs processing; pause it and wait, or cancel them")
        await connection.execute(self.sql("delete_queue"), old.number, self.bound_now())
        return old.number

    async def _hold_up_claims(self, connection: Connection, name: str) -> None:
        """Until the commit nothing starts to run, and what was being claimed is there to be counted. A claim reads the catalog's
        version without a lock, so one that began before would be seen by nobody; the table's lock is one that it takes. Whoever
        waits for that lock holds up all who want it later: it is waited for in short turns, in case somebody has it for long."""
        await connection.execute(f"set local lock_timeout = {LOCK_MILLISECONDS}")
        try:
            await connection.execute(self.in_schema("lock table taskforge.running in share mode"))
        except asyncpg.LockNotAvailableError as error:
            text = f"queue {name!r} cannot be deleted just now: a claim or an end of jobs takes long; try again"
            raise ClaimsInTheWay(text) from error
        await connection.execute("set local lock_timeout to default")

    @staticmethod
    def _check_settings(catalog: Catalog, project: int, queue: UUID | None, settings: QueueSettings) -> None:
        if settings.dead_letter_queue_id is not None:
            check_dead_letter(queue, settings.dead_letter_queue_id, catalog.dead_letter_targets_of(project))

    async def queues(self, projects: Sequence[int]) -> list[Queue]:
        async with self.reading(projects) as connection:
            catalog = await self.read_catalog(connection)
        live = [queue for queue in catalog.queues.values() if queue.project in projects and queue.deleted_at is None]
        return sorted(live, key=lambda queue: (queue.name, queue.id))

    async def stats(self, projects: Sequence[int]) -> list[QueueStats]:
        now = await self.now()
        async with self.searches:
            rows = await self.read(projects, "stats", list(projects))
        return [
            QueueStats(
                queue=row["name"],
                queue_id=row["id"],
                is_active=row["is_active"],
                pending=row["pending"],
                scheduled=row["scheduled"],
                processing=row["processing"],
                succeeded=row["succeeded"],
                failed=row["failed"],
                cancelled=row["cancelled"],
                oldest_pending_seconds=None if row["turn"] is None else max(0.0, now.timestamp() - row["turn"] / 1e6),
            )
            for row in rows
        ]

    # --- Workers ---

    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered:
        check_worker(worker)
        async with self.transaction() as connection:
            identity, incarnation = await self._begin_life(connection, project, worker, lease_seconds)
            values = (project, worker.machine, incarnation, self.bound_now(), MOST_EARLIER)
            rows = await connection.fetch(self.sql("earlier"), *values) if worker.machine else []
        try:
            await self.fetch("unpark", OFFERED_AT_ONCE, self.bound_now(), incarnation)
        except TaskForgeError as error:
            logger.debug("jobs that wait for a worker like %s are offered to it by the next upkeep: %s", worker.name, error)
        earlier = tuple(Earlier(uuid_from_int(row["incarnation"].int), row["pid"], row["pid_started"]) for row in rows)
        return Registered(uuid_from_int(identity.int), incarnation, earlier)

    async def _begin_life(
        self, connection: Connection, project: int, worker: NewWorker, lease_seconds: float, wish: int | None = None
    ) -> tuple[UUID, UUID]:
        """Its identity and its incarnation. `wish`: how many slots an operator wants it to have."""
        incarnation = self.mint()
        await connection.execute(self.sql("lock_name"), project, worker.name)
        try:
            identity: UUID = await connection.fetchval(
                self.sql("register"),
                incarnation,
                self.mint(),
                project,
                worker.name,
                worker.worker_type,
                worker.role,
                msgspec.json.encode(worker.capabilities).decode(),
                worker.queues,
                worker.types,
                worker.max_concurrent_jobs,
                worker.version,
                worker.host,
                worker.pid,
                lease_seconds,
                self.bound_now(),
                name_beside(worker.name, incarnation),
                worker.machine,
                worker.pid_started,
                wish,
            )
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("project", str(project)) from None
        return identity, incarnation

    async def _register_ahead(self, project: int, change: RegisterWorker, note: Note | None) -> Worker:
        check_worker(worker := change.presented())
        async with self.transaction() as connection:
            await connection.execute(self.sql("lock_name"), project, worker.name)  # before the look at who is there
            rows = await connection.fetch(self.sql("workers"), [project], self.bound_now())
            for row in rows[:1]:
                check_may_register(worker.name, [codec.worker(one, row["now"], None) for one in rows], row["now"])
            identity, _ = await self._begin_life(connection, project, worker, 0.0, change.max_concurrent_jobs)
            made = await self._latest(connection, project, identity)
            if note is not None:
                await self.enter(connection, [trail.worker_changed(note, None, made)])
        return made

    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed:
        numbers = (lease_seconds, sample.cpu_percent, sample.memory_bytes, sample.healthy)
        state = (sample.stopping, sample.stuck_slots, sample.blocking)
        rows = await self.fetch("renew", incarnation, *numbers, self.bound_now(), *state, False)
        if not rows:
            await self.bridge(incarnation)  # perhaps nobody could renew
            rows = await self.fetch("renew", incarnation, *numbers, self.bound_now(), *state, True)
        if not rows:
            raise await self.lost(incarnation)
        row = rows[0]
        asked = dict(zip(row["cancelled"], row["reasons"], strict=True))
        reasons = {fence: reason for fence, reason in asked.items() if reason}
        return Renewed(row["drain"], tuple(asked), row["slots"], reasons)

    async def deregister(
        self,
        incarnation: UUID,
        note: Note | None = None,
        expected_mark: str | None = None,
        *,
        died: bool = False,
        projects: Sequence[int] | None = None,
    ) -> None:
        async with self.transaction() as connection:
            # Claims read the lease without a lock, so it ends first; what a claim took before is then seen by the count.
            within = None if projects is None else list(projects)
            await connection.execute(self.sql("deregister"), incarnation, self.bound_now(), died, within)
            busy = await connection.fetchval(
                self.in_schema("select count(*) from taskforge.running where worker = $1"), incarnation
            )
            if busy and not died:
                raise Conflict(f"worker incarnation {incarnation} still runs {busy} jobs; drain it first")
            if note is None and expected_mark is None:
                return
            rows = await connection.fetch(
                self.in_schema("select project, name, id from taskforge.workers where incarnation = $1"), incarnation
            )
            if expected_mark is not None:
                for project, name, identity in rows:
                    present = await self._latest(connection, project, identity)
                    check_same(f"worker {name!r}", expected_mark, present.mark)
            if note is not None:
                await self.enter(connection, [trail.worker_left(note, *row) for row in rows])

    async def update_worker(self, project: int, change: WorkerChange, note: Note | None = None) -> Worker:
        if isinstance(change, RegisterWorker):
            return await self._register_ahead(project, change, note)
        check_worker(change)
        async with self.transaction() as connection:
            # Locked first, so that what is read here cannot change before the commit.
            await connection.execute(self.sql("lock_worker"), change.worker, project)
            before = await self._latest(connection, project, change.worker)
            check_same(f"worker {before.name!r}", change.expected_mark, before.mark)
            await self.raise_version(connection)  # also a lock, under which names are given
            if change.name is not None:
                bearers = await connection.fetch(self.sql("bearer"), project, change.name, change.worker, self.bound_now())
                check_name_is_free(change.name, [tuple(bearer) for bearer in bearers])
            await connection.execute(
                self.sql("update_worker"),
                change.worker,
                project,
                change.name,
                change.max_concurrent_jobs,
                None if change.capabilities is None else msgspec.json.encode(change.capabilities).decode(),
                change.drain_mode,
                self.bound_now(),
                change.as_started,
            )
            after = await self._latest(connection, project, change.worker)
            await self.announce(connection, project, worker_topic(before, after), worker=after.id)
            if note is not None:
                await self.enter(connection, [trail.worker_changed(note, before, after)])
        self.forget_catalog()
        return after

    async def _latest(self, connection: Connection, project: int, identity: UUID) -> Worker:
        for row in reversed(await connection.fetch(self.sql("workers"), [project], self.bound_now())):
            if row["id"] == identity:
                return codec.worker(row, row["now"], self.heartbeat_timeout)
        raise NotFound("worker", str(identity))

    async def workers(self, projects: Sequence[int]) -> list[Worker]:
        rows = await self.read(projects, "workers", list(projects), self.bound_now())
        return [codec.worker(row, row["now"], self.heartbeat_timeout) for row in rows]

    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]:
        rows = await self.read(projects, "worker_totals", list(projects))
        return [WorkerTotals(row["worker"], row["completed"], row["failed"]) for row in rows]
