"""A worker on a store that goes away and comes back."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from taskforge import StoreUnavailable, TaskForge
from taskforge.storage.postgres.server import LocalServer
from tests.worker.crew import Crew, until


async def test_a_worker_outlives_its_database(server_directory: Path, figure: Callable[[str], None]) -> None:
    """PostgreSQL stopped as in a crash under it: what was acknowledged is there, and results of before are not lost."""
    with LocalServer.start(server_directory) as server:
        forge = TaskForge(server.url(), lease_seconds=10, poll_seconds=0.2, upkeep_seconds=0.1)
        release = asyncio.Event()
        done: list[int] = []

        @forge.job()
        async def held(number: int) -> int:
            await release.wait()
            return number

        @forge.job()
        async def quick(number: int) -> int:
            done.append(number)
            return number

        async with Crew(forge) as crew:
            worker = await crew.start()
            handles = await held.enqueue_many([(number,) for number in range(5)])
            await until(lambda: len(worker.executor.running) == 5)
            assert worker.registered is not None
            before = worker.registered.incarnation
            await asyncio.to_thread(server.stop, "immediate")
            release.set()  # these end while there is nobody to tell
            await until(lambda: not worker.executor.running)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.restart)
            back = time.monotonic()
            assert [await _patient(handle.result, back) for handle in handles] == list(range(5))
            assert [(await handle.job()).attempt_count for handle in handles] == [1] * 5
            more = await quick.enqueue_many([(number,) for number in range(20)])
            for handle in more:
                await crew.end(handle)
            figure(f"serving {time.monotonic() - back:.1f} s after the database was back (limit 5 s)")
            assert time.monotonic() - back < 5
            assert worker.registered.incarnation == before
            assert sorted(done) == list(range(20))


async def _patient(call: object, since: float) -> object:
    """A client that tries again, as the error advises."""
    while True:
        try:
            return await call(10)  # type: ignore[operator]
        except StoreUnavailable:
            assert time.monotonic() - since < 5
            await asyncio.sleep(0.1)
