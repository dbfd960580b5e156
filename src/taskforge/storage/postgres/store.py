"""The connection pool, the clock and the remembered catalog, as every role of the PostgreSQL engine needs them."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from taskforge.domain.errors import LeaseLost, StoreUnavailable, StoreUnsuitable, TaskForgeError, lease_lost
from taskforge.domain.ids import IdMint
from taskforge.domain.trail import Entry
from taskforge.storage.catalog import Catalog, Lane, LaneKey, Taker
from taskforge.storage.postgres import codec, migrator
from taskforge.storage.postgres.connections import Borrowed, Connection, Connections
from taskforge.storage.postgres.refusals import Disturbed, away, not_opened
from taskforge.storage.postgres.signals import Signals
from taskforge.storage.postgres.wall import Wall
from taskforge.storage.statements import statement

T = TypeVar("T")
DISTURBED_TRIES = 6

# A hot table is often empty when it is analysed, and a plan made then would scan it, or sort a whole lane behind a bitmap; index
# paths in order are right whatever its size.
# Generic plans spare the planner's work on every call (0.5 ms for a claim) and prune partitions as they run.
SESSION = {
    "application_name": "taskforge",
    "enable_bitmapscan": "off",
    "enable_seqscan": "off",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
    "lock_timeout": "5s",
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "30s",
    "synchronous_commit": "on",
    "timezone": "UTC",
}


async def _as_it_is(_: object) -> None:
    """Our statements leave nothing behind in a session; the driver's own reset would cost a round trip for each of them."""


class Store:
    side_by_side = True

    def __init__(
        self,
        url: str,
        *,
        schema: str = "taskforge",
        clock: Callable[[], datetime] | None = None,
        poll_only: bool = False,
        pool_size: int = 6,
        walled: bool = False,
        heartbeat_timeout_seconds: float | None = None,
    ) -> None:
        """`poll_only` is for a transaction-mode pooler: no prepared statements, no session settings, no LISTEN.

        `walled` lets reads see no project but those they name, by row-level security. Workers that are silent for longer than
        `heartbeat_timeout_seconds`, or two thirds of their lease, are unhealthy. `clock` replaces the database's clock, for tests.
        """
        self.url = url
        self.schema = schema
        self.poll_only = poll_only
        self.heartbeat_timeout = heartbeat_timeout_seconds
        self._clock = clock
        self._pool_size = pool_size
        self.searches = asyncio.Semaphore(max(1, pool_size - 2))  # what may take long never has all connections
        self._wall = Wall(schema) if walled else None
        self._connections: Connections | None = None
        self._catalog: Catalog | None = None
        self._takers: dict[UUID, Taker] = {}
        self._offset = 0  # milliseconds by which the store's clock is ahead of ours
        self._texts: dict[str, str] = {}
        self.mint = IdMint(self._milliseconds)
        self.signals = Signals(self)

    # --- Life ---

    async def open(self, *, migrate: bool = True) -> None:
        try:
            await self._open(migrate)
        except TaskForgeError as error:
            raise not_opened(error) from error.__cause__

    async def _open(self, migrate: bool) -> None:
        with away():
            pool = await asyncpg.create_pool(
                self.url,
                # None is kept by the driver itself: while the database is away it would tell of each try, with a traceback.
                min_size=0,
                max_size=self._pool_size,
                statement_cache_size=0 if self.poll_only else 1024,
                max_cached_statement_lifetime=0,
                max_inactive_connection_lifetime=600,
                server_settings=None if self.poll_only else SESSION,
                reset=_as_it_is,
                timeout=10,
                command_timeout=60,
            )
        self._connections = Connections(pool)
        try:
            async with self.connection() as connection:
                self._check_server(connection)
                if migrate:
                    await migrator.migrate(connection, self.schema)
                await migrator.check(connection, self.schema)
                if self._wall is not None and not await self._wall.stands(connection):
                    self._wall = None
            await self.now()
            self._connections.outage.is_watching = True
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self.signals.stop()
        if self._connections is not None:
            connections, self._connections = self._connections, None
            try:
                with away():
                    await asyncio.wait_for(connections.close(), 10)
            except StoreUnavailable:
                connections.terminate()

    @staticmethod
    def _check_server(connection: Connection) -> None:
        version = connection.get_server_version()
        if version.major < 15:
            raise StoreUnsuitable(f"PostgreSQL {version.major} is too old; TaskForge needs 15 or newer")

    async def is_superuser(self) -> bool:
        return bool(await self.value("select usesuper from pg_user where usename = current_user"))

    # --- Time ---

    def bound_now(self) -> datetime | None:
        """What statements take as now: None lets the database's clock rule."""
        return None if self._clock is None else self._clock()

    async def now(self) -> datetime:
        if self._clock is not None:
            await self.value("select 1")
            return self._clock()
        before = time.time_ns()
        now: datetime = await self.value("select clock_timestamp()")
        # Ids are stamped with the store's clock, so that they fall into its partitions whatever this machine's clock says.
        self._offset = round(now.timestamp() * 1000 - (before + time.time_ns()) / 2_000_000)
        return now

    def _milliseconds(self) -> int:
        if self._clock is not None:
            return int(self._clock().timestamp() * 1000)
        return time.time_ns() // 1_000_000 + self._offset

    # --- Statements ---

    def sql(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self.in_schema(statement("taskforge.storage.postgres", name))
        return text

    def in_schema(self, text: str) -> str:
        return text if self.schema == "taskforge" else text.replace("taskforge.", f'"{self.schema}".')

    def connection(self, *, telling: bool = True) -> AbstractAsyncContextManager[Connection]:
        if self._connections is None:
            raise StoreUnavailable("the engine is not open")
        return Borrowed(self._connections, telling=telling)

    @asynccontextmanager
    async def transaction(self, *, telling: bool = True) -> AsyncIterator[Connection]:
        async with self.connection(telling=telling) as connection, connection.transaction():
            yield connection

    async def fetch(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        async def once() -> list[asyncpg.Record]:
            async with self.connection() as connection:
                return await connection.fetch(self.sql(name), *arguments)

        return await self.until_undisturbed(once)

    @asynccontextmanager
    async def reading(self, projects: Sequence[int]) -> AsyncIterator[Connection]:
        """A connection for what these projects may see; behind the wall, if there is one, it shows nothing else."""
        async with self.connection() as connection:
            if self._wall is None:
                yield connection
            else:
                async with self._wall.around(connection, projects):
                    yield connection

    @asynccontextmanager
    async def searching(self, projects: Sequence[int]) -> AsyncIterator[Connection]:
        """The same for what may take long."""
        async with self.searches, self.reading(projects) as connection:
            yield connection

    async def read(self, projects: Sequence[int], name: str, *arguments: Any) -> list[asyncpg.Record]:
        async def once() -> list[asyncpg.Record]:
            async with self.reading(projects) as connection:
                return await connection.fetch(self.sql(name), *arguments)

        return await self.until_undisturbed(once)

    async def until_undisturbed(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do it again when it met another transaction head-on: PostgreSQL has undone all of it, so nothing is done twice."""
        for attempt in range(DISTURBED_TRIES):
            try:
                return await act()
            except Disturbed:
                if attempt + 1 == DISTURBED_TRIES:
                    raise
                await asyncio.sleep(random.uniform(0.002, 0.01) * (attempt + 1))
        raise AssertionError

    async def value(self, text: str, *arguments: Any) -> Any:
        async with self.connection() as connection:
            return await connection.fetchval(self.in_schema(text), *arguments)

    # --- The remembered catalog ---

    async def catalog(self, *, newer_than: int | None = None) -> Catalog:
        """What this process remembers; read again when a statement found version `newer_than` to be out of date."""
        if self._catalog is None or self._catalog.version == newer_than:
            async with self.connection() as connection:
                catalog = await self.read_catalog(connection)
            # Whatever the store says now, also when it was put back to an earlier state.
            if self._catalog is None or self._catalog.version != catalog.version:
                self._catalog = catalog
                self._takers.clear()
        return self._catalog

    async def catalog_at(self, version: int) -> Catalog:
        """A catalog no older than this version, which the store has just shown."""
        catalog = await self.catalog()
        return catalog if catalog.version >= version else await self.catalog(newer_than=catalog.version)

    def forget_catalog(self) -> None:
        self._catalog = None
        self._takers.clear()

    async def read_catalog(self, connection: Connection) -> Catalog:
        """Read, but not remember: inside a transaction it may hold what is never committed."""
        # One statement, one snapshot: version, queues, lanes and assignments belong together.
        row = await connection.fetchrow(self.in_schema(_CATALOG))
        assert row is not None
        lanes = (Lane(*values) for values in row["lanes"])
        return Catalog(row["version"], map(codec.queue, row["queues"]), lanes, map(codec.assignment, row["assignments"]))

    async def lane_numbers(self, keys: set[LaneKey]) -> Catalog:
        """A catalog that knows these lanes, made where they are new."""
        catalog = await self.catalog()
        while any(catalog.lane(key) is None for key in keys):
            async with self.transaction() as connection:
                await self.make_lanes(connection, [key for key in keys if catalog.lane(key) is None])
            catalog = await self.catalog(newer_than=catalog.version)
        return catalog

    async def make_lanes(self, connection: Connection, keys: Sequence[LaneKey]) -> None:
        made = await connection.fetch(self.in_schema(_MAKE_LANES), *map(list, zip(*keys, strict=True)))
        if made:
            await self.raise_version(connection)

    async def raise_version(self, connection: Connection) -> None:
        await connection.execute(self.in_schema("update taskforge.catalog set version = version + 1"))

    async def enter(self, connection: Any, entries: Sequence[Entry]) -> None:
        """Append to the audit log, in the transaction of what it tells of."""
        if entries:
            await connection.execute(self.sql("enter"), codec.json_text(entries), self.bound_now())

    async def announce(
        self, connection: Connection, project: int, topic: str, *, queue: int | None = None, worker: UUID | None = None
    ) -> None:
        """Tell readers of the outbox what came of a queue or a worker."""
        await connection.execute(self.sql("announce"), project, topic, queue, worker, self.bound_now())

    async def lost(self, incarnation: UUID) -> LeaseLost:
        """What to tell a worker that has no lease."""
        rows = await self.fetch("how_left", incarnation)
        return lease_lost(incarnation, rows[0]["name"], has_left=rows[0]["has_left"]) if rows else lease_lost(incarnation)

    async def taker(self, incarnation: UUID) -> Taker:
        """The worker behind an incarnation, remembered for as long as the catalog stands."""
        catalog = await self.catalog()
        taker = self._takers.get(incarnation)
        if taker is None:
            async with self.connection() as connection:
                row = await connection.fetchrow(self.in_schema(_TAKER), incarnation)
            if row is None:
                raise lease_lost(incarnation)
            taker = codec.taker(row)
            if self._catalog is catalog:  # else the row may be older than what is remembered now
                self._takers[incarnation] = taker
        return taker


_CATALOG = """
select (select version from taskforge.catalog) as version,
    array(select row (number, id, project, name, description, priority, settings::text, is_active, version, created_at, updated_at,
        deleted_at) from taskforge.queues) as queues,
    array(select row (number, project, queue, job_type, priority, requires) from taskforge.lanes) as lanes,
    array(select row (q.id, a.worker, a.project, a.weight, a.is_active, a.created_at, a.updated_at)
        from taskforge.assignments a join taskforge.queues q on q.number = a.queue) as assignments
"""

_MAKE_LANES = """
insert into taskforge.lanes (project, queue, job_type, priority, requires)
select q.project, x.* from unnest($1::int[], $2::text[], $3::smallint[], $4::text[]) as x (queue, job_type, priority, requires)
join taskforge.queues q on q.number = x.queue
order by 2, 3, 4, 5
on conflict do nothing returning number
"""

_TAKER = """
select id, incarnation, project, worker_type, role, capabilities::text, queues, types, not drain_mode and healthy as accepts
from taskforge.workers where incarnation = $1
"""
