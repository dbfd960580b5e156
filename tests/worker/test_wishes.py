"""What operators want of a worker that runs: it hears of it with its next heartbeat."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from taskforge.domain.errors import Conflict
from taskforge.domain.job import Claimed, JobStatus
from taskforge.domain.outcome import HandBackOutcome
from taskforge.domain.queue import QueueSettings
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import UpdateWorker, Worker, WorkerStatus
from taskforge.testing.inline import Gathered
from taskforge.worker.executor import Executor
from taskforge.worker.processes.keeper_words import Word
from taskforge.worker.registry import Registry
from tests.support.crew import PATIENCE, Crew


async def shown(crew: Crew) -> Worker:
    [worker] = await (await crew.forge.engine()).workers([FIRST_PROJECT])
    return worker


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


@pytest.mark.rotates
async def test_slots_change_up_and_down_while_it_runs_and_outlast_its_restart(
    crew_on_each: Crew,
) -> None:
    crew, forge = crew_on_each, crew_on_each.forge
    running = most = 0
    gate = asyncio.Event()

    @forge.job
    async def hold() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    worker = await crew.start(name="w", slots=4)
    engine, identity = await forge.engine(), (await shown(crew)).id
    await engine.change_worker(FIRST_PROJECT, UpdateWorker(worker=identity, max_concurrent_jobs=1))
    await until(lambda: _is(worker.executor.slots == 1))
    first = await hold.enqueue_many([()] * 6)
    await until(lambda: _is(running == 1))
    await asyncio.sleep(0.3)
    found = await shown(crew)
    assert (running, found.active_jobs, found.max_concurrent_jobs, found.started_slots) == (
        1,
        1,
        1,
        4,
    )
    await engine.change_worker(FIRST_PROJECT, UpdateWorker(worker=identity, max_concurrent_jobs=3))
    await until(lambda: _is(running == 3))
    assert (await shown(crew)).active_jobs == 3
    gate.set()
    for handle in first:
        assert (await crew.end(handle)).status is JobStatus.SUCCEEDED
    assert most == 3
    await crew.stop(worker)
    again = await crew.start(name="w", slots=8)
    await until(lambda: _is(again.executor.slots == 3))
    await engine.change_worker(FIRST_PROJECT, UpdateWorker(worker=identity, as_started=True))
    await until(lambda: _is(again.executor.slots == 8))


async def test_what_has_not_started_and_is_too_much_for_fewer_slots_goes_back() -> None:
    back = Gathered()
    channel: Any = None
    executor = Executor(Registry(), channel, back, slots=4)
    jobs = [
        Claimed(
            uuid4(), "default", "work", b"[]", 1, 3, 0, 0, 60.0, None, None, 0.0, QueueSettings()
        )
        for _ in range(4)
    ]
    executor.add(jobs)
    executor.resize(2)
    assert [(one.job, type(one.outcome)) for one in back] == [
        (job, HandBackOutcome) for job in reversed(jobs[2:])
    ]
    assert executor.take_back() == jobs[:2]
    await executor.close()


async def test_threads_follow_the_slots(crew: Crew) -> None:
    running, most = 0, 0

    @crew.forge.job
    def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        asyncio.run(asyncio.sleep(0.3))
        running -= 1

    worker = await crew.start(name="w", slots=1)
    change = UpdateWorker(worker=(await shown(crew)).id, max_concurrent_jobs=4)
    await (await crew.forge.engine()).change_worker(FIRST_PROJECT, change)
    await until(lambda: _is(worker.executor.slots == 4))
    for handle in await count.enqueue_many([()] * 8):
        await crew.end(handle)
    assert most == 4


async def test_a_worker_that_was_deregistered_stops_and_stays_away(
    crew_on_each: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    crew, forge = crew_on_each, crew_on_each.forge
    begun, gate = asyncio.Event(), asyncio.Event()

    @forge.job
    async def hold() -> None:
        begun.set()
        await gate.wait()

    worker = await crew.start(name="w")
    engine = await forge.engine()
    handle = await hold.enqueue()
    await asyncio.wait_for(begun.wait(), PATIENCE)
    busy = await shown(crew)
    with pytest.raises(Conflict):
        await engine.deregister(busy.incarnation)
    gate.set()
    await crew.end(handle)
    await until(lambda: _left(crew, busy))
    with caplog.at_level(logging.WARNING):
        await crew.ended(worker)
    assert worker.was_deregistered
    assert "comes back when someone starts it again" in caplog.text
    gone = await shown(crew)
    assert (gone.incarnation, gone.status) == (busy.incarnation, WorkerStatus.OFFLINE)
    assert not (await crew.start(name="w")).was_deregistered
    assert ((await shown(crew)).id, (await shown(crew)).status) == (busy.id, WorkerStatus.ONLINE)


async def test_a_drained_worker_that_is_deregistered_stays_away_too(crew_on_each: Crew) -> None:
    """It claims nothing, so its lease keeper is the one that hears of it."""
    crew = crew_on_each
    worker = await crew.start(name="w", lease_seconds=2)
    engine, before = await crew.forge.engine(), await shown(crew)
    await engine.change_worker(FIRST_PROJECT, UpdateWorker(worker=before.id, drain_mode=True))
    await until(lambda: _is(not worker._may_claim()))
    await engine.deregister(before.incarnation)
    await crew.ended(worker)
    assert worker.was_deregistered
    assert (await shown(crew)).incarnation == before.incarnation


async def test_a_worker_that_stops_is_not_taken_out_by_its_own_leave(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease keeper's last renewal may come after it has left, and is refused as to one that was
    taken out."""
    worker = await crew.start(name="w")
    worker.stop()
    worker._hear(Word(lost="worker 'w' was deregistered", deregistered=True))
    await crew.ended(worker)
    assert not worker.was_deregistered
    assert "deregistered" not in caplog.text, "nobody took it out"


async def _left(crew: Crew, worker: Worker) -> bool:
    try:
        await (await crew.forge.engine()).deregister(worker.incarnation)
    except Conflict:
        return False
    return True


async def test_a_drained_worker_says_so_and_is_shown_so(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await crew.start(name="w")
    engine, identity = await crew.forge.engine(), (await shown(crew)).id
    with caplog.at_level(logging.INFO):
        await engine.change_worker(FIRST_PROJECT, UpdateWorker(worker=identity, drain_mode=True))
        await until(lambda: _is("no new jobs are taken" in caplog.text))
        assert (await shown(crew)).status is WorkerStatus.DRAINING
        await engine.change_worker(FIRST_PROJECT, UpdateWorker(worker=identity, drain_mode=False))
        await until(lambda: _is("takes jobs again" in caplog.text))
    assert (await shown(crew)).status is WorkerStatus.ONLINE
    await crew.stop(worker)


async def _is(truth: bool) -> bool:
    return truth
