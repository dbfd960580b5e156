"""The two kinds of store under test, and a probe that looks into their tables. The only code here
that knows an engine."""

import asyncio
import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.ids import job_of
from taskforge.domain.rollup import ANY_WORKER, decode_cell
from taskforge.ports.engine import Engine
from tests.support.schemas import Leftover, Schemas

PLACES = ("ready", "waiting", "running", "finished")
OF_JOBS = (
    *PLACES,
    "jobs",
    "executions",
    "logs",
    "job_tags",
    "keys",
    "gates",
    "gate_deltas",
    "tallies",
    "tally_deltas",
    "rollups",
    "rollup_deltas",
    "rollups_due",
    "rollup_scopes",
    "worker_tallies",
    "outbox",
)
ENDED = list(ExecutionStatus).index(ExecutionStatus.SUCCEEDED)  # the first that is an end
FORGET = "".join(f"delete from {table};" for table in OF_JOBS) + "update looks set rhythm = null;"
TURN_BACK = "update projects set catalog_version = catalog_version - 1"
Ticking = Callable[[], datetime] | None

# The mark of a module whose reads are also asked for behind the wall between projects.
ALSO_WALLED = pytest.mark.parametrize("store", ["sqlite", "postgres", "walled"], indirect=True)


class Probe(ABC):
    """Reads the tables as they are. Both engines keep the same ones, so most questions are asked in
    the same words."""

    @abstractmethod
    async def rows(self, sql: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def add_project(self, name: str) -> int: ...

    @abstractmethod
    async def turn_catalog_back(self) -> None:
        """Give the catalog an earlier version, as a restored backup or a replica that took over
        would have."""

    @abstractmethod
    async def forget_jobs(self) -> None:
        """Remove every job, all that came of them, and promises to look after them, under open
        engines; queues and workers stay."""

    async def count(self, table: str) -> int:
        [(number,)] = await self.rows(f"select count(*) from {table}")
        return int(number)

    async def counts(self) -> dict[str, int]:
        """How many rows everything holds that an insert could write."""
        return {
            table: await self.count(table)
            for table in ("jobs", *PLACES, "keys", "job_tags", "queues")
        }

    async def places(self) -> dict[UUID, str]:
        """Where each job is; fails when one is in two places."""
        found: dict[UUID, str] = {}
        rows = await self.rows(
            "select 'ready', fence from ready union all select 'waiting', fence from waiting "
            "union all select 'running', fence from running union all select 'finished', job from "
            "finished"
        )
        for place, fence in rows:
            job = job_of(fence)
            assert job not in found, f"job {job} is in {found[job]} and in {place}"
            found[job] = place
        return found

    async def check_places(self) -> None:
        """Each job with facts is in exactly one place, and nothing is in a place without facts."""
        places = await self.places()
        facts = {job for (job,) in await self.rows("select id from jobs")}
        assert set(places) == facts, (
            f"without a place: {facts - set(places)}; without facts: {set(places) - facts}"
        )

    async def check_keys(self) -> None:
        """A unique key is held by a job that is not finished, and by one only; a job marked as
        holding one does."""
        keys = await self.rows("select job from keys where scope = 0")
        holders = Counter(job for (job,) in keys)
        marked = await self.rows(
            "select fence from ready where keyed union all select fence from waiting where keyed "
            "union all select fence from running where keyed"
        )
        assert holders == Counter(job_of(fence) for (fence,) in marked)

    async def check_tallies(self) -> None:
        """What statistics say is finished equals a recount of history."""
        said = await self.rows(
            "select queue, status, sum(count) from (select queue, status, count from tallies "
            "union all select queue, status, count from tally_deltas) as t group by queue, status"
        )
        recount = await self.rows(
            "select queue, status, count(*) from finished group by queue, status"
        )
        assert {key: int(number) for *key_, number in said if number for key in [tuple(key_)]} == {
            (queue, status): number for queue, status, number in recount
        }

    async def check(self) -> None:
        await self.check_places()
        await self.check_keys()
        await self.check_tallies()

    async def rollups(self) -> dict[tuple[Any, ...], int]:
        """Executions that ended, counted from rollups and what is not folded yet: (queue, status) →
        count."""
        rows = await self.rows(
            "select queue, status, sum(count) from rollup_deltas where lane is not null "
            "group by queue, status"
        )
        counts = Counter({(queue, status): int(number) for queue, status, number in rows})
        cells = await self.rows(
            "select s.queue, s.worker, r.cell from rollups r join rollup_scopes s "
            "on s.number = r.scope where s.queue <> 0 and r.step = 0"
        )
        for queue, worker, data in cells:
            if worker == ANY_WORKER:
                cell = decode_cell(data.bytes if isinstance(data, UUID) else data)
                for code, status in enumerate(ExecutionStatus):
                    if code >= ENDED and (count := cell.ended(status)):
                        counts[queue, code] += count
        return dict(counts)


class Store(ABC):
    """One store for one test: opens engines on it and closes them all at the end."""

    probe: Probe

    def __init__(self) -> None:
        self._engines: list[Engine] = []

    @abstractmethod
    def make(self, clock: Ticking) -> Engine: ...

    @abstractmethod
    def when_chosen(self, engine: Any, act: Callable[[], Awaitable[object]]) -> None:
        """Let this happen once, between the moment the engine's next prune has found old jobs and
        the moment it removes them."""

    async def open(self, clock: Ticking) -> Engine:
        engine = self.make(clock)
        self._engines.append(engine)
        await engine.open()
        return engine

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()


class SqliteProbe(Probe):
    def __init__(self, path: Path) -> None:
        self._path = path

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        try:
            return [tuple(_plain(value) for value in row) for row in connection.execute(sql)]
        finally:
            connection.close()

    async def add_project(self, name: str) -> int:
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        try:
            sql = (
                "insert into projects (id, organization, name, created_at) values (?, 1, ?, 0) "
                "returning number"
            )
            [(number,)] = connection.execute(sql, (uuid4().bytes, name)).fetchall()
            return int(number)
        finally:
            connection.close()

    async def turn_catalog_back(self) -> None:
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        try:
            connection.execute(TURN_BACK)
        finally:
            connection.close()

    async def forget_jobs(self) -> None:
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        try:
            connection.execute("pragma synchronous = off")
            connection.executescript("begin immediate;" + FORGET + "commit;")
        finally:
            connection.close()


class SqliteStore(Store):
    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        super().__init__()
        self.path = folder / "taskforge.db"
        self._durable = durable
        self.probe = SqliteProbe(self.path)

    def make(self, clock: Ticking) -> Engine:
        from taskforge.storage.sqlite.engine import SqliteEngine

        return SqliteEngine(self.path, durable=self._durable, clock=clock)

    def when_chosen(self, engine: Any, act: Callable[[], Awaitable[object]]) -> None:
        read = engine._readers.search

        async def choose(work: Any) -> Any:
            engine._readers.search = read
            found = await read(work)
            await act()
            return found

        engine._readers.search = choose


class PostgresProbe(Probe):
    def __init__(self, url: str, schema: str) -> None:
        self._url, self._schema = url, schema
        self._connection: asyncpg.Connection | None = None
        self._busy = asyncio.Lock()

    async def connection(self) -> asyncpg.Connection:
        if self._connection is None:
            self._connection = await asyncpg.connect(
                self._url, server_settings={"search_path": self._schema}
            )
        return self._connection

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        async with self._busy:
            return [tuple(row) for row in await (await self.connection()).fetch(sql)]

    async def add_project(self, name: str) -> int:
        sql = "insert into projects (id, organization, name) values ($1, 1, $2) returning number"
        async with self._busy:
            return int(await (await self.connection()).fetchval(sql, uuid4(), name))

    async def turn_catalog_back(self) -> None:
        async with self._busy:
            await (await self.connection()).execute(TURN_BACK)

    async def forget_jobs(self) -> None:
        async with self._busy:
            # Deleting a few rows from each takes 3 ms, truncating as many tables 11.
            await (await self.connection()).execute(FORGET)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


class PostgresStore(Store):
    """A schema of its own for each test, or one that another test left."""

    probe: PostgresProbe

    def __init__(self, url: str, *, walled: bool = False, schemas: Schemas | None = None) -> None:
        super().__init__()
        self._walled, self._schemas = walled, schemas
        self._left = schemas.take(walled) if schemas is not None else None
        self._looked = False
        self.url = url
        self.schema = self._left.schema if self._left else f"test_{secrets.token_hex(6)}"
        self.probe = PostgresProbe(url, self.schema)

    def make(self, clock: Ticking) -> Engine:
        from taskforge.storage.postgres.engine import PostgresEngine

        return PostgresEngine(self.url, schema=self.schema, clock=clock, walled=self._walled)

    def when_chosen(self, engine: Any, act: Callable[[], Awaitable[object]]) -> None:
        connections = engine.connections
        fetch = connections.fetch

        async def choose(name: str, *arguments: Any) -> Any:
            found = await fetch(name, *arguments)
            if name == "prunable" and found:
                connections.fetch = fetch
                await act()
            return found

        connections.fetch = choose

    async def open(self, clock: Ticking) -> Engine:
        engine = await super().open(clock)
        if self._schemas is not None and not self._looked:
            self._looked, self._left = True, Leftover(self.schema)
            await self._left.look(await self.probe.connection())
        return engine

    async def close(self) -> None:
        await super().close()
        connection = await self.probe.connection()
        if not await self._leave(connection):
            await connection.execute(
                f"drop schema if exists {self.schema} cascade; "
                f"drop role if exists {self.schema}_reader"
            )
        await self.probe.close()

    async def _leave(self, connection: asyncpg.Connection) -> bool:
        """Whether another test gets the schema."""
        if self._schemas is None or self._left is None or not self._looked:
            return False
        return await self._schemas.give_back(self._walled, self._left, connection)


def _plain(value: Any) -> Any:
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else value
