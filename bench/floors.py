"""The raw floors: the least SQL that keeps a durable job, hands it out once and remembers how it
ended.

The layout is the fastest one found by hand: a job row that never changes, narrow tables for what is
ready and what runs, a row appended when it is done. No queues, no types, no fence, no limits, no
statistics, no events. An engine that does all of that is measured by how little it adds.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from bench.load import PAYLOAD, RESULT
from taskforge.domain.rules import json_bytes

_PAYLOAD = json_bytes("payload", PAYLOAD, most=1_000).decode()
_RESULT = RESULT.decode()


class Floor(Protocol):
    """Each call returns jobs per second."""

    async def bulk(self, count: int, batch: int) -> float: ...
    async def singles(self, count: int, callers: int) -> float: ...
    async def drain(self, count: int, batch: int) -> float: ...


class Coalescer:
    """One-row inserts by hand: what comes while a commit is under way shares the next one."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    async def callers(self, count: int, callers: int) -> float:
        async def caller() -> None:
            for _ in range(count // callers):
                await self.insert()

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return count // callers * callers / (time.perf_counter() - started)

    async def insert(self) -> None:
        raise NotImplementedError


# --- PostgreSQL -----------------------------------------------------------------------------------

_POSTGRES_TABLES = """
create schema floor;
create table floor.jobs (
    id bigint generated always as identity primary key, queue int not null, job_type text not null,
        payload json
);
create table floor.ready (id bigint primary key);
create table floor.running (id bigint primary key, worker int not null, claimed_at timestamptz not
    null);
create table floor.done (id bigint primary key, result json, finished_at timestamptz not null);
"""
_POSTGRES_INSERT = """
with facts as (
    insert into floor.jobs (queue, job_type, payload) select 1, 'noop', x::json from
        unnest($1::text[]) as x returning id
)
insert into floor.ready select id from facts
"""
# The lateral subquery keeps the planner from a hash join over all jobs.
_POSTGRES_CLAIM = """
with moved as (
    delete from floor.ready
    where ctid = any (array(select ctid from floor.ready order by id limit $1 for update skip
        locked)) returning id
),
placed as (
    insert into floor.running select id, 1, now() from moved
)
select m.id, j.payload from moved m cross join lateral (select payload from floor.jobs where id =
    m.id limit 1) j
"""
_POSTGRES_FINISH = """
with gone as (
    delete from floor.running where id = any ($1::bigint[]) returning id
)
insert into floor.done
select g.id, i.result::json, now() from gone g join unnest($1::bigint[], $2::text[]) as i (id,
    result) on i.id = g.id
"""


class PostgresFloor(Coalescer):
    LOOPS = 2

    def __init__(self, connections: list[asyncpg.Connection]) -> None:
        super().__init__()
        self._connections = connections
        self._flushing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, session: dict[str, str]) -> "PostgresFloor":
        connections = [
            await asyncpg.connect(url, server_settings=session) for _ in range(cls.LOOPS)
        ]
        await connections[0].execute(_POSTGRES_TABLES)
        return cls(connections)

    async def close(self) -> None:
        await self._connections[0].execute("drop schema floor cascade")
        for connection in self._connections:
            await connection.close()

    async def bulk(self, count: int, batch: int) -> float:
        payloads = [_PAYLOAD] * batch
        started = time.perf_counter()
        for _ in range(count // batch):
            await self._connections[0].execute(_POSTGRES_INSERT, payloads)
        return count / (time.perf_counter() - started)

    async def singles(self, count: int, callers: int) -> float:
        return await self.callers(count, callers)

    async def insert(self) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self.waiting.append(done)
        if self._flushing is None or self._flushing.done():
            self._flushing = loop.create_task(self._flush())
        await done

    async def _flush(self) -> None:
        while self.waiting:
            group, self.waiting = self.waiting, []
            await self._connections[0].execute(_POSTGRES_INSERT, [_PAYLOAD] * len(group))
            for done in group:
                done.set_result(None)

    async def drain(self, count: int, batch: int) -> float:
        await self.bulk(count, 1_000)

        async def loop(connection: asyncpg.Connection) -> None:
            while rows := await connection.fetch(_POSTGRES_CLAIM, batch):
                await connection.execute(
                    _POSTGRES_FINISH, [row[0] for row in rows], [_RESULT] * len(rows)
                )

        started = time.perf_counter()
        await asyncio.gather(*map(loop, self._connections))
        return count / (time.perf_counter() - started)


# --- SQLite ---------------------------------------------------------------------------------------

_SQLITE_TABLES = """
create table jobs (id integer primary key, queue integer not null, job_type text not null, payload
    text);
create table ready (id integer primary key);
create table running (id integer primary key, worker integer not null, claimed_at integer not null);
create table done (id integer primary key, result text, finished_at integer not null);
"""


class SqliteFloor(Coalescer):
    """Called straight from the event loop's thread, without a hop: nothing raw can be cheaper. One
    transaction and so one fsync for each batch: it ends the last one and takes the next."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = full")
        self._connection.execute("pragma cache_size = -65536")
        self._connection.executescript(_SQLITE_TABLES)
        self._next = 1

    async def close(self) -> None:
        self._connection.close()

    def _insert(self, count: int) -> None:
        ids = range(self._next, self._next + count)
        self._next += count
        self._connection.execute("begin immediate")
        self._connection.executemany(
            "insert into jobs values (?, 1, 'noop', ?)", [(number, _PAYLOAD) for number in ids]
        )
        self._connection.executemany("insert into ready values (?)", [(number,) for number in ids])
        self._connection.execute("commit")

    async def bulk(self, count: int, batch: int) -> float:
        started = time.perf_counter()
        for _ in range(count // batch):
            self._insert(batch)
        return count / (time.perf_counter() - started)

    async def singles(self, count: int, callers: int) -> float:
        self._wanted: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        writer = threading.Thread(target=self._write, args=(asyncio.get_running_loop(),))
        writer.start()
        try:
            return await self.callers(count, callers)
        finally:
            self._wanted.put(None)
            writer.join()

    async def insert(self) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wanted.put(done)
        await done

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        def answer(group: list[asyncio.Future[None]]) -> None:
            for done in group:
                done.set_result(None)

        while (first := self._wanted.get()) is not None:
            group = [first]
            while not self._wanted.empty() and (following := self._wanted.get()) is not None:
                group.append(following)
            self._insert(len(group))
            loop.call_soon_threadsafe(answer, group)

    async def drain(self, count: int, batch: int) -> float:
        await self.bulk(count, 1_000)
        execute, many = self._connection.execute, self._connection.executemany
        ended: list[tuple[int]] = []
        started = time.perf_counter()
        while True:
            execute("begin immediate")
            now = time.time_ns()
            many("delete from running where id = ?", ended)
            many(
                "insert into done values (?, ?, ?)", [(number, _RESULT, now) for (number,) in ended]
            )
            rows: list[tuple[int, Any]] = execute(
                "select r.id, j.payload from ready r cross join jobs j on j.id = r.id order by "
                "r.id limit ?",
                (batch,),
            ).fetchall()
            if rows:
                execute("delete from ready where id <= ?", (rows[-1][0],))
                many("insert into running values (?, 1, ?)", [(number, now) for number, _ in rows])
            execute("commit")
            ended = [(number,) for number, _ in rows]
            if not rows:
                return count / (time.perf_counter() - started)
