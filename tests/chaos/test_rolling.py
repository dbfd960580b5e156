"""R11: every worker is stopped with SIGTERM in turn, under load. Nothing is lost, no attempt is
spent, and each stop is in time."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.fleet import GRACE, Figure, Fleet, beside, bound
from tests.chaos.history import jobs

pytestmark = pytest.mark.rotates

WORKERS = 3
RATE = {"sqlite": 100, "postgresql": 200}
# Most end within the grace time; one in a while does not, and must be handed back.
DURATIONS = (0.01, 0.05, 0.2, 0.01, 0.02, 0.5, 0.01, 0.05, 0.1) * 5 + (2.5 * GRACE,)


async def _roll(fleet: Fleet, rounds: int, workers: int = WORKERS) -> list[float]:
    """How long each stop took."""
    for _ in range(workers):
        fleet.start(slots=20)
    await fleet.ready()
    took: list[float] = []
    async with beside(fleet.load(RATE[fleet.forge.settings.url.partition(":")[0]], DURATIONS)):
        for _ in range(rounds):
            for process in list(fleet.alive):
                await asyncio.sleep(0.5)
                started = time.monotonic()
                process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(process.wait, 60)
                took.append(time.monotonic() - started)
                fleet.alive.remove(process)
                fleet.start(slots=20)
                await fleet.ready()
            await fleet.roll_server()
    return took


async def _spent(fleet: Fleet) -> list[str]:
    """Jobs that paid for a stop."""
    found = await jobs(await fleet.forge.engine(), fleet.acknowledged)
    return [
        f"{job.id}: {job.attempt_count} attempts"
        for job in found
        if job.attempt_count != 1 or job.crash_count
    ]


async def _r11(tmp_path: Path, store: dict[str, str], rounds: int, figure: Figure) -> None:
    # No attempt may be spent: a machine that stands still for a second must not end a lease.
    # Workers behind a server cannot renew while it restarts: their lease must outlast that, as the
    # default of 15 s does.
    async with Fleet(tmp_path, lease=8.0 if "served" in store else 2.0, **store) as fleet:
        took = await _roll(fleet, rounds)
        in_time = await fleet.drained()
        assert await fleet.violations() == []
        assert in_time
        assert await _spent(fleet) == []
        n = len(fleet.acknowledged)
        handed = sum(
            1 for line in fleet.history.lines("accepted") if line["outcome"] == "HandBackOutcome"
        )
        assert handed > 0
        where = fleet.label
        figure(
            f"R11 {where}: {len(took)} stops in {rounds} rounds, lost {bound(n)}, attempts spent "
            f"{bound(n)}, {handed} handed back, slowest stop {max(took):.2f} s (limit "
            f"{GRACE + 2:g} s)"
        )
        assert max(took) <= GRACE + 2


@pytest.mark.timeout(180)
async def test_r11_rolling_stop(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r11(tmp_path, store, 2, figure)


@pytest.mark.long
async def test_r11_rolling_stop_long(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    await _r11(tmp_path, store, 150, figure)


@pytest.mark.timeout(180)
async def test_r11_catches_a_twin_that_hands_nothing_back(tmp_path: Path, figure: Figure) -> None:
    async with Fleet(
        tmp_path, twin="hands nothing back", url=f"sqlite:///{tmp_path}/jobs.db"
    ) as fleet:
        await _roll(fleet, 1, workers=2)
        await fleet.drained()
        spent = await _spent(fleet)
        figure(f"R11 twin that hands nothing back: {len(spent)} jobs paid for a stop")
        assert spent
