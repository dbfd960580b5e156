"""Standing claims: what an idle worker left with the writer is taken up by the next insert, once,
and never by mistake."""

import asyncio
import errno
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from taskforge import TaskForge
from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost, StoreUnavailable
from taskforge.domain.job import Claimed, Inserted, new_job
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.storage.sqlite import writer
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.support.world import Clock

FULL = 2  # as SQLite counts its levels of "synchronous"


async def _insert(engine: SqliteEngine, count: int) -> None:
    await engine.insert(1, [new_job("default", "work", number) for number in range(count)])


async def _payloads(engine: SqliteEngine, claim: Claim) -> list[bytes]:
    return [job.payload for job in await engine.claim(claim)]


async def test_the_next_jobs_are_taken_with_their_insert(engine: SqliteEngine) -> None:
    first, second = [
        (await engine.register(1, NewWorker(name=name, max_concurrent_jobs=1_000), 60)).incarnation
        for name in ("first", "second")
    ]
    assert await engine.claim(Claim(first, 2, standing=True)) == []
    await _insert(engine, 3)
    assert (await engine.stats([1]))[0].processing == 2
    assert await _payloads(engine, Claim(second, 5)) == [b"2"]
    # nothing is offered: it has all it wants
    assert await _payloads(engine, Claim(first, 2, standing=True)) == [b"0", b"1"]
    await _insert(engine, 1)
    assert await _payloads(engine, Claim(second, 5)) == [b"0"]


async def test_one_that_got_less_goes_on_standing_for_the_rest(engine: SqliteEngine) -> None:
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    await _insert(engine, 1)
    assert await _payloads(engine, Claim(worker, 3, standing=True)) == [b"0"]
    await _insert(engine, 5)
    assert (await engine.stats([1]))[0].processing == 3
    assert await _payloads(engine, Claim(worker, 0)) == [b"0", b"1"]


async def test_what_was_being_reported_when_it_was_left_makes_no_slots_later(
    engine: SqliteEngine,
) -> None:
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=2), 60)
    ).incarnation
    await _insert(engine, 2)
    assert await _payloads(engine, Claim(worker, 2)) == [b"0", b"1"]
    assert await engine.claim(Claim(worker, 2, standing=True, reporting=2)) == []
    await _insert(engine, 2)
    assert (await engine.stats([1]))[0].processing == 2
    assert await _payloads(engine, Claim(worker, 2, standing=True, reporting=2)) == [b"0", b"1"]


async def test_limit_0_ends_it_and_brings_what_it_has(engine: SqliteEngine) -> None:
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    assert await engine.claim(Claim(worker, 2, standing=True)) == []
    assert await engine.claim(Claim(worker, 0)) == []
    await _insert(engine, 1)
    assert (await engine.stats([1]))[0].processing == 0
    assert await engine.claim(Claim(worker, 0)) == []


async def test_a_lease_that_is_over_spoils_no_insert(path: Path) -> None:
    clock = Clock()
    engine = SqliteEngine(path, clock=clock)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    worker = (
        await engine.register(1, NewWorker(name="late", max_concurrent_jobs=1_000), 10)
    ).incarnation
    assert await engine.claim(Claim(worker, 2, standing=True)) == []
    clock.advance(11)
    await _insert(engine, 2)
    assert (await engine.stats([1]))[0].pending == 2
    with pytest.raises(LeaseLost):
        await engine.claim(Claim(worker, 2, standing=True))
    await engine.close()


class Disk:
    """Holds up the forcing of the log, or lets it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._force, self._works = writer._force, threading.Event()
        self.fails = False
        monkeypatch.setattr(writer, "_force", self._act)

    def go_on(self, *, fails: bool = False) -> None:
        self.fails = fails
        self._works.set()

    def _act(self, log: int) -> None:
        self._works.wait(10)
        if self.fails:
            raise OSError(errno.EIO, "the disk is gone")
        self._force(log)


async def test_the_handler_starts_while_the_disk_works_and_the_caller_hears_when_it_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge, started = TaskForge(f"sqlite:///{path}"), asyncio.Event()

    @forge.job()
    async def work() -> None:
        started.set()

    async with forge:
        working = asyncio.create_task(forge.work())
        await (await work.enqueue()).result(timeout=10)
        await _idle(forge)
        started.clear()
        disk = Disk(monkeypatch)
        enqueueing = asyncio.ensure_future(work.enqueue())
        await asyncio.wait_for(started.wait(), 5)
        await asyncio.sleep(0.05)
        assert not enqueueing.done()
        disk.go_on()
        await (await asyncio.wait_for(enqueueing, 5)).result(timeout=10)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _idle(forge: TaskForge) -> None:
    """Until the worker has left an offer again."""
    engine = await forge.engine()
    assert isinstance(engine, SqliteEngine)
    async with asyncio.timeout(5):
        while not engine._writer._offers:
            await asyncio.sleep(0.005)


async def test_what_another_process_finds_is_on_disk_before_its_caller_hears_of_it(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of a job that this process is still forcing to disk: the other one answers by it, but
    not before."""
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    assert await engine.claim(Claim(worker, 1, standing=True)) == []
    other = SqliteEngine(path)
    await other.open()
    try:
        disk = Disk(monkeypatch)
        job = new_job("default", "work", idempotency_key="k")
        first = asyncio.ensure_future(engine.insert(1, [job]))
        async with asyncio.timeout(5):
            while not (await other.stats([1]))[0].processing:
                await asyncio.sleep(0.005)
        second = asyncio.ensure_future(other.insert(1, [job]))
        await asyncio.sleep(0.2)
        assert not first.done()
        assert not second.done()
        disk.go_on()
        [made], [found] = await asyncio.gather(first, second)
        assert isinstance(made, Inserted)
        assert found == Inserted(made.job, existed=True)
    finally:
        await other.close()


async def test_a_store_behind_a_link_is_forced_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "jobs.db").symlink_to(tmp_path / "real" / "jobs.db")
    engine = SqliteEngine(tmp_path / "jobs.db")
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="default"))
        worker = (
            await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
        ).incarnation
        monkeypatch.chdir(tmp_path)
        for _ in range(2):
            assert await engine.claim(Claim(worker, 1, standing=True)) == []
            await _insert(engine, 1)
            assert await _payloads(engine, Claim(worker, 0)) == [b"0"]
    finally:
        await engine.close()


async def test_a_disk_that_fails_then_acknowledges_nothing_and_what_follows_is_durable(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    assert await engine.claim(Claim(worker, 1, standing=True)) == []
    await engine.stats([1])  # a reader keeps the log open
    Disk(monkeypatch).go_on(fails=True)
    with pytest.raises(StoreUnavailable):
        await _insert(engine, 1)
    monkeypatch.undo()
    log = Path(f"{path}-wal")
    before = log.stat().st_size
    await _insert(engine, 1)
    assert 0 < log.stat().st_size < before  # a new log, without the part that may be a hole
    # stored and claimed, only not known to be durable
    assert (await engine.stats([1]))[0].processing == 1
    assert await _payloads(engine, Claim(worker, 2)) == [b"0"]
    assert await _payloads(engine, Claim(worker, 2)) == [b"0"]


async def test_after_a_connection_is_lost_under_a_standing_claim_the_next_insert_waits_for_the_disk(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new connection has no log yet that could be forced by hand: its commit has to do it."""
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    await _insert(engine, 1)
    assert await _payloads(engine, Claim(worker, 1)) == [b"0"]
    assert await engine.claim(Claim(worker, 1, standing=True)) == []

    def fails(_: Any) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR  # type: ignore[misc]
        raise error

    with pytest.raises(StoreUnavailable):
        await engine._writer.submit(fails)
    levels, forced = [], []
    set_level, force = engine._writer._set_level, writer._force

    def watch(connection: sqlite3.Connection, *, lazy: bool) -> None:
        set_level(connection, lazy=lazy)
        levels.extend(connection.execute("pragma synchronous").fetchone())

    monkeypatch.setattr(engine._writer, "_set_level", watch)
    monkeypatch.setattr(writer, "_force", lambda log: (force(log), forced.append(log)))
    await _insert(engine, 1)
    assert len(levels) == 1
    assert levels == [FULL] or forced, "acknowledged before it was on disk"


class Held:
    """Holds up the next transaction that takes up offers, after it did, until it is told to go on,
    or to fail."""

    def __init__(self, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._take_up = engine._writer._take_up_offers
        self._reached, self._going_on = threading.Event(), threading.Event()
        self._fails = False
        monkeypatch.setattr(engine._writer, "_take_up_offers", self._act)

    def _act(self, *arguments: Any) -> None:
        self._take_up(*arguments)
        self._reached.set()
        self._going_on.wait(10)
        if self._fails:
            raise sqlite3.OperationalError("the disk is gone")

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 10)

    def go_on(self, *, fails: bool) -> None:
        self._fails = fails
        self._going_on.set()


async def _asked_meanwhile(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> tuple[Claim, Held, "asyncio.Future[None]", "asyncio.Future[list[Claimed]]"]:
    """A worker's standing claim is taken up by an insert that does not end yet, and the worker asks
    for what it got."""
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    assert await engine.claim(Claim(worker, 2, standing=True)) == []
    held = Held(engine, monkeypatch)
    inserting = asyncio.ensure_future(_insert(engine, 1))
    await held.reached()
    last = Claim(worker, 0)
    asking = asyncio.ensure_future(engine.claim(last))
    await asyncio.sleep(0.05)
    return last, held, inserting, asking


async def test_a_transaction_that_fails_answers_whoever_waits(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be full while a worker stops: it must not wait for an insert that never
    comes."""
    last, held, inserting, asking = await _asked_meanwhile(engine, monkeypatch)
    held.go_on(fails=True)
    assert await asyncio.wait_for(asking, 5) == []
    with pytest.raises(StoreUnavailable):
        await inserting
    monkeypatch.undo()
    assert (await engine.stats([1]))[0].processing == 0
    assert await engine.claim(Claim(last.incarnation, 2, standing=True)) == []
    await _insert(engine, 1)
    assert await _payloads(engine, last) == [b"0"]


async def test_an_answer_that_was_not_waited_for_comes_with_the_next_claim(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    last, held, inserting, asking = await _asked_meanwhile(engine, monkeypatch)
    asking.cancel()
    held.go_on(fails=False)
    await inserting
    assert await _payloads(engine, last) == [b"0"]


async def test_workers_that_stop_at_any_moment_keep_nothing(path: Path) -> None:
    forge = TaskForge(f"sqlite:///{path}", poll_seconds=0.05)
    ran = 0

    @forge.job()
    async def work() -> None:
        nonlocal ran
        ran += 1

    async with forge:
        engine = await forge.engine()
        stopped = asyncio.Event()
        handles = []

        async def load() -> None:
            while not stopped.is_set():
                handles.append(await work.enqueue())
                await asyncio.sleep(0.001)

        loading = asyncio.create_task(load())
        for number in range(8):
            worker = await forge.worker(slots=3)
            working = asyncio.create_task(worker.run())
            await worker.ready.wait()
            await asyncio.sleep(0.05 + number * 0.0007)
            worker.stop()
            await working
        stopped.set()
        await loading
        [stats] = [one for one in await engine.stats([1]) if one.queue == "default"]
        assert (stats.processing, stats.succeeded) == (0, ran)
        assert stats.pending + stats.succeeded == len(handles)
        for job in await engine.get([1], [handle.id for handle in handles]):
            assert (job.attempt_count, job.crash_count) == (int(job.status.is_final), 0)


async def test_a_log_that_may_have_a_hole_is_in_doubt_until_a_new_one_has_begun(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as somebody reads the old one nothing can be written, however often that is tried."""
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    assert await engine.claim(Claim(worker, 1, standing=True)) == []
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from jobs").fetchone()
    Disk(monkeypatch).go_on(fails=True)
    with pytest.raises(StoreUnavailable):
        await _insert(engine, 1)
    monkeypatch.undo()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="others are still reading it"):
            await _insert(engine, 1)
    reader.close()
    await _insert(engine, 1)


async def test_what_a_busy_file_threw_back_is_taken_up_again_and_only_then_answered(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    assert await engine.claim(Claim(worker, 1, standing=True)) == []
    take_up, tries = engine._writer._take_up_offers, []

    def be_busy_at_first(*arguments: Any) -> None:
        take_up(*arguments)
        tries.append(len(engine._writer._taken))
        if len(tries) == 1:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY  # type: ignore[misc]
            raise error

    monkeypatch.setattr(engine._writer, "_take_up_offers", be_busy_at_first)
    await _insert(engine, 1)
    assert tries == [1, 1]
    assert (await engine.stats([1]))[0].processing == 1
    assert await _payloads(engine, Claim(worker, 0)) == [b"0"]
