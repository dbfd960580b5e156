"""Several processes on one file: opening, waking, leaving."""

import asyncio
import socket
import sqlite3
from pathlib import Path

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnsuitable
from taskforge.domain.job import new_job
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.storage.sqlite import connections, signals
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.engine_sqlite.processes import Child

OPEN = """
import asyncio, sys
from taskforge.storage.sqlite.engine import SqliteEngine

async def main():
    engine = SqliteEngine(sys.argv[1])
    await engine.open()
    print("open", flush=True)
    await engine.close()

asyncio.run(main())
"""

LISTEN = """
import asyncio, sys
from taskforge.domain.worker import NewWorker
from taskforge.domain.claim import Claim
from taskforge.storage.sqlite.engine import SqliteEngine

async def main():
    engine = SqliteEngine(sys.argv[1])
    await engine.open()
    woken = asyncio.Event()
    stop = engine.on_work(woken.set)
    worker = await engine.register(1, NewWorker(name="other", max_concurrent_jobs=1_000), 60)
    # The first look at the file, and whatever this process wrote itself, are no news.
    await asyncio.sleep(1.2)
    woken.clear()
    print("listening", flush=True)
    async with asyncio.timeout(20):
        await woken.wait()
    [claimed] = await engine.claim(Claim(worker.incarnation, 1))
    print(claimed.payload.decode(), flush=True)
    stop()
    await engine.close()

asyncio.run(main())
"""


async def test_processes_that_start_at_once_migrate_once(path: Path, child: type[Child]) -> None:
    children = [child(OPEN, path) for _ in range(4)]
    for one in children:
        assert await asyncio.to_thread(one.wait) == (0, "")
    rows = _rows(path, "select number, name from migrations")
    assert rows[0] == (1, "ground")
    assert _rows(path, "select count(*) from projects") == [(1,)]
    assert _rows(path, "pragma journal_mode") == [("wal",)]


@pytest.mark.parametrize("way", ["socket", "poll"])
async def test_one_process_wakes_another(
    way: str, engine: SqliteEngine, path: Path, child: type[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = child(LISTEN, path)
    assert await asyncio.to_thread(other.line) == "listening"
    [bound] = path.with_name("jobs.db-wake").iterdir()
    assert bound.name.startswith(f"{other.process.pid}-")
    if way == "poll":
        monkeypatch.setattr(engine._signals, "_send_to", lambda _: None)
    started = asyncio.get_running_loop().time()
    await engine.insert(1, [new_job("default", "work", "wake up")])
    assert await asyncio.to_thread(other.line) == '"wake up"'
    assert asyncio.get_running_loop().time() - started < (5.0 if way == "poll" else 2.0)
    assert await asyncio.to_thread(other.wait) == (0, "")
    assert not path.with_name("jobs.db-wake").exists()


async def test_a_socket_that_nobody_reads_is_removed(
    engine: SqliteEngine, path: Path, child: type[Child]
) -> None:
    other = child(LISTEN, path)
    assert await asyncio.to_thread(other.line) == "listening"
    other.kill()
    await asyncio.to_thread(other.wait)
    folder = path.with_name("jobs.db-wake")
    assert len(list(folder.iterdir())) == 1
    await engine.insert(1, [new_job("default", "work")])
    # The signal goes out behind the acknowledgement, the next call comes behind the signal.
    await engine.fold(1)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("depth", [1, 10])
async def test_callbacks_come_in_the_loop_and_stop_when_told(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a long name of a folder"] * depth)
    folder.mkdir(parents=True)
    one, other = SqliteEngine(folder / "jobs.db"), SqliteEngine(folder / "jobs.db")
    await one.open()
    await other.open()
    try:
        await one.change_queue(1, CreateQueue(name="default"))
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        calls = 0

        def wake() -> None:
            nonlocal calls
            assert asyncio.get_running_loop() is loop
            calls += 1
            woken.set()

        stop = other.on_work(wake)
        assert isinstance(other._signals._socket, socket.socket)
        async with asyncio.timeout(10):
            await one.insert(1, [new_job("default", "work")])
            await woken.wait()
            woken.clear()
            await asyncio.gather(
                *(other.insert(1, [new_job("default", "work")]) for _ in range(50))
            )
            await woken.wait()
        assert calls <= 10  # one for each commit at most, never one for each job
        stop()
        stop()
        before = calls
        await one.insert(1, [new_job("default", "work")])
        await other.insert(1, [new_job("default", "work")])
        await asyncio.sleep(0.05)
        assert calls == before
    finally:
        await one.close()
        await other.close()
    assert not (folder / "jobs.db-wake").exists()


async def test_without_sockets_the_file_is_looked_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    monkeypatch.setattr(signals, "POLL_SECONDS", 0.05)
    one, other = SqliteEngine(path), SqliteEngine(path)
    await one.open()
    await other.open()
    try:
        await one.change_queue(1, CreateQueue(name="default"))
        woken = asyncio.Event()
        other.on_work(woken.set)
        async with asyncio.timeout(10):
            # Until it has looked once there is nothing to compare with, so keep writing.
            while not woken.is_set():
                await one.insert(1, [new_job("default", "work")])
                await asyncio.sleep(0.01)
    finally:
        await one.close()
        await other.close()


async def test_two_processes_write_side_by_side(
    engine: SqliteEngine, path: Path, child: type[Child]
) -> None:
    program = """
    import asyncio, sys
    from taskforge.domain.job import new_job
    from taskforge.storage.sqlite.engine import SqliteEngine

    async def main():
        engine = SqliteEngine(sys.argv[1])
        await engine.open()
        print("open", flush=True)
        for _ in range(100):
            await engine.insert(1, [new_job("default", sys.argv[2])])
        await engine.close()

    asyncio.run(main())
    """
    others = [child(program, path, f"kind-{number}") for number in range(2)]
    for other in others:
        assert await asyncio.to_thread(other.line) == "open"
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    taken: list[object] = []
    async with asyncio.timeout(60):
        while len(taken) < 200:
            taken += [one.fence for one in await engine.claim(Claim(worker.incarnation, 50))]
            await asyncio.sleep(0.001)
    for other in others:
        assert await asyncio.to_thread(other.wait) == (0, "")
    assert len(set(taken)) == 200


async def test_a_file_that_is_behind_or_ahead_is_refused(path: Path) -> None:
    fresh = SqliteEngine(path)
    with pytest.raises(StoreUnsuitable, match="taskforge migrate"):
        await fresh.open(migrate=False)
    engine = SqliteEngine(path)
    await engine.open()
    await engine.close()
    later = sqlite3.connect(path)
    later.execute("insert into migrations (number, name, applied_at) values (9999, 'later', 0)")
    later.commit()
    later.close()
    for migrate in (True, False):
        refused = SqliteEngine(path)
        with pytest.raises(StoreUnsuitable, match="newer than this release"):
            await refused.open(migrate=migrate)


def test_an_old_sqlite_is_refused() -> None:
    with pytest.raises(StoreUnsuitable, match=r"3\.37\.2 is too old.*3\.38\.0"):
        connections.check_version((3, 37, 2))
    connections.check_version()


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_what_durable_means(path: Path, *, durable: bool, level: int) -> None:
    made = connections.connect_writer(path, durable=durable, make=True)
    try:
        assert made.execute("pragma synchronous").fetchone() == (level,)
        assert made.execute("pragma journal_mode").fetchone() == ("wal",)
    finally:
        made.close()


@pytest.mark.parametrize(
    "ending",
    ["return", "raise SystemExit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"],
)
async def test_a_process_that_forgets_to_close_ends_by_itself(
    ending: str, path: Path, child: type[Child]
) -> None:
    program = f"""
    import asyncio, sys
    from taskforge.domain.job import new_job
    from taskforge.domain.queue import CreateQueue
    from taskforge.storage.sqlite.engine import SqliteEngine

    async def main():
        engine = SqliteEngine(sys.argv[1])
        await engine.open()
        await engine.change_queue(1, CreateQueue(name="default"))
        engine.on_work(lambda: None)
        calls = [asyncio.ensure_future(engine.insert(1, [new_job("default", "work")]))
                 for _ in range(50)]
        await asyncio.sleep(0)
        await engine.stats([1])
        {ending}

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    """
    code, complaints = await asyncio.to_thread(child(program, path).wait)
    assert (code, complaints) == (0, "")
    assert _rows(path, "pragma integrity_check") == [("ok",)]


def _rows(path: Path, text: str) -> list[tuple[object, ...]]:
    made = sqlite3.connect(path)
    try:
        return made.execute(text).fetchall()
    finally:
        made.close()
