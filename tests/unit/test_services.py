"""Services: how they go on, how they end, and what they say of themselves."""

import asyncio

import pytest

from taskforge import services
from taskforge.domain.errors import StoreUnavailable
from taskforge.services import Errand, Lasting, Periodic, ServiceGroup, end_tasks, running


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_round_is_measured_and_its_answer_given() -> None:
    clock = Clock()

    async def act() -> int:
        clock.now += 0.25
        return 7

    service = Periodic("counting", act, seconds=10, monotonic=clock)
    assert [health.seconds_ago for health in service.health()] == [None]
    assert await service.run_once() == 7
    clock.now += 2
    [health] = service.health()
    assert (health.name, health.seconds_ago, health.took_seconds) == ("counting", 2.0, 0.25)
    assert not health.is_late


async def test_a_service_whose_rounds_fail_is_late_and_says_why() -> None:
    clock, is_broken = Clock(), False

    async def act() -> None:
        if is_broken:
            raise RuntimeError("no such table")

    service = Periodic("counting", act, seconds=10, monotonic=clock)
    await service.run_once()
    is_broken = True
    clock.now += 31
    with pytest.raises(RuntimeError):
        await service.run_once()
    [health] = service.health()
    assert health.is_late
    assert health.seconds_ago == 31
    assert health.error == "RuntimeError('no such table')"
    is_broken = False
    await service.run_once()
    [health] = service.health()
    assert not health.is_late
    assert health.error is None


async def test_a_service_that_never_succeeded_is_late_once_it_runs() -> None:
    clock, tried = Clock(), asyncio.Event()

    async def act() -> None:
        tried.set()
        raise StoreUnavailable("away")

    service = Periodic("counting", act, seconds=10, monotonic=clock)
    async with running([service]):
        await tried.wait()
        clock.now += 31
        [health] = service.health()
    assert (health.seconds_ago, health.is_late) == (None, True)


async def test_what_lasts_is_late_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FIRST_REST_SECONDS", 3_600.0)
    clock, release = Clock(), asyncio.Event()
    service = Lasting("following", release.wait, monotonic=clock)
    async with running([service]):
        await asyncio.sleep(0)
        clock.now += 5
        [health] = service.health()
        assert (health.seconds_ago, health.took_seconds, health.is_late) == (0.0, 5.0, False)
        release.set()
        for _ in range(5):
            await asyncio.sleep(0)
        [health] = service.health()
        assert (health.is_late, health.error) == (True, "ended by itself")


async def test_a_group_ends_when_one_of_it_fails_and_leaves_none_behind() -> None:
    fault, cancelled = asyncio.Event(), asyncio.Event()

    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fail() -> None:
        await fault.wait()
        raise ZeroDivisionError

    group = ServiceGroup("both", [Errand("lasts", last), Errand("fails", fail)])
    task = asyncio.create_task(group.run())
    fault.set()
    with pytest.raises(ZeroDivisionError):
        await task
    assert cancelled.is_set()
    assert [health.name for health in group.health()] == ["lasts", "fails"]


async def test_a_task_that_swallowed_a_cancel_is_cancelled_again() -> None:
    heard = 0

    async def stubborn() -> None:
        nonlocal heard
        while heard < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end_tasks(task, again_seconds=0.01)
    assert (heard, task.done()) == (2, True)
