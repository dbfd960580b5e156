"""Writes. One thread per process owns the connection that writes; calls that wait together share one transaction.

The thread takes whatever is queued, runs it between one `begin immediate` and one `commit`, and only then lets the callers know:
the commit's fsync is the acknowledgement of them all. A call that fails is rolled back alone, to its savepoint. When the store
itself fails (disk full, I/O error, a commit that did not come through), everyone in the group hears `StoreUnavailable` and
nothing is acknowledged.

Some writes acknowledge nothing that must outlast a power cut: a lease, progress, what a worker on this machine claimed, which ends
with it. They are `lazy`: where a group has no others it commits without the fsync, and the next one that has covers it.

An idle worker leaves an offer: a claim to be run in the transaction that makes the next job, whose commit is then that of both. Its
handler starts while the disk still works: the commit is without the fsync, the offer is answered, then the log is forced and the
callers hear that theirs is durable. A power cut in between ends worker and handler too, for a job that nobody was told of. Another
process can see such a commit before it is on disk; so whoever answers from what is there, and writes nothing, forces the log too.
"""

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import LARGE_CALL
from taskforge.storage.sqlite import migrator
from taskforge.storage.sqlite.connection import connect_writer, is_away, is_broken, is_busy, open_log, translated
from taskforge.storage.sqlite.keeper import Keeper
from taskforge.storage.sqlite.signals import Signals
from taskforge.storage.sqlite.transaction import Stamp, Transaction
from taskforge.storage.sqlite.turn import Turn
from taskforge.storage.sqlite.whereabouts import GONE, Identity, Whereabouts
from taskforge.telemetry.outage import Outage

T = TypeVar("T")
logger = logging.getLogger("taskforge.store")
BUSY_SECONDS = 5.0
BUSY_TRIES = 3
# A group stops taking calls after this long, so that its first caller and other processes do not wait for a whole backlog.
GROUP_SECONDS = 0.02
JOINED_AT_MOST = 2_000
_force = getattr(os, "fdatasync", os.fsync)


class Call:
    """One caller's wish. Neighbouring calls with the same `work` and a list of `items` become one piece of work."""

    __slots__ = ("error", "future", "items", "lazy", "otherwise", "result", "work")

    def __init__(self, work: Callable[..., Any], items: Sequence[Any] | None, future: "asyncio.Future[Any]", *, lazy: bool) -> None:
        self.work = work
        self.items = items
        self.future = future
        self.lazy = lazy
        self.otherwise: Any = None  # an offer's answer when the transaction that took it up came to nothing
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():
            return  # its caller was cancelled
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Writer:
    def __init__(self, path: Path, stamp: Stamp, signals: Signals, outage: Outage, *, durable: bool) -> None:
        self._path = path
        self._outage = outage
        self._turn = Turn(path)
        self._stamp = stamp
        self._signals = signals
        self._durable = durable
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._keeper: Keeper | None = None
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
        self._thread = threading.Thread(target=self._run, name="taskforge-sqlite-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Transaction], T], *, lazy: bool = False) -> "asyncio.Future[T]":
        return self._put(work, None, lazy=lazy)

    def submit_items(self, work: Callable[[Transaction, list[Any]], list[T]], items: Sequence[Any]) -> "asyncio.Future[list[T]]":
        """Like `submit`, for work that answers for each item: neighbours with the same work are joined."""
        return self._put(work, items, lazy=False)

    def _put(self, work: Callable[..., Any], items: Sequence[Any] | None, *, lazy: bool) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        # Nothing may be queued behind the mark that ends the thread: it would never be answered.
        with self._lock:
            if self._stopping or self._thread is None:
                raise StoreUnavailable("the engine is not open")
            self._queue.put(Call(work, items, future, lazy=lazy))
        return future

    def offer(self, work: Callable[[Transaction], Any], otherwise: Any) -> Call:
        """Work for the next transaction that makes jobs claimable; `otherwise` is the answer when that one fails."""
        call = Call(work, None, asyncio.get_running_loop().create_future(), lazy=True)
        call.otherwise = otherwise
        with self._lock:
            self._offers.append(call)
        return call

    def retract(self, call: Call) -> bool:
        """Whether the offer was taken back. If not it has been taken up, and its future says what came of that."""
        with self._lock:
            offered = call in self._offers
            if offered:
                self._offers.remove(call)
            return offered

    def stop(self) -> None:
        """Finish what is queued and end the thread. Blocks; safe to call twice, and at interpreter exit."""
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
                calls, last = self._gather(first)
                self._serve(calls)
                if last:
                    return
        finally:
            self._disconnect()
            self._turn.close()

    def _gather(self, first: Call) -> tuple[list[Call], bool]:
        """Everything that waits, and whether it is the last there will be."""
        calls: list[Call | None] = [first]
        try:
            while calls[-1] is not None:
                calls.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        # A caller that gave up before its turn wants no work done.
        return [call for call in calls if call is not None and not call.future.cancelled()], calls[-1] is None

    def _serve(self, calls: list[Call]) -> None:
        while calls:
            done = 0
            wakes = told = False
            for attempt in range(BUSY_TRIES):
                try:
                    done, wakes, told = self._write(calls)
                    if self._outage.is_on:
                        self._outage.serve()
                    break
                except BaseException as error:  # noqa: BLE001 - whatever it is, every caller must hear of it
                    self._doubtful |= is_broken(error)
                    self._roll_back(broken=is_away(error) or not isinstance(error, sqlite3.Error))
                    if is_busy(error) and attempt + 1 < BUSY_TRIES:
                        self._put_back_offers()
                        continue
                    for call in self._taken:
                        # Somebody may be waiting for it already, and there may be no next transaction.
                        call.error, call.result = None, call.otherwise
                    for call in calls:
                        call.error = StoreUnavailable(f"SQLite does not serve just now: {error}")
                        call.error.__cause__ = error
                    self._outage.meet(StoreUnavailable(f"SQLite does not serve just now: {error}"))
                    done = len(calls)
                    break
            served, calls = calls[:done] + self._taken, calls[done:]
            self._taken = []
            _settle(served)
            if wakes:
                self._signals.send(here=not told)

    def _write(self, calls: list[Call]) -> tuple[int, bool, bool]:
        """Run calls in one transaction and commit. Says how many it took, whether there is something to claim now, and whether this
        process knows of that."""
        connection, keeper = self._connect()
        lazy = not self._durable or all(call.lazy for call in calls)
        early = not lazy and bool(self._offers) and self._log is not None
        self._set_level(connection, lazy=lazy or early)
        before = connection.total_changes
        self._turn.begin(connection, BUSY_SECONDS)
        if self._log is None and not lazy:
            self._log = open_log(connection)
        give_up = time.monotonic() + GROUP_SECONDS
        done = 0
        wakes = False
        alone = len(calls) == 1
        while done < len(calls) and (done == 0 or time.monotonic() < give_up):
            joined = _joined(calls, done)
            wakes |= self._run_one(connection, keeper, joined, alone=alone)
            done += len(joined)
        if wakes and self._offers:
            self._take_up_offers(connection, keeper)
        assert self._whereabouts is not None
        self._whereabouts.check(lazy=lazy)  # before the commit: should the file be put back, nothing of this is in it
        if connection.in_transaction:
            connection.execute("commit")
        keeper.tell_news()
        told = bool(self._taken)
        if early:
            _settle(self._taken)
            self._taken = []
        if self._log is not None and not lazy:
            # SQLite has forced it, unless it was not to, or there was nothing to write.
            written = connection.total_changes > before and all(call.error is None for call in calls[:done])
            if early or not written:
                _force(self._log)
        if not lazy and not self._whereabouts.hold:
            self._doubt(calls[:done])
        return done, wakes, told

    def _doubt(self, calls: list[Call]) -> None:
        """The file was removed while the commit was under way. What need not last counts, such as a claim: whoever made it runs the
        job, and can say so should the file be put back."""
        for call in calls:
            if not call.lazy:
                call.error = StoreUnavailable(f"SQLite does not serve just now: {GONE}")
        self._disconnect()

    def _take_up_offers(self, connection: sqlite3.Connection, keeper: Keeper) -> None:
        with self._lock:
            self._taken, self._offers = self._offers, []
        for call in self._taken:
            self._run_one(connection, keeper, [call], alone=False)

    def _put_back_offers(self) -> None:
        with self._lock:
            self._offers += self._taken
        self._taken = []

    def _run_one(self, connection: sqlite3.Connection, keeper: Keeper, calls: list[Call], *, alone: bool) -> bool:
        """Run one call, or several joined into one, so that its failure undoes nothing else."""
        if not alone:
            connection.execute("savepoint call")
        transaction = Transaction(connection, keeper, self._stamp.mint, self._stamp.begin(), self._stamp.steady())
        try:
            _perform(transaction, calls)
        except Exception as error:
            keeper.forget()
            if is_busy(error) or is_away(error) or not connection.in_transaction:
                raise
            connection.execute("rollback" if alone else "rollback to call")
            if len(calls) > 1:
                # One of them spoils it for the others: each on its own, then.
                connection.execute("release call")
                woke = [self._run_one(connection, keeper, [call], alone=False) for call in calls]
                return any(woke)
            calls[0].error = translated(error)
            transaction.wakes = False
        if not alone:
            connection.execute("release call")
        return transaction.wakes

    # --- The connection ---

    def _connect(self) -> tuple[sqlite3.Connection, Keeper]:
        if self._connection is None or self._keeper is None:
            self._connection = connection = self._open()
            self._lazy = not self._durable
            self._keeper = Keeper(connection)
        if self._doubtful:
            # What did not get to disk may be a hole in the log, and nothing behind a hole is found again: begin a new one.
            busy, *_ = self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            if busy:
                raise StoreUnavailable("its log did not get to disk, and others are still reading it")
            self._doubtful = False
        return self._connection, self._keeper

    def _open(self) -> sqlite3.Connection:
        """The file that was there before, or what an operator has put in its place."""
        if not self._path.exists():
            raise StoreUnavailable(GONE)
        connection = connect_writer(self._path, durable=self._durable)
        try:
            self._whereabouts = whereabouts = Whereabouts(self._path, connection)
            if whereabouts.file != self._file:
                self._turn.close()  # the queue of those who write may be another one, too
                migrator.check(connection)
                logger.warning("the store's file was replaced by another; going on with the one that is there now")
                self._file = whereabouts.file
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_level(self, connection: sqlite3.Connection, *, lazy: bool) -> None:
        """How much the next commit waits for: FULL, for the log to be on disk; NORMAL, for nothing."""
        if lazy is not self._lazy:
            connection.execute(f"pragma synchronous = {'normal' if lazy else 'full'}")
            self._lazy = lazy

    def _disconnect(self) -> None:
        connection, self._connection, self._keeper = self._connection, None, None
        log, self._log = self._log, None
        if log is not None:
            os.close(log)
        if connection is not None:
            connection.close()

    def _roll_back(self, *, broken: bool) -> None:
        """Undo the group. After an I/O error the connection goes too: what it holds in memory may not be what is on disk."""
        if self._keeper is not None:
            self._keeper.forget()
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


def _joined(calls: list[Call], start: int) -> list[Call]:
    """The call at `start`, with the neighbours behind it that ask for the same work on other items."""
    first = calls[start]
    joined = [first]
    if first.items is not None and len(first.items) < LARGE_CALL:
        size = len(first.items)
        for call in calls[start + 1 :]:
            if call.work is not first.work or call.items is None or len(call.items) >= LARGE_CALL or size > JOINED_AT_MOST:
                break
            joined.append(call)
            size += len(call.items)
    return joined


def _perform(transaction: Transaction, calls: list[Call]) -> None:
    for call in calls:
        call.error = None  # of an attempt before this one
    first = calls[0]
    if first.items is None:
        first.result = first.work(transaction)
    elif len(calls) == 1:
        first.result = first.work(transaction, first.items)
    else:
        results = first.work(transaction, [item for call in calls if call.items is not None for item in call.items])
        start = 0
        for call in calls:
            assert call.items is not None
            call.result = results[start : start + len(call.items)]
            start += len(call.items)


def _settle(calls: list[Call]) -> None:
    """Let every caller know, with one signal to each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        loops.setdefault(call.future.get_loop(), []).append(call)
    for loop, settled in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle_all, settled)


def _settle_all(calls: list[Call]) -> None:
    for call in calls:
        call.settle()
