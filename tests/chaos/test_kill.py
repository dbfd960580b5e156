"""R1: kill -9 a random worker every 2 s under load. Nothing is lost, nothing accepted twice, and
jobs are free again soon."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.chaos.fleet import LEASE, Figure, Fleet, beside, bound

pytestmark = pytest.mark.rotates

WORKERS = 4
EVERY = 2.0
RATE = {"sqlite": 100, "postgresql": 200}


async def _storm(fleet: Fleet, seconds: float) -> int:
    """Kill for this long; returns how often."""
    for _ in range(WORKERS):
        fleet.start()
    await fleet.ready()
    rate = RATE[fleet.forge.settings.url.partition(":")[0]]
    kills = 0
    async with beside(fleet.load(rate, (0.01, 0.03, 0.1, 0.5))):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(EVERY)
            fleet.kill(random.choice(fleet.alive))
            kills += 1
            fleet.start()
    return kills


async def _r1(tmp_path: Path, store: dict[str, str], seconds: float, figure: Figure) -> None:
    async with Fleet(tmp_path, **store) as fleet:
        kills = await _storm(fleet, seconds)
        in_time = await fleet.drained()
        assert await fleet.violations() == []
        assert in_time
        took = await fleet.history.rescues(await fleet.forge.engine(), fleet.acknowledged)
        p99 = took[min(len(took) - 1, int(0.99 * len(took)))]
        n = len(fleet.acknowledged)
        figure(
            f"R1 {fleet.label}: {kills} kills in {seconds:g} s, lost {bound(n)}, accepted twice "
            f"{bound(n)}, {len(took)} rescued, rescue p99 {p99:.2f} s, most {took[-1]:.2f} s "
            f"(limit {2 * LEASE:g} s)"
        )
        assert p99 < 2 * LEASE


@pytest.mark.timeout(180)
async def test_r1_kill(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r1(tmp_path, store, 14, figure)


@pytest.mark.long
async def test_r1_kill_for_a_minute(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r1(tmp_path, store, 60, figure)


@pytest.mark.long
async def test_r1_kill_for_an_hour(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r1(tmp_path, store, 3_600, figure)


@pytest.mark.timeout(180)
async def test_r1_catches_a_twin_that_never_rescues(tmp_path: Path, figure: Figure) -> None:
    async with Fleet(tmp_path, twin="never rescues", url=f"sqlite:///{tmp_path}/jobs.db") as fleet:
        await _storm(fleet, 4)
        assert not await fleet.drained(patience=3 * LEASE)
        lost = [one for one in await fleet.violations() if one.startswith("lost")]
        figure(f"R1 twin that never rescues: {len(lost)} jobs reported lost")
        assert lost
