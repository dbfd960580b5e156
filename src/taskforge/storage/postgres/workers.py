"""Registers workers, renews their leases and changes what operators want of them."""

import logging
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain import trail
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound, TaskForgeError
from taskforge.domain.ids import uuid_from_int
from taskforge.domain.outcome import OFFERED_AT_ONCE
from taskforge.domain.query import WorkerTotals
from taskforge.domain.versions import check_same
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
    check_may_leave,
    check_name_is_free,
    check_worker,
    name_beside,
    worker_topic,
)
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.bookkeeping import announce, enter
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.silences import bridge

logger = logging.getLogger("taskforge.storage")


class PostgresWorkers:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        heartbeat_timeout_seconds: float | None,
    ) -> None:
        """Workers that are silent for longer than `heartbeat_timeout_seconds`, or two thirds of
        their lease, are unhealthy."""
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._heartbeat_timeout = heartbeat_timeout_seconds

    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered:
        check_worker(worker)
        async with self._connections.transaction() as connection:
            identity, incarnation = await self._begin_life(
                connection, project, worker, lease_seconds
            )
            values = (
                project,
                worker.machine,
                incarnation,
                self._connections.bound_now(),
                MOST_EARLIER,
            )
            rows = (
                await connection.fetch(self._connections.sql("earlier"), *values)
                if worker.machine
                else []
            )
        try:
            await self._connections.fetch(
                "unpark", OFFERED_AT_ONCE, self._connections.bound_now(), incarnation
            )
        except TaskForgeError as error:
            logger.debug(
                "jobs that wait for a worker like %s are offered to it by the next upkeep: %s",
                worker.name,
                error,
            )
        earlier = tuple(
            Earlier(uuid_from_int(row["incarnation"].int), row["pid"], row["pid_started"])
            for row in rows
        )
        return Registered(uuid_from_int(identity.int), incarnation, earlier)

    async def _begin_life(
        self,
        connection: Connection,
        project: int,
        worker: NewWorker,
        lease_seconds: float,
        wish: int | None = None,
    ) -> tuple[UUID, UUID]:
        """Its identity and its incarnation. `wish`: how many slots an operator wants it to have."""
        incarnation = self._connections.mint()
        await connection.execute(self._connections.sql("lock_name"), project, worker.name)
        try:
            identity: UUID = await connection.fetchval(
                self._connections.sql("register"),
                incarnation,
                self._connections.mint(),
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
                self._connections.bound_now(),
                name_beside(worker.name, incarnation),
                worker.machine,
                worker.pid_started,
                wish,
            )
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("project", str(project)) from None
        return identity, incarnation

    async def _register_ahead(
        self, project: int, change: RegisterWorker, note: Note | None
    ) -> Worker:
        check_worker(worker := change.presented())
        async with self._connections.transaction() as connection:
            # before the look at who is there
            await connection.execute(self._connections.sql("lock_name"), project, worker.name)
            bearers = await connection.fetch(
                self._connections.sql("bearer_ahead"),
                project,
                worker.name,
                self._connections.bound_now(),
            )
            check_name_is_free(worker.name, [tuple(bearer) for bearer in bearers])
            identity, _ = await self._begin_life(
                connection, project, worker, 0.0, change.max_concurrent_jobs
            )
            made = await self._latest(connection, project, identity)
            if note is not None:
                await enter(self._connections, connection, [trail.worker_changed(note, None, made)])
        return made

    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed:
        numbers = (lease_seconds, sample.cpu_percent, sample.memory_bytes, sample.healthy)
        state = (sample.stopping, sample.stuck_slots, sample.blocking)
        rows = await self._connections.fetch(
            "renew", incarnation, *numbers, self._connections.bound_now(), *state, False
        )
        if not rows:
            await bridge(self._connections, incarnation)  # perhaps nobody could renew
            rows = await self._connections.fetch(
                "renew", incarnation, *numbers, self._connections.bound_now(), *state, True
            )
        if not rows:
            raise await self._catalog_cache.lost(incarnation)
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
        async with self._connections.transaction() as connection:
            # Claims read the lease without a lock, so it ends first; what a claim took before is
            # then seen by the count.
            within = None if projects is None else list(projects)
            await connection.execute(
                self._connections.sql("deregister"),
                incarnation,
                self._connections.bound_now(),
                died,
                within,
            )
            running = await connection.fetchval(self._connections.sql("running_of"), incarnation)
            check_may_leave(incarnation, running, died=died)
            if note is None and expected_mark is None:
                return
            rows = await connection.fetch(
                self._connections.sql("worker_of"),
                incarnation,
            )
            if expected_mark is not None:
                for project, name, identity in rows:
                    present = await self._latest(connection, project, identity)
                    check_same(f"worker {name!r}", expected_mark, present.mark)
            if note is not None:
                await enter(
                    self._connections, connection, [trail.worker_left(note, *row) for row in rows]
                )

    async def change_worker(
        self, project: int, change: WorkerChange, note: Note | None = None
    ) -> Worker:
        if isinstance(change, RegisterWorker):
            return await self._register_ahead(project, change, note)
        check_worker(change)
        async with self._connections.transaction() as connection:
            # Locked first, so that what is read here cannot change before the commit.
            await connection.execute(self._connections.sql("lock_worker"), change.worker, project)
            before = await self._latest(connection, project, change.worker)
            check_same(f"worker {before.name!r}", change.expected_mark, before.mark)
            # also a lock, under which names are given
            await self._catalog_cache.raise_version(connection, project)
            if change.name is not None:
                bearers = await connection.fetch(
                    self._connections.sql("bearer"),
                    project,
                    change.name,
                    change.worker,
                    self._connections.bound_now(),
                )
                check_name_is_free(change.name, [tuple(bearer) for bearer in bearers])
            await connection.execute(
                self._connections.sql("update_worker"),
                change.worker,
                project,
                change.name,
                change.max_concurrent_jobs,
                None
                if change.capabilities is None
                else msgspec.json.encode(change.capabilities).decode(),
                change.drain_mode,
                self._connections.bound_now(),
                change.as_started,
            )
            after = await self._latest(connection, project, change.worker)
            await announce(
                self._connections, connection, project, worker_topic(before, after), worker=after.id
            )
            if note is not None:
                await enter(
                    self._connections, connection, [trail.worker_changed(note, before, after)]
                )
        return after

    async def _latest(self, connection: Connection, project: int, identity: UUID) -> Worker:
        row = await connection.fetchrow(
            self._connections.sql("latest_worker"), project, identity, self._connections.bound_now()
        )
        if row is None:
            raise NotFound("worker", str(identity))
        return codec.worker(row, row["now"], self._heartbeat_timeout)

    async def workers(self, projects: Sequence[int]) -> list[Worker]:
        rows = await self._connections.read(
            projects, "workers", list(projects), self._connections.bound_now()
        )
        return [codec.worker(row, row["now"], self._heartbeat_timeout) for row in rows]

    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]:
        rows = await self._connections.read(projects, "worker_totals", list(projects))
        return [WorkerTotals(row["worker"], row["completed"], row["failed"]) for row in rows]
