"""A deploy that changes a handler's signature under load, with real workers of the old and the new
code: nothing fails, and no attempt is spent, whether producers or workers come first."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from taskforge.domain.job import StoredJob, new_job
from taskforge.domain.tenancy import FIRST_PROJECT
from tests.chaos.fleet import Figure, Fleet, beside, bound

pytestmark = pytest.mark.rotates
OLD, NEW = "tests.chaos.releases.old:forge", "tests.chaos.releases.new:forge"
PAYLOADS: dict[str, Any] = {
    "old": {"name": "Ada"},
    "new": {"first_name": "Ada", "last_name": "King"},
}
WORKERS, PER_SECOND, SETTLE_SECONDS = 3, 40, 60


class Producers:
    """Those of one release, until they are told to be those of the next."""

    def __init__(self, fleet: Fleet, release: str) -> None:
        self.release = release
        self.jobs: dict[UUID, str] = {}
        self.ended: list[StoredJob] = []
        self._fleet = fleet

    async def run(self) -> None:
        while True:
            release = self.release
            jobs = [new_job("default", "greet", PAYLOADS[release]) for _ in range(PER_SECOND // 10)]
            self.jobs |= {
                one.job: release
                for one in await asyncio.shield(self._fleet.forge.insert_many(jobs))
            }
            await asyncio.sleep(0.1)

    async def found(self) -> list[StoredJob]:
        engine, ids = await self._fleet.forge.engine(), list(self.jobs)
        return [
            job
            for start in range(0, len(ids), 500)
            for job in await engine.get([FIRST_PROJECT], ids[start : start + 500])
        ]

    async def done(self, release: str) -> None:
        """Until all jobs of a release have ended, whatever came of them."""
        async with asyncio.timeout(SETTLE_SECONDS):
            while not all(
                job.status.is_final for job in await self.found() if self.jobs[job.id] == release
            ):
                await asyncio.sleep(0.1)


async def _deploy(
    tmp_path: Path, store: dict[str, str], seconds: float, first: str, twin: str = ""
) -> tuple[Producers, str]:
    async with Fleet(tmp_path, twin=twin, **store) as fleet:
        olds = [fleet.start(app=OLD, slots=4) for _ in range(WORKERS)]
        await fleet.ready()
        producers = Producers(fleet, "old")
        async with beside(producers.run()):
            await asyncio.sleep(0.5)
            if first == "producers":
                producers.release = "new"
            for number, process in enumerate(olds):
                await asyncio.sleep(seconds / WORKERS)
                # the last of the old workers goes when no old producer is left, and their jobs are
                # done
                if number == WORKERS - 1:
                    producers.release = "new"
                    await asyncio.sleep(0.2)
                    await producers.done("old")
                process.terminate()
                await asyncio.to_thread(process.wait, 30)
                fleet.alive.remove(process)
                fleet.start(app=NEW, slots=4)
            await fleet.ready()
            there = time.monotonic()
        await producers.done("new")
        engine = await fleet.forge.engine()
        some = list(producers.jobs)[:: max(1, len(producers.jobs) // 50)]
        tries = [len(await engine.executions([FIRST_PROJECT], job)) for job in some]
        found = (
            f"{fleet.label}, new {first} first, {seconds:g} s: {len(producers.jobs)} jobs, "
            f"all done "
        )
        found += (
            f"{time.monotonic() - there:.1f} s after the last worker came; offered at most "
            f"{max(tries)} times"
        )
        producers.ended = await producers.found()
        return producers, found


def _check(producers: Producers, found: str, figure: Figure) -> None:
    ended = producers.ended
    assert Counter(job.status.value for job in ended) == {"succeeded": len(producers.jobs)}
    assert {job.attempt_count for job in ended} == {1}
    for job in ended:
        assert job.result is not None
        release = producers.jobs[job.id]
        assert msgspec.json.decode(job.result) == (
            "old Ada" if release == "old" else "new Ada King"
        )
    figure(f"deploy {found}; failed {bound(len(ended))}")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("first", ["producers", "workers"])
async def test_a_deploy_with_a_changed_signature(
    tmp_path: Path, store: dict[str, str], first: str, figure: Figure
) -> None:
    _check(*await _deploy(tmp_path, store, 4, first), figure)


@pytest.mark.long
@pytest.mark.parametrize("first", ["producers", "workers"])
async def test_a_deploy_of_two_minutes(
    tmp_path: Path, store: dict[str, str], first: str, figure: Figure
) -> None:
    _check(*await _deploy(tmp_path, store, 120, first), figure)


@pytest.mark.timeout(180)
async def test_the_deploy_catches_a_twin_that_fails_what_does_not_fit(
    tmp_path: Path, figure: Figure
) -> None:
    store = {"url": f"sqlite:///{tmp_path}/jobs.db"}
    producers, _ = await _deploy(tmp_path, store, 1.5, "producers", twin="fails what does not fit")
    statuses = Counter(job.status.value for job in producers.ended)
    figure(f"deploy with a twin that fails what does not fit: {dict(statuses)}")
    assert statuses["failed"] > 0
