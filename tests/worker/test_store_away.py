"""A worker on a store that goes away and comes back."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from taskforge import StoreUnavailable, TaskForge
from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreFault
from taskforge.domain.job import Claimed
from taskforge.operations.work.completion import StoreSource
from taskforge.testing.inline import Gathered
from taskforge.testing.postgres import LocalServer
from taskforge.worker.executor import Executor
from taskforge.worker.fetcher import Fetcher
from taskforge.worker.registry import Registry
from taskforge.worker.waiting_fetcher import WaitingFetcher
from tests.support.crew import Crew, until


async def test_a_worker_outlives_its_database(
    server_directory: Path, figure: Callable[[str], None]
) -> None:
    """PostgreSQL stopped as in a crash under it: what was acknowledged is there, and results of
    before are not lost."""
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
            figure(
                f"serving {time.monotonic() - back:.1f} s after the database was back (limit 5 s)"
            )
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


@pytest.mark.parametrize("crew", ["sqlite"], indirect=True)
async def test_a_claim_that_the_store_refuses_ends_no_worker(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement may be refused for what an operator does to the tables just now."""

    @crew.forge.job()
    async def work() -> str:
        return "done"

    engine = await crew.forge.engine()
    claim, refused = engine.claim, asyncio.Event()

    async def refuse_once(wish: Claim) -> list[Claimed]:
        if not refused.is_set():
            refused.set()
            raise StoreFault("the store refused a statement")
        return await claim(wish)

    monkeypatch.setattr(engine, "claim", refuse_once)
    worker = await crew.start()
    job = await crew.end(await work.enqueue())
    assert refused.is_set()
    assert (job.status, job.attempt_count) == ("succeeded", 1)
    assert worker.executor.done == 1


@pytest.mark.parametrize("kind", [Fetcher, WaitingFetcher])
async def test_a_claim_that_was_refused_comes_again_no_sooner_than_it_was_asked_to(
    kind: type[Fetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is about to stop says for how long; one that says nothing is asked again by
    the worker's own rhythm."""
    nobody: Any = None
    waits = [7.0, 1.0]  # a second is what an error says that nobody has thought about
    slept: list[float] = []
    is_over = asyncio.Event()
    sleep = asyncio.sleep

    class Refusing:
        side_by_side, wait_seconds = True, 30.0

        def on_work(self, _: Callable[[], None]) -> Callable[[], None]:
            return lambda: None

        async def claim(self, *_: object) -> list[Claimed]:
            raise StoreUnavailable("away", retry_after=waits[min(len(slept), 1)])

        async def end_claim(self, *_: object) -> list[Claimed]:
            return []

    async def note(seconds: float) -> None:
        if seconds > 0.01:
            slept.append(seconds)
            if len(slept) == len(waits):
                is_over.set()
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    source: Any = Refusing()
    executor = Executor(Registry(), nobody, Gathered(), slots=1)
    fetcher = kind(source, executor, poll_seconds=0.001, may_claim=lambda: True)
    running = asyncio.create_task(fetcher.run(UUID(int=1)))
    async with asyncio.timeout(10):
        await is_over.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert slept[0] == 7.0
    assert slept[1] < 1.0


async def test_jobs_are_claimed_again_once_the_store_has_taken_what_gathered(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with twice as many outcomes as slots in its hands claims nothing more; nothing else
    wakes it then."""
    forge, takes, done = TaskForge(sqlite_url), asyncio.Event(), list[int]()
    complete = StoreSource.complete

    async def take_later(source: StoreSource, completions: Any) -> list[UUID]:
        await takes.wait()
        return await complete(source, completions)

    monkeypatch.setattr(StoreSource, "complete", take_later)

    @forge.job()
    async def quick(number: int) -> None:
        done.append(number)

    async with Crew(forge) as crew:
        worker = await crew.start(slots=1, upkeep=False)
        await quick.enqueue_many([(number,) for number in range(5)])
        await until(lambda: worker.finisher.unsent >= 2)
        await asyncio.sleep(0.2)
        held = len(done)
        assert held < 5
        takes.set()
        await until(lambda: len(done) == 5)
