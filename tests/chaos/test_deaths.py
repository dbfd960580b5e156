"""R19: a worker process dies at the default lease of 15 s. Whoever outlives it says so, and its
jobs are free within 2 s."""

import asyncio
import itertools
import os
import signal
import time
from pathlib import Path
from uuid import UUID

import pytest

from taskforge.domain.job import JobStatus
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.ports.engine import Engine
from tests.chaos.fleet import Figure, Fleet, kill_whole
from tests.chaos.history import jobs

LEASE = 15.0
UPKEEP = 0.5  # as it is by default
LIMIT = 2.0
TOGETHER = 4
WAYS = ("kill", "segfault", "exit")


async def _die(fleet: Fleet, ways: list[str]) -> list[UUID]:
    """So many workers start, each gets a job and dies of it; nobody is left. Until none is
    `processing`, or it takes too long."""
    for _ in ways:
        fleet.start(slots=1)
    await fleet.ready()
    handles = await fleet.function("die").enqueue_many([(way,) for way in ways])
    wanted = {handle.id for handle in handles}
    engine = await fleet.forge.engine()
    async with asyncio.timeout(20):
        while any(process.poll() is None for process in fleet.alive):
            await asyncio.sleep(0.02)
    fleet.alive.clear()
    give_up = time.monotonic() + 2 * LIMIT
    while time.monotonic() < give_up and any(
        job.status is JobStatus.PROCESSING for job in await jobs(engine, wanted)
    ):
        await asyncio.sleep(0.05)
    return list(wanted)


async def _rescues(fleet: Fleet, engine: Engine, died: list[UUID]) -> list[float]:
    """How long after its worker died each job was free again; endless for those that are not."""
    deaths = {UUID(line["job"]): line["at"] for line in fleet.history.lines("dies")}
    took = []
    for job in died:
        first = (await engine.executions([FIRST_PROJECT], job))[0]
        took.append(
            float("inf")
            if first.finished_at is None
            else first.finished_at.timestamp() - deaths[job]
        )
    return sorted(took)


async def _r19(tmp_path: Path, store: dict[str, str], kills: int, figure: Figure) -> None:
    async with Fleet(tmp_path, lease=LEASE, upkeep=UPKEEP, **store) as fleet:
        engine = await fleet.forge.engine()
        ways = list(itertools.islice(itertools.cycle(WAYS), kills))
        died: list[UUID] = []
        for start in range(0, kills, TOGETHER):
            died += await _die(fleet, ways[start : start + TOGETHER])
        took = await _rescues(fleet, engine, died)
        p99 = took[min(len(took) - 1, int(0.99 * len(took)))]
        figure(
            f"R19 {fleet.label}: {kills} deaths ({', '.join(WAYS)}) of all workers at a lease of "
            f"{LEASE:g} s, jobs free after "
            f"p50 {took[len(took) // 2]:.2f} s, p99 {p99:.2f} s, most {took[-1]:.2f} s (limit "
            f"{LIMIT:g} s)"
        )
        assert p99 <= LIMIT
        assert {job.crash_count for job in await jobs(engine, set(died))} == {1}


@pytest.mark.rotates
@pytest.mark.timeout(180)
async def test_r19_deaths(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r19(tmp_path, store, 20, figure)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kills", [50, 500])
async def test_r19_many_deaths(
    tmp_path: Path, store: dict[str, str], kills: int, figure: Figure
) -> None:
    await _r19(tmp_path, store, kills, figure)


@pytest.mark.rotates
@pytest.mark.timeout(120)
async def test_r19_catches_a_keeper_that_dies_with_its_worker(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    async with Fleet(
        tmp_path, twin="the keeper dies with its worker", lease=LEASE, upkeep=UPKEEP, **store
    ) as fleet:
        engine = await fleet.forge.engine()
        took = await _rescues(fleet, engine, await _die(fleet, ["kill"]))
        figure(f"R19 twin whose keeper dies with its worker: {took} s")
        assert took[-1] > LIMIT


async def _killed_whole(fleet: Fleet) -> tuple[UUID, float]:
    """A worker is killed together with its lease keeper while it runs a job, and another one
    starts. The job, and how long after that start it was free; endless if it was not."""
    process = fleet.start(slots=1)
    [job] = [handle.id for handle in await fleet.function("die").enqueue_many([("by the test",)])]
    engine = await fleet.forge.engine()
    async with asyncio.timeout(40):
        while not fleet.history.count("dies"):
            await asyncio.sleep(0.05)
    kill_whole(process)
    fleet.alive.remove(process)
    fleet.start(slots=1)
    await fleet.ready()
    began = max(
        worker.registered_at for worker in await engine.workers([FIRST_PROJECT])
    ).timestamp()
    give_up = time.monotonic() + 2 * LIMIT
    while time.monotonic() < give_up:
        first = (await engine.executions([FIRST_PROJECT], job))[0]
        if first.finished_at is not None:
            return job, first.finished_at.timestamp() - began
        await asyncio.sleep(0.05)
    return job, float("inf")


@pytest.mark.rotates
@pytest.mark.timeout(120)
async def test_r19_the_next_life_tells_of_those_that_were_killed_whole(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    async with Fleet(tmp_path, lease=LEASE, upkeep=UPKEEP, **store) as fleet:
        job, took = await _killed_whole(fleet)
        figure(
            f"R19 {fleet.label}: killed with its keeper, the job was free {took:.2f} s after the "
            f"next worker had registered"
        )
        assert took <= LIMIT
        assert [one.crash_count for one in await jobs(await fleet.forge.engine(), {job})] == [1]


@pytest.mark.rotates
@pytest.mark.timeout(120)
async def test_r19_catches_a_next_life_that_is_silent(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    async with Fleet(
        tmp_path, twin="is silent about the dead", lease=LEASE, upkeep=UPKEEP, **store
    ) as fleet:
        _, took = await _killed_whole(fleet)
        figure(f"R19 twin that is silent about the dead: {took} s")
        assert took > LIMIT


@pytest.mark.timeout(120)
async def test_r19_a_group_that_is_killed_leaves_its_keeper(tmp_path: Path) -> None:
    async with Fleet(
        tmp_path, lease=LEASE, upkeep=UPKEEP, url=f"sqlite:///{tmp_path}/jobs.db"
    ) as fleet:
        process = fleet.start(slots=1, within=("setsid",))
        [job] = [
            handle.id for handle in await fleet.function("die").enqueue_many([("by the test",)])
        ]
        async with asyncio.timeout(40):
            while not fleet.history.count("dies"):
                await asyncio.sleep(0.05)
        assert os.getpgid(process.pid) == process.pid
        os.killpg(process.pid, signal.SIGKILL)
        engine = await fleet.forge.engine()
        async with asyncio.timeout(LEASE / 3):
            while (await jobs(engine, {job}))[0].status is JobStatus.PROCESSING:
                await asyncio.sleep(0.05)
