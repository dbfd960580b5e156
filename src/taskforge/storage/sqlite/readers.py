"""Reads. A few threads with connections of their own, which never wait for the writer nor it for
them; what may take long has others than what does not, so that a look at one job, the clock or a
signal never waits for somebody's search."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from taskforge.domain.errors import StoreUnavailable
from taskforge.storage.sqlite.catalog_cache import CatalogCache
from taskforge.storage.sqlite.connections import (
    can_write,
    connect_reader,
    is_away,
    pragma,
    translated,
)
from taskforge.storage.sqlite.opening import UNWRITABLE
from taskforge.storage.sqlite.snapshot import ReadSnapshot
from taskforge.storage.sqlite.transaction import Stamp
from taskforge.storage.sqlite.whereabouts import GONE, Whereabouts
from taskforge.telemetry.outage import Outage

T = TypeVar("T")
SEARCHERS = 3
LOOKERS = 2
# for those who read while the file could not be written, once it can be
PASSING_SECONDS = 1.0


class Readers:
    def __init__(self, path: Path, stamp: Stamp, outage: Outage) -> None:
        self._path = path
        self._stamp = stamp
        self._outage = outage
        self._lookers: ThreadPoolExecutor | None = None
        self._searchers: ThreadPoolExecutor | None = None
        self._idle: queue.SimpleQueue[Opened] = queue.SimpleQueue()
        self._watcher: Opened | None = None
        self._changed = threading.Condition()
        self._passing = 0  # connections that are closed after one read

    def start(self) -> None:
        self._lookers = ThreadPoolExecutor(LOOKERS, thread_name_prefix="taskforge-sqlite-reader")
        self._searchers = ThreadPoolExecutor(
            SEARCHERS, thread_name_prefix="taskforge-sqlite-searcher"
        )

    def stop(self) -> None:
        """End the threads and close what they read with. Blocks; safe to call twice, and at
        interpreter exit."""
        pools, self._lookers, self._searchers = (self._lookers, self._searchers), None, None
        for pool in pools:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)
        if self._watcher is not None:
            self._watcher.connection.close()
            self._watcher = None
        try:
            while True:
                self._idle.get_nowait().connection.close()
        except queue.Empty:
            return

    async def read(self, work: Callable[[ReadSnapshot], T]) -> T:
        return await self._in_thread(self._lookers, lambda: self._read(work))

    async def search(self, work: Callable[[ReadSnapshot], T]) -> T:
        """The same for what may take as long as there is much stored."""
        return await self._in_thread(self._searchers, lambda: self._read(work))

    async def data_version(self) -> int:
        """A number that changes whenever another connection has written. Each connection counts for
        itself, so this one is kept."""
        return await self._in_thread(self._lookers, self._look)

    def _look(self) -> int:
        if self._watcher is None or not self._watcher.whereabouts.hold:
            watcher, self._watcher = self._watcher, None
            if watcher is not None:
                watcher.connection.close()
            opened = self._open()
            if opened.is_passing:
                self._close(opened)
                raise StoreUnavailable(UNWRITABLE)
            self._watcher = opened
        version: int = pragma(self._watcher.connection, "data_version")[0]
        return version

    async def _in_thread(self, pool: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
        if pool is None:
            raise StoreUnavailable("the engine is not open")
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except RuntimeError as error:
            if self._lookers is None:
                raise StoreUnavailable("the engine was closed meanwhile") from error
            raise

    def _read(self, work: Callable[[ReadSnapshot], T]) -> T:
        try:
            answer = self._read_once(work)
        except sqlite3.Error as error:
            refused = translated(error)
            if isinstance(refused, StoreUnavailable):
                self._outage.meet(refused)
            raise refused from error
        self._outage.serve()
        return answer

    def _read_once(self, work: Callable[[ReadSnapshot], T]) -> T:
        opened = self._take()
        connection = opened.connection
        broken = False
        try:
            connection.execute("begin")
            return work(
                ReadSnapshot(
                    connection, opened.catalog_cache, self._stamp.now(), self._stamp.steady()
                )
            )
        except sqlite3.Error as error:
            broken = is_away(error)
            raise
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
            if broken or opened.is_passing:
                self._close(opened)
            else:
                self._idle.put(opened)

    def _take(self) -> "Opened":
        """One that is idle and still reads what its path leads to, or a new one."""
        try:
            while True:
                opened = self._idle.get_nowait()
                if opened.whereabouts.hold:
                    return opened
                opened.connection.close()
        except queue.Empty:
            return self._open()

    def _open(self) -> "Opened":
        if not self._path.exists():
            refused = StoreUnavailable(f"SQLite does not serve just now: {GONE}")
            self._outage.meet(refused)
            raise refused
        # SQLite shares the index among the connections of a process, and one that could not be
        # written when the first came cannot be by any that comes later. So whoever opens it then,
        # or beside one who did, does not stay.
        with self._changed:
            writable = can_write(self._path)
            is_passing = not (
                writable and self._changed.wait_for(lambda: self._passing == 0, PASSING_SECONDS)
            )
            self._passing += is_passing
        connection: sqlite3.Connection | None = None
        try:
            connection = connect_reader(self._path, writable=writable)
            return Opened(
                connection,
                CatalogCache(connection),
                Whereabouts(self._path, connection),
                is_passing,
            )
        except BaseException:
            if connection is not None:
                connection.close()
            self._let_pass(is_passing)
            raise

    def _close(self, opened: "Opened") -> None:
        opened.connection.close()
        self._let_pass(opened.is_passing)

    def _let_pass(self, is_passing: bool) -> None:
        with self._changed:
            self._passing -= is_passing
            self._changed.notify_all()


class Opened(msgspec.Struct, frozen=True):
    connection: sqlite3.Connection
    catalog_cache: CatalogCache
    whereabouts: Whereabouts
    is_passing: bool  # closed after one read
