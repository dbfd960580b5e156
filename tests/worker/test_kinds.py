"""Async, thread and process handlers: how each is stopped by a timeout, a deadline and a cancel."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from taskforge import Context, JobHandle, RemoteError
from taskforge.domain.job import Inserted, new_job
from taskforge.worker.processes.children import HandlerProcess
from taskforge.worker.processes.keeper_words import Word
from tests.support.crew import Crew, function, until
from tests.worker.handlers import add_to

CANCEL_SECONDS = 2.0


async def test_an_async_handler_is_cancelled_when_its_time_is_over(crew_on_each: Crew) -> None:
    crew_on_each.forge.queue("default", retry_delay_seconds=0.01)
    stopped: list[int] = []

    @crew_on_each.forge.job(timeout=0.3, max_attempts=2)
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(ctx.attempt)
            raise

    worker = await crew_on_each.start()
    job = await crew_on_each.end(await slow.enqueue())
    assert job.error is not None
    # Upkeep may be the first to see that its time is over; the worker then hears that the job is
    # lost, and stops it.
    async with asyncio.timeout(10):
        while len(stopped) < 2 or worker.executor.running:
            await asyncio.sleep(0.01)
    assert (job.status, job.error.type, job.attempt_count, stopped) == (
        "failed",
        "Timeout",
        2,
        [1, 2],
    )
    assert not worker.executor.running


async def test_a_deadline_ends_the_job_for_good(crew: Crew) -> None:
    @crew.forge.job(max_attempts=5)
    async def slow() -> None:
        await asyncio.sleep(60)

    await crew.start()
    job = await crew.end(await slow.options(deadline=0.4).enqueue())
    assert (job.status, job.reason, job.attempt_count) == ("failed", "deadline passed", 1)


async def test_a_thread_that_overstays_is_reported_and_keeps_its_slot_until_it_ends(
    crew: Crew,
) -> None:
    release, ran = threading.Event(), threading.Event()

    @crew.forge.job(timeout=0.2, max_attempts=1)
    def stuck() -> None:
        release.wait(30)

    @crew.forge.job()
    def after() -> None:
        ran.set()

    worker = await crew.start(slots=1)
    job = await crew.end(await stuck.enqueue())
    assert job.error is not None
    assert job.error.type == "Timeout"
    # Upkeep may have ended the job a moment before the worker did.
    await until(lambda: worker.executor.has_stuck)
    assert worker.executor.free == 0
    waiting = await after.enqueue()
    await asyncio.sleep(0.3)
    assert (ran.is_set(), await waiting.status()) == (False, "pending")
    release.set()
    await waiting.result(10)
    assert (worker.executor.has_stuck, worker.executor.free) == (False, 1)


async def test_a_handlers_timeout_holds_for_jobs_that_come_by_name(crew: Crew) -> None:
    left: list[float] = []

    @crew.forge.job(timeout=0.3, max_attempts=1)
    async def sleep(ctx: Context) -> None:
        left.append(ctx.seconds_left)
        await asyncio.sleep(1 if len(left) == 2 else 60)

    await crew.start(upkeep=False)
    engine = await crew.forge.engine()
    [inserted] = await engine.insert(engine.home, [new_job("default", "sleep", {}, max_attempts=1)])
    assert isinstance(inserted, Inserted)
    async with asyncio.timeout(20):
        job = await crew.forge.wait(inserted.job)
    assert job.error is not None
    assert (job.error.type, job.error.message) == (
        "Timeout",
        "the attempt ran longer than its timeout of 0.3 s",
    )
    # one that asks for more gets more
    own = await crew.end(await sleep.options(timeout=30).enqueue())
    assert own.status == "succeeded"
    assert left[0] <= 0.3 < left[1]


async def test_a_process_is_killed_when_its_time_is_over(crew: Crew, tmp_path: Path) -> None:
    add_to(crew.forge)
    await crew.start()
    path = tmp_path / "pid"
    sleep = function(crew, "sleep_in_process")
    job = await crew.end(await sleep.options(timeout=1.5, max_attempts=1).enqueue(str(path)))
    assert job.error is not None
    assert job.error.type == "Timeout"
    assert has_ended(int(path.read_text()))
    # the next job gets a fresh process
    answer = await (await function(crew, "double").enqueue(2)).result(20)
    assert answer.pid != int(path.read_text())


async def test_cancel_reaches_a_running_job_of_every_kind_within_two_seconds(
    crew_on_each: Crew, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    add_to(crew_on_each.forge)
    path = tmp_path / "pid"
    began: set[str] = set()

    @crew_on_each.forge.job()
    async def in_loop() -> None:
        began.add("loop")
        await asyncio.sleep(60)

    @crew_on_each.forge.job()
    def in_thread(ctx: Context) -> None:
        began.add("thread")
        while not ctx.cancelled:
            time.sleep(0.01)

    await crew_on_each.start()
    handles: dict[str, JobHandle[Any]] = {
        "loop": await in_loop.enqueue(),
        "thread": await in_thread.enqueue(),
        "process": await function(crew_on_each, "sleep_in_process").enqueue(str(path)),
    }
    await until(lambda: len(began) == 2 and path.exists() and path.read_text() != "")
    took: dict[str, float] = {}

    async def cancel(kind: str) -> None:
        started = time.monotonic()
        await handles[kind].cancel("not wanted")
        job = await crew_on_each.end(handles[kind])
        took[kind] = time.monotonic() - started
        assert (job.status, job.reason) == ("cancelled", "not wanted")

    await asyncio.gather(*map(cancel, handles))
    figure(
        f"cancel reached: "
        f"{', '.join(f'{kind} {seconds:.2f} s' for kind, seconds in took.items())} (limit "
        f"{CANCEL_SECONDS} s)"
    )
    assert max(took.values()) < CANCEL_SECONDS
    assert has_ended(int(path.read_text()))


async def test_what_a_process_raises_and_how_it_dies(crew: Crew) -> None:
    add_to(crew.forge)
    crew.forge.queue("default", retry_delay_seconds=0.01, max_retries=5)
    seen: list[BaseException] = []
    crew.forge.on_failure(lambda _, error: seen.append(error))
    await crew.start()
    failed = await crew.end(
        await function(crew, "fail_in_process").options(max_attempts=1).enqueue()
    )
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("LookupError", "not in this process")
    assert "in fail_in_process" in failed.error.traceback
    [error] = seen
    assert isinstance(error, RemoteError)
    assert str(error) == "LookupError: not in this process"
    assert (error.name, error.message, error.frames) == (
        "LookupError",
        "not in this process",
        failed.error.traceback,
    )
    mute = await crew.end(await function(crew, "mute_in_process").options(max_attempts=1).enqueue())
    assert mute.error is not None
    assert (mute.error.type, mute.error.message) == ("MuteError", "(its text cannot be made)")
    left = await crew.end(
        await function(crew, "leave_in_process").options(max_attempts=1).enqueue()
    )
    assert left.error is not None
    assert (left.error.type, left.error.message) == ("SystemExit", "3")
    own = await crew.end(await function(crew, "own_verdict_in_process").enqueue())
    assert own.error is not None
    assert (own.error.type, own.error.message, own.attempt_count) == ("Fail", "404: gone", 1)
    died = await crew.end(await function(crew, "die_in_process").enqueue())
    assert died.error is not None
    assert (died.error.type, died.reason) == (
        "WorkerCrashed",
        "poison pill: its workers died 3 times",
    )


async def test_threads_of_a_process_may_speak_at_the_same_time(crew: Crew) -> None:
    add_to(crew.forge)
    await crew.start(upkeep=False)
    handle = await function(crew, "chatter_in_process").options(max_attempts=1).enqueue(10)
    assert await handle.result(20) == 40
    assert sum(len(line.message) for line in await crew.logs(handle.id)) == 40 * 100_000


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_a_process_that_answers_as_it_is_told_to_stop_runs_no_other_job(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being killed, and would take the next one with it."""
    add_to(crew.forge)
    worker = await crew.start(upkeep=False)
    converse, told = HandlerProcess.converse, list[HandlerProcess]()

    def stop_as_it_answers(child: HandlerProcess, *arguments: Any) -> Any:
        answer = converse(child, *arguments)
        [running] = worker.executor.running.values()
        running.why = "shutdown" if not told else None
        told.append(child)
        return answer

    monkeypatch.setattr(HandlerProcess, "converse", stop_as_it_answers)
    await function(crew, "double").enqueue(1)
    await until(lambda: len(told) == 1 and not worker.executor.running)
    assert worker.executor.children._idle == []
    assert not told[0].process.is_alive()


async def test_a_process_that_died_while_idle_is_not_the_next_jobs_fault(crew: Crew) -> None:
    add_to(crew.forge)
    worker = await crew.start(upkeep=False)
    double = function(crew, "double")
    first = await (await double.enqueue(1)).result(20)
    [child] = worker.executor.children._idle
    child.kill()
    child.process.join(5)
    second = await double.options(max_attempts=1).enqueue(2)
    assert (await second.result(20)).pid != first.pid
    assert (await second.job()).crash_count == 0


async def test_the_keeper_of_a_next_life_knows_the_processes_of_the_one_before(crew: Crew) -> None:
    """They are used again, and must end with this process."""
    add_to(crew.forge)
    worker = await crew.start(upkeep=False)
    await (await function(crew, "double").enqueue(1)).result(20)
    assert worker.registered is not None
    before, known = worker.registered.incarnation, dict(worker.executor.children.known)
    worker._hear(Word(lost="the store was away for a lease", away=True))
    await until(lambda: worker.registered is not None and worker.registered.incarnation != before)
    await until(lambda: worker._kept.is_set() and worker.self_report.keeper is not None)
    assert worker.self_report.keeper is not None
    assert (len(known), worker.self_report.keeper._children) == (1, known)


@pytest.mark.rotates
async def test_a_process_is_stopped_whatever_it_is_doing(crew: Crew) -> None:
    """While it is still to take a large payload, and while something else holds its pipe open."""
    add_to(crew.forge)
    worker = await crew.start(slots=1, upkeep=False)
    much, child = function(crew, "take_much_in_process"), function(crew, "leave_a_child_in_process")
    for job in (
        await crew.end(
            await much.options(max_attempts=1, timeout=0.1).enqueue("x" * 250_000, 60.0)
        ),
        await crew.end(await child.options(max_attempts=1, timeout=1.5).enqueue()),
    ):
        assert job.error is not None
        assert (job.status, job.error.type) == ("failed", "Timeout")
    assert await (await much.enqueue("x" * 250_000, 0.0)).result(20) == 250_000
    await until(lambda: worker.executor.free == 1)


@pytest.mark.rotates
async def test_what_a_process_started_ends_with_it(crew: Crew, tmp_path: Path) -> None:
    add_to(crew.forge)
    worker = await crew.start(grace_seconds=0.1)
    start = function(crew, "start_in_process")
    # a process that is there needs no time to start
    await (await function(crew, "double").enqueue(1)).result(20)

    async def started(name: str, **options: Any) -> tuple[JobHandle[Any], int]:
        path = tmp_path / name
        handle = await start.options(max_attempts=1, **options).enqueue(str(path))
        await until(lambda: path.exists() and path.read_text() != "")
        return handle, int(path.read_text())

    async def is_ended(pid: int) -> None:
        await until(lambda: has_ended(pid))

    handle, pid = await started("timeout", timeout=2)
    assert (await crew.end(handle)).status == "failed"
    await is_ended(pid)
    handle, pid = await started("cancel")
    await handle.cancel()
    await is_ended(pid)
    handle, pid = await started("stop")
    await crew.stop(worker)
    await is_ended(pid)


async def test_a_thread_left_by_a_middleware_keeps_its_slot(crew: Crew) -> None:
    release, ran = threading.Event(), threading.Event()

    @crew.forge.middleware
    async def impatient(ctx: Context, following: Callable[[], Awaitable[Any]]) -> Any:
        async with asyncio.timeout(0.1):
            return await following()

    @crew.forge.job(max_attempts=1)
    def slow() -> None:
        release.wait(30)

    @crew.forge.job(max_attempts=1)
    def after() -> None:
        ran.set()

    worker = await crew.start(slots=1, upkeep=False)
    job = await crew.end(await slow.enqueue())
    assert job.error is not None
    assert (job.error.type, worker.executor.free) == ("TimeoutError", 0)
    waiting = await after.enqueue()
    await asyncio.sleep(0.3)
    assert not ran.is_set()
    release.set()
    await crew.end(waiting)
    assert ran.is_set()


async def test_no_process_outlives_its_worker(crew: Crew, tmp_path: Path) -> None:
    add_to(crew.forge)
    path = tmp_path / "pid"
    worker = await crew.start(grace_seconds=0.1)
    await function(crew, "sleep_in_process").enqueue(str(path))
    await until(lambda: path.exists() and path.read_text() != "")
    pid = int(path.read_text())
    await crew.stop(worker)
    assert has_ended(pid)
    assert [child for child in psutil.Process().children(recursive=True) if is_keeper(child)] == []


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_keeper(process: psutil.Process) -> bool:
    """Whether it is one that lives."""
    try:
        return "lease_keeper" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
