"""A worker process that ends without leaving, at the default lease of 15 s: whoever outlives it
says so, and only if it is dead."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psutil
import pytest

from taskforge import JobHandle, TaskForge
from taskforge.domain.errors import LeaseLost, StoreFault, StoreUnavailable, StoreUnsuitable
from taskforge.domain.ids import job_of
from taskforge.domain.job import JobStatus, new_job
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import AnyEngine, Engine
from taskforge.sdk.jobs import JobFunction
from taskforge.sdk.lease_keeper import StoredEndings
from taskforge.wiring import work_source
from taskforge.worker.processes import lease, leave_notes, survivor
from taskforge.worker.processes.keeper_words import Charge, WorkerHealth
from taskforge.worker.processes.process_id import (
    ProcessId,
    end_of,
    has_ended,
    kill_group,
    process_of,
    this_machine,
    this_process,
)
from taskforge.worker.processes.survivor import tell_death
from tests.support.crew import Crew, until
from tests.worker.doomed import forge as doomed

SOON = 5.0  # a third of the lease: the machine is shared


class Doomed:
    """A worker process of `tests.worker.doomed` on a store, with one job."""

    def __init__(self, url: str, folder: Path) -> None:
        self.forge = TaskForge(url)
        self.forge.registry, self.forge._connections._declared = doomed.registry, doomed._declared
        self._environment = {
            **os.environ,
            "TASKFORGE_URL": url,
            "DOOMED_FILE": str(folder / "pids"),
        }
        self._file = folder / "pids"
        self.process: subprocess.Popen[bytes] | None = None

    async def run(self, job: str, *ways: str) -> tuple[JobHandle[Any], list[int]]:
        """Until the job runs; the pids that it says."""
        handler = self.forge.registry.get(job)
        assert handler is not None
        handle = await JobFunction(self.forge, handler).enqueue()
        command = [sys.executable, "-m", "tests.worker.doomed", *ways]
        self.process = subprocess.Popen(
            command, env=self._environment, cwd=Path(__file__).parents[2], start_new_session=True
        )
        await until(self._file.exists)
        return handle, [int(pid) for pid in self._file.read_text().split()]

    async def is_free(self, handle: JobHandle[Any], seconds: float = SOON) -> bool:
        give_up = time.monotonic() + seconds
        while (await handle.job()).status is JobStatus.PROCESSING:
            if time.monotonic() > give_up:
                return False
            await asyncio.sleep(0.02)
        return True


@pytest.fixture
async def store(sqlite_url: str, tmp_path: Path) -> Any:
    made = Doomed(sqlite_url, tmp_path)
    yield made
    await made.forge.close()
    if made.process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in psutil.Process(made.process.pid).children(recursive=True):
                one.kill()
        made.process.kill()
        made.process.wait()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_forked_process_that_holds_the_pipe_does_not_hide_a_death(store: Doomed) -> None:
    handle, [worker, child] = await store.run("fork")
    os.kill(worker, signal.SIGKILL)
    assert await store.is_free(handle)
    assert not is_gone(child)
    os.kill(child, signal.SIGKILL)


async def test_a_closed_pipe_is_no_death(store: Doomed) -> None:
    """A process that became another program has closed the keeper's pipe and lives on; its end is
    told all the same."""
    handle, [worker] = await store.run("become")
    await until(lambda: psutil.Process(worker).cmdline()[1:2] == ["-c"])
    assert not await store.is_free(handle, 1.0)
    os.kill(worker, signal.SIGKILL)
    assert await store.is_free(handle)
    assert (await handle.job()).crash_count == 1


@pytest.mark.parametrize("way", ["ends", "gives up"])
async def test_an_interpreter_that_ends_around_its_worker_is_a_death(
    store: Doomed, way: str
) -> None:
    handle, _ = await store.run("wait", way)
    assert await store.is_free(handle)
    assert store.process is not None
    assert await asyncio.to_thread(store.process.wait, 10) == 0


async def test_what_process_handlers_started_dies_with_the_worker(store: Doomed) -> None:
    handle, [child, grandchild] = await store.run("start")
    assert store.process is not None
    store.process.kill()
    assert await store.is_free(handle)
    assert is_gone(child), "before the job is given to anybody else"
    await until(lambda: is_gone(grandchild))


async def test_a_keeper_that_was_started_again_knows_what_process_handlers_started(
    store: Doomed,
) -> None:
    handle, [_, grandchild] = await store.run("start")
    assert store.process is not None
    [keeper] = [
        one
        for one in psutil.Process(store.process.pid).children()
        if "taskforge.sdk.lease_keeper" in one.cmdline()
    ]
    engine = await store.forge.engine()
    keeper.kill()
    killed = await engine.now()
    async with asyncio.timeout(20):
        while ((await engine.workers([FIRST_PROJECT]))[0].last_heartbeat or killed) <= killed:
            await asyncio.sleep(0.02)
    store.process.kill()
    assert await store.is_free(handle)
    await until(lambda: is_gone(grandchild))


async def test_a_death_that_cannot_be_told_yet_is_told_when_the_store_is_back(crew: Crew) -> None:
    """For long, unless somebody wants the keeper to stop."""
    engine, hurry, tries = await crew.forge.engine(), asyncio.Event(), 0
    registered = await engine.register(FIRST_PROJECT, NewWorker(name="dead"), 60)

    async def opened() -> Engine:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise StoreUnavailable("away")
        return engine

    assert await tell_death(opened, registered.incarnation, this_process(), hurry)
    assert tries == 4
    with pytest.raises(LeaseLost):
        await engine.renew(registered.incarnation, 60, Sample())

    async def never() -> Engine:
        hurry.set()
        raise StoreUnavailable("away")

    async with asyncio.timeout(10):
        assert not await tell_death(never, registered.incarnation, this_process(), hurry)


@pytest.mark.parametrize("error", [StoreUnsuitable("a login is refused"), StoreFault("odd"), None])
async def test_a_death_is_told_after_whatever_kept_it_from_being_told(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Among it a store that does not answer, such as a machine that is frozen."""
    monkeypatch.setattr(survivor, "ONE_TRY_SECONDS", 0.5)
    engine, tries = await crew.forge.engine(), 0
    registered = await engine.register(FIRST_PROJECT, NewWorker(name="dead"), 60)

    async def opened() -> Engine:
        nonlocal tries
        tries += 1
        if tries > 1:
            monkeypatch.undo()
            return engine
        if error is not None:
            raise error
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(20):
        assert await tell_death(opened, registered.incarnation, this_process(), asyncio.Event())
    with pytest.raises(LeaseLost):
        await engine.renew(registered.incarnation, 60, Sample())


async def test_whoever_held_the_loop_too_long_has_timed_out_though_the_store_knows_of_no_timeout(
    crew_on_each: Crew,
) -> None:
    """Its handler's own timeout is shorter than the job's, and the word that it holds the loop came
    with the end of its process: nobody crashed, and who ran beside it pays nothing."""
    forge = crew_on_each.forge
    forge.queue("default")
    engine = await forge.engine()
    source = work_source(engine)
    worker = await source.register(NewWorker(name="dead", max_concurrent_jobs=2), 60)
    await forge.insert_many([new_job("default", "work", max_attempts=1) for _ in range(2)])
    culprit, beside = await source.claim(worker.incarnation, 2)
    last = WorkerHealth(False, False, 2, culprit.fence, overran_seconds=2.5)
    vigil: Any = SimpleNamespace(health=last, pulse=SimpleNamespace(has_killed=False))
    charge = Charge(forge.settings, worker.incarnation, 60.0, 1.0, this_process())
    await crew_on_each.keep()

    async def opened() -> AnyEngine:
        return engine

    tell = partial(lease._tell_overrun, charge=charge, vigil=vigil, endings=StoredEndings())
    assert await tell_death(
        opened, worker.incarnation, this_process(), asyncio.Event(), before=tell
    )
    job = await forge.wait(job_of(culprit.fence))
    assert job.error is not None
    assert (job.status, job.error.type, job.crash_count) == ("failed", "Timeout", 0)
    assert "2.5 s" in job.error.message
    async with asyncio.timeout(20):
        while (other := await forge.get(job_of(beside.fence))).status is JobStatus.PROCESSING:
            await asyncio.sleep(0.02)
    assert (other.status, other.attempt_count, other.crash_count) == ("pending", 0, 0)


async def test_a_worker_that_was_cancelled_is_no_death_while_its_process_lives(crew: Crew) -> None:
    """Its keeper lets go of the lease and leaves by itself; nobody is told of a death."""
    worker = await crew.forge.worker(lease_seconds=20)
    running = asyncio.create_task(worker.run())
    await worker.ready.wait()
    assert worker.registered is not None
    running.cancel()
    await asyncio.wait([running])
    await asyncio.sleep(0.5)
    engine = await crew.forge.engine()
    await engine.renew(worker.registered.incarnation, 20, Sample())


async def test_an_orderly_stop_while_the_store_is_away_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could tell the store; the next worker of the machine finds its process gone."""
    monkeypatch.setenv("TASKFORGE_GRACE_SECONDS", "0.1")
    monkeypatch.setenv("TASKFORGE_LEASE_SECONDS", "2")
    (tmp_path / "here").mkdir()
    stopping = Doomed(f"sqlite:///{tmp_path}/here/jobs.db", tmp_path)
    handle, _ = await stopping.run("wait", "stops")
    assert stopping.process is not None
    (tmp_path / "here").rename(tmp_path / "away")
    stopping.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(stopping.process.wait, 30) == 0
    (tmp_path / "away").rename(tmp_path / "here")
    await stopping.forge.close()
    forge = TaskForge(f"sqlite:///{tmp_path}/here/jobs.db", upkeep_seconds=0.1)

    @forge.job()
    async def wait() -> None: ...

    async with Crew(forge) as crew, asyncio.timeout(20):
        with caplog.at_level(logging.INFO, logger="taskforge.worker"):
            await crew.start()
        while not (job := await forge.get(handle.id)).status.is_final:
            await asyncio.sleep(0.05)
    assert (job.status, job.attempt_count, job.crash_count) == ("succeeded", 1, 0)
    assert "stopped while the store was away" in caplog.text


def test_notes_of_leaves_are_kept_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_notes, "_folder", lambda: tmp_path / "leaves")
    old, new, unknown = uuid4(), uuid4(), uuid4()
    leave_notes.note_leaves([old])
    os.utime(tmp_path / "leaves" / str(old), (0, time.time() - leave_notes.KEEP_SECONDS - 1))
    assert leave_notes.is_leave_noted(old)
    leave_notes.note_leaves([new])
    assert [leave_notes.is_leave_noted(one) for one in (old, new, unknown)] == [False, True, False]
    monkeypatch.setattr(leave_notes, "_folder", lambda: tmp_path / "no" / "such" / "folder")
    leave_notes.note_leaves([unknown])  # and nobody is troubled by it
    assert not leave_notes.is_leave_noted(unknown)


def test_a_leave_is_noted_though_another_worker_clears_old_notes_just_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_notes, "_folder", lambda: tmp_path)
    (tmp_path / str(uuid4())).symlink_to(tmp_path / "gone")  # is listed, and is not there
    life = uuid4()
    leave_notes.note_leaves([life])
    assert leave_notes.is_leave_noted(life)


async def test_processes_are_told_apart_from_those_that_get_their_pid() -> None:
    assert not has_ended(this_process())
    assert has_ended(ProcessId(os.getpid(), "another time"))
    assert this_machine() == this_machine() != ""
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    known = process_of(sleeper.pid)
    kill_group(ProcessId(sleeper.pid, "another time"))
    async with asyncio.timeout(10):
        await end_of(ProcessId(sleeper.pid, "another time"))
    assert not has_ended(known)
    waiting = asyncio.create_task(end_of(known))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    kill_group(known)
    async with asyncio.timeout(10):
        await waiting
    assert has_ended(known), "although nobody has waited for it yet"
    sleeper.wait()
    assert has_ended(known)


@pytest.mark.skipif(sys.platform != "linux", reason="by the numbers of Linux's system calls")
async def test_a_process_whose_first_thread_has_ended_lives_on() -> None:
    """It is shown as one that nobody has waited for yet, and its other threads may run handlers."""
    program = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        known = process_of(process.pid)
        try:
            await until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
            assert not has_ended(known)
        finally:
            kill_group(known)
        await until(lambda: has_ended(known))
