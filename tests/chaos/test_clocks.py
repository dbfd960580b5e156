"""T4: workers whose clocks are wrong. Leases and timeouts go by the store's clock, so nobody is
rescued early, and nobody outlives its lease. On SQLite all processes have one clock; whoever is
told another time goes by that of the machine's start all the same."""

import asyncio
from pathlib import Path

import pytest

from taskforge.domain.job import JobStatus
from taskforge.domain.outcome import LEASE_RAN_OUT
from taskforge.domain.tenancy import FIRST_PROJECT
from tests.chaos.fleet import Figure, Fleet, beside, bound
from tests.chaos.history import jobs

pytestmark = pytest.mark.rotates

OFF = 600.0
SKEW = """
import os, time
_ahead = float(os.environ.get("CHAOS_SKEW", "0"))
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _ahead
time.time_ns = lambda: _time_ns() + int(_ahead * 1e9)
"""
TWINS = {
    "postgres": """
from datetime import UTC, datetime
from taskforge.storage.postgres.connections import PostgresConnections
PostgresConnections.bound_now = lambda self: datetime.fromtimestamp(time.time(), UTC)
""",
    "sqlite": """
from taskforge.storage.sqlite import boot
boot.since_boot = lambda: time.time_ns() // 1_000
""",
}
SHORT = 6.0
LEASE = 4.0
DURATIONS = (0.01, 0.1, 0.02, 0.3, 0.05, 0.01, 0.1, 0.02, 0.01, 4.5)  # some outlast a lease
OFF_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres", "http"], indirect=True)


async def _t4(fleet: Fleet, offs: tuple[float, ...], seconds: float, figure: Figure) -> list[str]:
    """Jobs that were tried again, with why: none of them had to be."""
    *wrong, right = offs
    fleet.start(slots=10, within=("env", f"CHAOS_SKEW={right}"))
    await fleet.ready()
    async with beside(fleet.load(40, DURATIONS)):
        for off in wrong:
            fleet.start(slots=10, within=("env", f"CHAOS_SKEW={off}"))
        await asyncio.sleep(seconds)
    done = await fleet.drained()
    engine = await fleet.forge.engine()
    early = []
    for job in await jobs(engine, fleet.acknowledged):
        # What a worker hands back by itself, because its slots are taken, was not rescued.
        ends = [one.reason for one in await engine.executions([FIRST_PROJECT], job.id)]
        is_whole = job.status is JobStatus.SUCCEEDED and job.attempt_count == 1
        if not is_whole or job.crash_count or LEASE_RAN_OUT in ends:
            early.append(f"{job.id} {job.status}, claims ended {ends}")
    n = len(fleet.acknowledged)
    figure(
        f"T4 {fleet.label}: clocks of workers off by {', '.join(f'{off:+g} s' for off in offs)}: "
        f"rescued early {f'{len(early)} of {n:,}' if early else bound(n)}"
    )
    assert early or done
    return early


@OFF_STORE
@pytest.mark.timeout(120)
@pytest.mark.parametrize("off", [OFF, -OFF])
async def test_t4_nobody_is_rescued_early(
    tmp_path: Path, store: dict[str, str], off: float, figure: Figure
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SKEW)
    async with Fleet(tmp_path, lease=LEASE, **store) as fleet:
        assert await _t4(fleet, (off, 0.0), SHORT, figure) == []


@pytest.mark.long
@OFF_STORE
async def test_t4_for_an_hour(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    (tmp_path / "sitecustomize.py").write_text(SKEW)
    async with Fleet(tmp_path, lease=LEASE, **store) as fleet:
        assert await _t4(fleet, (OFF, -OFF, 0.0), 3_600, figure) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("store", "twin"), [*TWINS.items()], indirect=["store"], ids=[*TWINS])
async def test_t4_catches_a_twin_that_goes_by_its_own_clock(
    tmp_path: Path, store: dict[str, str], twin: str, figure: Figure
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SKEW + twin)
    async with Fleet(tmp_path, lease=LEASE, **store) as fleet:
        assert await _t4(fleet, (OFF, 0.0), SHORT, figure)
