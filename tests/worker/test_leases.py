"""Leases: kept while a handler blocks everything, given up when the worker is cut off, and what
happens then."""

import asyncio
import contextlib
import ctypes
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import psutil
import pytest

from taskforge import Context, TaskForge
from taskforge.domain.changes import EditJob
from taskforge.domain.errors import Conflict, LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.ids import IdMint, fence_of
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import Crashed
from taskforge.domain.queue import QueueSettings
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import Earlier, NewWorker
from taskforge.node import make_upkeep
from taskforge.operations.work.completion import StoreSource
from taskforge.ports.engine import Engine
from taskforge.ports.work_source import Completion
from taskforge.settings import Settings
from taskforge.testing.inline import Gathered
from taskforge.wiring import work_source
from taskforge.worker import executor, isolation
from taskforge.worker.fetcher import Fetcher
from taskforge.worker.http_source import HttpSource
from taskforge.worker.processes import lease_keeper
from taskforge.worker.processes.keeper_words import LOST, Charge, Word
from taskforge.worker.processes.lease_keeper import LeaseKeeper
from taskforge.worker.processes.process_id import this_process
from taskforge.worker.registration import Registration
from taskforge.worker.registry import Handler, Registry
from taskforge.worker.reporter import Reporter
from tests.support.crew import Crew, until

LEASE = 1.0


@pytest.fixture
def short(crew_on_each: Crew) -> Crew:
    crew_on_each.forge = TaskForge(
        settings=msgspec.structs.replace(crew_on_each.forge.settings, lease_seconds=LEASE)
    )
    return crew_on_each


def keepers() -> list[psutil.Process]:
    found = []
    for one in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # one that has just ended
            if "taskforge.sdk.lease_keeper" in " ".join(one.cmdline()):
                found.append(one)
    return found


@pytest.mark.rotates
async def test_a_handler_that_blocks_the_loop_or_holds_the_gil_keeps_its_job(short: Crew) -> None:
    runs: list[str] = []

    @short.forge.job(timeout=30)
    async def block(how: str) -> str:
        runs.append(how)
        if how == "loop":
            time.sleep(2.5 * LEASE)
        else:
            ctypes.PyDLL(None).usleep(int(2.5e6 * LEASE))
        return how

    watching = asyncio.create_task(
        asyncio.to_thread(lambda: asyncio.run(_rescuing(short.forge.settings)))
    )
    await short.start(upkeep=False, slots=1)
    handles = [await block.enqueue("loop"), await block.enqueue("gil")]
    assert [await handle.result(30) for handle in handles] == ["loop", "gil"]
    assert runs == ["loop", "gil"]
    for handle in handles:
        job = await handle.job()
        assert (job.attempt_count, job.crash_count) == (1, 0)
    await watching


async def _rescuing(settings: Settings) -> None:
    """In a thread with a loop of its own, because the test's is blocked."""
    forge = TaskForge(settings=settings)
    async with forge:
        upkeep = make_upkeep(await forge.engine(), settings)
        end = time.monotonic() + 6 * LEASE
        while time.monotonic() < end:
            if upkeep is not None:  # the server's own goes on in its process
                assert await upkeep.rescue() == 0
            await asyncio.sleep(0.1)


async def test_a_lost_lease_cancels_the_handler_and_the_worker_begins_anew(
    short: Crew, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_keeper, "STILL_PART", 1000)  # nobody replaces the keeper in time
    cancelled = asyncio.Event()
    starts: list[int] = []

    @short.forge.job()
    async def long(ctx: Context) -> str:
        starts.append(ctx.fencing_token)
        if len(starts) > 1:
            return "second"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "first"

    short.forge.queue("default", retry_delay_seconds=0.05)
    worker = await short.start()
    handle = await long.enqueue()
    await until(lambda: bool(starts))
    assert worker.registered is not None
    before = worker.registered.incarnation
    [keeper] = keepers()
    # nobody renews any more; the worker's next claim is told so, and it ends this keeper
    keeper.suspend()
    async with asyncio.timeout(10):
        await cancelled.wait()
    assert await handle.result(20) == "second"
    assert worker.registered.incarnation != before
    assert [
        one.getMessage().partition(":")[0]
        for one in caplog.records
        if "lost the lease" in one.getMessage()
    ] == ["lost the lease, 1 handlers are stopped"]
    assert starts[1] > starts[0]
    job = await handle.job()
    assert (job.attempt_count, job.crash_count) == (1, 0)


async def test_a_worker_ends_the_lives_that_it_has_lost_and_no_one_elses() -> None:
    """Another worker of the same process has the same pid, and lives."""
    told: list[tuple[UUID, bool]] = []

    class Source:
        async def deregister(self, incarnation: UUID, *, died: bool = False) -> None:
            told.append((incarnation, died))
            if len(told) == 1:
                raise Conflict("still runs 1 jobs")

    source: Any = Source()
    registration, process = Registration(source, lambda: NewWorker(name="w"), 15), this_process()
    own, beside = UUID(int=1), UUID(int=2)
    registration.lives.add(own)
    earlier = [Earlier(one, process.pid, process.started) for one in (own, beside)]
    for _ in range(3):
        await registration.tell_of_the_dead(earlier)
    assert told == [(own, False)] * 2


@pytest.mark.rotates
@pytest.mark.parametrize("end", [psutil.Process.kill, psutil.Process.suspend])
async def test_a_keeper_that_dies_or_stands_still_is_started_again(
    short: Crew, end: Callable[[psutil.Process], None]
) -> None:
    @short.forge.job()
    async def work() -> str:
        return "done"

    settings = msgspec.structs.replace(short.forge.settings, lease_seconds=5, heartbeat_seconds=0.2)
    short.forge = TaskForge(settings=settings)
    short.forge.job()(work.__wrapped__)
    worker = await short.start()
    assert worker.registered is not None
    before = worker.registered.incarnation
    [keeper] = keepers()
    end(keeper)
    await until(lambda: any(one.pid != keeper.pid for one in keepers()))
    assert not keeper.is_running(), "handlers would have two keepers once it goes on"
    await asyncio.sleep(0.6)
    assert worker.registered.incarnation == before


async def test_a_suspect_runs_alone(crew: Crew) -> None:
    """A job under which a worker died before must not take others with it a second time, nor those
    that wait behind it."""
    together: list[int] = []
    processing: list[int] = []
    begun: list[bool] = []
    shown: list[str] = []
    now: set[str] = set()

    @crew.forge.job()
    async def good(seconds: float) -> None:
        now.add("good")
        await asyncio.sleep(seconds)
        now.discard("good")

    @crew.forge.job()
    async def suspect() -> None:
        now.add("suspect")
        [stats] = [one for one in await engine.stats([1]) if one.queue == "default"]
        processing.append(stats.processing)
        begun.append((await handle.job()).started_at is not None)
        shown.append((await crew.executions(handle.id))[-1].status)
        for _ in range(10):
            together.append(len(now))
            await asyncio.sleep(0.01)
        now.discard("suspect")

    engine = await crew.forge.engine()
    handle = await suspect.enqueue()
    await _crash(crew, engine, 1)
    await _crash(crew, engine, 1)
    assert (await handle.job()).crash_count == 2  # three would be one too many
    first = [await good.enqueue(0.3) for _ in range(3)]
    await handle.status()
    await crew.start(slots=8)
    rest = [await good.enqueue(0.05) for _ in range(20)]
    for one in (handle, *first, *rest):
        await one.result(20)
    assert set(together) == {1}
    assert processing == [1]  # the store knows that no other job is in this worker's hands
    assert begun == [True]  # and that this one has begun, should it kill its worker at once
    assert shown == ["started"]  # by its worker's word, which is no heartbeat of the handler's
    for one in (*first, *rest):
        job = await one.job()
        assert (job.attempt_count, job.crash_count) == (1, 0)


async def test_the_last_attempt_after_a_crash_runs_alone(crew: Crew) -> None:
    """Whatever kills its worker would end it, though it may never have begun."""
    now, together = 0, 0

    @crew.forge.job(max_attempts=2)
    async def good() -> None:
        nonlocal now, together
        now += 1
        together = max(together, now)
        await asyncio.sleep(0.02)
        now -= 1

    handles = await good.enqueue_many([()] * 5)
    await _crash(crew, await crew.forge.engine(), 5)
    await crew.start(slots=5)
    for handle in handles:
        await handle.result(20)
    assert together == 1


async def test_what_ran_alone_is_stored_before_the_next_job_begins(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one may hold the event loop and kill the worker: what has ended must not look
    unfinished."""
    statuses: list[str] = []

    @crew.forge.job()
    async def suspect() -> None: ...

    @crew.forge.job()
    async def following() -> None:
        statuses.append((await handle.job()).status)

    engine = await crew.forge.engine()
    handle = await suspect.enqueue()
    await _crash(crew, engine, 1)
    await _crash(crew, engine, 1)
    for source in (StoreSource, HttpSource):
        monkeypatch.setattr(source, "complete", late(source.complete))
    await crew.start(slots=8)
    async with asyncio.timeout(10):
        while (await handle.job()).started_at is None:
            await asyncio.sleep(0.005)
    await (await following.enqueue()).result(20)
    assert statuses == ["succeeded"]


async def test_what_has_ended_is_stored_before_a_suspect_begins() -> None:
    """It may kill its worker at once: what ended before would look unfinished."""
    stored, began = asyncio.Event(), asyncio.Event()

    class Storing(Gathered):
        async def drained(self) -> None:
            await stored.wait()

    class Heard:
        async def beat(self, _: Beat) -> bool:
            return True

    async def suspect() -> None:
        began.set()

    registry, channel = Registry(), Heard()
    registry.add(Handler(suspect, job_type="suspect", queue="default"))
    unheard: Any = channel
    runs = executor.Executor(registry, unheard, Storing(), slots=2)
    job = Claimed(
        *(fence_of(IdMint()(), 3), "default", "suspect", b"{}", 3, 9, 2, 0, 60.0),
        *(None, None, 0.0, QueueSettings()),
    )
    assert job.must_run_alone
    runs.add([job])
    await asyncio.sleep(0.05)
    assert not began.is_set()
    stored.set()
    async with asyncio.timeout(10):
        await began.wait()
    await runs.close()


@pytest.mark.parametrize(("crashes", "most_together"), [(1, 20), (2, 1)])
async def test_what_was_lost_with_a_machine_runs_again_at_full_width(
    crew: Crew, crashes: int, most_together: int
) -> None:
    """One crash says little: only jobs at their last chance run one by one, and without much
    handing back."""
    now, together = 0, 0

    @crew.forge.job()
    async def good() -> None:
        nonlocal now, together
        now += 1
        together = max(together, now)
        await asyncio.sleep(0.1 if crashes == 1 else 0)
        now -= 1

    engine = await crew.forge.engine()
    handles = await good.enqueue_many([()] * 20)
    for _ in range(crashes):
        await _crash(crew, engine, 20)
    await crew.start(slots=20)
    for handle in handles:
        await handle.result(20)
    assert together == most_together
    tries = [len(await crew.executions(handle.id)) for handle in handles]
    assert sum(tries) <= 20 * (crashes + 1 + (crashes == 2))


def late(complete: Callable[..., Awaitable[list[UUID]]]) -> Callable[..., Awaitable[list[UUID]]]:
    async def complete_late(source: Any, completions: Sequence[Completion]) -> list[UUID]:
        await asyncio.sleep(0.3)
        return await complete(source, completions)

    return complete_late


async def _crash(crew: Crew, engine: Engine, count: int) -> None:
    """A worker takes so many jobs and dies."""
    crew.forge.queue("default", retry_delay_seconds=0)
    source = work_source(engine)
    registered = await source.register(NewWorker(name="doomed", max_concurrent_jobs=1_000), 60)
    claimed: list[Claimed] = []
    async with asyncio.timeout(10):
        while len(claimed) < count:
            claimed += await source.claim(registered.incarnation, count - len(claimed))
    assert await source.complete([Completion(one, Crashed("doomed")) for one in claimed]) == []
    await crew.keep()
    async with asyncio.timeout(10):
        while (await engine.stats([1]))[0].scheduled:
            await asyncio.sleep(0.05)


async def test_a_keeper_says_by_its_exit_that_the_lease_is_lost() -> None:
    """The pipe may be full when it matters: a blocked worker does not read."""
    heard: list[Word] = []
    charge = Charge(Settings(), UUID(int=0), 1.0, 0.1, this_process())
    await LeaseKeeper(
        [sys.executable, "-c", f"import sys; sys.exit({LOST})"], charge, heard.append
    ).run()
    assert [word.lost for word in heard] == ["the lease keeper said so"]


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_nothing_is_claimed_before_the_keeper_renews(crew: Crew) -> None:
    """The first handler may block everything in the worker's process for longer than the lease."""

    @crew.forge.job()
    async def work() -> None: ...

    handle = await work.enqueue()
    worker = await crew.forge.worker()
    make_keeper = worker._make_keeper

    def make_a_mute_one(*arguments: Any) -> LeaseKeeper:
        keeper = make_keeper(*arguments)
        keeper._command = ["sleep", "60"]
        return keeper

    worker._make_keeper = make_a_mute_one
    running = asyncio.create_task(worker.run())
    try:
        await until(
            lambda: (
                worker.self_report.keeper is not None
                and worker.self_report.keeper._process is not None
            )
        )
        await asyncio.sleep(0.3)
        assert (await handle.job()).status == "pending"
        worker._hear(Word())
        assert (await crew.end(handle)).status == "succeeded"
    finally:
        worker.stop()
        await running


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_what_had_not_started_when_the_lease_was_given_up_goes_back_at_once(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease itself has not ended: until it has, nobody else would find the job."""
    monkeypatch.setattr(isolation, "ISOLATION_SECONDS", 60.0)
    crew.forge = TaskForge(
        settings=msgspec.structs.replace(crew.forge.settings, lease_seconds=60.0)
    )
    crew.forge.queue("default", max_crashes=2, retry_delay_seconds=300.0)
    starts: list[str] = []

    @crew.forge.job()
    async def good() -> None:
        starts.append("good")
        if len(starts) == 1:
            await asyncio.sleep(60)

    @crew.forge.job()
    async def suspect() -> None:
        starts.append("suspect")

    engine = await crew.forge.engine()
    unstarted = await suspect.enqueue()
    source = work_source(engine)
    doomed = await source.register(NewWorker(name="doomed"), 60)
    crashed = [
        Completion(one, Crashed("doomed")) for one in await source.claim(doomed.incarnation, 1)
    ]
    assert await source.complete(crashed) == []
    worker = await crew.start(slots=2)
    running = await good.enqueue()
    await until(lambda: starts == ["good"])
    await engine.change([FIRST_PROJECT], [unstarted.id], EditJob(at=0.0))
    await until(lambda: worker.executor.busy == 2)  # it waits until nothing else runs
    worker._hear(Word(lost="the store could not be reached", away=True))
    for handle in (unstarted, running):
        job = await crew.end(handle)
        assert (job.status, job.attempt_count) == ("succeeded", 1 + job.crash_count)
    assert sorted(starts) == ["good", "good", "suspect"]


@pytest.mark.parametrize("error", [LeaseLost("over"), asyncio.CancelledError()])
async def test_a_suspect_is_not_forgotten_when_the_lease_is_lost_while_the_claim_is_ended(
    error: BaseException,
) -> None:
    """It is in nobody's hands then: whoever ends the fetching hands it back."""
    given, other = (
        Claimed(
            fence=UUID(int=number),
            queue="default",
            job_type="work",
            payload=b"{}",
            attempt=1,
            max_attempts=3,
            crashes=2,
            priority=0,
            timeout_seconds=300.0,
            heartbeat_timeout_seconds=None,
            deadline_seconds=None,
            waited_seconds=0.0,
            policy=QueueSettings(),
        )
        for number in (1, 2)
    )
    completed = Gathered()

    class Source:
        side_by_side = False
        ended = 0

        def on_work(self, _: Callable[[], None]) -> Callable[[], None]:
            return lambda: None

        async def claim(self, *_: Any) -> list[Claimed]:
            return [given]

        async def end_claim(self, _: UUID) -> list[Claimed]:
            self.ended += 1
            if self.ended == 1:
                raise error
            return [other]

    source: Any = Source()
    slots = executor.Executor(Registry(), Reporter(source, list), completed, slots=4)
    fetcher = Fetcher(source, slots, poll_seconds=60.0, may_claim=lambda: True)
    with pytest.raises(type(error)):
        await fetcher.run(UUID(int=9))
    assert (fetcher.leftover, slots.busy, completed) == ([given, other], 0, [])
