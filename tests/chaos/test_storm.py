"""R15: what jobs depend on is down for a while. Its circuit opens after so many failures, whichever
processes they ended in; while it is open no attempt is spent; it closes by itself, and what waited
then runs without a storm."""

import asyncio
import itertools
import math
import time
from collections import Counter
from pathlib import Path

import pytest

from taskforge.domain.tenancy import FIRST_PROJECT
from tests.chaos.fleet import Figure, Fleet, bound
from tests.chaos.history import jobs

pytestmark = pytest.mark.rotates

PROCESSES, SLOTS = 4, 2
LEAST = 30
OPEN_SECONDS = 1.0
# A claim that began before a circuit opened may hand out jobs until everyone has heard of it.
HEARD_SECONDS = 0.3


class Storm:
    """What was seen of one."""

    def __init__(self, starts: list[float], changes: list[tuple[str, float]]) -> None:
        self.changes = changes
        first = next(at for topic, at in changes if topic == "circuit.opened")
        self.before = sum(at < first + HEARD_SECONDS for at in starts)
        self.open_seconds = self.while_open = 0.0
        for (topic, at), (_, until) in itertools.pairwise(changes):
            if topic == "circuit.opened":
                self.open_seconds += until - at
                self.while_open += sum(at + HEARD_SECONDS < one < until for one in starts)
        self.healed = changes[-1][1]
        self.after = [at for at in starts if at > self.healed]

    def highest_bucket(self) -> float:
        """Of the seconds after it healed, the highest over the mean."""
        seconds = max(1.0, max(self.after, default=0.0) - self.healed)
        buckets = Counter(int(at - self.healed) for at in self.after)
        return max(buckets.values(), default=0) / (len(self.after) / math.ceil(seconds))


async def _r15(
    tmp_path: Path, store: dict[str, str], down: float, count: int, twin: str = ""
) -> tuple[Storm, int]:
    (tmp_path / "down").touch()
    async with Fleet(tmp_path, twin, lease=2.0, **store) as fleet:
        engine = await fleet.forge.engine()
        for _ in range(PROCESSES):
            fleet.start("--queues", "calls", slots=SLOTS)
        await fleet.ready()
        await fleet.forge.circuits.set_dependency(
            "downstream", least_calls=LEAST, open_seconds=OPEN_SECONDS, probes=2
        )
        cursor = (await engine.events(None, 1)).cursor  # type: ignore[attr-defined]
        handles = await fleet.function("call").enqueue_many([()] * count)
        fleet.acknowledged |= {handle.id for handle in handles}
        await asyncio.sleep(down)
        (tmp_path / "down").unlink()
        async with asyncio.timeout(60):
            while any(not job.status.is_final for job in await jobs(engine, fleet.acknowledged)):
                await asyncio.sleep(0.2)
        assert await fleet.violations() == []
        changes: list[tuple[str, float]] = []
        while True:
            page = await engine.events(cursor, 1_000)  # type: ignore[attr-defined]
            cursor = page.cursor
            changes += [
                (one.topic, one.at.timestamp())
                for one in page.items
                if one.topic.startswith("circuit.")
            ]
            if not page.items:
                break
        executions = [
            one.created_at.timestamp()
            for job in fleet.acknowledged
            for one in await engine.executions([FIRST_PROJECT], job)
        ]
        return Storm(sorted(executions), changes), len(executions)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_r15_storm(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    began = time.monotonic()
    storm, attempts = await _r15(tmp_path, store, 4.0, 200)
    assert storm.before <= LEAST + 3 * PROCESSES * SLOTS
    assert storm.while_open == 0
    assert storm.open_seconds > 2.0
    assert storm.highest_bucket() <= 3.0
    figure(
        f"R15: 200 jobs, down for 4 s: {storm.before} attempts before it opened ({LEAST} failures "
        f"open it), {bound(attempts)} of the attempts in {storm.open_seconds:.1f} s while it was "
        f"open, {attempts - 200} spent in all; busiest second after it closed "
        f"{storm.highest_bucket():.1f} × the mean; {time.monotonic() - began:.0f} s"
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_r15_finds_a_breaker_that_counts_in_each_process(
    tmp_path: Path, store: dict[str, str], figure: Figure
) -> None:
    storm, _ = await _r15(tmp_path, store, 4.0, 200, "counts_alone")
    assert storm.before > LEAST + 3 * PROCESSES * SLOTS
    figure(f"R15, a breaker for each process: {storm.before} attempts before it opened")


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_r15_storm_in_full(tmp_path: Path, store: dict[str, str], figure: Figure) -> None:
    storm, attempts = await _r15(tmp_path, store, 60.0, 5_000)
    assert storm.while_open == 0
    assert storm.highest_bucket() <= 3.0
    figure(f"R15: 5,000 jobs, down for 60 s: {bound(attempts)} of the attempts while it was open")
