"""Leases go by the clock since the machine was started: the wall's may be set, and another start
ends them all."""

import datetime as dt
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed, NewJob, error_info
from taskforge.domain.outcome import Finish, LeaseRanOut, ToFailed, ToHandBack, ToMisfit
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.domain.worker import NewWorker, Registered, Sample, WorkerStatus
from taskforge.operations.upkeep import Upkeep
from taskforge.storage.sqlite import boot
from taskforge.storage.sqlite import engine as engines
from taskforge.storage.sqlite.connections import connect_writer
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.support.world import Clock

STEP = 600.0


class Wall(dt.datetime):
    """The wall's clock, which somebody sets."""

    step = 0.0

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
        return dt.datetime.now(tz) + dt.timedelta(seconds=cls.step)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> type[Wall]:
    monkeypatch.setattr(engines, "datetime", Wall)
    monkeypatch.setattr(Wall, "step", 0.0)
    return Wall


async def at_work(engine: SqliteEngine) -> tuple[Registered, Claimed]:
    await engine.insert(
        1, [NewJob(queue="default", job_type="work", payload=b"{}", timeout_seconds=60)]
    )
    worker = await engine.register(1, NewWorker(name="w"), 30)
    await engine.renew(worker.incarnation, 30, Sample())
    [claimed] = await engine.claim(Claim(worker.incarnation, 1))
    assert await engine.lapsed(10, rhythm=5) == []
    return worker, claimed


@pytest.mark.parametrize("step", [STEP, -STEP])
async def test_a_wall_clock_that_is_set_ends_no_lease_and_no_attempt(
    wall: type[Wall], path: Path, step: float
) -> None:
    engine, other = SqliteEngine(path), SqliteEngine(path)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    worker, _ = await at_work(engine)
    wall.step = step
    await other.open()  # a process that starts after the step goes by the same clock
    for one in (engine, other):
        assert await one.lapsed(10, rhythm=5) == []
        await one.renew(worker.incarnation, 30, Sample())
        [shown] = await one.workers([1])
        assert shown.status is WorkerStatus.ONLINE
        assert 25 < (shown.lease_until - await one.now()).total_seconds() <= 30
        [running] = await one.active_executions([1], timed_out=False, limit=10)
        assert running.timeout_at is not None
        assert 50 < (running.timeout_at - await one.now()).total_seconds() <= 60
    await engine.close()
    await other.close()


@pytest.mark.parametrize("claims_after", [False, True])
@pytest.mark.parametrize("step", [STEP, -STEP])
async def test_a_wall_clock_that_is_set_ends_no_attempt_that_began_since_the_last_look(
    wall: type[Wall], path: Path, step: float, claims_after: bool
) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    worker, _ = await at_work(engine)
    await engine.insert(
        1, [NewJob(queue="default", job_type="work", payload=b"{}", timeout_seconds=60)]
    )
    wall.step = step if claims_after else 0.0
    assert len(await engine.claim(Claim(worker.incarnation, 1))) == 1
    wall.step = step
    assert await engine.lapsed(10, rhythm=5) == []
    for running in await engine.active_executions([1], timed_out=False, limit=10):
        assert running.timeout_at is not None
        assert 50 < (running.timeout_at - await engine.now()).total_seconds() <= 60
    await engine.close()


@pytest.mark.parametrize("step", [STEP, -STEP])
async def test_a_wall_clock_that_is_set_ends_nothing_that_was_heard_of_since_the_last_look(
    wall: type[Wall], path: Path, step: float
) -> None:
    """What was claimed before the step, and said after it that it began or lives."""
    engine = SqliteEngine(path)
    await engine.open()
    settings = QueueSettings(heartbeat_timeout_seconds=40)
    await engine.change_queue(1, CreateQueue(name="default", settings=settings))
    _, claimed = await at_work(engine)
    wall.step = step
    await engine.beat([Beat(fence=claimed.fence, started_seconds_ago=0.0)])
    assert await engine.lapsed(10, rhythm=5) == []
    [running] = await engine.active_executions([1], timed_out=False, limit=10)
    assert running.timeout_at is not None
    assert 50 < (running.timeout_at - await engine.now()).total_seconds() <= 60
    await engine.close()


async def test_whoever_stands_still_between_a_look_and_what_it_reads_blames_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a machine that is frozen just then: nobody could renew either."""
    clock = Clock()
    engine = SqliteEngine(path, clock=clock)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    worker, _ = await at_work(engine)
    submit = engine._writer.submit

    async def stand_still(*arguments: Any, **options: Any) -> Any:
        answer = await submit(*arguments, **options)
        clock.advance(90)  # longer than its lease, and than its job may run
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(engine._writer, "submit", stand_still)
        assert await engine.lapsed(10, rhythm=5) == []
    assert await engine.lapsed(10, rhythm=5) == []
    await engine.renew(worker.incarnation, 30, Sample())
    await engine.close()


@pytest.mark.parametrize("step", [STEP, -STEP])
async def test_a_wall_clock_that_is_set_keeps_nobody_from_rescue_nor_brings_it(
    wall: type[Wall], path: Path, step: float
) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    worker, claimed = await at_work(engine)
    wall.step = step
    assert await engine.lapsed(10, rhythm=5) == []
    lost = await engine.finish(
        [Finish(claimed.fence, ToHandBack("found dead before it renewed"))], lapsed=True
    )
    assert [one.fence for one in lost] == [claimed.fence]
    await engine.deregister(worker.incarnation, died=True)
    assert await Upkeep(engine).rescue() == 1
    await engine.close()


@pytest.mark.parametrize("step", [STEP, -STEP])
async def test_a_wall_clock_that_is_set_makes_nobody_gone_whom_a_job_does_not_fit(
    wall: type[Wall], path: Path, step: float
) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="default"))
    await engine.insert(1, [NewJob(queue="default", job_type="work", payload=b"{}")])
    workers = [await engine.register(1, NewWorker(name=name), 30) for name in ("one", "two")]
    wall.step = step
    unfit = error_info("InvalidArguments", "missing")
    for worker in workers:
        [claimed] = await engine.claim(Claim(worker.incarnation, 1))
        assert (
            await engine.finish(
                [Finish(claimed.fence, ToMisfit(unfit, ToFailed(unfit, "no attempts left")))]
            )
            == []
        )
    assert [await engine.claim(Claim(worker.incarnation, 1)) for worker in workers] == [[], []]
    await engine.close()


async def test_another_start_of_the_machine_ends_all_leases(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SqliteEngine(path)
    await first.open()
    await first.change_queue(1, CreateQueue(name="default"))
    worker, claimed = await at_work(first)
    await first.close()
    monkeypatch.setattr(boot, "boot_id", lambda: "another")
    monkeypatch.setattr(boot, "since_boot", lambda: time.monotonic_ns() // 1_000 % 100_000_000)
    after = SqliteEngine(path)
    await after.open()
    [lapsed] = await after.lapsed(10, rhythm=5)
    assert (lapsed.fence, lapsed.outcome) == (claimed.fence, LeaseRanOut("w", 0))
    with pytest.raises(LeaseLost):
        await after.renew(worker.incarnation, 30, Sample())
    await after.close()


async def test_two_that_come_first_after_a_start_of_the_machine_go_by_one_clock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one to write finds what the first one wrote meanwhile, also if the wall's clock
    was set in between."""
    engine = SqliteEngine(path)
    await engine.open()
    await engine.close()
    monkeypatch.setattr(boot, "boot_id", lambda: "another")
    one, two = connect_writer(path, durable=True), connect_writer(path, durable=True)
    began, quicker = boot.begin, list[Any]()

    def begin_second(connection: sqlite3.Connection, seconds: float) -> None:
        if not quicker:
            quicker.append(None)
            quicker[0] = boot.steady_clock(two, 1_000_000_000)
        began(connection, seconds)

    monkeypatch.setattr(boot, "begin", begin_second)
    slower = boot.steady_clock(one, 2_000_000_000)
    assert abs(slower() - quicker[0]()) < 100_000_000
    one.close()
    two.close()


def test_a_boot_has_one_name_and_its_clock_goes_on() -> None:
    assert boot.boot_id() == boot.boot_id() != ""
    earlier = boot.since_boot()
    assert 0 < earlier <= boot.since_boot()
