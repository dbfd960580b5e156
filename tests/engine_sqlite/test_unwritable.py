"""A file that cannot be written for a while: nothing of that time stays open, and the store serves
again as soon as it can be."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import Inserted, new_job
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.engine_sqlite.processes import Child

FILES = ("", "-wal")
ALL = (*FILES, "-shm")
TRIES = 20
# Keeps the log and its index there, as any other process on the file does.
HOLDER = """
    import sqlite3, sys, time
    connection = sqlite3.connect(sys.argv[1])
    connection.execute("select count(*) from jobs").fetchall()
    print("holds", flush=True)
    time.sleep(120)
"""


@contextlib.contextmanager
def unwritable(path: Path, ends: tuple[str, ...]) -> Iterator[None]:
    """Nobody can open these files for writing: permissions, or for root, who may write all the
    same, an attribute."""
    files = [f"{path}{end}" for end in ends]
    if os.geteuid() != 0:
        for file in files:
            Path(file).chmod(0o444)
        try:
            yield
        finally:
            for file in files:
                Path(file).chmod(0o644)
        return
    chattr = shutil.which("chattr")
    if chattr is None:
        pytest.skip("root may write every file, and nothing here makes one immutable")
    try:
        if subprocess.run([chattr, "+i", *files], check=False, capture_output=True).returncode:
            pytest.skip("root may write every file, and none can be made immutable here")
        yield
    finally:
        subprocess.run([chattr, "-i", *files], check=False, capture_output=True)


@pytest.fixture
def held(engine: SqliteEngine, path: Path, child: type[Child]) -> Path:
    """The path of a store that another process has open."""
    assert child(HOLDER, path).line() == "holds"
    return path


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted there")
@pytest.mark.parametrize("ends", [FILES, ALL], ids=["file and log", "all"])
async def test_who_opens_it_meanwhile_leaks_nothing_and_serves_afterwards(
    engine: SqliteEngine, held: Path, ends: tuple[str, ...]
) -> None:
    await engine.close()
    with unwritable(held, ends):
        late = SqliteEngine(held)
        await late.open(migrate=False)
        forget = late.on_work(lambda: None)  # as a worker does
        try:
            await _refused(late)
            before = open_files()
            for _ in range(TRIES):
                await _refused(late)
            grown = open_files() - before
        except BaseException:
            await late.close()
            raise
    try:
        [answer] = await late.insert(1, [new_job("default", "work")])
        assert isinstance(answer, Inserted)
        assert (await late.stats([1]))[0].pending == 1
        assert grown <= 2, f"{grown} more open files after {TRIES} tries"
    finally:
        forget()
        await late.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted there")
async def test_reads_of_a_file_that_cannot_be_written_leak_nothing(
    engine: SqliteEngine, held: Path
) -> None:
    """Also where connections of before are open: SQLite closes no file as long as one of them
    holds a lock on it."""
    await engine.stats([1])
    with unwritable(held, FILES):
        reader = SqliteEngine(held)
        await reader.open(migrate=False)
        await reader.stats([1])
        before = open_files()
        for _ in range(TRIES):
            assert (await reader.stats([1]))[0].pending == 0
        grown = open_files() - before
        await reader.close()
    assert grown <= 2, f"{grown} more open files after {TRIES} reads"


async def _refused(engine: SqliteEngine) -> None:
    """The store can be read, and not be written."""
    with pytest.raises(StoreUnavailable, match="cannot be written by this process"):
        await engine.insert(1, [new_job("default", "work")])
    assert (await engine.queues([1]))[0].name == "default"
