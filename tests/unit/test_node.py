"""What a node runs, and the order in which it ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taskforge.node import Node, make_node
from taskforge.services import Errand
from taskforge.settings import Settings
from taskforge.wiring import make_server, make_store


class Part:
    """A worker or a server, as far as a node knows one."""

    def __init__(self, name: str, ends: list[str]) -> None:
        self.name, self._ends = name, ends
        self.ready, self._stopped, self.stops = asyncio.Event(), asyncio.Event(), 0

    async def run(self) -> None:
        self.ready.set()
        await self._stopped.wait()
        await asyncio.sleep(0)
        self._ends.append(self.name)

    def stop(self) -> None:
        self.stops += 1
        self._stopped.set()


def _beside(ends: list[str]) -> Errand:
    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("service")

    return Errand("service", last)


async def test_workers_end_first_then_the_api_then_what_runs_beside_them() -> None:
    ends: list[str] = []
    worker, server = Part("worker", ends), Part("server", ends)
    node = Node([_beside(ends)], server=server, workers=[worker])  # type: ignore[arg-type,list-item]
    running = asyncio.create_task(node.run())
    await node.ready()
    node.stop()
    async with asyncio.timeout(5):
        await running
    assert ends == ["worker", "server", "service"]


async def test_a_node_without_workers_ends_with_its_api() -> None:
    ends: list[str] = []
    server = Part("server", ends)
    node = Node([_beside(ends)], server=server)  # type: ignore[arg-type]
    running = asyncio.create_task(node.run())
    await server.ready.wait()
    node.stop()
    async with asyncio.timeout(5):
        await running
    assert ends == ["server", "service"]


async def test_a_part_that_fails_stops_the_others_in_order_and_is_raised() -> None:
    ends: list[str] = []
    worker, server = Part("worker", ends), Part("server", ends)

    async def fail() -> None:
        raise ZeroDivisionError

    node = Node(
        [_beside(ends), Errand("fault", fail)],
        server=server,  # type: ignore[arg-type]
        workers=[worker],  # type: ignore[list-item]
    )
    async with asyncio.timeout(5):
        with pytest.raises(ZeroDivisionError):
            await node.run()
    assert ends == ["worker", "server", "service"]
    assert worker.stops == 1


async def test_who_stops_a_node_that_has_failed_does_not_take_the_grace_time_away() -> None:
    ends: list[str] = []
    worker = Part("worker", ends)
    node = Node([], workers=[worker])  # type: ignore[list-item]
    node._stop_for_failure("upkeep", ZeroDivisionError())
    node.stop()
    assert worker.stops == 1
    node.stop()
    assert worker.stops == 2


async def test_the_first_cancel_stops_and_the_second_stops_at_once() -> None:
    worker = Part("worker", [])
    node = Node([], workers=[worker])  # type: ignore[list-item]
    running = asyncio.create_task(node.run_until_cancelled())
    await node.ready()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert worker.stops == 1


async def test_a_node_names_the_services_of_a_store_and_of_a_server(tmp_path: Path) -> None:
    settings = Settings(url=f"sqlite:///{tmp_path / 'jobs.db'}", port=0)
    engine = make_store(settings)
    await engine.open()
    try:
        node = make_node(engine, settings, server=await make_server(engine, settings))
        names = [health.name for health in node.health()]
    finally:
        await engine.close()
    assert names == [
        "staging, rescue and expiry",
        "folding",
        "pruning",
        "retiring of lanes",
        "feed",
        "waiting claims",
        "sealing the audit log",
        "exporting the head of the audit log",
        "noting the use of keys",
        "forgetting workers that ended",
        "pruning the audit log",
        "watching the store",
        "membership",
        "leader",
        "watching what is late",
    ]


async def test_behind_a_server_a_node_runs_no_upkeep() -> None:
    engine: Any = object()  # answers to no port of a store
    assert make_node(engine, Settings(url="http://127.0.0.1:9")).health() == []
