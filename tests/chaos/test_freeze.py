"""R2: freeze workers for three leases, then let them go on. Whatever they still say is refused, and
they stop their handlers."""

import asyncio
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.execution import Beat
from taskforge.domain.ids import epoch_of, fence_of, job_of
from taskforge.domain.job import JobStatus, error_info
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import (
    Finish,
    Lost,
    ToCancelled,
    ToFailed,
    ToHandBack,
    ToRetry,
    ToSnoozed,
    ToSucceeded,
    Transition,
)
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.ports.engine import Engine
from tests.chaos.fleet import LEASE, Figure, Fleet, bound, freeze, thaw
from tests.chaos.history import jobs

pytestmark = pytest.mark.rotates

VICTIMS = 5
SLOTS = 2
ERROR = error_info("Stale", "from a worker that lost the job")
STALE: tuple[Transition, ...] = (
    ToSucceeded(b"1"),
    ToFailed(ERROR, "stale"),
    ToRetry(60, ERROR),
    ToSnoozed(60, "stale"),
    ToCancelled("stale"),
    ToHandBack("stale"),
)


async def _stale_writes(engine: Engine, fence: UUID) -> list[str]:
    """Say everything a worker can say of a job it lost; returns what was not refused."""
    refused = [
        (type(one).__name__, await engine.finish([Finish(fence, one, 1.0)])) for one in STALE
    ]
    beat = Beat(fence=fence, started_seconds_ago=1, progress=0.9, message="stale")
    refused += [
        ("heartbeat", await engine.beat([beat])),
        ("log line", await engine.log([NewLine(fence, Level.INFO, "stale")])),
    ]
    return [
        f"{what} of {fence} was taken"
        for what, lost in refused
        if [one.fence for one in lost] != [fence]
    ]


async def _round(fleet: Fleet, engine: Engine) -> tuple[list[str], int, int]:
    """Freeze all but one worker over jobs they run. Returns what went wrong, how many jobs were
    lost so, and how many of their handlers were cancelled."""
    held = await fleet.enqueue(
        "hold", *(((2 if number % 2 else 5) * LEASE,) for number in range((VICTIMS + 1) * SLOTS))
    )
    wanted = set(held)
    async with asyncio.timeout(30):
        while {UUID(line["job"]) for line in fleet.history.lines("start")} & wanted != wanted:
            await asyncio.sleep(0.05)
    victims = fleet.alive[:VICTIMS]
    pids = {process.pid for process in victims}
    for process in victims:
        freeze(process, fleet.forge.settings.url)
    frozen = {
        fence_of(UUID(line["job"]), line["epoch"])
        for line in fleet.history.lines("start")
        if UUID(line["job"]) in wanted and line["pid"] in pids
    }
    ended = {(UUID(line["job"]), line["epoch"]) for line in fleet.history.lines("end")}
    frozen = {fence for fence in frozen if (job_of(fence), epoch_of(fence)) not in ended}
    await asyncio.sleep(3 * LEASE)
    wrong: list[str] = []
    now = {job.id: job for job in await jobs(engine, wanted)}
    for fence in frozen:
        job = now[job_of(fence)]
        if job.epoch == epoch_of(fence) and job.status is JobStatus.PROCESSING:
            wrong.append(f"{fence} was not rescued while its worker was frozen")
        else:
            wrong += await _stale_writes(engine, fence)  # while others run it, or after
    for process in victims:
        thaw(process)
    thawed = time.time()
    await fleet.drained()
    before = await _snapshot(engine, wanted)
    for fence in frozen:
        wrong += await _stale_writes(engine, fence)
    # Give the thawed workers the time to say what they have to say, and to come back for the next
    # round.
    await fleet.ready()
    await asyncio.sleep(LEASE)
    after = await _snapshot(engine, wanted)
    wrong += [f"{job} changed after a stale write" for job in before if before[job] != after[job]]
    accepted = {
        fence_of(UUID(line["job"]), line["epoch"]) for line in fleet.history.lines("accepted")
    }
    wrong += [f"a frozen worker was told that {fence} was accepted" for fence in frozen & accepted]
    cancelled = {
        fence_of(UUID(line["job"]), line["epoch"]) for line in fleet.history.lines("cancelled")
    }
    late = {
        fence_of(UUID(line["job"]), line["epoch"])
        for line in fleet.history.lines("end")
        if line["at"] > thawed + LEASE
    }
    wrong += [f"the handler of {fence} was not cancelled" for fence in frozen & late]
    return wrong, len(frozen), len(frozen & cancelled)


async def _snapshot(engine: Engine, wanted: set[UUID]) -> dict[UUID, Any]:
    found = await jobs(engine, wanted)
    return {
        job.id: msgspec.json.encode((job, await engine.executions([FIRST_PROJECT], job.id)))
        for job in found
    }


async def _r2(tmp_path: Path, store: dict[str, str], rounds: int, figure: Figure) -> None:
    async with Fleet(tmp_path, **store) as fleet:
        for _ in range(VICTIMS + 1):
            fleet.start(slots=SLOTS)
        await fleet.ready()
        engine = await fleet.forge.engine()
        lost = cancelled = 0
        for _ in range(rounds):
            wrong, frozen, stopped = await _round(fleet, engine)
            assert wrong == []
            lost, cancelled = lost + frozen, cancelled + stopped
        assert await fleet.violations() == []
        assert cancelled > 0
        writes = 2 * lost * (len(STALE) + 2)
        said = sum(fleet.history.count(what) for what in ("refused", "beat refused"))
        figure(
            f"R2 {fleet.label}: {rounds * VICTIMS} freezes, {lost} jobs lost to others, "
            f"stale writes taken {bound(writes)}, {said} refused to thawed workers, {cancelled} "
            f"handlers cancelled by them, "
            "the others had ended"
        )


@pytest.mark.timeout(180)
async def test_r2_freeze(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r2(tmp_path, store, 4, figure)


@pytest.mark.long
async def test_r2_freeze_long(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r2(tmp_path, store, 100, figure)


@pytest.mark.timeout(180)
async def test_r2_catches_a_twin_that_is_deaf_and_one_without_fences(
    tmp_path: Path, figure: Figure
) -> None:
    async with Fleet(
        tmp_path, twin="deaf to lost leases", url=f"sqlite:///{tmp_path}/jobs.db"
    ) as fleet:
        for _ in range(VICTIMS + 1):
            fleet.start(slots=SLOTS)
        await fleet.ready()
        wrong, *_ = await _round(fleet, Unfenced(await fleet.forge.engine()))  # type: ignore[arg-type]
        deaf = [one for one in wrong if "was not cancelled" in one]
        taken = [one for one in wrong if one.endswith("taken") or "changed" in one]
        figure(
            f"R2 twins: {len(deaf)} handlers not cancelled by the deaf one, {len(taken)} stale "
            f"writes taken without fences"
        )
        assert deaf
        assert taken


class Unfenced:
    """An engine that goes by the job alone, as most job stores do: whoever speaks of a job is
    believed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def _now(self, fence: UUID) -> UUID:
        [job] = await self._engine.get([FIRST_PROJECT], [job_of(fence)])
        return fence_of(job.id, job.epoch)

    async def finish(self, finishes: list[Finish]) -> list[Lost]:
        [one] = finishes
        lost = await self._engine.finish(
            [Finish(await self._now(one.fence), one.transition, one.ran)]
        )
        return [Lost(one.fence) for _ in lost]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)
