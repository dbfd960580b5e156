"""Native code that holds the interpreter's lock: nothing of the worker's process can run, and
whoever is outside sees to it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from psutil import Process

from taskforge.worker.processes import pulse
from taskforge.worker.processes.process_id import ProcessId, process_of, this_process
from taskforge.worker.processes.pulse import Pulse, PulseWatch
from taskforge.worker.processes.vigil import Vigil
from tests.support.shell import Shell, until

APP = """
import ctypes
from taskforge import TaskForge
from taskforge.worker import watchdog

watchdog.UNKNOWN_SECONDS = 4.0
forge = TaskForge(poll_seconds=0.1, lease_seconds=5)

@forge.job
async def freeze(seconds: int) -> None:
    print("freezing", flush=True)
    ctypes.PyDLL(None).sleep(seconds)  # which does not let go of the lock

@forge.job
async def add(a: int, b: int) -> int:
    return a + b
"""
SILENT = "has shown no sign of life for"


@pytest.fixture
def app(tmp_path: Path) -> Shell:
    (tmp_path / "app.py").write_text(APP)
    return Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


@pytest.mark.rotates
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_supervised_worker_that_shows_no_sign_of_life_is_killed_and_replaced(
    app: Shell, store: str, request: pytest.FixtureRequest
) -> None:
    """Its job has timed out, which is nobody's crash; the lease is kept until then, and over at
    once."""
    if store == "postgres":
        app.environment |= {
            "TASKFORGE_URL": request.getfixturevalue("postgres_url"),
            "TASKFORGE_SCHEMA": "pulse",
        }
    with app.started("worker", "app:forge", "--max-jobs", "1000") as worker:
        worker.until("with 10 slots")
        app.run("queues", "create", "quick", "--set", "timeout_seconds=1")
        frozen = app.json(
            "enqueue",
            "freeze",
            "--queue",
            "quick",
            "--max-attempts",
            "1",
            "--payload",
            '{"seconds": 600}',
        )["id"]
        worker.until("freezing")
        worker.until("it is killed, and its supervisor starts another")
        worker.until("ended with SIGKILL; starting another in 0.5 s")
        until(lambda: worker.text.count("with 10 slots") == 2, lambda: worker.text)
        assert (
            app.json("enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait")["job"]["result"]
            == 5
        )
        job = app.json("jobs", "show", frozen)["job"]
        assert (job["status"], job["error"]["type"], job["crash_count"]) == (
            "failed",
            "Timeout",
            0,
        ), job
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


@pytest.mark.rotates
@pytest.mark.parametrize(("timeout", "seconds", "status"), [(60, 7, "succeeded"), (4, 5, "failed")])
def test_it_has_the_time_of_its_longest_job_also_of_one_that_has_just_begun(
    app: Shell, timeout: int, seconds: int, status: str
) -> None:
    """And the grace beyond it, though the time itself is no longer than what anything may take."""
    with app.started("worker", "app:forge", "--max-jobs", "1000") as worker:
        worker.until("with 10 slots")
        app.run("queues", "create", "slow", "--set", f"timeout_seconds={timeout}")
        arguments = (
            "--queue",
            "slow",
            "--max-attempts",
            "1",
            "--payload",
            f'{{"seconds": {seconds}}}',
        )
        job = app.json(
            "enqueue", "freeze", *arguments, "--wait", status=0 if status == "succeeded" else 1
        )["job"]
        assert (job["status"], job["attempt_count"], job["crash_count"]) == (status, 1, 0)
        assert "killed" not in worker.text
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


@pytest.mark.rotates
def test_an_unsupervised_one_is_never_ended_but_said_and_shown_to_be_frozen(app: Shell) -> None:
    with app.started("worker", "app:forge", "--slots", "3") as worker:
        worker.until("with 3 slots")
        app.run("enqueue", "freeze", "--payload", '{"seconds": 14}')
        worker.until(SILENT)

        def shown() -> tuple[str, int]:
            [one] = app.json("workers", "list")["workers"]
            return one["status"], one["stuck_slots"]

        until(lambda: shown() == ("unhealthy", 3), lambda: f"{shown()} {worker.text}")
        assert "signs of life" not in worker.text.replace(SILENT, "")
        worker.until("shows signs of life again, after")
        until(
            lambda: app.json("workers", "list", "--healthy")["workers"] != [], lambda: worker.text
        )
        assert (
            app.json("enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait")["job"]["result"]
            == 5
        )
        assert "killed" not in worker.text
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


@pytest.mark.rotates
def test_a_worker_that_is_stopped_is_not_taken_for_a_frozen_one(app: Shell) -> None:
    """Whoever stops a process, a debugger for one, lets it go on: it is not killed, and its lease
    ends by itself."""
    with app.started("worker", "app:forge", "--processes", "2") as workers:
        until(lambda: workers.text.count("with 10 slots") == 2, lambda: workers.text)
        stopped = app.json("workers", "list")["workers"][0]
        Process(stopped["pid"]).suspend()
        # for longer than it might be silent
        until(lambda: len(app.json("workers", "list")["workers"]) == 1, lambda: workers.text)
        Process(stopped["pid"]).resume()
        until(
            lambda: len(app.json("workers", "list", "--healthy")["workers"]) == 2,
            lambda: workers.text,
        )
        assert SILENT not in workers.text
        workers.signal(signal.SIGTERM)
        assert workers.ended() == 0


@pytest.mark.parametrize("closes", [False, True])
async def test_only_who_keeps_its_pipe_open_is_taken_for_frozen(
    closes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has become another program, or stops in order, says nothing more."""
    worker = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    heard, said = os.pipe()
    try:
        with os.fdopen(heard) as stdin, os.fdopen(said, "wb", buffering=0) as pipe:
            monkeypatch.setattr(sys, "stdin", stdin)
            vigil = Vigil(process_of(worker.pid))
            pipe.write(msgspec.json.encode(Pulse(3, 1.0)) + b"\n")
            if closes:
                pipe.close()
                await vigil.listening
            await asyncio.wait([vigil.death], timeout=3 if closes else 10)
            assert (vigil.pulse.has_killed, vigil.death.done()) == (not closes, not closes)
            await vigil.end()
        assert worker.poll() == (None if closes else -signal.SIGKILL)
    finally:
        worker.kill()
        worker.wait()


async def test_a_keeper_that_stood_still_itself_kills_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its worker stood still as well, as on a machine that was frozen, or may have shown signs of
    life all the while."""
    killed, news = list[ProcessId](), asyncio.Event()
    stood_still, looks = 0.0, 0

    def look_at_the_clock() -> float:
        nonlocal looks
        looks += 1
        return time.monotonic() + stood_still

    async def look_twice() -> None:
        before = looks
        async with asyncio.timeout(10):
            while looks < before + 2:
                await asyncio.sleep(0.001)

    monkeypatch.setattr(pulse, "time", SimpleNamespace(monotonic=look_at_the_clock))
    monkeypatch.setattr(pulse, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(pulse, "kill_group", killed.append)
    watch = PulseWatch(this_process(), news)
    watch.hear(Pulse(3, 30.0))
    watching = asyncio.create_task(watch.run())
    await look_twice()  # the pulse is taken note of: from here on the worker says nothing
    stood_still = 100.0
    await look_twice()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert (killed, watch.stuck_slots, news.is_set()) == ([], 0, False)
