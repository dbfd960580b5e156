"""Counts of queues: exact while jobs are few, remembered where they are many, and never a walk over
all that waits for each question."""

import asyncio
from typing import Any

import pytest

from taskforge.domain.job import new_job
from taskforge.domain.query import QueueStats
from taskforge.storage import depths
from taskforge.storage.depths import Depth, Depths
from tests.support.world import World


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depths, "COUNTED", 5)


async def counts(world: World, **options: Any) -> dict[str, QueueStats]:
    return {one.queue: one for one in await world.engine.stats([1], **options)}


@pytest.mark.usefixtures("few")
async def test_few_are_counted_now_and_many_are_as_they_were_counted_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depths, "_REST", 1e9)
    await world.queue("side")
    second = await world.probe.add_project("second")
    await world.queue("default", project=second)
    await world.enqueue_many(3)
    await world.enqueue("side", at=60)
    found = await counts(world)
    assert [(one.pending, one.scheduled, one.counted_at) for one in found.values()] == [
        (3, 0, None),
        (0, 1, None),
    ]
    await world.enqueue_many(4)
    first = (await counts(world))["default"]
    assert (first.pending, first.counted_at) == (7, world.clock.now())
    world.clock.advance(5)
    await world.enqueue_many(2)
    await world.enqueue("side", at=60)
    again = await counts(world)
    assert (again["default"].pending, again["side"].scheduled) == (7, 2), "few wait, many are ready"
    assert again["default"].oldest_pending_seconds == pytest.approx(5, abs=0.1)
    assert again["default"].counted_at == first.counted_at
    assert (await counts(world, exact=True))["default"].pending == 9
    # waiting jobs are counted for all projects together
    await world.insert(*[new_job("default", "work", at=60) for _ in range(9)], project=second)
    await world.enqueue("side", at=60)
    assert (await counts(world))["side"].scheduled == 1, "as it was when all was counted"
    [theirs] = await world.engine.stats([second])
    assert (theirs.pending, theirs.scheduled) == (0, 9)


@pytest.mark.usefixtures("few")
async def test_jobs_with_a_fairness_key_are_counted_with_those_that_have_none(
    world: World,
) -> None:
    queue = await world.queue("fair", fairness={})
    await world.insert(*[new_job("fair", "work", fairness_key=key) for key in ("a", "b", None)])
    world.clock.advance(5)
    few = (await counts(world))["fair"]
    assert (few.pending, few.counted_at) == (3, None)
    assert few.oldest_pending_seconds == pytest.approx(5, abs=0.1)
    for key in ("a", None):
        await world.insert(*[new_job("fair", "work", fairness_key=key) for _ in range(7)])
    many = (await counts(world))["fair"]
    assert (many.pending, many.counted_at) == (17, world.clock.now())
    assert many.oldest_pending_seconds == pytest.approx(5, abs=0.1)
    assert (await world.stats(queue.name)).pending == 17


async def test_who_asks_for_an_old_count_gets_it_and_it_is_counted_anew_meanwhile() -> None:
    made = 0
    may_count = asyncio.Event()

    async def count(project: int) -> Depth:
        nonlocal made
        await may_count.wait()
        made += 1
        return Depth([], None)

    remembered = Depths(count)
    waiting = [asyncio.create_task(remembered.of(1)) for _ in range(3)]
    await asyncio.sleep(0)
    may_count.set()
    first = (await asyncio.gather(*waiting))[0]
    assert made == 1, "those who ask at once wait for one count"
    remembered._known[1] = (first, -1e9, 1.0)
    may_count.clear()
    assert await remembered.of(1) is first
    may_count.set()
    while made < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await remembered.of(1) is not first
    await remembered.close()


async def test_a_count_that_failed_is_tried_again() -> None:
    async def count(project: int) -> Depth:
        if not tries:
            tries.append(1)
            raise OSError("away")
        return Depth([], None)

    tries: list[int] = []
    remembered = Depths(count)
    with pytest.raises(OSError, match="away"):
        await remembered.of(1)
    await asyncio.sleep(0)
    assert await remembered.of(1) == Depth([], None)
