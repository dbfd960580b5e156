"""Writes. One thread per process owns the connection that writes; calls that wait together share
one transaction.

The thread takes whatever is queued, runs it between one `begin immediate` and one `commit`, and
only then lets the callers know: the commit's fsync is the acknowledgement of them all. A call that
fails is rolled back alone, to its savepoint. When the store itself fails (disk full, I/O error, a
commit that did not come through), everyone in the group hears `StoreUnavailable` and nothing is
acknowledged.

Some writes acknowledge nothing that must outlast a power cut: a lease, progress, what a worker on
this machine claimed, which ends with it. They are `lazy`: where a group has no others it commits
without the fsync, and the next one that has covers it.
"""

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from taskforge.domain.errors import StoreUnavailable
from taskforge.storage.sqlite.calls import (
    Call,
    gather_calls,
    join_calls,
    perform_calls,
    settle_calls,
)
from taskforge.storage.sqlite.catalog_cache import CatalogCache
from taskforge.storage.sqlite.connections import (
    is_away,
    is_broken,
    is_busy,
    open_log,
    pragma,
    translated,
)
from taskforge.storage.sqlite.opening import open_for_writing
from taskforge.storage.sqlite.signals import Signals
from taskforge.storage.sqlite.transaction import Stamp, Transaction
from taskforge.storage.sqlite.turn import Turn
from taskforge.storage.sqlite.whereabouts import GONE, Identity, Whereabouts
from taskforge.telemetry.outage import Outage

T = TypeVar("T")
BUSY_SECONDS = 5.0
BUSY_TRIES = 3
# A group stops taking calls after this long, so that its first caller and other processes do not
# wait for a whole backlog.
GROUP_SECONDS = 0.02
_force = getattr(os, "fdatasync", os.fsync)


class Writer:
    def __init__(
        self, path: Path, stamp: Stamp, signals: Signals, outage: Outage, *, durable: bool
    ) -> None:
        self._path = path
        self._outage = outage
        self._turn = Turn(path)
        self._stamp = stamp
        self._signals = signals
        self._durable = durable
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._catalog_cache: CatalogCache | None = None
        self._whereabouts: Whereabouts | None = None
        self._file: Identity | None = None  # the one that was last known to have our tables
        self._lazy = False  # what the connection is set to
        self._log: int | None = None  # SQLite's log, to be forced by hand
        self._doubtful = False  # whether forcing it, or writing to it, has failed
        self._lock = threading.Lock()
        self._stopping = False
        self._offers: list[Call] = []
        self._taken: list[Call] = []  # offers that the transaction under way has taken up

    # --- Callers ---

    def start(self, file: Identity | None) -> None:
        """`file` was opened, and has our tables."""
        self._file = file
        self._thread = threading.Thread(
            target=self._run, name="taskforge-sqlite-writer", daemon=True
        )
        self._thread.start()

    def submit(
        self, work: Callable[[Transaction], T], *, lazy: bool = False
    ) -> "asyncio.Future[T]":
        return self._put(work, None, lazy=lazy)

    def submit_items(
        self, work: Callable[[Transaction, list[Any]], list[T]], items: Sequence[Any]
    ) -> "asyncio.Future[list[T]]":
        """Like `submit`, for work that answers for each item: neighbours with the same work are
        joined."""
        return self._put(work, items, lazy=False)

    def _put(
        self, work: Callable[..., Any], items: Sequence[Any] | None, *, lazy: bool
    ) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        # Nothing may be queued behind the mark that ends the thread: it would never be answered.
        with self._lock:
            if self._stopping or self._thread is None:
                raise StoreUnavailable("the engine is not open")
            self._queue.put(Call(work, items, future, lazy=lazy))
        return future

    def offer(self, work: Callable[[Transaction], Any], otherwise: Any) -> Call:
        """Work for the next transaction that makes jobs claimable; `otherwise` is the answer when
        that one fails."""
        call = Call(work, None, asyncio.get_running_loop().create_future(), lazy=True)
        call.otherwise = otherwise
        with self._lock:
            self._offers.append(call)
        return call

    def retract(self, call: Call) -> bool:
        """Whether the offer was taken back. If not it has been taken up, and its future says what
        came of that."""
        with self._lock:
            offered = call in self._offers
            if offered:
                self._offers.remove(call)
            return offered

    def stop(self) -> None:
        """Finish what is queued and end the thread. Blocks; safe to call twice, and at interpreter
        exit."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    # --- The thread ---

    def _run(self) -> None:
        try:
            while True:
                first = self._queue.get()
                if first is None:
                    return
                calls, last = gather_calls(self._queue, first)
                self._serve(calls)
                if last:
                    return
        finally:
            self._disconnect()
            self._turn.close()

    def _serve(self, calls: list[Call]) -> None:
        while calls:
            done = 0
            wakes = told = False
            for attempt in range(BUSY_TRIES):
                try:
                    done, wakes, told = self._write(calls)
                    self._outage.serve()
                    break
                except BaseException as error:  # noqa: BLE001 - whatever it is, every caller must hear of it
                    self._doubtful |= is_broken(error)
                    self._roll_back(broken=is_away(error) or not isinstance(error, sqlite3.Error))
                    if is_busy(error) and attempt + 1 < BUSY_TRIES:
                        self._put_back_offers()
                        continue
                    for call in self._taken:
                        # Somebody may be waiting for it already, and there may be no next
                        # transaction.
                        call.error, call.result = None, call.otherwise
                    for call in calls:
                        call.error = StoreUnavailable(f"SQLite does not serve just now: {error}")
                        call.error.__cause__ = error
                    self._outage.meet(StoreUnavailable(f"SQLite does not serve just now: {error}"))
                    done = len(calls)
                    break
            served, calls = calls[:done] + self._taken, calls[done:]
            self._taken = []
            settle_calls(served)
            if wakes:
                self._signals.send(here=not told)

    def _write(self, calls: list[Call]) -> tuple[int, bool, bool]:
        """Run calls in one transaction and commit. Says how many it took, whether there is
        something to claim now, and whether this process knows of that."""
        connection, catalog_cache = self._connect()
        lazy = not self._durable or all(call.lazy for call in calls)
        early = not lazy and bool(self._offers) and self._log is not None
        self._set_level(connection, lazy=lazy or early)
        before = connection.total_changes
        self._turn.begin(connection, BUSY_SECONDS)
        catalog_cache.begin()
        if self._log is None and not lazy:
            self._log = open_log(connection)
        give_up = time.monotonic() + GROUP_SECONDS
        done = 0
        wakes = False
        alone = len(calls) == 1
        while done < len(calls) and (done == 0 or time.monotonic() < give_up):
            joined = join_calls(calls, done)
            wakes |= self._run_one(connection, catalog_cache, joined, alone=alone)
            done += len(joined)
        if wakes and self._offers:
            self._take_up_offers(connection, catalog_cache)
        assert self._whereabouts is not None
        # before the commit: should the file be put back, nothing of this is in it
        self._whereabouts.check(lazy=lazy)
        if connection.in_transaction:
            connection.execute("commit")
        catalog_cache.tell_news()
        told = bool(self._taken)
        if early:
            settle_calls(self._taken)
            self._taken = []
        if self._log is not None and not lazy:
            # SQLite has forced it, unless it was not to, or there was nothing to write.
            written = connection.total_changes > before and all(
                call.error is None for call in calls[:done]
            )
            if early or not written:
                _force(self._log)
        if not lazy and not self._whereabouts.hold:
            self._doubt(calls[:done])
        return done, wakes, told

    def _doubt(self, calls: list[Call]) -> None:
        """The file was removed while the commit was under way. What need not last counts, such as a
        claim: whoever made it runs the job, and can say so should the file be put back."""
        for call in calls:
            if not call.lazy:
                call.error = StoreUnavailable(f"SQLite does not serve just now: {GONE}")
        self._disconnect()

    def _take_up_offers(self, connection: sqlite3.Connection, catalog_cache: CatalogCache) -> None:
        with self._lock:
            self._taken, self._offers = self._offers, []
        for call in self._taken:
            self._run_one(connection, catalog_cache, [call], alone=False)

    def _put_back_offers(self) -> None:
        with self._lock:
            self._offers += self._taken
        self._taken = []

    def _run_one(
        self,
        connection: sqlite3.Connection,
        catalog_cache: CatalogCache,
        calls: list[Call],
        *,
        alone: bool,
    ) -> bool:
        """Run one call, or several joined into one, so that its failure undoes nothing else."""
        if not alone:
            connection.execute("savepoint call")
        transaction = Transaction(
            connection, catalog_cache, self._stamp.mint, self._stamp.begin(), self._stamp.steady()
        )
        try:
            perform_calls(transaction, calls)
        except Exception as error:
            catalog_cache.forget()
            if is_busy(error) or is_away(error) or not connection.in_transaction:
                raise
            connection.execute("rollback" if alone else "rollback to call")
            if len(calls) > 1:
                # One of them spoils it for the others: each on its own, then.
                connection.execute("release call")
                woke = [
                    self._run_one(connection, catalog_cache, [call], alone=False) for call in calls
                ]
                return any(woke)
            calls[0].error = translated(error)
            transaction.wakes = False
        if not alone:
            connection.execute("release call")
        return transaction.wakes

    # --- The connection ---

    def _connect(self) -> tuple[sqlite3.Connection, CatalogCache]:
        if self._connection is None or self._catalog_cache is None:
            self._connection, self._whereabouts = connection, whereabouts = open_for_writing(
                self._path, self._file, durable=self._durable
            )
            if whereabouts.file != self._file:
                self._turn.close()  # the queue of those who write may be another one, too
                self._file = whereabouts.file
            self._lazy = not self._durable
            self._catalog_cache = CatalogCache(connection)
        if self._doubtful:
            # What did not get to disk may be a hole in the log, and nothing behind a hole is found
            # again: begin a new one.
            busy, *_ = pragma(self._connection, "wal_checkpoint(truncate)")
            if busy:
                raise StoreUnavailable(
                    "its log did not get to disk, and others are still reading it"
                )
            self._doubtful = False
        return self._connection, self._catalog_cache

    def _set_level(self, connection: sqlite3.Connection, *, lazy: bool) -> None:
        """How much the next commit waits for: FULL, for the log to be on disk; NORMAL, for
        nothing."""
        if lazy is not self._lazy:
            pragma(connection, f"synchronous = {'normal' if lazy else 'full'}")
            self._lazy = lazy

    def _disconnect(self) -> None:
        connection, self._connection, self._catalog_cache = self._connection, None, None
        log, self._log = self._log, None
        if log is not None:
            os.close(log)
        if connection is not None:
            connection.close()

    def _roll_back(self, *, broken: bool) -> None:
        """Undo the group. After an I/O error the connection goes too: what it holds in memory may
        not be what is on disk."""
        if self._catalog_cache is not None:
            self._catalog_cache.forget()
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("rollback")
        except sqlite3.Error:
            broken = True
        if broken:
            self._disconnect()
