"""Where the measurements stand: a private PostgreSQL server, or a folder of SQLite files; gone when
the run is over."""

import asyncio
import shutil
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import asyncpg

from bench import floors, load
from taskforge.domain.ids import uuid_from_int
from taskforge.ports.engine import Engine
from taskforge.storage.postgres import partitions
from taskforge.storage.postgres.connections import SESSION
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.storage.sqlite.engine import SqliteEngine
from taskforge.testing.postgres import LocalServer, make_directory

SETTINGS: dict[str, str | int] = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "max_connections": 60,
}
# For the raw statements: whatever the statistics say, index scans in order and hash joins.
PINNED = {"enable_bitmapscan": "off", "enable_nestloop": "off", "enable_sort": "off"}
FAILED_EVERY = 100
_SUCCEEDED, _FAILED = 3, 4
_VERSION_AND_VARIANT = (7 << 76) | (0b10 << 62)


class Site(ABC):
    """One empty store with one queue, one worker and an open engine."""

    engine: Engine
    queue: int
    incarnation: UUID

    async def settle(self) -> None:
        await self.engine.open()
        self.queue = await load.make_queue(self.engine)
        self.incarnation = await load.make_worker(self.engine)

    async def drain(self, count: int, limit: int, loops: int) -> load.Drain:
        return await load.Drain(self.engine, self.incarnation, limit, enough=count).run(loops)

    @abstractmethod
    async def add_history(self, count: int, oldest_days: float, youngest_days: float) -> list[UUID]:
        """Finished jobs, evenly spread over that time, written past the engine; returns some of
        those that failed (one in 100)."""


def history_id(first: int, step: float, number: int) -> int:
    return (int(first + step * number) << 80) | _VERSION_AND_VARIANT | (number << 24)


def some_failed(count: int, first: int, step: float) -> list[UUID]:
    failed = range(0, count, FAILED_EVERY)
    chosen = failed[:: max(1, len(failed) // 200)]
    return [uuid_from_int(history_id(first, step, number)) for number in chosen]


def spread(count: int, oldest_days: float, youngest_days: float) -> tuple[int, float]:
    """The millisecond of the first job and the milliseconds from each to the next."""
    first = int((time.time() - oldest_days * 86_400) * 1_000)
    return first, (oldest_days - youngest_days) * 86_400_000 / count


class Ground(ABC):
    name: str
    loops: int  # how many claim and finish at once; 0: one that does both in one call

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    async def analyse(self) -> None:
        """Make the store's statistics say what they say in real life: that hot tables are empty, as
        they mostly are.

        Without this a run is too short to see plans that are bad from the first autoanalyze on.
        Measured: finish as a nested loop over the batch, 190 ms instead of 12 for 1,000 jobs; claim
        as a sort of the whole backlog.
        """

    @abstractmethod
    def site(self) -> AbstractAsyncContextManager[Site]: ...

    @abstractmethod
    def floor(self) -> AbstractAsyncContextManager[floors.Floor]: ...


# --- PostgreSQL -----------------------------------------------------------------------------------

_ADD_HISTORY = """
with given as materialized (
    select (lpad(to_hex(ms), 12, '0') || '70008' || lpad(to_hex(i), 9, '0') || '000000')::uuid as
        id,
        case when i % 100 = 0 then 4 else 3 end as status, to_timestamp(ms / 1000.0) as at
    from (select i, $4 + trunc($5::float8 * i)::bigint as ms from generate_series($1::bigint,
        $2::bigint) as i) as x
),
facts as (
    insert into {schema}.jobs (id, project, queue, job_type, priority, max_attempts, payload)
    select id, 1, $3, 'noop', 0, 3, '{{"customer": 4711, "template": "welcome"}}' from given
)
insert into {schema}.finished (job, queue, project, status, epoch, attempt, max_attempts, crashes,
    worker, claimed_at, started_at,
    finished_at, result, error)
select id, $3, 1, status, 1, 1, 3, 0, $6, at, at, at + interval '1 second',
            case when status = 3 then '{{"sent": true}}'::json end,
    case when status = 4 then '{{"type": "ValueError", "message": "no such customer"}}'::json end
from given
"""


class PostgresSite(Site):
    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.made = PostgresEngine(url, schema=schema)
        self.engine = self.made

    async def add_history(self, count: int, oldest_days: float, youngest_days: float) -> list[UUID]:
        now = await self.engine.now()
        for days in range(int(oldest_days) + 1, 0, -partitions.DAYS_AHEAD):
            await partitions.make_ahead(self.made.connections, now - timedelta(days=days))
        first, step = spread(count, oldest_days, youngest_days)
        connection = await asyncpg.connect(self.url, server_settings={"synchronous_commit": "off"})
        try:
            text = _ADD_HISTORY.format(schema=self.schema)
            for start in range(0, count, 50_000):
                last = min(start + 50_000, count) - 1
                await connection.execute(
                    text, start, last, self.queue, first, step, self.incarnation
                )
            failed = len(range(0, count, FAILED_EVERY))
            await connection.executemany(
                f"insert into {self.schema}.tally_deltas (project, queue, status, count) values "
                f"(1, $1, $2, $3)",
                [(self.queue, _SUCCEEDED, count - failed), (self.queue, _FAILED, failed)],
            )
            # As autovacuum would have left it, had the jobs come over days.
            await connection.execute(f"vacuum analyze {self.schema}.jobs")
            await connection.execute(f"vacuum analyze {self.schema}.finished")
            await connection.execute("checkpoint")
        finally:
            await connection.close()
        return some_failed(count, first, step)


class PostgresGround(Ground):
    name = "postgres"
    loops = floors.PostgresFloor.LOOPS

    def __init__(self) -> None:
        self._directory = make_directory()
        self._sites = 0
        try:
            self.server = LocalServer.start(self._directory, settings=SETTINGS)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def close(self) -> None:
        self.server.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    @asynccontextmanager
    async def site(self, database: str = "postgres") -> AsyncIterator[PostgresSite]:
        self._sites += 1
        site = PostgresSite(self.server.url(database), f"bench_{self._sites}")
        try:
            await site.settle()
            yield site
        finally:
            await site.engine.close()
            await self.execute(f"drop schema if exists {site.schema} cascade", database)

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[floors.PostgresFloor]:
        floor = await floors.PostgresFloor.open(self.server.url(), SESSION | PINNED)
        try:
            yield floor
        finally:
            await floor.close()

    async def analyse(self) -> None:
        await self.execute("analyze")

    async def execute(self, text: str, database: str = "postgres") -> None:
        connection = await asyncpg.connect(self.server.url(database))
        try:
            await connection.execute(text)
        finally:
            await connection.close()


# --- SQLite ---------------------------------------------------------------------------------------


class SqliteSite(Site):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = SqliteEngine(path, durable=True)

    async def add_history(self, count: int, oldest_days: float, youngest_days: float) -> list[UUID]:
        first, step = spread(count, oldest_days, youngest_days)
        await asyncio.to_thread(self._add_history, count, first, step)
        return some_failed(count, first, step)

    def _add_history(self, count: int, first: int, step: float) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.execute("pragma synchronous = off")
            connection.execute("pragma cache_size = -262144")
            for start in range(0, count, 50_000):
                self._add_slice(connection, range(start, min(start + 50_000, count)), first, step)
            failed = len(range(0, count, FAILED_EVERY))
            connection.executemany(
                "insert into tally_deltas (project, queue, status, count) values (1, ?, ?, ?)",
                [(self.queue, _SUCCEEDED, count - failed), (self.queue, _FAILED, failed)],
            )
            connection.execute("pragma wal_checkpoint(truncate)")
        finally:
            connection.close()

    def _add_slice(
        self, connection: sqlite3.Connection, numbers: range, first: int, step: float
    ) -> None:
        jobs, finished = [], []
        for number in numbers:
            identifier, at = (
                history_id(first, step, number).to_bytes(16),
                int(first + step * number) * 1_000,
            )
            error = (
                None
                if number % FAILED_EVERY
                else '{"type":"ValueError","message":"no such customer"}'
            )
            jobs.append((identifier, self.queue))
            status, result = (_FAILED, None) if error else (_SUCCEEDED, '{"sent":true}')
            finished.append(
                (
                    self.queue,
                    identifier,
                    status,
                    self.incarnation.bytes,
                    at,
                    at,
                    at + 1_000_000,
                    result,
                    error,
                )
            )
        connection.execute("begin immediate")
        connection.executemany(
            "insert into jobs (id, project, queue, job_type, priority, max_attempts, payload) "
            """values (?, 1, ?, 'noop', 0, 3, '{"customer":4711,"template":"welcome"}')""",
            jobs,
        )
        connection.executemany(
            "insert into finished (queue, job, project, status, epoch, attempt, max_attempts, "
            "crashes, worker, claimed_at, "
            "started_at, finished_at, result, error) values (?, ?, 1, ?, 1, 1, 3, 0, ?, ?, ?, "
            "?, ?, ?)",
            finished,
        )
        connection.execute("commit")


class SqliteGround(Ground):
    name = "sqlite"
    loops = 0

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="taskforge-bench-"))
        self._files = 0

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    async def analyse(self) -> None:
        """SQLite gathers no statistics unless asked, and plans without."""

    def _path(self) -> Path:
        self._files += 1
        folder = self._directory / str(self._files)
        folder.mkdir()
        return folder / "bench.db"

    @asynccontextmanager
    async def site(self) -> AsyncIterator[SqliteSite]:
        site = SqliteSite(self._path())
        try:
            await site.settle()
            yield site
        finally:
            await site.engine.close()
            shutil.rmtree(site.path.parent)

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[floors.SqliteFloor]:
        path = self._path()
        floor = floors.SqliteFloor(path)
        try:
            yield floor
        finally:
            await floor.close()
            shutil.rmtree(path.parent)
