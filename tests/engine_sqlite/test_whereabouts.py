"""A file that is removed or replaced while it is in use: nothing is acknowledged that would be
gone."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.storage.sqlite.engine import SqliteEngine
from taskforge.storage.sqlite.whereabouts import NOW_AND_THEN_SECONDS

ENDS = ("", "-wal", "-shm")


@pytest.fixture
async def used(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    """With a connection that writes and one that reads."""
    engine = SqliteEngine(tmp_path / "jobs.db")
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    assert await insert(engine)
    assert (await engine.stats([1]))[0].pending == 1
    yield engine
    await engine.close()


async def insert(engine: SqliteEngine) -> bool:
    [answer] = await engine.insert(1, [new_job("default", "work")])
    return isinstance(answer, Inserted)


def copy(folder: Path) -> None:
    source, target = sqlite3.connect(folder / "jobs.db"), sqlite3.connect(folder / "backup.db")
    with closing(source), closing(target):
        source.backup(target)


@pytest.mark.parametrize(
    "ends", [ENDS, ("",), ("-wal",), ("-shm",)], ids=["all", "file", "log", "index"]
)
async def test_nothing_is_acknowledged_into_files_that_are_gone(
    used: SqliteEngine, tmp_path: Path, ends: tuple[str, ...]
) -> None:
    for end in ends:
        (tmp_path / f"jobs.db{end}").unlink()
    # looked at now and then: what is acknowledged meanwhile comes into the file when the log is
    # closed
    if "" not in ends:
        await asyncio.sleep(NOW_AND_THEN_SECONDS)
    with pytest.raises(StoreUnavailable, match="removed"):
        await insert(used)
    if "" not in ends:
        return
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="put it back, or restore a backup"):
            await insert(used)
        with pytest.raises(StoreUnavailable, match="put it back, or restore a backup"):
            await used.stats([1])
    assert not (tmp_path / "jobs.db").exists(), "no empty file may take its place"


async def test_a_claim_of_a_job_in_a_file_that_is_gone_is_none(
    used: SqliteEngine, tmp_path: Path
) -> None:
    """Also one that stands for the next insert, and would be answered before that is on disk."""
    worker = await used.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    await used.claim(Claim(worker.incarnation, 5, standing=True))
    for end in ENDS:
        (tmp_path / f"jobs.db{end}").unlink()
    with pytest.raises(StoreUnavailable):
        await insert(used)
    with pytest.raises(StoreUnavailable):
        await used.claim(Claim(worker.incarnation, 5))


async def test_nothing_is_acknowledged_into_a_file_that_goes_while_it_is_committed(
    used: SqliteEngine, tmp_path: Path
) -> None:
    def remove(statement: str) -> None:
        if statement.lower() == "commit":
            for end in ENDS:
                (tmp_path / f"jobs.db{end}").unlink(missing_ok=True)

    connection = used._writer._connection
    assert connection is not None
    copy(tmp_path)
    connection.set_trace_callback(remove)
    with pytest.raises(StoreUnavailable, match="put it back, or restore a backup"):
        await insert(used)
    (tmp_path / "backup.db").rename(tmp_path / "jobs.db")
    assert await insert(used), "whoever comes next is served by what is there then"


async def test_a_file_that_is_put_back_serves_again(used: SqliteEngine, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    for end in ENDS:
        (tmp_path / f"jobs.db{end}").rename(tmp_path / "away" / f"jobs.db{end}")
    with pytest.raises(StoreUnavailable):
        await insert(used)
    for end in ENDS:
        if (tmp_path / "away" / f"jobs.db{end}").exists():
            (tmp_path / "away" / f"jobs.db{end}").rename(tmp_path / f"jobs.db{end}")
    assert await insert(used)
    # that of the one that was refused may be there
    assert (await used.stats([1]))[0].pending in (2, 3)


async def test_a_backup_in_its_place_is_gone_on_with_and_told_of(
    used: SqliteEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy(tmp_path)
    assert await insert(used)  # not in the backup
    for end in ENDS:
        (tmp_path / f"jobs.db{end}").unlink()
    (tmp_path / "backup.db").rename(tmp_path / "jobs.db")
    with pytest.raises(StoreUnavailable, match="replaced"):
        await insert(used)
    assert await insert(used)
    assert (await used.stats([1]))[0].pending == 2
    assert "replaced by another; going on with" in caplog.text


async def test_a_file_without_our_tables_is_not_gone_on_with(
    used: SqliteEngine, tmp_path: Path
) -> None:
    for end in ENDS:
        (tmp_path / f"jobs.db{end}").unlink()
    (tmp_path / "jobs.db").touch()
    with pytest.raises(StoreUnavailable, match="replaced"):
        await insert(used)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="taskforge migrate"):
            await insert(used)
        with pytest.raises(StoreUnavailable):
            await used.stats([1])


async def test_a_link_that_leads_elsewhere_is_noticed(tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        engine = SqliteEngine(tmp_path / name)
        await engine.open()
        await engine.change_queue(1, CreateQueue(name="default"))
        await engine.close()
    link = tmp_path / "jobs.db"
    link.symlink_to("one.db")
    engine = SqliteEngine(link)
    await engine.open()
    try:
        assert await insert(engine)
        link.unlink()
        link.symlink_to("two.db")
        with pytest.raises(StoreUnavailable, match="replaced"):
            await insert(engine)
        assert await insert(engine)
        assert (await engine.stats([1]))[0].pending == 1
    finally:
        await engine.close()


async def test_a_log_that_goes_is_noticed_where_a_link_leads(tmp_path: Path) -> None:
    """It lies beside the file, not beside the link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "jobs.db").symlink_to(tmp_path / "real" / "jobs.db")
    engine = SqliteEngine(tmp_path / "jobs.db")
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="default"))
        assert await insert(engine)
        await asyncio.sleep(NOW_AND_THEN_SECONDS)
        assert await insert(engine)
        (tmp_path / "real" / "jobs.db-wal").unlink()
        await asyncio.sleep(NOW_AND_THEN_SECONDS)
        with pytest.raises(StoreUnavailable, match="log was removed"):
            await insert(engine)
    finally:
        await engine.close()


async def test_who_looks_for_changes_looks_at_the_file_that_is_there_now(
    used: SqliteEngine, tmp_path: Path
) -> None:
    """Where there are no sockets, that look is all that wakes a worker."""
    before = await used._readers.data_version()
    with (
        closing(sqlite3.connect(tmp_path / "jobs.db")) as source,
        closing(sqlite3.connect(tmp_path / "backup.db")) as target,
    ):
        source.backup(target)
    for end in ENDS:
        (tmp_path / f"jobs.db{end}").unlink()
    (tmp_path / "backup.db").rename(tmp_path / "jobs.db")
    before = await used._readers.data_version()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as other, other:
        other.execute("update projects set catalog_version = catalog_version + 1")
    assert await used._readers.data_version() != before
