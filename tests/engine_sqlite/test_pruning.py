"""A slice of pruning is bounded by log lines too."""

from pathlib import Path

import pytest

from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import ToSucceeded
from taskforge.domain.queue import DAY
from taskforge.storage.sqlite import pruning
from tests.support.stores import SqliteStore
from tests.support.world import Clock, World


async def test_a_job_with_more_lines_than_a_slice_removes_goes_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "LINES_AT_ONCE", 3)
    store, clock = SqliteStore(tmp_path, durable=False), Clock()
    world = World(store, await store.open(clock), clock)
    await world.queue("default")
    _, fence = await world.running()
    await world.engine.log([NewLine(fence, Level.INFO, f"line {number}") for number in range(5)])
    await world.finish(fence, ToSucceeded())
    clock.advance(31 * DAY)
    first = await world.engine.prune(30, 10)
    assert (first.jobs, first.more) == (0, True)
    assert await store.probe.count("logs") == 2
    second = await world.engine.prune(30, 10)
    assert (second.jobs, second.more) == (1, False)
    assert await store.probe.count("logs") == 0
    await store.close()
