"""The loops of the upkeep go on whatever they meet; those beside a server begin again."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taskforge import services
from taskforge.domain.claim import Claim
from taskforge.domain.job import new_job
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.domain.worker import NewWorker
from taskforge.operations import upkeep
from taskforge.operations.upkeep import Upkeep
from taskforge.operations.work import server_upkeep
from taskforge.operations.work.server_upkeep import ServerUpkeep
from taskforge.services import Lasting
from taskforge.storage.sqlite.engine import SqliteEngine


async def test_a_loop_that_fails_ends_nobody_and_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(services, "FIRST_REST_SECONDS", 0.001)
    engine = SqliteEngine(tmp_path / "jobs.db", durable=False)
    await engine.open()
    right, staged, folded = engine.stage, [], asyncio.Semaphore(0)

    async def stage(limit: int) -> int:
        staged.append(limit)
        return await right(limit)

    async def fold(_: int) -> int:
        folded.release()
        raise RuntimeError("no such table")

    monkeypatch.setattr(engine, "stage", stage)
    monkeypatch.setattr(engine, "fold", fold)
    keeping = asyncio.create_task(Upkeep(engine, interval=0.01).run())
    try:
        async with asyncio.timeout(10):
            for _ in range(4):
                await folded.acquire()
            before = len(staged)
            while len(staged) < before + 3:
                await asyncio.sleep(0.01)
        assert not keeping.done()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        before = len(staged)
        await asyncio.sleep(0.1)
        assert len(staged) == before, "none is left running"
    finally:
        await engine.close()
    assert len(caplog.records) == 1


async def test_whoever_keeps_a_store_promises_when_it_looks_again(tmp_path: Path) -> None:
    """By that promise a silence is known: without one, a store that was away would be everybody's
    death."""
    engine = SqliteEngine(tmp_path / "jobs.db", durable=False)
    await engine.open()
    keeping = asyncio.create_task(Upkeep(engine, interval=0.01).run())
    probe = sqlite3.connect(tmp_path / "jobs.db")
    try:
        async with asyncio.timeout(10):
            while (rhythm := probe.execute("select rhythm from looks").fetchone()[0]) is None:
                await asyncio.sleep(0.01)
        assert rhythm == pytest.approx(1e6 * upkeep.SILENT * 0.01)
    finally:
        probe.close()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await engine.close()


async def test_what_is_rescued_together_does_not_come_back_together(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    engine = SqliteEngine(tmp_path / "jobs.db", durable=False, clock=lambda: now)
    await engine.open()
    try:
        await engine.change_queue(
            1,
            CreateQueue(
                name="default", settings=QueueSettings(retry_delay_seconds=100, timeout_seconds=10)
            ),
        )
        await engine.insert(1, [new_job("default", "work") for _ in range(4)])
        stuck = await engine.register(1, NewWorker(name="stuck"), 600)
        assert len(await engine.claim(Claim(stuck.incarnation, 4))) == 4
        now += timedelta(seconds=11)
        chances = iter([0.0, 0.25, 0.5, 0.75])
        assert await Upkeep(engine, chance=lambda: next(chances)).rescue() == 4
        jobs = (await engine.list_jobs([1], JobFilter(), Page())).jobs
        assert len({job.scheduled_for for job in jobs}) == 4
    finally:
        await engine.close()


async def test_more_than_a_slice_of_what_was_lost_is_rescued_in_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has just looked goes on looking, though others need not so soon."""
    monkeypatch.setattr(upkeep, "SLICE", 2)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    engine = SqliteEngine(tmp_path / "jobs.db", durable=False, clock=lambda: now)
    await engine.open()
    try:
        await engine.change_queue(
            1, CreateQueue(name="default", settings=QueueSettings(timeout_seconds=10))
        )
        await engine.insert(1, [new_job("default", "work") for _ in range(5)])
        stuck = await engine.register(1, NewWorker(name="stuck"), 600)
        assert len(await engine.claim(Claim(stuck.incarnation, 5))) == 5
        now += timedelta(seconds=11)
        assert (await Upkeep(engine).once(unless_within=0.35)).rescued == 5
    finally:
        await engine.close()


async def test_what_must_last_begins_again_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(services, "FIRST_REST_SECONDS", 0.001)
    begun, again = [0], asyncio.Event()

    async def run() -> None:
        begun[0] += 1
        if begun[0] == 1:
            raise RuntimeError("no such table")
        if begun[0] == 3:
            again.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(5):
        task = asyncio.create_task(Lasting("the thing", run).run())
        await again.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("ERROR", "the thing failed and begins again"),
        ("ERROR", "the thing ended by itself and begins again"),
    ]


async def test_a_log_that_cannot_be_pruned_is_sealed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "FIRST_REST_SECONDS", 0.001)
    monkeypatch.setattr(server_upkeep, "SEAL_SECONDS", 0.001)
    sealed, sealed_often, pruned = [0], asyncio.Event(), [0]

    class Seals:
        async def seal(self) -> int:
            sealed[0] += 1
            if sealed[0] == 2:
                raise RuntimeError("no such table")
            if sealed[0] > 5 and pruned[0] > 1:
                sealed_often.set()
            return 0

        async def prune(self, _: float) -> int:
            pruned[0] += 1
            raise RuntimeError("no such table")

    class Heads:
        async def export(self) -> None: ...

    class Gatekeeper:
        async def note_use(self) -> None: ...

    class Desk:
        async def forget_ended(self) -> None: ...

    keeping: Any = ServerUpkeep(Seals(), Heads(), Gatekeeper(), Desk(), audit_days=1)  # type: ignore[arg-type]
    running = asyncio.create_task(keeping.run())
    async with asyncio.timeout(5):
        await sealed_often.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
