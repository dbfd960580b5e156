"""F4: the file holds payloads, password hashes and signing keys: its owner's alone."""

import logging
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge.domain.queue import CreateQueue
from taskforge.storage.sqlite.engine import SqliteEngine


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


async def _open(path: Path) -> SqliteEngine:
    engine = SqliteEngine(path)
    await engine.open()
    engine.on_work(lambda: None)  # makes the folder of sockets
    await engine.change_queue(1, CreateQueue(name=secrets.token_hex(4)))
    return engine


def _modes(path: Path) -> dict[str, int]:
    return {
        each.name.removeprefix(path.name): stat.S_IMODE(each.stat().st_mode)
        for each in path.parent.iterdir()
    }


@pytest.mark.usefixtures("wide_umask")
async def test_a_new_file_and_all_beside_it_are_its_owners_alone(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await _open(path)
    modes = _modes(path)
    await engine.close()
    assert modes.pop("-wake") == 0o700
    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600, "-turn": 0o600}
    assert "other users" not in caplog.text


@pytest.mark.usefixtures("wide_umask")
async def test_behind_a_link_the_file_itself_is_made_so(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    engine = await _open(link)
    await engine.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.usefixtures("wide_umask")
async def test_a_wider_file_is_told_of_once_with_what_to_do(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await (await _open(path)).close()
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "taskforge.store"):
        for _ in range(2):
            await (await _open(path)).close()
    [told] = [each.getMessage() for each in caplog.records if "other users" in each.getMessage()]
    assert f"chmod 600 {path}" in told
    assert "0644" in told


@pytest.mark.usefixtures("wide_umask")
async def test_what_lies_beside_a_shared_file_is_shared_like_it(path: Path) -> None:
    await (await _open(path)).close()
    for each in path.parent.iterdir():
        if each != path and each.is_file():
            each.unlink()

    path.chmod(0o660)
    before = os.umask(0)
    try:
        engine = await _open(path)
        modes = _modes(path)
        await engine.close()
    finally:
        os.umask(before)
    assert modes == {"": 0o660, "-wal": 0o660, "-shm": 0o660, "-turn": 0o660, "-wake": 0o770}
