"""R6 and R7: what a network does to workers that reach their jobs over HTTP."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.chaos.fleet import LEASE, Figure, Fleet, beside, bound, free_address
from tests.chaos.history import jobs
from tests.chaos.proxy import FaultProxy

RATE = 100
MODES = ("slow", "reset", "blackhole", "half-open")
HEALED_WITHIN = 10.0
CUT = 4 * LEASE


async def _r6(tmp_path: Path, seconds: float, figure: Figure) -> None:
    """Each fault in turn under load; all that was acknowledged is done in the end, and soon after healing at the full rate."""
    async with Fleet(tmp_path, url=f"sqlite:///{tmp_path}/jobs.db", served=free_address()) as fleet:
        async with FaultProxy(fleet.served) as proxy:
            for _ in range(3):
                fleet.start(slots=20, reach=proxy.address)
            await fleet.ready()
            async with beside(fleet.load(RATE, (0.01, 0.05, 0.2))):
                for mode in MODES:
                    proxy.mode = mode
                    await asyncio.sleep(seconds / len(MODES))
                proxy.mode = "pass"
                healed = await _healed(fleet)
            in_time = await fleet.drained()
        assert await fleet.violations() == []
        assert in_time
        n = len(fleet.acknowledged)
        figure(
            f"R6 http: {proxy.faults} faults of {len(MODES)} kinds in {seconds:g} s, lost {bound(n)}, accepted twice {bound(n)}, "
            f"full rate {healed:.1f} s after healing (limit {HEALED_WITHIN:g} s)"
        )
        assert proxy.faults >= 20
        assert healed <= HEALED_WITHIN


async def _healed(fleet: Fleet) -> float:
    """How long it takes until jobs end at least as quickly as they come, second for second."""
    began = time.monotonic()
    before = (await fleet.stats()).succeeded
    while time.monotonic() - began < 3 * HEALED_WITHIN:
        await asyncio.sleep(1)
        now = (await fleet.stats()).succeeded
        if now - before >= 0.9 * RATE:
            return time.monotonic() - began - 1
        before = now
    return time.monotonic() - began


@pytest.mark.timeout(180)
async def test_r6_a_bad_network(tmp_path: Path, figure: Figure) -> None:
    await _r6(tmp_path, 14, figure)


@pytest.mark.long
async def test_r6_a_bad_network_for_two_minutes(tmp_path: Path, figure: Figure) -> None:
    await _r6(tmp_path, 120, figure)


# --- R7: a worker that is cut off ---


@pytest.fixture
def island() -> Iterator[tuple[str, str]]:
    """A network namespace of our own, joined by one cable; its name, and the address at which it finds this side."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    name, here = f"tf{os.getpid()}", f"10.213.{os.getpid() % 250}"
    steps = [
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b netns {name}",
        f"ip addr add {here}.1/24 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} addr add {here}.2/24 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip -n {name} link set lo up",
    ]
    try:
        for step in steps:
            done = subprocess.run(step.split(), check=False, capture_output=True)
            if done.returncode:
                pytest.skip(f"no network namespace can be made here: {done.stderr.decode()}")
        yield name, f"{here}.1"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", f"{name}a"], check=False, capture_output=True)


async def _r7(tmp_path: Path, island: tuple[str, str], cuts: int, figure: Figure) -> None:
    name, host = island
    async with Fleet(tmp_path, url=f"sqlite:///{tmp_path}/jobs.db", served=free_address(host)) as fleet:
        fleet.start(slots=4, within=("ip", "netns", "exec", name))
        await fleet.ready()
        fleet.start(slots=100)
        await fleet.ready()
        lost = refused = 0
        for _ in range(cuts):
            mine = await _hold(fleet, fleet.alive[0].pid)
            _cable(name, "down")
            await asyncio.sleep(CUT)
            elsewhere = {str(job.id): job for job in await jobs(await fleet.forge.engine(), {UUID(one) for one in mine})}
            assert all(one.epoch > 1 for one in elsewhere.values()), "the jobs of a worker that was cut off run elsewhere"
            _cable(name, "up")
            assert await fleet.drained()
            await fleet.ready()
            accepted = {(line["job"], line["epoch"]) for line in fleet.history.lines("accepted")}
            assert not {(job, 1) for job in mine} & accepted, "a late result was taken"
            lost += len(mine)
        assert await fleet.violations() == []
        refused = fleet.history.count("refused") + fleet.history.count("cancelled")
        told = f"late results taken {bound(lost)}, {refused} refused or stopped"
        figure(f"R7 http: {cuts} cuts of {CUT:g} s, {lost} jobs ran elsewhere, {told}")


async def _hold(fleet: Fleet, pid: int) -> set[str]:
    """Jobs that this worker runs, and will for longer than it is cut off."""
    async with asyncio.timeout(30):
        while True:
            held = {str(one) for one in await fleet.enqueue("hold", *(((6 * LEASE),) for _ in range(4)))}
            while len({line["job"] for line in fleet.history.lines("start")} & held) < len(held):
                await asyncio.sleep(0.05)
            mine = {line["job"] for line in fleet.history.lines("start") if line["pid"] == pid} & held
            if mine:
                return mine


def _cable(name: str, state: str) -> None:
    subprocess.run(["ip", "link", "set", f"{name}a", state], check=True)


@pytest.mark.timeout(180)
async def test_r7_a_worker_that_is_cut_off(tmp_path: Path, island: tuple[str, str], figure: Figure) -> None:
    await _r7(tmp_path, island, 3, figure)


@pytest.mark.long
async def test_r7_a_worker_that_is_cut_off_often(tmp_path: Path, island: tuple[str, str], figure: Figure) -> None:
    await _r7(tmp_path, island, 50, figure)
