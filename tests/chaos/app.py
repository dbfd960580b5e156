"""The app that the fleets run, as `taskforge worker tests.chaos.app:forge`. Its handlers and its
work source write down what happens, each process in a file of its own.

CHAOS_TWIN breaks it on purpose: a patch made here, never a setting of the product, that the tests
must catch.
"""

import asyncio
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil

from taskforge import Context, TaskForge
from taskforge.domain.breaker import BreakerState, record_all
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.execution import Beat
from taskforge.domain.ids import epoch_of, job_of
from taskforge.domain.outcome import HELD_UP, Crashed, HandBackOutcome, LeaseRanOut, decide
from taskforge.operations import upkeep
from taskforge.operations.work.completion import StoreSource
from taskforge.ports.work_source import Completion
from taskforge.services import Periodic
from taskforge.storage.circuits import Moved, state_of
from taskforge.storage.postgres import circuits as postgres_circuits
from taskforge.storage.sqlite import circuits as sqlite_circuits
from taskforge.worker.http_source import HttpSource
from taskforge.worker.processes.lease_keeper import LeaseKeeper
from taskforge.worker.registration import Registration
from taskforge.worker.running_jobs import RunningJobs
from taskforge.worker.self_report import SelfReport
from taskforge.worker.watchdog import Watchdog
from taskforge.worker.worker import LiveWorker

forge = TaskForge()
forge.queue("default", max_retries=50, max_crashes=1_000, retry_delay_seconds=0.05, retry_jitter=0)
forge.queue("deaths", max_retries=50, max_crashes=1_000, retry_delay_seconds=0, retry_jitter=0)
forge.queue("hangs", max_retries=0)
forge.queue(
    "pills", max_retries=50, retry_delay_seconds=0.05, retry_jitter=0, dead_letter_queue="dead"
)

forge.queue("calls", max_retries=50, retry_delay_seconds=0.2, max_retry_delay_seconds=1)

_folder = Path(os.environ.get("CHAOS_FOLDER", "/tmp"))
_file = os.open(_folder / f"{os.getpid()}.history", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def record(what: str, fence: UUID, **more: Any) -> None:
    """One line in one write: a kill leaves whole lines only."""
    line = {
        "what": what,
        "job": str(job_of(fence)),
        "epoch": epoch_of(fence),
        "pid": os.getpid(),
        "at": time.time(),
        **more,
    }
    os.write(_file, json.dumps(line).encode() + b"\n")


# --- Handlers: each returns its fencing token, so that the store says whose result it kept ---


@forge.job(timeout=60)
async def work(ctx: Context, seconds: float) -> int:
    record("start", ctx.job.fence)
    await asyncio.sleep(seconds)
    record("end", ctx.job.fence)
    return ctx.fencing_token


@forge.job(timeout=60, queue="calls", depends_on=["downstream"])
async def call(ctx: Context) -> int:
    """Fails while what it depends on is down."""
    record("start", ctx.job.fence)
    await asyncio.sleep(0.05)
    if (_folder / "down").exists():
        raise RuntimeError("downstream is down")
    return ctx.fencing_token


@forge.job(timeout=60)
async def hold(ctx: Context, seconds: float) -> int:
    """Long the first time, reporting progress; short when it is given to another."""
    record("start", ctx.job.fence)
    try:
        until = time.monotonic() + (seconds if ctx.fencing_token == 1 else 0.1)
        while time.monotonic() < until:
            ctx.progress(0.5, f"epoch {ctx.fencing_token}")
            await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        record("cancelled", ctx.job.fence)
        raise
    record("end", ctx.job.fence)
    return ctx.fencing_token


@forge.job(timeout=300)
async def linger(ctx: Context) -> int:
    """Until the test lets all of them go, by a file."""
    record("start", ctx.job.fence)
    try:
        while not (_folder / "released").exists():
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        record("cancelled", ctx.job.fence)
        raise
    record("end", ctx.job.fence)
    return ctx.fencing_token


@forge.job(timeout=60)
async def obey(ctx: Context) -> int:
    """Until the test says so, by a file that is named like this try."""
    record("start", ctx.job.fence)
    while not (_folder / str(ctx.fencing_token)).exists():
        await asyncio.sleep(0.05)
    record("end", ctx.job.fence)
    return ctx.fencing_token


@forge.job(queue="pills", timeout=60)
async def segfault(ctx: Context) -> None:
    record("start", ctx.job.fence)
    ctypes.string_at(0)


@forge.job(queue="pills", timeout=60)
async def leave(ctx: Context) -> None:
    record("start", ctx.job.fence)
    os._exit(9)


@forge.job(queue="pills", timeout=60)
async def devour(ctx: Context) -> None:
    """Takes all the memory it may have, and ends as the kernel ends those that do."""
    record("start", ctx.job.fence)
    most = psutil.Process().memory_info().vms + (200 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    taken = []
    try:
        while True:
            taken.append(bytearray(1 << 20))
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)


@forge.job(queue="deaths", timeout=60)
async def die(ctx: Context, how: str) -> int:
    """Once; who gets it next lives."""
    record("start", ctx.job.fence)
    if ctx.fencing_token == 1:
        record("dies", ctx.job.fence, how=how)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "segfault":
            ctypes.string_at(0)
        elif how == "exit":
            os._exit(9)
        else:
            await asyncio.sleep(60)  # until the test kills it
    return ctx.fencing_token


@forge.job(queue="hogs", timeout=60)
async def hog(ctx: Context, seconds: float) -> int:
    """A C call that does not let go of the GIL: neither the loop nor any thread of this process
    runs meanwhile."""
    record("start", ctx.job.fence)
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return ctx.fencing_token


# --- Handlers that hang ---


@forge.job(queue="hangs", timeout=1)
def never() -> None:
    """A request without a timeout, say: nobody can end its thread."""
    time.sleep(600)


@forge.job(queue="hangs", timeout=2)
async def grip(ctx: Context) -> None:
    record("start", ctx.job.fence)
    time.sleep(600)


@forge.job(queue="hangs", timeout=5, kind="process")
def spawn() -> None:
    with (_folder / "spawned").open("w") as told, subprocess.Popen(["sleep", "600"]) as child:
        told.write(str(child.pid))
        told.flush()


@forge.job(queue="hangs")
async def interrupt() -> None:
    raise KeyboardInterrupt


@forge.job(queue="pills", timeout=60)
async def careful(ctx: Context, number: int) -> None:
    record("start", ctx.job.fence)


# --- What workers were told ---


def witness(source: Any) -> None:
    """Write down what this kind of source hears."""
    complete, beat = source.complete, source.beat

    async def told(self: Any, completions: Sequence[Completion]) -> list[UUID]:
        lost: list[UUID] = await complete(self, completions)
        refused = set(lost)
        for one in completions:
            said = "refused" if one.job.fence in refused else "accepted"
            record(said, one.job.fence, outcome=type(one.outcome).__name__)
        return lost

    async def beaten(self: Any, beats: Sequence[Beat]) -> list[UUID]:
        lost: list[UUID] = await beat(self, beats)
        for fence in lost:
            record("beat refused", fence)
        return lost

    source.complete, source.beat = told, beaten


def _take_silence_for_death() -> None:
    """As it was before silences were bridged: a lease that ran out is a crash, and what was reached
    meanwhile is dropped."""
    once = upkeep.Upkeep.once

    async def forgetful(
        self: upkeep.Upkeep, unless_within: float = 0.0, _rhythm: float | None = None
    ) -> upkeep.Kept:
        return await once(self, unless_within)

    def strict(job: Any, outcome: Any, policy: Any, chance: float) -> Any:
        return decide(
            job,
            Crashed(outcome.worker) if isinstance(outcome, LeaseRanOut) else outcome,
            policy,
            chance,
        )

    def drop(self: LiveWorker, reason: str, why: str) -> None:
        self.executor.take_back()
        self.executor.interrupt_all("lost")
        if not self._lost_lease.done():
            self._lost_lease.set_result(reason)

    upkeep.Upkeep.once = forgetful  # type: ignore[method-assign]
    upkeep.decide = strict
    LiveWorker._let_go = drop  # type: ignore[method-assign]


def _break(twin: str) -> None:
    if twin:
        make = LeaseKeeper.__init__

        def broken_too(self: LeaseKeeper, command: Sequence[str], *rest: Any) -> None:
            make(self, [sys.executable, "-m", "tests.chaos.keeper"], *rest)

        LeaseKeeper.__init__ = broken_too  # type: ignore[method-assign]
    if twin == "never rescues":

        async def rescue(self: upkeep.Upkeep, unless_within: float = 0.0) -> int:
            return 0

        upkeep.Upkeep.rescue = rescue  # type: ignore[method-assign]
    elif twin == "deaf to lost leases":
        interrupt = RunningJobs.interrupt

        def deaf(self: RunningJobs, fence: UUID, why: str, reason: str | None = None) -> bool:
            return why not in ("lost", "lease", "away") and interrupt(self, fence, why, reason)

        RunningJobs.interrupt = deaf  # type: ignore[method-assign]
    elif twin == "counts no crashes":

        def lenient(job: Any, outcome: Any, policy: Any, chance: float) -> Any:
            return decide(
                job, HandBackOutcome() if isinstance(outcome, Crashed) else outcome, policy, chance
            )

        upkeep.decide = lenient
    elif twin == "is silent about the dead":

        async def silent(self: Registration, earlier: object) -> None:
            return None

        Registration.tell_of_the_dead = silent  # type: ignore[method-assign]
    elif twin == "takes silence for death":
        _take_silence_for_death()
    elif twin == "hands nothing back":

        async def rush(self: LiveWorker, leftover: object) -> None:
            os._exit(0)

        LiveWorker._wind_down = rush  # type: ignore[method-assign]
    elif twin == "drops what it cannot report":
        report = HttpSource.complete

        async def careless(self: HttpSource, completions: Sequence[Completion]) -> list[UUID]:
            try:
                return await report(self, completions)
            except StoreUnavailable:
                return []

        async def silent(_: HttpSource, reports: Sequence[Any]) -> list[UUID]:
            # outcomes wait for the reports before them, and those would wait until all is well
            return []

        HttpSource.complete = careless  # type: ignore[method-assign]
        HttpSource.log = HttpSource.beat = silent  # type: ignore[method-assign]


def _break_at_hangs(twin: str) -> None:
    if twin == "nobody watches":
        Watchdog.start = lambda _: None  # type: ignore[method-assign]
        LiveWorker._look_at_stuck = lambda _: None  # type: ignore[method-assign]
        SelfReport.send_pulse = lambda _: None  # type: ignore[method-assign]
    elif twin == "charges the neighbours":

        def strict(job: Any, outcome: Any, policy: Any, chance: float) -> Any:
            return decide(
                job,
                Crashed("of another") if outcome == HandBackOutcome(HELD_UP) else outcome,
                policy,
                chance,
            )

        upkeep.decide = strict


def _break_at_refusals(twin: str) -> None:
    if twin == "lets the driver's errors out":
        from taskforge.storage.postgres import refusals

        refusals._translated = lambda _: None
    elif twin == "upkeep gives up":

        async def run(self: Periodic) -> None:
            while True:
                await self.run_once()
                await asyncio.sleep(self._seconds)

        Periodic.run = run  # type: ignore[method-assign]


if "CHAOS_FOLDER" in os.environ:
    witness(StoreSource)
    witness(HttpSource)


def _break_at_circuits(twin: str) -> None:
    """Each process counts failures by itself; only what follows from them is shared."""
    alone: dict[int, BreakerState] = {}

    def hear_alone(row: Any, settings: Any, endings: Any) -> Moved | None:
        before, breaker = state_of(row), row.breaker(settings)
        mine = alone.get(row.number)
        if mine is None or mine.turn != before.turn:
            mine = before
        after = alone[row.number] = record_all(breaker, mine, endings)
        return None if after.mode is before.mode else Moved(row, before, after, breaker)

    if twin == "counts_alone":
        postgres_circuits.heard = sqlite_circuits.heard = hear_alone


_break(os.environ.get("CHAOS_TWIN", ""))
_break_at_circuits(os.environ.get("CHAOS_TWIN", ""))
_break_at_hangs(os.environ.get("CHAOS_TWIN", ""))
_break_at_refusals(os.environ.get("CHAOS_TWIN", ""))
