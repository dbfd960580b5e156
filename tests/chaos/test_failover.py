"""R20: a PostgreSQL pair whose primary dies under load. What was acknowledged is on the replica
that takes its place, nothing is accepted twice, and all processes find it by themselves: a server,
a worker behind it, and one on the store itself."""

import asyncio
import time
from pathlib import Path

import pytest

from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.storage.postgres import connections
from tests.chaos.callers import CALLERS, Callers
from tests.chaos.fleet import Figure, Fleet, beside, bound, free_address
from tests.support.pair import Pair, run

pytestmark = pytest.mark.rotates

RATE = 200
BACK_WITHIN = 10.0
PROCESSES = 3
TWIN = """
from taskforge.storage.postgres import connections
connections.SESSION["synchronous_commit"] = "local"
"""


def _fleet(tmp_path: Path, pair: Pair) -> Fleet:
    return Fleet(tmp_path, served=free_address(), lease=2.0, url=pair.url)


async def _back(fleet: Fleet, pair: Pair, promoted: float) -> dict[str, float]:
    """When each part of every process was at work again, in seconds after the promotion."""
    engine = await fleet.forge.engine()
    pids = {process.pid for process in fleet.alive}
    parts = dict.fromkeys(("pools", "lease keepers", "LISTEN"), 0.0)
    give_up = time.time() + 2 * BACK_WITHIN
    while not all(parts.values()) and time.time() < give_up:
        accepted = {
            line["pid"] for line in fleet.history.lines("accepted") if line["at"] > promoted
        }
        renewed = {
            worker.pid
            for worker in await engine.workers([FIRST_PROJECT])
            if worker.last_heartbeat is not None and worker.last_heartbeat.timestamp() > promoted
        }
        [listening] = await run(
            pair.replica,
            "select count(*) from pg_stat_activity where application_name = 'taskforge listen'",
        )
        # the server and the worker on the store; whoever is behind the server hears of work by it
        states = (pids <= accepted, pids <= renewed, listening["count"] >= 2)
        for part, is_back in zip(parts, states, strict=True):
            if is_back and not parts[part]:
                parts[part] = time.time() - promoted
        await asyncio.sleep(0.1)
    return {part: took or float("inf") for part, took in parts.items()}


async def _r20(fleet: Fleet, pair: Pair, figure: Figure, seconds: float) -> list[str]:
    """The primary is killed while the last of what it wrote is on its way to nobody."""
    workers = [fleet.start(slots=20), fleet.start(slots=20, direct=True)]
    assert fleet.server is not None
    await fleet.ready()
    callers = Callers(fleet)
    enqueuing = [callers.enqueue(RATE / CALLERS) for _ in range(CALLERS)]
    async with beside(*enqueuing, callers.post()):
        await asyncio.sleep(seconds)
        before = len(fleet.acknowledged)
        await pair.cut()
        await asyncio.sleep(0.5)
        pair.primary.kill()
        await asyncio.sleep(1.0)  # whoever watches over the pair notices
        await pair.promote()
        promoted = time.time()
        parts = await _back(fleet, pair, promoted)
        await asyncio.sleep(1)
    await callers.close()
    in_time = await fleet.drained()
    found = await fleet.violations()
    ended = [process.pid for process in (fleet.server, *workers) if process.poll() is not None]
    n = len(fleet.acknowledged)
    took = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in parts.items())
    wrong = f"{len(found)} of {n:,}" if found else bound(n)
    figure(
        f"R20: primary killed after {before:,} acknowledged jobs, lost or accepted twice {wrong}, "
        f"{len(ended)} of {PROCESSES} processes ended; back after promotion: {took} "
        f"(limit {BACK_WITHIN:g} s); callers were told {dict(callers.told)}"
    )
    assert callers.surprises == []
    if not found:
        assert in_time
        assert ended == []
        assert max(parts.values()) <= BACK_WITHIN
    return found


@pytest.mark.timeout(180)
async def test_r20_the_primary_dies_under_load(
    tmp_path: Path, server_directory: Path, figure: Figure
) -> None:
    with Pair.start(server_directory) as pair:
        await pair.synchronize()
        async with _fleet(tmp_path, pair) as fleet:
            assert await _r20(fleet, pair, figure, 2.0) == []


@pytest.mark.long
@pytest.mark.parametrize("number", range(50))
async def test_r20_again_and_again(
    tmp_path: Path, server_directory: Path, figure: Figure, number: int
) -> None:
    with Pair.start(server_directory) as pair:
        await pair.synchronize()
        async with _fleet(tmp_path, pair) as fleet:
            assert await _r20(fleet, pair, figure, 2.0 + number / 25) == []


@pytest.mark.timeout(180)
async def test_r20_catches_a_twin_that_does_not_wait_for_the_replica(
    tmp_path: Path, server_directory: Path, figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SESSION, "synchronous_commit", "local")
    (tmp_path / "sitecustomize.py").write_text(TWIN)
    with Pair.start(server_directory) as pair:
        await pair.synchronize()
        async with _fleet(tmp_path, pair) as fleet:
            assert any(line.startswith("lost") for line in await _r20(fleet, pair, figure, 1.0))
