"""R10: jobs that kill their workers, among 1,000 good ones. Each goes to the dead letter queue
after three crashes; the good ones are all done; a C call that holds the GIL within its timeout
keeps its job."""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from taskforge.domain.job import new_job
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.ports.engine import Engine
from tests.chaos.fleet import Figure, Fleet, beside, bound
from tests.chaos.history import jobs

pytestmark = pytest.mark.rotates

GOOD = 1_000
# the row forbids a rescue: a machine that stands still for a second must not look like one
LEASE = 2.0
CRASHING = ("segfault", "leave", "devour")
CRASHES = 3


async def _poison(fleet: Fleet) -> dict[UUID, str]:
    pills: dict[UUID, str] = {}
    for name in CRASHING:
        [handle] = await fleet.function(name).enqueue_many([()])
        pills[handle.id] = name
    pills[(await fleet.forge.insert(new_job("pills", "careful", {"number": "three"}))).job] = (
        "careful"
    )
    return pills


async def _r10(tmp_path: Path, store: dict[str, str], seconds: float, figure: Figure) -> None:
    async with Fleet(tmp_path, lease=LEASE, **store) as fleet:
        engine = await fleet.forge.engine()
        started = time.monotonic()
        pills: dict[UUID, str] = {}
        hogs: list[UUID] = []
        crews = [fleet.restarting("--queues", "default,pills", slots=4) for _ in range(2)]
        async with beside(*crews, fleet.restarting("--queues", "default,hogs", slots=4)):
            while not pills or time.monotonic() - started < seconds:
                good = [(random.choice((0.0, 0.005, 0.02)),) for _ in range(GOOD)]
                await fleet.enqueue("work", *good[: GOOD // 2])
                pills |= await _poison(fleet)
                hogs += [
                    handle.id
                    for handle in await fleet.function("hog").enqueue_many(
                        [(2.5 * LEASE,), (2.5 * LEASE,)]
                    )
                ]
                await fleet.enqueue("work", *good[GOOD // 2 :])
                async with asyncio.timeout(90):
                    crashing = {pill for pill, kind in pills.items() if kind != "careful"}
                    while await _unsettled(fleet, crashing, set(hogs)) or not await _tried(
                        engine, pills.keys() - crashing
                    ):
                        await asyncio.sleep(0.1)
                assert await fleet.drained()
        starts = Counter(UUID(line["job"]) for line in fleet.history.lines("start"))
        for pill in await jobs(engine, set(pills)):
            kind = pills[pill.id]
            executions = await engine.executions([FIRST_PROJECT], pill.id)
            if kind == "careful":
                # Its arguments may fit the handlers of a deploy that is under way: it waits for an
                # hour, in nobody's way.
                assert (pill.queue, pill.status.is_final, starts[pill.id]) == ("pills", False, 0)
                continue
            crashed = [
                one
                for one in executions
                if one.error is not None and one.error.type == "WorkerCrashed"
            ]
            assert (pill.queue, pill.origin_queue, len(crashed)) == ("dead", "pills", CRASHES), kind
            # Fewer starts than crashes: another pill may kill the worker before this one's turn
            # comes.
            assert 1 <= starts[pill.id] <= CRASHES, kind
            assert executions[-1].reason == f"poison pill: its workers died {CRASHES} times"
        for hog in await jobs(engine, set(hogs)):
            # Over HTTP it may have been handed back before it began: a claim whose answer a blocked
            # loop did not read in time.
            assert (hog.status, hog.attempt_count, hog.crash_count, starts[hog.id]) == (
                "succeeded",
                1,
                0,
                1,
            )
        assert await fleet.violations() == []
        again = [job for job in await jobs(engine, fleet.acknowledged) if job.epoch > 1]
        where = fleet.label
        figure(
            f"R10 {where}: {len(pills)} pills (segfault, exit, out of memory: dead-lettered after "
            f"{CRASHES} crashes each; bad payload: waits unspent), good jobs not done "
            f"{bound(len(fleet.acknowledged))}, "
            f"{len(again)} of them ran again, {len(hogs)} GIL hogs of {2.5 * LEASE:g} s on a "
            f"lease of {LEASE:g} s rescued "
            f"{bound(len(hogs))}, {time.monotonic() - started:.0f} s"
        )


async def _tried(engine: Engine, careful: set[UUID]) -> bool:
    """Whether some worker has found that the arguments of each do not fit. While pills run alone,
    the others are handed back."""
    found = [await engine.executions([FIRST_PROJECT], job) for job in careful]
    return all(
        any("do not fit" in (one.reason or "") for one in executions) for executions in found
    )


async def _unsettled(fleet: Fleet, pills: set[UUID], hogs: set[UUID]) -> bool:
    engine = await fleet.forge.engine()
    return any(
        not job.status.is_final and job.queue != "dead" for job in await jobs(engine, pills | hogs)
    )


@pytest.mark.timeout(240)
# over HTTP in the long form
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_r10_pills(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r10(tmp_path, store, 0, figure)


@pytest.mark.long
async def test_r10_pills_for_an_hour(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r10(tmp_path, store, 3_600, figure)


@pytest.mark.timeout(180)
async def test_r10_pills_with_a_single_worker(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    """Nobody else is there to notice, and the lease is longer than it takes to start again."""
    started = time.monotonic()
    async with Fleet(tmp_path, lease=15.0, **store) as fleet:
        engine = await fleet.forge.engine()
        await fleet.enqueue("work", *[(0.0,)] * 100)
        pills = {(await fleet.function(name).enqueue()).id for name in ("leave", "segfault")}
        await fleet.enqueue("work", *[(0.0,)] * 100)
        async with (
            beside(fleet.restarting("--queues", "default,pills", slots=4)),
            asyncio.timeout(120),
        ):
            while await _unsettled(fleet, pills, set()):
                await asyncio.sleep(0.1)
            assert await fleet.drained()
        for pill in await jobs(engine, pills):
            executions = await engine.executions([FIRST_PROJECT], pill.id)
            crashed = [
                one
                for one in executions
                if one.error is not None and one.error.type == "WorkerCrashed"
            ]
            assert (pill.queue, len(crashed)) == ("dead", CRASHES)
        assert await fleet.violations() == []
        figure(
            f"R10 {fleet.label}: a single worker, a lease of 15 s, 2 pills dead-lettered after "
            f"{CRASHES} crashes each, good jobs "
            f"not done {bound(len(fleet.acknowledged))}, {time.monotonic() - started:.0f} s"
        )


@pytest.mark.timeout(180)
async def test_r10_catches_a_twin_that_counts_no_crashes(tmp_path: Path, figure: Figure) -> None:
    async with Fleet(
        tmp_path, twin="counts no crashes", url=f"sqlite:///{tmp_path}/jobs.db"
    ) as fleet:
        [pill] = [handle.id for handle in await fleet.function("leave").enqueue_many([()])]
        async with (
            beside(fleet.restarting(slots=4), fleet.restarting(slots=4)),
            asyncio.timeout(90),
        ):
            while fleet.history.count("start") <= CRASHES:
                await asyncio.sleep(0.1)
        [job] = await jobs(await fleet.forge.engine(), {pill})
        figure(
            f"R10 twin that counts no crashes: the pill killed {fleet.history.count('start')} "
            f"workers and is still {job.status}"
        )
        assert job.queue == "pills"
