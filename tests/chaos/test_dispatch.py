"""Jobs that are placed on workers outlive their leader and their worker: nothing is lost, nothing
accepted twice, and nothing waits for longer than twice the lease."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from taskforge.domain.queue import QueueSettings, UpdateQueue
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.storage.records.cluster import ClusterRecords
from tests.chaos.fleet import LEASE, Figure, Fleet, beside, bound

pytestmark = pytest.mark.rotates

WORKERS = 3
ROUNDS = 2


async def _balance(fleet: Fleet, policy: str) -> None:
    engine = await fleet.forge.engine()
    [queue] = [one for one in await engine.queues([FIRST_PROJECT]) if one.name == "default"]
    settings = QueueSettings(load_balancing=policy)
    await engine.change_queue(FIRST_PROJECT, UpdateQueue(queue=queue.id, settings=settings))


async def _leader(fleet: Fleet) -> int:
    """The process that leads."""
    cluster = ClusterRecords(await fleet.forge.engine())  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        while True:
            node = (await cluster.leadership()).node
            for one in await cluster.nodes():
                if one.id == node and any(one.pid == process.pid for process in fleet.alive):
                    return one.pid
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
@pytest.mark.timeout(180)
async def test_leader_and_workers_killed_while_jobs_are_placed(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    async with Fleet(tmp_path, leader=2.0, **store) as fleet:
        await _balance(fleet, "round_robin")
        for _ in range(WORKERS):
            fleet.start("--processes", "0")
        await fleet.ready()
        async with beside(fleet.load(60, (0.01, 0.05))):
            for _ in range(ROUNDS):
                await asyncio.sleep(1.5)
                leader = await _leader(fleet)
                fleet.kill(next(one for one in fleet.alive if one.pid == leader))
                fleet.start("--processes", "0")
                await asyncio.sleep(1.5)
                # One that leads nothing, with jobs in its hands and others placed on it.
                leader = await _leader(fleet)
                other = next(one for one in fleet.alive if one.pid != leader)
                os.kill(other.pid, signal.SIGSTOP)
                await asyncio.sleep(0.3)
                fleet.kill(other)
                fleet.start("--processes", "0")
        in_time = await fleet.drained(patience=2 * LEASE + 10)
        assert await fleet.violations() == []
        n = len(fleet.acknowledged)
        figure(f"dispatch {fleet.label}: {2 * ROUNDS} kills, lost {bound(n)}, twice {bound(n)}")
        assert in_time


@pytest.mark.parametrize("store", ["http"], indirect=True)
@pytest.mark.timeout(120)
async def test_workers_over_http_take_what_is_placed_on_them(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    """The server leads. One worker is killed with jobs placed on it."""
    async with Fleet(tmp_path, leader=2.0, **store) as fleet:
        await _balance(fleet, "round_robin")
        workers = [fleet.start("--processes", "0") for _ in range(2)]
        await fleet.ready()
        await fleet.enqueue("work", *[(0.01,)] * 100)
        assert await fleet.drained(patience=20)
        totals = await (await fleet.forge.engine()).worker_totals([FIRST_PROJECT])
        assert sorted(one.completed for one in totals) == [50, 50]
        await fleet.enqueue("work", *[(0.05,)] * 200)
        fleet.kill(workers[0])
        in_time = await fleet.drained(patience=2 * LEASE + 20)
        assert await fleet.violations() == []
        n = len(fleet.acknowledged)
        figure(f"dispatch {fleet.label}: a worker killed, lost {bound(n)}, twice {bound(n)}")
        assert in_time
