"""R6 and R7: what a network does to workers that reach their jobs over HTTP."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.ids import job_of
from taskforge.node import Node, server_services
from taskforge.operations.upkeep import Upkeep
from taskforge.operations.work.enrolled_workers import Enrolled
from taskforge.operations.work.given_jobs import Given
from taskforge.operations.work.worker_desk import WorkerDesk
from taskforge.wiring import make_server
from tests.chaos.fleet import LEASE, Figure, Fleet, beside, bound, free_address
from tests.chaos.history import jobs
from tests.chaos.proxy import FaultProxy

pytestmark = pytest.mark.rotates

RATE = 100
MODES = ("slow", "reset", "blackhole", "half-open")
HEALED_WITHIN = 10.0
CUT = 4 * LEASE


async def _r6(tmp_path: Path, seconds: float, figure: Figure) -> None:
    """Each fault in turn under load; all that was acknowledged is done in the end, and soon after
    healing at the full rate."""
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
            f"R6 http: {proxy.faults} faults of {len(MODES)} kinds in {seconds:g} s, lost "
            f"{bound(n)}, accepted twice {bound(n)}, "
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


@pytest.mark.timeout(60)
async def test_r6_catches_a_twin_that_drops_what_it_cannot_report(
    tmp_path: Path, figure: Figure
) -> None:
    """What ends while nothing gets through. The lease outlasts that, so that nobody rescues what
    was dropped."""
    store = f"sqlite:///{tmp_path}/jobs.db"
    async with Fleet(
        tmp_path, twin="drops what it cannot report", lease=8.0, url=store, served=free_address()
    ) as fleet:
        async with FaultProxy(fleet.served) as proxy:
            fleet.start(slots=20, reach=proxy.address)
            await fleet.ready()
            held = await fleet.enqueue("work", *((2.5,) for _ in range(20)))
            async with asyncio.timeout(20):
                while fleet.history.count("start") < len(held):
                    await asyncio.sleep(0.05)
                proxy.mode = "blackhole"
                while fleet.history.count("end") < len(held):
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.5)  # the reports are on their way
            proxy.mode = "pass"
            in_time = await fleet.drained(patience=4)
        lost = [one for one in await fleet.violations() if one.startswith("lost")]
        figure(
            f"R6 twin that drops what it cannot report: {len(lost)} of {len(held)} jobs that were "
            f"run are not done"
        )
        assert not in_time
        assert lost


# --- R7: a worker that is cut off ---


@pytest.fixture
def island() -> Iterator[tuple[str, str]]:
    """A network namespace of our own, joined by one cable; its name, and the address at which it
    finds this side."""
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
    async with Fleet(
        tmp_path, url=f"sqlite:///{tmp_path}/jobs.db", served=free_address(host)
    ) as fleet:
        fleet.start(slots=4, within=("ip", "netns", "exec", name))
        await fleet.ready()
        fleet.start(slots=100)
        await fleet.ready()
        lost = refused = 0
        for _ in range(cuts):
            mine = await _hold(fleet, fleet.alive[0].pid)
            _cable(name, "down")
            await asyncio.sleep(CUT)
            elsewhere = {
                str(job.id): job
                for job in await jobs(await fleet.forge.engine(), {UUID(one) for one in mine})
            }
            assert all(one.epoch > 1 for one in elsewhere.values()), (
                "the jobs of a worker that was cut off run elsewhere"
            )
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
            held = {
                str(one) for one in await fleet.enqueue("hold", *(((6 * LEASE),) for _ in range(4)))
            }
            while len({line["job"] for line in fleet.history.lines("start")} & held) < len(held):
                await asyncio.sleep(0.05)
            mine = {
                line["job"] for line in fleet.history.lines("start") if line["pid"] == pid
            } & held
            if mine:
                return mine


@pytest.mark.timeout(60)
async def test_r7_catches_a_server_without_fences(
    tmp_path: Path, island: tuple[str, str], monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    """With a worker that works on without its lease: what it says at last comes while another
    worker runs the job."""
    name, host = island
    monkeypatch.setattr(WorkerDesk, "_own", _of_anyone)
    store = f"sqlite:///{tmp_path}/jobs.db"
    async with ServedHere(
        tmp_path, twin="deaf to lost leases", url=store, served=free_address(host)
    ) as fleet:
        fleet.start(slots=1, within=("ip", "netns", "exec", name))
        await fleet.ready()
        await fleet.enqueue("obey", ())
        async with asyncio.timeout(40):
            while fleet.history.count("start") < 1:
                await asyncio.sleep(0.05)
            _cable(name, "down")
            fleet.start(slots=1)
            while fleet.history.count("start") < 2:
                await asyncio.sleep(0.05)
            _cable(name, "up")
            await fleet.ready()  # what ends before it registers again, it drops
            (tmp_path / "1").touch()
            while not fleet.history.count("accepted") and not fleet.history.count("refused"):
                await asyncio.sleep(0.05)
        late = [line for line in fleet.history.lines("accepted") if line["epoch"] == 1]
        stale = [one for one in await fleet.violations() if one.startswith("stale")]
        figure(
            f"R7 twin without fences: {len(late)} late result taken, {len(stale)} kept by the store"
        )
        assert late
        assert stale


def _of_anyone(self: WorkerDesk, worker: Enrolled, fence: UUID) -> Given | None:
    """By the job alone, as most job servers go: whoever speaks of a job is believed to run it."""
    given = [one for one in self._given.values() if job_of(one.fence) == job_of(fence)]
    return given[-1] if given else None


class ServedHere(Fleet):
    """Its server runs in this process, where a test can break it."""

    async def start_server(self) -> None:
        host, _, port = self.served.rpartition(":")
        engine = await self.forge.engine()
        made = await make_server(
            engine, msgspec.structs.replace(self.forge.settings, host=host, port=int(port))
        )
        made.server.bind()
        self._api, self._serving = (
            made.server,
            asyncio.create_task(Node(server_services(made.platform), server=made.server).run()),
        )
        self._keeping = asyncio.create_task(Upkeep(engine, interval=0.1).run())
        await made.server.started.wait()

    async def __aexit__(self, *details: object) -> None:
        for process in self.alive:
            process.kill()
        self._keeping.cancel()
        self._api.stop()
        await self._serving
        await super().__aexit__(*details)


def _cable(name: str, state: str) -> None:
    subprocess.run(["ip", "link", "set", f"{name}a", state], check=True)


@pytest.mark.timeout(180)
async def test_r7_a_worker_that_is_cut_off(
    tmp_path: Path, island: tuple[str, str], figure: Figure
) -> None:
    await _r7(tmp_path, island, 3, figure)


@pytest.mark.long
async def test_r7_a_worker_that_is_cut_off_often(
    tmp_path: Path, island: tuple[str, str], figure: Figure
) -> None:
    await _r7(tmp_path, island, 50, figure)
