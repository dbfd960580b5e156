"""The writer: what shares a commit, what fails alone, and what nobody is told by mistake."""

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost, NotFound, StoreUnavailable
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue, UpdateQueue
from taskforge.domain.worker import NewWorker
from taskforge.storage.sqlite import opening, writer
from taskforge.storage.sqlite.calls import Call
from taskforge.storage.sqlite.engine import SqliteEngine
from taskforge.storage.sqlite.transaction import Transaction


class Held:
    """Keeps the writer busy until told, so that what is asked meanwhile waits together."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._began, self._go = threading.Event(), threading.Event()
        self._future = engine._writer.submit(self._wait)
        assert self._began.wait(30)

    def _wait(self, _: Transaction) -> None:
        self._began.set()
        assert self._go.wait(30)

    async def release(self) -> None:
        self._go.set()
        await self._future


def commits(engine: SqliteEngine) -> list[int]:
    """Notes the size of every group the writer commits from now on."""
    sizes: list[int] = []
    write = engine._writer._write

    def noted(calls: list[Call]) -> tuple[int, bool, bool]:
        done, *rest = write(calls)
        sizes.append(done)
        return done, *rest

    engine._writer._write = noted  # type: ignore[method-assign]
    return sizes


async def begin(*calls: Any) -> list["asyncio.Task[Any]"]:
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def test_what_waits_together_shares_one_commit(engine: SqliteEngine) -> None:
    sizes, held = commits(engine), Held(engine)
    tasks = await begin(
        *(engine.insert(1, [new_job("default", "work", number)]) for number in range(64))
    )
    await held.release()
    answers = await asyncio.gather(*tasks)
    assert sizes == [1, 64]
    ids = [answer.job for [answer] in answers if isinstance(answer, Inserted)]
    assert len(set(ids)) == 64
    # Joined into one batch, they still stand in the order in which they were asked for.
    jobs = await engine.get([1], ids)
    assert [bytes(job.payload or b"") for job in jobs] == [
        str(number).encode() for number in range(64)
    ]
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    assert [claimed.payload for claimed in await engine.claim(Claim(worker.incarnation, 64))] == [
        str(number).encode() for number in range(64)
    ]


async def test_a_call_that_fails_undoes_nothing_but_itself(engine: SqliteEngine) -> None:
    sizes, held = commits(engine), Held(engine)
    tasks = await begin(
        engine.insert(1, [new_job("default", "first")]),
        engine.claim(Claim(uuid4(), 1)),
        engine.change_queue(1, UpdateQueue(queue=uuid4(), name="other")),
        engine.insert(1, [new_job("default", "second")]),
    )
    await held.release()
    first, claim, change, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert sizes == [1, 4]
    assert isinstance(claim, LeaseLost)
    assert isinstance(change, NotFound)
    assert isinstance(first[0], Inserted)
    assert isinstance(second[0], Inserted)
    assert [job.job_type for job in (await engine.list_jobs([1], JobFilter(), Page())).jobs] == [
        "second",
        "first",
    ]


async def test_what_failed_half_way_leaves_nothing_in_the_file_or_in_memory(
    engine: SqliteEngine,
) -> None:
    def spoilt(transaction: Transaction) -> None:
        transaction.catalog_cache.lane_for(1, (1, "new kind", 0, ""))
        assert transaction.catalog_cache.find_lane((1, "new kind", 0, "")) is not None
        raise ValueError("half way")

    held = Held(engine)
    failing = engine._writer.submit(spoilt)
    [following] = await begin(engine.insert(1, [new_job("default", "new kind")]))
    await held.release()
    with pytest.raises(ValueError, match="half way"):
        await failing
    [answer] = await following
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    [claimed] = await engine.claim(Claim(worker.incarnation, 1))
    assert isinstance(answer, Inserted)
    assert claimed.job_type == "new kind"


async def test_a_version_that_never_was_does_not_hide_what_another_process_changed(
    engine: SqliteEngine, path: Path
) -> None:
    """A call raises the catalog's version and fails; the other process's change then gets the same
    number."""
    [queue] = await engine.queues([1])
    await engine.insert(1, [new_job("default", "work")])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)

    def spoilt(transaction: Transaction) -> None:
        transaction.catalog_cache.raise_version(1)
        transaction.catalog_cache.of(1)
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        await engine._writer.submit(spoilt)
    other = SqliteEngine(path)
    await other.open()
    await other.change_queue(1, UpdateQueue(queue=queue.id, is_active=False))
    await other.close()
    assert await engine.claim(Claim(worker.incarnation, 1)) == []


async def test_one_spoilt_insert_among_joined_ones_fails_alone(engine: SqliteEngine) -> None:
    good, bad = new_job("default", "work"), new_job("default", "work")
    spoilt = type(bad)(queue="default", job_type="work", payload=b"\xff not text")
    held = Held(engine)
    tasks = await begin(
        engine.insert(1, [good]), engine.insert(1, [spoilt]), engine.insert(1, [bad])
    )
    await held.release()
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(second, UnicodeDecodeError)
    assert isinstance(first[0], Inserted)
    assert isinstance(third[0], Inserted)
    assert (await engine.stats([1]))[0].pending == 2


async def test_a_caller_that_gave_up_before_its_turn_gets_no_work_done(
    engine: SqliteEngine,
) -> None:
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    await engine.insert(1, [new_job("default", "work")])
    held = Held(engine)
    [task] = await begin(engine.claim(Claim(worker.incarnation, 1)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await held.release()
    assert len(await engine.claim(Claim(worker.incarnation, 1))) == 1


async def test_a_finish_and_a_claim_side_by_side_share_a_commit_and_fail_apart(
    engine: SqliteEngine,
) -> None:
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    await engine.insert(1, [new_job("default", "work")] * 2)
    [first] = await engine.claim(Claim(worker.incarnation, 1))
    sizes = commits(engine)
    lost, [second] = await asyncio.gather(
        engine.finish([Finish(first.fence, ToSucceeded())]),
        engine.claim(Claim(worker.incarnation, 1)),
    )
    assert lost == []
    assert sizes == [2]
    lost, refused = await asyncio.gather(
        engine.finish([Finish(second.fence, ToSucceeded())]),
        engine.claim(Claim(uuid4(), 1)),
        return_exceptions=True,
    )
    assert lost == []
    assert isinstance(refused, LeaseLost)
    assert (await engine.stats([1]))[0].succeeded == 2


async def test_another_process_that_holds_the_file_is_waited_for(
    engine: SqliteEngine, path: Path
) -> None:
    neighbour = sqlite3.connect(path, isolation_level=None)
    try:
        neighbour.execute("begin immediate")
        [task] = await begin(engine.insert(1, [new_job("default", "work")]))
        await asyncio.sleep(0.05)
        assert not task.done()
        neighbour.execute("rollback")
        [answer] = await task
        assert isinstance(answer, Inserted)
    finally:
        neighbour.close()


async def test_one_that_holds_it_too_long_makes_the_store_unavailable(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BUSY_SECONDS", 0.02)
    neighbour = sqlite3.connect(path, isolation_level=None)
    try:
        neighbour.execute("begin immediate")
        with pytest.raises(StoreUnavailable):
            await engine.insert(1, [new_job("default", "work")])
        # Reading goes on meanwhile, and the health check is a read.
        assert (await engine.stats([1]))[0].pending == 0
        await engine.now()
        neighbour.execute("rollback")
    finally:
        neighbour.close()
    assert (await engine.stats([1]))[0].pending == 0
    assert isinstance((await engine.insert(1, [new_job("default", "work")]))[0], Inserted)


async def test_a_commit_that_fails_acknowledges_nothing(
    engine: SqliteEngine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Torn:
        """A connection whose commits fail as they do on a broken disk."""

        def __init__(self, real: sqlite3.Connection) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def execute(self, text: str, *arguments: Any) -> Any:
            if text == "commit":
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC  # type: ignore[misc]
                raise error
            return self._real.execute(text, *arguments)

    connect = opening.connect_writer
    held = Held(engine)
    tasks = await begin(
        engine.insert(1, [new_job("default", "work")]),
        engine.change_queue(1, CreateQueue(name="other")),
        engine.fold(10),
    )
    monkeypatch.setattr(opening, "connect_writer", lambda *a, **k: Torn(connect(*a, **k)))
    engine._writer._disconnect()
    await asyncio.gather(held.release(), return_exceptions=True)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    monkeypatch.setattr(opening, "connect_writer", connect)
    assert [queue.name for queue in await engine.queues([1])] == ["default"]
    assert (await engine.stats([1]))[0].pending == 0
    # The broken connection is gone; the next call gets a new one.
    assert isinstance((await engine.insert(1, [new_job("default", "work")]))[0], Inserted)


async def test_a_long_backlog_is_cut_into_groups(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP_SECONDS", 0.0)
    sizes, held = commits(engine), Held(engine)
    tasks = await begin(*(engine.fold(10) for _ in range(5)))
    await held.release()
    await asyncio.gather(*tasks)
    assert sizes == [1, 1, 1, 1, 1, 1]


async def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database " * 100)
    with pytest.raises(
        StoreUnavailable,
        match=r"cannot open \S+/nowhere/jobs.db: unable to open .*; does its folder exist",
    ):
        await SqliteEngine(tmp_path / "nowhere" / "jobs.db").open()
    with pytest.raises(StoreUnavailable, match=r"cannot open \S+/text.db: file is not a database$"):
        await SqliteEngine(tmp_path / "text.db").open()


async def test_close_finishes_what_is_queued_and_refuses_what_comes_after(path: Path) -> None:
    of_others = set(threading.enumerate())
    engine = SqliteEngine(path)
    with pytest.raises(StoreUnavailable):
        await engine.fold(1)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    held = Held(engine)
    tasks = await begin(*(engine.insert(1, [new_job("default", "work")]) for _ in range(10)))
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0.02)
    assert not closing.done()
    with pytest.raises(StoreUnavailable):
        await engine.insert(1, [new_job("default", "work")])
    await held.release()
    answers = await asyncio.gather(*tasks)
    await closing
    assert all(isinstance(answer, Inserted) for [answer] in answers)
    with pytest.raises(StoreUnavailable):
        await engine.stats([1])
    await engine.close()
    assert not [
        thread.name
        for thread in set(threading.enumerate()) - of_others
        if thread.name.startswith("taskforge-sqlite")
    ]


async def test_a_claim_costs_the_same_beside_lanes_that_nobody_takes(engine: SqliteEngine) -> None:
    worker = await engine.register(1, NewWorker(name="w", types=("mine",)), 60)

    async def seconds() -> float:
        await engine.insert(1, [new_job("default", "mine")] * 300)
        started = time.perf_counter()
        for _ in range(30):
            claimed = await engine.claim(Claim(worker.incarnation, 10))
            assert len(claimed) == 10
            await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
        return time.perf_counter() - started

    alone = min([await seconds() for _ in range(3)])
    for number in range(20):
        await engine.insert(1, [new_job("default", f"nobodys-{number % 4}")] * 1_000)
    assert min([await seconds() for _ in range(3)]) < 3 * alone


async def test_what_is_rolled_back_is_not_in_the_log(
    engine: SqliteEngine, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(transaction: Transaction) -> None:
        transaction.catalog_cache.news.append("never")
        raise NotFound("job", "x")

    with pytest.raises(NotFound):
        await engine._writer.submit(fail)
    await engine._writer.submit(lambda transaction: transaction.catalog_cache.news.append("once"))
    await engine._writer.submit(lambda _: None)
    assert [record.message for record in caplog.records] == ["once"]
