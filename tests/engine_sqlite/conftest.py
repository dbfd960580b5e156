import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from taskforge.domain.queue import CreateQueue
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.engine_sqlite.processes import Child


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[SqliteEngine]:
    made = SqliteEngine(path)
    await made.open()
    await made.change_queue(1, CreateQueue(name="default"))
    yield made
    await made.close()


@pytest.fixture
def child() -> Iterator[type[Child]]:
    """Starts other processes; none outlives the test."""
    started: list[Child] = []

    class Starter(Child):
        def __init__(self, program: str, *arguments: object, under: tuple[str, ...] = ()) -> None:
            command = [
                *under,
                sys.executable,
                "-W",
                "error",
                "-c",
                textwrap.dedent(program),
                *map(str, arguments),
            ]
            super().__init__(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            started.append(self)

    yield Starter
    for one in started:
        one.end()
