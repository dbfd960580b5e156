"""Handlers that hang: what they hold is counted, named and shown; what they do to the event loop is
not paid for by others."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from taskforge import TaskForge
from taskforge.domain.job import StoredJob
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Worker as SeenWorker
from taskforge.worker import stuck
from taskforge.worker.interrupts import is_interrupt
from tests.support.crew import Crew, until


async def seen(crew: Crew) -> SeenWorker:
    [worker] = await (await crew.forge.engine()).workers([FIRST_PROJECT])
    return worker


async def seen_when(crew: Crew, condition: Callable[[SeenWorker], bool]) -> SeenWorker:
    async with asyncio.timeout(15):
        while not condition(worker := await seen(crew)):
            await asyncio.sleep(0.05)
    return worker


# --- Timeouts ---


@pytest.mark.parametrize("raises", [False, True])
async def test_a_timeout_holds_for_a_handler_that_blocks_the_event_loop(
    crew_on_each: Crew, raises: bool
) -> None:
    @crew_on_each.forge.job(timeout=0.4, max_attempts=1)
    async def rude() -> str:
        time.sleep(0.9)
        if raises:
            raise ValueError("too late to be the reason")
        return "late"

    await crew_on_each.start(slots=2)
    job = await crew_on_each.end(await rude.enqueue())
    assert job.error is not None
    assert (job.status, job.error.type, job.result) == ("failed", "Timeout", None)


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_who_held_the_event_loop_is_not_excused_for_it(crew: Crew) -> None:
    @crew.forge.job(timeout=2.0, max_attempts=1)
    async def rude() -> None:
        time.sleep(1.6)
        await asyncio.sleep(20)

    await crew.start(slots=2)
    job = await crew.end(await rude.enqueue())
    assert job.error is not None
    assert (job.status, job.error.type) == ("failed", "Timeout")
    assert len(await crew.executions(job.id)) == 1


async def test_one_that_blocks_within_its_timeout_succeeds(crew_on_each: Crew) -> None:
    @crew_on_each.forge.job(timeout=5, max_attempts=1)
    async def rude() -> str:
        time.sleep(0.6)
        return "in time"

    await crew_on_each.start(slots=2)
    assert (await crew_on_each.end(await rude.enqueue())).status == "succeeded"


# --- The event loop ---


@pytest.mark.rotates
async def test_who_holds_the_event_loop_is_named_and_its_neighbours_go_back_unspent(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Two wait in the middle of their work, two have not started; the loop is held for longer than
    any of them may run."""
    began = [threading.Event(), threading.Event()]
    starts: list[str] = []
    hold = threading.Event()

    @crew.forge.job(timeout=2.0, max_attempts=1)
    async def polite(number: int) -> None:
        starts.append(f"polite {number}")
        began[number].set()
        await asyncio.sleep(0.6)

    @crew.forge.job(timeout=60, max_attempts=1)
    async def rude() -> None:
        starts.append("rude")
        if not hold.is_set():
            hold.set()
            time.sleep(3.5)

    worker = await crew.start(slots=5)
    crew.forge.settings.url  # noqa: B018
    neighbours = [await polite.enqueue(0), await polite.enqueue(1)]
    await until(lambda: all(one.is_set() for one in began))
    culprit = await rude.enqueue()
    unstarted = [await polite.enqueue(0), await polite.enqueue(1)]
    jobs = [await crew.end(one) for one in (culprit, *neighbours, *unstarted)]
    assert [(one.status, one.attempt_count, one.crash_count) for one in jobs] == [
        ("succeeded", 1, 0)
    ] * 5
    said = [one.getMessage() for one in caplog.records if one.name == "taskforge.worker"]
    assert any(
        f"handler rude (job {culprit.id}) has held the event loop for 1." in one for one in said
    ), said
    assert any(
        f"handler rude (job {culprit.id}) held the event loop for 3." in one
        and "test_hanging.py" in one
        for one in said
    )
    await until(lambda: worker.executor.jobs.held_up == {})


async def test_a_held_loop_is_shown_while_it_is_held(crew: Crew) -> None:
    @crew.forge.job(timeout=60)
    async def rude() -> None:
        time.sleep(2.5)

    worker = await crew.start(slots=3)
    found: list[SeenWorker] = []
    threading.Thread(target=lambda: found.append(asyncio.run(_look_from_outside(crew)))).start()
    handle = await rude.enqueue()
    await crew.end(handle)
    await until(lambda: bool(found))
    assert found[0].blocking is None or found[0].blocking.int >> 24 == handle.id.int >> 24
    assert (found[0].status, found[0].stuck_slots) == ("unhealthy", 3)
    back = await seen_when(crew, lambda one: one.status == "online")
    assert (back.stuck_slots, worker.hangs) == (0, False)


async def _look_from_outside(crew: Crew) -> SeenWorker:
    """As another process would: in a loop that nobody holds."""
    async with TaskForge(settings=crew.forge.settings) as forge:
        engine = await forge.engine()
        async with asyncio.timeout(15):
            while True:
                [worker] = await engine.workers([FIRST_PROJECT])
                if worker.stuck_slots:
                    return worker
                await asyncio.sleep(0.1)


# --- Threads that never return ---


async def test_a_thread_that_never_returns_is_named_counted_and_shown(
    crew: Crew, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "LATE_SECONDS", 0.5)
    release = threading.Event()

    @crew.forge.job(timeout=0.2, max_attempts=1)
    def hangs() -> None:
        release.wait(60)

    @crew.forge.job()
    async def fine() -> None: ...

    worker = await crew.start(slots=3)
    handles = [await hangs.enqueue() for _ in range(2)]
    for handle in handles:
        await crew.end(handle)
    shown = await seen_when(crew, lambda one: one.stuck_slots == 2)
    assert (shown.status, shown.active_jobs, shown.healthy) == ("unhealthy", 0, True)
    # with the slot that is left
    assert (await crew.end(await fine.enqueue())).status == "succeeded"
    await until(lambda: worker.executor.busy == 0)
    assert worker.executor.free == 1, "no jobs are claimed for slots that threads hold"
    said = [one.getMessage() for one in caplog.records if one.name == "taskforge.worker"]
    assert any(
        one.startswith(f"a thread of handler hangs (job {handles[0].id}) has not ended")
        for one in said
    ), said
    assert any(
        "2 of 3 slots are held by handlers that did not end; nobody replaces this worker" in one
        for one in said
    )
    release.set()
    shown = await seen_when(crew, lambda one: one.stuck_slots == 0)
    assert (shown.status, worker.executor.free, worker.hangs) == ("online", 3, False)


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_a_handler_that_will_not_be_cancelled_is_counted_too(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "LATE_SECONDS", 0.5)
    release = asyncio.Event()

    @crew.forge.job(timeout=0.2, max_attempts=1)
    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    await crew.start(slots=4)
    await crew.end(await stubborn.enqueue())
    assert (await seen_when(crew, lambda one: one.stuck_slots == 1)).status == "unhealthy"
    release.set()
    await seen_when(crew, lambda one: one.stuck_slots == 0)


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_a_supervised_worker_with_too_few_slots_left_finishes_what_it_can_and_ends(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "LATE_SECONDS", 0.5)
    release, going = threading.Event(), asyncio.Event()

    @crew.forge.job(timeout=0.2, max_attempts=1)
    def hangs() -> None:
        release.wait(60)

    @crew.forge.job()
    async def healthy() -> str:
        going.set()
        await asyncio.sleep(1.5)
        return "done"

    worker = await crew.start(slots=2, supervised=True, grace_seconds=10)
    handle = await healthy.enqueue()
    await going.wait()
    await hangs.enqueue()
    started = time.monotonic()
    await crew.ended(worker)
    release.set()
    assert worker.hangs
    assert time.monotonic() - started < 5
    job: StoredJob = await crew.end(handle)
    assert (job.status, job.attempt_count) == ("succeeded", 1)


# --- What would end a process ---


def _raise(kind: type[BaseException]) -> None:
    raise kind("of the handler's own")


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("how", ["at once", "later", "thread"])
async def test_what_would_end_a_process_is_the_handlers_failure(
    crew: Crew, kind: type[BaseException], how: str
) -> None:
    if how == "thread":

        @crew.forge.job(max_attempts=1)
        def ends() -> None:
            _raise(kind)

    else:

        @crew.forge.job(max_attempts=1)
        async def ends() -> None:  # type: ignore[misc]
            if how == "later":
                await asyncio.sleep(0.01)
            _raise(kind)

    @crew.forge.job()
    async def neighbour() -> None:
        await asyncio.sleep(0.3)

    worker = await crew.start(slots=2)
    beside = await neighbour.enqueue()
    job = await crew.end(await ends.enqueue())
    assert job.status == "failed"
    assert job.error is not None
    assert kind.__name__ in (job.error.type, job.error.message.split()[-1])
    assert (await crew.end(beside)).attempt_count == 1
    assert (await crew.end(await neighbour.enqueue())).status == "succeeded"
    assert worker.executor.free == 2


def test_a_ctrl_c_is_told_from_what_a_handler_raises() -> None:
    """Python's own handler raises in the middle of whatever runs, and leaves no frame; asyncio's
    leaves one."""

    def caught(call: Callable[[], object]) -> KeyboardInterrupt:
        try:
            call()
        except KeyboardInterrupt as error:
            return error
        raise AssertionError

    def strike() -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(1_000):
            time.sleep(0)

    def heard(extra: str, number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.default_int_handler, partial(heard, "x")):
            signal.signal(signal.SIGINT, handler)
            assert is_interrupt(caught(strike))
            assert not is_interrupt(caught(lambda: _raise(KeyboardInterrupt)))
    finally:
        signal.signal(signal.SIGINT, before)
