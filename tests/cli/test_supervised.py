"""Processes that a supervisor replaces: how soon, and what it says of the one that ended."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from taskforge.testing.postgres import LocalServer
from tests.support.shell import Process, Shell, until

APP = """
import os
from taskforge import TaskForge

forge = TaskForge(poll_seconds=0.1, lease_seconds=5)

@forge.job()
async def add(a: int, b: int) -> int:
    return a + b

@forge.job(max_attempts=1)
async def pill(status: int) -> None:
    os._exit(status)
"""
SUPERVISED = ("worker", "app:forge", "--max-jobs", "1000")
AWAY_SECONDS = 4.0
BACK_SECONDS = 5.0  # of which the wait of a worker that tries again takes 2


@pytest.fixture
def app(tmp_path: Path) -> Shell:
    (tmp_path / "app.py").write_text(APP)
    return Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


def waits(worker: Process) -> list[float]:
    return [float(found) for found in re.findall(r"starting another in ([\d.]+) s", worker.text)]


def pids(worker: Process) -> list[int]:
    return [int(found) for found in re.findall(r"worker process (\d+) started", worker.text)]


def add(app: Shell) -> int:
    result: int = app.json("enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait")["job"][
        "result"
    ]
    return result


@pytest.mark.rotates
@pytest.mark.timeout(120)
def test_pills_among_good_jobs_make_no_wait_grow(app: Shell) -> None:
    """Each life finishes a job before a pill ends it, four times."""
    with app.started(*SUPERVISED) as worker:
        worker.until("with 10 slots")
        for number in range(4):
            assert add(app) == 5
            app.run("enqueue", "pill", "--payload", '{"status": 3}', "--max-attempts", "1")
            until(lambda: len(waits(worker)) > number, lambda: worker.text)  # noqa: B023 - called at once
        assert max(waits(worker)) < 1.0, worker.text
        assert add(app) == 5


@pytest.mark.rotates
@pytest.mark.parametrize("status", [0, 4])
def test_a_handler_that_ends_its_process_has_not_left(app: Shell, status: int) -> None:
    with app.started(*SUPERVISED) as worker:
        worker.until("with 10 slots")
        app.run("enqueue", "pill", "--payload", f'{{"status": {status}}}', "--max-attempts", "1")
        worker.until(f"ended with exit status {status}, without having left")
        assert add(app) == 5
        assert "done its share" not in worker.text
        assert "not replaced" not in worker.text
        assert len(waits(worker)) == 1


@contextmanager
def _store(kind: str, app: Shell, directory: Path) -> Iterator[tuple[Callable[[], object], ...]]:
    """How the store is taken away, and given back."""
    with ExitStack() as stack:
        if kind == "postgres":
            server = stack.enter_context(LocalServer.start(directory))
            app.environment["TASKFORGE_URL"] = server.url()
            yield lambda: server.stop("immediate"), server.restart
        else:
            file = app.folder / "jobs.db"
            away = app.folder / "away"
            yield lambda: file.rename(away), lambda: away.rename(file)


@pytest.mark.rotates
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_replacement_waits_for_a_store_that_is_away(
    app: Shell, kind: str, server_directory: Path, figure: Callable[[str], None]
) -> None:
    with (
        _store(kind, app, server_directory) as (take_away, give_back),
        app.started(*SUPERVISED) as worker,
    ):
        worker.until("with 10 slots")
        assert add(app) == 5
        take_away()
        os.kill(pids(worker)[0], signal.SIGKILL)
        until(lambda: len(pids(worker)) == 2, lambda: worker.text)
        time.sleep(AWAY_SECONDS)
        if kind == "sqlite":
            assert not (app.folder / "jobs.db").exists(), "no empty file may take its place"
        give_back()
        back = time.monotonic()
        until(lambda: worker.text.count("with 10 slots") == 2, lambda: worker.text)
        took = time.monotonic() - back
        assert add(app) == 5
        assert len(pids(worker)) == 2, worker.text
        assert worker.text.count("the store serves again") >= 1
        figure(f"a replaced worker on {kind} is back {took:.1f} s after its store (limit 5 s)")
        assert took < BACK_SECONDS


@pytest.mark.rotates
def test_a_replacement_ends_with_its_supervisor_while_the_store_is_away(app: Shell) -> None:
    with app.started(*SUPERVISED) as worker:
        worker.until("with 10 slots")
        assert add(app) == 5
        (app.folder / "jobs.db").rename(app.folder / "away")
        os.kill(pids(worker)[0], signal.SIGKILL)
        worker.until("trying again until it does: there is no store at")
        worker.signal(signal.SIGKILL)
        worker.ended()
        until(lambda: not psutil.pid_exists(pids(worker)[1]), lambda: worker.text)


def test_a_first_start_without_a_store_fails_at_once(app: Shell) -> None:
    app.environment["TASKFORGE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    assert "check that the store is up" in app.error("worker", "app:forge")
