"""The connection pool, the clock and the statements, as every role of the PostgreSQL engine needs
them."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

import asyncpg

from taskforge.domain.errors import (
    StoreUnavailable,
    StoreUnsuitable,
    TaskForgeError,
)
from taskforge.domain.ids import IdMint
from taskforge.storage.postgres import migrator
from taskforge.storage.postgres.connection_pool import Borrowed, Connection, ConnectionPool
from taskforge.storage.postgres.hosts import Hosts
from taskforge.storage.postgres.refusals import COMMAND_SECONDS, Disturbed, away, not_opened
from taskforge.storage.postgres.restores import Restores
from taskforge.storage.postgres.wall import Wall
from taskforge.storage.statements import statement

T = TypeVar("T")
DISTURBED_TRIES = 6

# A hot table is often empty when it is analysed, and a plan made then would scan it, or sort a
# whole lane behind a bitmap; index paths in order are right whatever its size. Generic plans spare
# the planner's work on every call (0.5 ms for a claim) and prune partitions as they run.
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
    """Our statements leave nothing behind in a session; the driver's own reset would cost a round
    trip for each of them."""


class PostgresConnections:
    def __init__(
        self,
        url: str,
        *,
        schema: str = "taskforge",
        clock: Callable[[], datetime] | None = None,
        poll_only: bool = False,
        pool_size: int = 6,
        walled: bool = False,
    ) -> None:
        """`poll_only` is for a transaction-mode pooler: no prepared statements, no session
        settings, no LISTEN.

        `walled` lets reads see no project but those they name, by row-level security. `clock`
        replaces the database's clock, for tests.
        """
        self._url = url
        self._hosts = Hosts(url)
        # called when sessions turn out to be of a server that can only be read any more
        self.on_renewal: Callable[[], None] = lambda: None
        self.schema = schema
        self.poll_only = poll_only
        self._clock = clock
        self._pool_size = pool_size
        # what may take long never has all connections
        self.searches = asyncio.Semaphore(max(1, pool_size - 2))
        self._wall = Wall(schema) if walled else None
        self._pool: ConnectionPool | None = None
        self._offset = 0  # milliseconds by which the store's clock is ahead of ours
        self._texts: dict[str, str] = {}
        self.mint = IdMint(self.milliseconds)
        self.restores = Restores(schema, self.sql, self.bound_now)

    # --- Life ---

    async def open(self, *, migrate: bool = True) -> None:
        try:
            await self._open(migrate)
        except TaskForgeError as error:
            raise not_opened(error) from error.__cause__

    async def _open(self, migrate: bool) -> None:
        with away():
            pool = await asyncpg.create_pool(
                self._url,
                connect=self._hosts.connect,
                # None is kept by the driver itself: while the database is away it would tell of
                # each try, with a traceback.
                min_size=0,
                max_size=self._pool_size,
                statement_cache_size=0 if self.poll_only else 1024,
                max_cached_statement_lifetime=0,
                max_inactive_connection_lifetime=600,
                server_settings=None if self.poll_only else SESSION,
                reset=_as_it_is,
                init=self.restores.greet,
                command_timeout=COMMAND_SECONDS,
            )
        self._pool = ConnectionPool(pool, self._renewed)
        try:
            async with self.connection() as connection:
                self._check_server(connection)
                if migrate:
                    await migrator.migrate(connection, self.schema)
                await migrator.check(connection, self.schema)
                await self.restores.look(connection, migrate=migrate)
                if self._wall is not None and not await self._wall.stands(connection):
                    self._wall = None
            await self.now()
            self._pool.outage.is_watching = True
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                with away():
                    await asyncio.wait_for(pool.close(), 10)
            except StoreUnavailable:
                pool.terminate()

    @staticmethod
    def _check_server(connection: Connection) -> None:
        version = connection.get_server_version()
        if version.major < 15:
            raise StoreUnsuitable(
                f"PostgreSQL {version.major} is too old; TaskForge needs 15 or newer"
            )

    async def is_superuser(self) -> bool:
        return bool(await self.value(self.sql("is_superuser")))

    async def connect(self, name: str) -> asyncpg.Connection:
        """A connection outside the pool, to the same server."""
        return await self._hosts.connect(server_settings={"application_name": name})

    def _renewed(self) -> None:
        self.on_renewal()

    # --- Time ---

    def bound_now(self) -> datetime | None:
        """What statements take as now: None lets the database's clock rule."""
        return None if self._clock is None else self._clock()

    async def now(self) -> datetime:
        if self._clock is not None:
            await self.value(self.sql("is_there"))
            return self._clock()
        before = time.time_ns()
        now: datetime = await self.value(self.sql("clock"))
        # Ids are stamped with the store's clock, so that they fall into its partitions whatever
        # this machine's clock says.
        self._offset = round(now.timestamp() * 1000 - (before + time.time_ns()) / 2_000_000)
        return now

    def milliseconds(self) -> int:
        if self._clock is not None:
            return int(self._clock().timestamp() * 1000)
        return time.time_ns() // 1_000_000 + self._offset

    def microseconds(self) -> int:
        """As turns are counted; by the database's clock as far as this process knows it."""
        if self._clock is not None:
            return round(self._clock().timestamp() * 1e6)
        return time.time_ns() // 1_000 + self._offset * 1_000

    # --- Statements ---

    def sql(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self.in_schema(statement("taskforge.storage.postgres", name))
        return text

    def in_schema(self, text: str) -> str:
        return text if self.schema == "taskforge" else migrator.in_schema(text, self.schema)

    def connection(self, *, telling: bool = True) -> AbstractAsyncContextManager[Connection]:
        if self._pool is None:
            raise StoreUnavailable("the engine is not open")
        return Borrowed(self._pool, telling=telling)

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
        """A connection for what these projects may see; behind the wall, if there is one, it shows
        nothing else."""
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

    async def read(
        self, projects: Sequence[int], name: str, *arguments: Any
    ) -> list[asyncpg.Record]:
        async def once() -> list[asyncpg.Record]:
            async with self.reading(projects) as connection:
                return await connection.fetch(self.sql(name), *arguments)

        return await self.until_undisturbed(once)

    async def until_undisturbed(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do it again when it met another transaction head-on: PostgreSQL has undone all of it, so
        nothing is done twice."""
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


def count_affected(status: str) -> int:
    """How many rows a statement changed, as its command tag says: "DELETE 3"."""
    return int(status.rsplit(" ", 1)[1])
