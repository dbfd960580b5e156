"""The worker command, with real signals."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import WorkerStatus
from taskforge.settings import Settings
from taskforge.wiring import make_engine
from tests.support.shell import Shell, until

APP = """
import asyncio, time
from taskforge import TaskForge

forge = TaskForge(grace_seconds=20, poll_seconds=0.1, lease_seconds=5)

@forge.job()
async def add(a: int, b: int) -> int:
    print("adding")
    return a + b

@forge.job()
async def nap(seconds: float) -> str:
    print("napping", flush=True)
    await asyncio.sleep(seconds)
    return "rested"

@forge.job()
def stuck() -> None:
    print("stuck in a thread", flush=True)
    time.sleep(600)

@forge.job()
async def broken() -> None:
    raise ValueError("no luck")

@forge.job(max_attempts=1)
async def exits() -> None:
    await asyncio.create_task(leave())

async def leave() -> None:
    raise SystemExit(3)

@forge.job(kind="process")
def compute(seconds: float) -> str:
    print("computing", flush=True)
    time.sleep(seconds)
    return "computed"
"""
PROMPT = """
import logging, os, signal
from app import forge

def answer(record):
    if "slots" in record.getMessage():
        os.kill(os.getpid(), signal.SIGTERM)
    return True

logging.getLogger("taskforge.cli").addFilter(answer)
"""


@pytest.fixture
def app(tmp_path: Path) -> Shell:
    (tmp_path / "app.py").write_text(APP)
    return Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


def test_a_worker_runs_what_is_enqueued_and_stops_on_sigterm(app: Shell) -> None:
    with app.started("worker", "app:forge", "--name", "anna", "--slots", "3") as worker:
        worker.until("with 3 slots")
        text = app.run("enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait").stdout
        assert "succeeded" in text
        assert "5" in text
        failed = app.json("enqueue", "broken", "--max-attempts", "1", "--wait", status=1)
        assert failed["job"]["error"]["message"] == "no luck"
        assert app.json("workers", "list")["workers"][0]["name"] == "anna"
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert "nothing runs, stopping" in worker.text
        assert "after 2 jobs" in worker.text


def test_the_first_signal_waits_for_running_jobs(app: Shell) -> None:
    with app.started("worker", "app:forge") as worker:
        worker.until("with 10 slots")
        job = app.json("enqueue", "nap", "--payload", '{"seconds": 1.5}')["id"]
        worker.until("napping")
        worker.signal(signal.SIGINT)
        worker.until("1 running job has 20 s to finish")
        assert worker.ended() == 0
    shown = app.json("jobs", "show", job)["job"]
    assert (shown["status"], shown["result"]) == ("succeeded", "rested")


def test_the_second_signal_hands_back_what_runs(app: Shell) -> None:
    with app.started("worker", "app:forge") as worker:
        worker.until("with 10 slots")
        job = app.json("enqueue", "nap", "--payload", '{"seconds": 600}')["id"]
        worker.until("napping")
        worker.signal(signal.SIGTERM)
        worker.until("to finish")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert "stopping at once" in worker.text
    shown = app.json("jobs", "show", job)
    assert (shown["job"]["status"], shown["job"]["attempt_count"]) == ("pending", 0)
    assert "worker stopped" in shown["logs"][-1]["message"]


def test_a_thread_that_does_not_stop_is_left_behind(app: Shell) -> None:
    with app.started("worker", "app:forge", "--json") as worker:
        worker.until("with 10 slots")
        app.run("enqueue", "stuck")
        worker.until("stuck in a thread")  # the first line names the handler as well
        worker.signal(signal.SIGTERM)
        worker.until("to finish")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert "leaving it behind" in worker.text
        assert '"stop_seconds"' in worker.text


def test_a_worker_stops_after_its_share(app: Shell) -> None:
    with app.started("worker", "app:forge", "--max-jobs", "1", "--processes", "0") as worker:
        worker.until("with 10 slots")
        app.run("enqueue", "add", "--payload", '{"a": 1, "b": 1}')
        assert worker.ended() == 0


def test_a_worker_with_a_limit_is_replaced_and_goes_on(app: Shell) -> None:
    with app.started("worker", "app:forge", "--max-jobs", "1", "--name", "anna") as worker:
        worker.until("with 10 slots")
        for number in range(2):
            job = app.json("enqueue", "add", "--payload", f'{{"a": 1, "b": {number}}}', "--wait")[
                "job"
            ]
            assert job["result"] == 1 + number
        worker.until("has done its share; starting a fresh one")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


def test_a_task_of_a_handler_that_exits_ends_no_worker(app: Shell) -> None:
    with app.started("worker", "app:forge") as worker:
        worker.until("with 10 slots")
        beside = app.json("enqueue", "nap", "--payload", '{"seconds": 1.5}')["id"]
        worker.until("napping")
        app.run("enqueue", "exits")
        worker.until("exits failed, attempt 1 of 3: SystemExit")
        worker.until("a task that a handler started raised SystemExit")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    shown = app.json("jobs", "show", beside)["job"]
    assert (shown["status"], shown["attempt_count"]) == ("succeeded", 1)


def test_who_outlives_a_killed_worker_writes_lines_like_its_own(app: Shell) -> None:
    with app.started("worker", "app:forge") as worker:
        worker.until("slots")
        app.run("enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait")
        worker.signal(signal.SIGKILL)
        assert worker.ended() == -signal.SIGKILL
        until(lambda: "its lease is over" in worker.text, lambda: worker.text)
        line = next(line for line in worker.text.splitlines() if "its lease is over" in line)
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING taskforge\.worker  worker process \d+ died",
        line,
    ), line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_several_processes_are_supervised(app: Shell, number: signal.Signals) -> None:
    """They stop when the supervisor is told to, and also when it is killed: nobody would look after
    them any more."""
    assert "leave one out" in app.error("worker", "app:forge", "--processes", "2", "--name", "anna")
    with app.started("worker", "--processes=2", "--slots", "4", "--", "app:forge") as workers:
        until(lambda: workers.text.count("with 4 slots") == 2, lambda: workers.text)
        workers.signal(number)
        assert workers.ended() == (-number if number == signal.SIGKILL else 0)
        until(lambda: workers.text.count("nothing runs, stopping") == 2, lambda: workers.text)
        until(lambda: workers.text.count("stopped in") == 2, lambda: workers.text)


def test_a_deregistered_worker_is_not_replaced_by_its_supervisor(app: Shell) -> None:
    """The others go on; when the last one was taken out, the supervisor ends too."""

    async def deregister_one() -> None:
        engine = make_engine(Settings(url=app.environment["TASKFORGE_URL"]))
        await engine.open()
        try:
            alive = [
                one
                for one in await engine.workers([FIRST_PROJECT])
                if one.status is not WorkerStatus.OFFLINE
            ]
            await engine.deregister(alive[0].incarnation)
        finally:
            await engine.close()

    taken_out = "was deregistered; it is not replaced"
    with app.started("worker", "app:forge", "--processes", "2") as workers:
        until(lambda: workers.text.count("with 10 slots") == 2, lambda: workers.text)
        until(lambda: len(app.json("workers", "list")["workers"]) == 2, lambda: workers.text)
        asyncio.run(deregister_one())
        until(lambda: taken_out in workers.text, lambda: workers.text)
        assert (
            app.json("enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait")["job"]["result"]
            == 5
        )
        assert len(app.json("workers", "list")["workers"]) == 1
        asyncio.run(deregister_one())
        assert workers.ended() == 0
        assert (workers.text.count(taken_out), workers.text.count("starting")) == (2, 0), (
            workers.text
        )
        assert len(re.findall("worker process .* started", workers.text)) == 2


def test_a_signal_is_heard_from_the_moment_a_worker_says_it_is_there(app: Shell) -> None:
    (app.folder / "prompt.py").write_text(PROMPT)
    with app.started("worker", "prompt:forge") as worker:
        assert worker.ended() == 0
        assert "SIGTERM: nothing runs, stopping" in worker.text


def test_a_server_is_stopped_by_each_signal(app: Shell) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with app.started("server", "--port", "0") as server:
            server.until("API on")
            server.signal(number)
            assert server.ended() == 0, server.text


def test_a_terminal_that_closes_lets_a_job_in_a_process_finish(app: Shell) -> None:
    with app.on_terminal("worker", "app:forge", "--slots", "2") as worker:
        worker.until("with 2 slots")
        job = app.json("enqueue", "compute", "--payload", '{"seconds": 1.5}')["id"]
        worker.until("computing")
        worker.signal_all(signal.SIGHUP)
        worker.until("SIGHUP: 1 running job has")
        assert worker.ended() == 0
    shown = app.json("jobs", "show", job)["job"]
    assert (shown["status"], shown["attempt_count"], shown["result"]) == (
        "succeeded",
        1,
        "computed",
    )
    assert "the lease keeper ended" not in worker.text
