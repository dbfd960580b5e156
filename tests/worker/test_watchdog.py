"""The watchdog by itself: whom it blames, what it says in which order, and that nothing it waits
for can keep it from ending."""

import asyncio
import contextvars
import logging
import os
import threading
import time
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import (
    HELD_UP,
    MOST_UNEXPLAINED,
    HandBackOutcome,
    Success,
    TimedOut,
)
from taskforge.domain.queue import QueueSettings
from taskforge.testing.inline import Gathered
from taskforge.worker import watchdog
from taskforge.worker.context import Running, current
from taskforge.worker.executor import Executor
from taskforge.worker.options import WorkerOptions
from taskforge.worker.processes.supervisor import REPLACE
from taskforge.worker.registry import Registry
from taskforge.worker.watchdog import Held, Watchdog
from taskforge.worker.worker import LiveWorker
from tests.support.crew import until

CHANNEL: Any = None


def a_job(epoch: int = 1, attempt: int = 1, timeout: float = 60.0) -> Running:
    fence = fence_of(IdMint()(), epoch)
    return Running(
        Claimed(
            fence,
            "default",
            "work",
            b"[]",
            attempt,
            3,
            0,
            0,
            timeout,
            None,
            None,
            0.0,
            QueueSettings(),
        ),
        CHANNEL,
    )


class Heard:
    """What a watchdog said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Held]] = []
        self.slow = 0.0

    def held(self, held: Held) -> None:
        time.sleep(self.slow)
        self.said.append(("held", held))

    def back(self, held: Held, seconds: float) -> None:
        self.said.append(("back", held))


@pytest.mark.parametrize("has_ended", [False, True])
def test_what_a_job_left_behind_is_not_its_own_once_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    """A task has the context of whoever started it for as long as it runs."""
    job, heard = a_job(), Heard()
    context = contextvars.copy_context()
    context.run(current.set, job)

    class LeftBehind:
        def get_context(self) -> contextvars.Context:
            return context

    monkeypatch.setattr(asyncio, "current_task", lambda _: LeftBehind())
    running: dict[UUID, Running] = {} if has_ended else {job.claimed.fence: job}
    watching = Watchdog(running, on_held=heard.held, on_back=heard.back)
    assert watching._who().by is (None if has_ended else job)


async def test_that_the_loop_is_held_is_said_before_that_it_is_back() -> None:
    heard, job = Heard(), a_job()
    heard.slow = 1.0  # longer than the loop is held from then on
    job.task = asyncio.current_task()
    watching = Watchdog({job.claimed.fence: job}, on_held=heard.held, on_back=heard.back)
    watching.start()
    time.sleep(1.6)
    await until(lambda: len(heard.said) == 2)
    watching.stop()
    assert [what for what, _ in heard.said] == ["held", "back"]


async def test_a_loop_that_is_back_while_one_looks_who_held_it_is_not_said_to_be_held() -> None:
    heard, job = Heard(), a_job()
    job.task = asyncio.current_task()
    looking, is_back = threading.Event(), threading.Event()
    watching = Watchdog({job.claimed.fence: job}, on_held=heard.held, on_back=heard.back)
    who = watching._who

    def look_slowly() -> Held:
        held = who()
        looking.set()
        is_back.wait(20)
        return held

    watching._who = look_slowly  # type: ignore[method-assign]
    others = set(threading.enumerate())
    watching.start()
    [thread] = set(threading.enumerate()) - others
    assert looking.wait(20)
    before = watching._ticks
    await until(lambda: watching._ticks > before)
    watching.stop()
    is_back.set()
    thread.join(20)
    assert heard.said == []


class Looks(threading.Event):
    """Lets the watchdog's thread look when it is told to, by a clock that moves only then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now = 1_000.0
        self._due, self._done = threading.Semaphore(0), threading.Semaphore(0)
        monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: self.now))

    def wait(self, timeout: float | None = None) -> bool:
        self._done.release()
        assert self._due.acquire(timeout=20)
        return self.is_set()

    def begin(self, watching: Watchdog) -> None:
        watching._ended = self
        watching.start()
        assert self._done.acquire(timeout=20)

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self._due.release()
        assert self._done.acquire(timeout=20)

    def end(self) -> None:
        self.set()
        self._due.release()


async def test_a_time_in_which_nothing_could_run_is_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stopped process, a frozen machine: a handler that ran at that moment did not hold the loop
    for so long."""
    heard, job, looks = Heard(), a_job(), Looks(monkeypatch)
    job.task, job.started = asyncio.current_task(), looks.now
    given_up: list[Held] = []
    watching = Watchdog(
        {job.claimed.fence: job}, on_held=heard.held, on_back=heard.back, give_up=given_up.append
    )
    looks.begin(watching)
    for seconds in (0.25, 0.25, 600.0):
        looks.look_after(seconds)
    assert (heard.said, given_up) == ([], [])
    looks.look_after(0.25)
    looks.end()
    assert [what for what, _ in heard.said] == ["held"], "it held the loop for a second beside that"


async def test_whoever_holds_the_loop_has_what_is_left_of_its_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard, job, looks = Heard(), a_job(timeout=60), Looks(monkeypatch)
    job.task, job.started = asyncio.current_task(), looks.now - 50  # in which it let others run
    given_up: list[float] = []
    watching = Watchdog(
        {job.claimed.fence: job},
        on_held=heard.held,
        on_back=heard.back,
        give_up=lambda _: given_up.append(looks.now),
    )
    looks.begin(watching)
    began = looks.now
    while not given_up and looks.now < began + 100:
        looks.look_after(0.25)
    looks.end()
    assert 10 + watchdog.GRACE_SECONDS <= given_up[0] - began <= 11 + watchdog.GRACE_SECONDS


class Jammed(logging.Handler):
    """A logging handler in which nobody gets on until it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.go_on.wait(20)


@pytest.fixture
def jammed() -> Any:
    handler = Jammed()
    watchdog.logger.addHandler(handler)
    yield handler
    handler.go_on.set()
    watchdog.logger.removeHandler(handler)


async def test_a_loop_held_inside_a_logging_handler_is_given_up(jammed: Jammed) -> None:
    heard, job, given_up = Heard(), a_job(timeout=0.1), threading.Event()
    job.started -= 10
    job.task = asyncio.current_task()

    def give_up(held: Held) -> None:
        given_up.set()
        jammed.go_on.set()

    watching = Watchdog(
        {job.claimed.fence: job}, on_held=heard.held, on_back=heard.back, give_up=give_up
    )
    watching.start()
    watchdog.logger.warning("never written")
    watching.stop()
    assert given_up.is_set()


def test_a_process_that_leaves_at_once_does_though_nothing_can_be_logged(
    jammed: Jammed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "LEAVE_SECONDS", 0.1)
    left: list[int] = []

    def leave(status: int) -> None:
        left.append(status)
        jammed.go_on.set()

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    watchdog.leave_at_once(Held(None, ""))
    assert left == [REPLACE, REPLACE]  # the second is the way out that was not needed any more


@pytest.mark.parametrize(
    ("epoch", "why"), [(MOST_UNEXPLAINED, "held up"), (MOST_UNEXPLAINED + 1, "timeout")]
)
async def test_a_job_that_others_hold_up_goes_back_unspent_only_so_often(
    epoch: int, why: str
) -> None:
    executor = Executor(Registry(), CHANNEL, Gathered(), slots=1)
    job = a_job(epoch, timeout=5.0)
    job.started -= 5.5
    executor.running[job.claimed.fence] = job
    executor.jobs.held_up[job.claimed.fence] = 2.0
    executor.sweep()
    assert job.why == why


async def test_a_job_is_excused_for_no_more_than_it_was_there() -> None:
    """The loop was held for ten seconds, at whose end it began: eight of them were before its
    time."""
    executor = Executor(Registry(), CHANNEL, Gathered(), slots=2)
    job, culprit = a_job(timeout=3.0), a_job()
    job.started -= 2.0
    for one in (job, culprit):
        executor.running[one.claimed.fence] = one
    executor.jobs.excuse(10.0, culprit)
    assert executor.jobs.held_up == {job.claimed.fence: pytest.approx(2.0, abs=0.5)}
    job.started -= 3.5
    executor.sweep()
    assert job.why == "timeout", "it ran for three seconds and a half by itself"


async def test_what_the_loop_kept_from_starting_goes_back_though_no_keeper_handed_it_back() -> None:
    """The keeper may have died meanwhile, or the store been away."""
    nobody: Any = None
    one = LiveWorker(nobody, Registry(), WorkerOptions(slots=3), nobody)
    jobs = [a_job().claimed for _ in range(2)]
    one.executor.add(jobs)
    held = Held(None, "")
    one.self_report.loop_is_held(held)
    one.self_report.loop_is_back(held, 2.0)
    assert [(told.job, told.outcome) for told in one.finisher._pending] == [
        (job, HandBackOutcome(HELD_UP)) for job in jobs
    ]
    await one.executor.close()


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_process_that_leaves_at_once_says_whose_time_was_over(
    monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    nobody: Any = None
    one, told = LiveWorker(nobody, Registry(), WorkerOptions(supervised=True), nobody), list[Any]()
    keeper: Any = SimpleNamespace(tell=told.append)
    one.self_report.keeper = keeper
    monkeypatch.setattr("taskforge.worker.worker.leave_at_once", told.append)
    job = a_job(timeout=2.5)
    held = Held(job if is_known else None, "")
    assert one.watchdog._give_up is not None
    one.watchdog._give_up(held)
    [last, left] = told
    assert left is held
    assert (last.healthy, last.blocking, last.overran_seconds) == (
        (False, job.claimed.fence, 2.5) if is_known else (False, None, 0.0)
    )
    await one.executor.close()


async def test_a_job_that_begins_while_the_longest_is_looked_for_is_told_of_too() -> None:
    """Its time may be longer than what the keeper is about to be told: before it begins, the keeper
    is told anew."""
    nobody: Any = None
    options = WorkerOptions(supervised=True)
    one, pulses = LiveWorker(nobody, Registry(), options, nobody), list[float]()
    keeper: Any = SimpleNamespace(send_pulse=lambda pulse: pulses.append(pulse.patience) or True)
    report, look, is_foreseen = one.self_report, one.watchdog.longest_allowed, list[bool]()
    report.keeper = keeper
    report.send_pulse()

    def look_slowly() -> float:
        found = look()
        # a job of an hour begins
        is_foreseen.append(one.executor.foreseen_seconds >= 20.0)
        return found

    report.longest_allowed = look_slowly
    report.send_pulse()
    assert is_foreseen == [False]
    assert pulses == [watchdog.UNKNOWN_SECONDS] * 2


def test_jobs_that_begin_while_the_longest_is_looked_for_end_no_watchdog() -> None:
    """It looks from its own thread, and the event loop does not wait for it."""
    running: dict[UUID, Running] = {}

    class Beginning(Running):
        @property
        def timeout_seconds(self) -> float:
            job = a_job()
            running[job.claimed.fence] = job
            return 600.0

    for _ in range(2):
        job = Beginning(a_job().claimed, CHANNEL)
        running[job.claimed.fence] = job
    heard = Heard()
    watching = Watchdog(running, on_held=heard.held, on_back=heard.back)
    assert watching.longest_allowed() == 600.0 + watchdog.GRACE_SECONDS


async def test_what_was_held_up_and_ended_in_spite_of_it_has_ended() -> None:
    """Just before the store would end it, it would have gone back; but it is done."""
    executor = Executor(Registry(), CHANNEL, Gathered(), slots=1)
    job = a_job(timeout=10.0)
    executor.jobs.held_up[job.claimed.fence] = 5.0
    for ran, outcome in ((9.5, Success(b"1")), (12.0, Success(b"2"))):
        assert executor._in_time(job, ran, outcome) == outcome
    assert executor._in_time(job, 15.0, Success(b"3")) == TimedOut(10.0)
