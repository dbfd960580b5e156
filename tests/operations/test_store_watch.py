"""How far upkeep is behind, and what holds it up: told by every process that has the store."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from taskforge.domain.finding import PARTITIONS, Severity
from taskforge.domain.job import new_job
from taskforge.domain.queue import CreateQueue
from taskforge.node import LateWatch
from taskforge.operations import examination, store_watch
from taskforge.operations.store_watch import StoreWatch
from taskforge.operations.upkeep import Upkeep
from taskforge.ports.engine import Engine
from taskforge.storage.postgres import examination as postgres_examination
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.storage.sqlite.engine import SqliteEngine


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[Engine]:
    made: Engine
    if request.param == "sqlite":
        made = SqliteEngine(tmp_path / "jobs.db", clock=clock)
    else:
        schema = f"watch_{tmp_path.name[-20:].lower().replace('-', '_')}"
        url = request.getfixturevalue("postgres_url")
        made = PostgresEngine(url, schema=f"{schema}_{id(tmp_path) % 10_000}", clock=clock)
    await made.open()
    yield made
    await made.close()


async def test_what_is_overdue_is_told_until_it_is_done(
    engine: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskforge.node")
    watch = StoreWatch(engine, 7.0)
    late = LateWatch([watch])
    await engine.keep_partitions(7.0, None)
    await engine.change_queue(1, CreateQueue(name="default"))
    await engine.insert(1, [new_job("default", "work", at=10)])
    await watch.run_once()
    await late.look()
    assert late.names() == []
    clock.now += timedelta(seconds=10 + store_watch.LATE_SECONDS + 5)
    await watch.run_once()
    await late.look()
    assert late.names() == ["staging of the store"]
    [behind] = [one.behind_seconds for one in watch.health() if one.name == "staging of the store"]
    assert behind == pytest.approx(store_watch.LATE_SECONDS + 5, abs=1)
    [told] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "staging of the store is late: overdue for 35 s" in told.message
    [overdue] = [one for one in await examination.examine(engine) if one.subject == "overdue"]
    assert overdue.level is Severity.WARNING
    assert "staging" in overdue.text
    await Upkeep(engine).once()
    await watch.run_once()
    await late.look()
    assert late.names() == []
    assert "no longer late" in caplog.records[-1].message


async def test_a_held_snapshot_is_told(
    engine: Engine, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(engine, SqliteEngine):
        assert (await engine.behind()).hindrances == ()
        return
    monkeypatch.setattr(postgres_examination, "OLD_SECONDS", 0.0)
    holder = await asyncpg.connect(postgres_url)
    try:
        await holder.execute("begin isolation level repeatable read")
        await holder.execute("select 1")
        watch = StoreWatch(engine, 7.0)
        await watch.run_once()
        assert "oldest snapshot" in LateWatch([watch]).names()
        assert any("pg_terminate_backend" in one.next_step for one in await engine.examine())
    finally:
        await holder.close()


async def test_a_replication_slot_that_nobody_reads_is_told(
    engine: Engine, postgres_url: str
) -> None:
    if isinstance(engine, SqliteEngine):
        return
    admin = await asyncpg.connect(postgres_url)
    await admin.execute("select pg_create_physical_replication_slot('forgotten', true)")
    try:
        watch = StoreWatch(engine, 7.0)
        await watch.run_once()
        [found] = [one for one in watch.health() if one.name == "replication slots"]
        assert found.is_late
        assert "forgotten" in str(found.error)
    finally:
        await admin.execute("select pg_drop_replication_slot('forgotten')")
        await admin.close()


async def test_partitions_that_the_leader_did_not_make_are_made_by_whoever_may(
    engine: Engine, clock: Clock
) -> None:
    if isinstance(engine, SqliteEngine):
        return
    watch = StoreWatch(engine, 7.0)
    await watch.run_once()  # with its own clock, it made none when it was opened
    clock.now += timedelta(days=30)
    await watch.run_once()
    assert PARTITIONS in LateWatch([watch]).names()
    await watch.run_once()
    assert PARTITIONS not in LateWatch([watch]).names()
