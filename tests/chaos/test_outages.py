"""R17: the store or the server away for longer than a lease, a frozen machine, a stepped clock.
None of it is anybody's crash."""

import asyncio
import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import psutil
import pytest

from taskforge.domain.job import JobStatus
from taskforge.testing.postgres import LocalServer
from taskforge.wiring import sqlite_path
from tests.chaos.fleet import Figure, Fleet, bound, free_address
from tests.chaos.history import jobs

pytestmark = pytest.mark.rotates

LEASE = 2.0
AWAY = 1.6 * LEASE
WORKERS, SLOTS = 3, 8
BACK_SECONDS = 5.0
SOURCES = ("sqlite", "postgres", "http")
STEP = 120.0
CLOCK = """
import datetime
from pathlib import Path
from taskforge.storage.sqlite import engine

class Stepped(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(
            seconds=float(Path({step!r}).read_text()))

engine.datetime = Stepped
"""
# Every session looks here before it looks among PostgreSQL's own functions.
DATABASE_CLOCK = """
create schema stepped;
create table stepped.step (seconds double precision not null);
insert into stepped.step values (0);
create function stepped.ahead() returns interval stable language sql
    as 'select make_interval(secs => seconds) from stepped.step';
create function stepped.now() returns timestamptz stable language sql
    as 'select pg_catalog.now() + stepped.ahead()';
create function stepped.statement_timestamp() returns timestamptz stable language sql
    as 'select pg_catalog.statement_timestamp() + stepped.ahead()';
create function stepped.clock_timestamp() returns timestamptz volatile language sql
    as 'select pg_catalog.clock_timestamp() + stepped.ahead()';
alter database postgres set search_path = stepped, pg_catalog, public;
"""


class Site:
    """A fleet, and how its store is taken away and given back."""

    def __init__(self, fleet: Fleet, server: LocalServer | None, step: Path) -> None:
        self.fleet = fleet
        self._server = server
        self._step = step
        self.slowest = 0.0
        self.kept = 0

    async def take_away(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop, "immediate")
        elif self.fleet.server is not None:
            self.fleet.server.kill()
            self.fleet.server.wait()
        else:
            path = sqlite_path(self.fleet.forge.settings.url)
            path.rename(path.with_suffix(".away"))

    async def give_back(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.restart)
        elif self.fleet.server is not None:
            await self.fleet.start_server()
        else:
            path = sqlite_path(self.fleet.forge.settings.url)
            path.with_suffix(".away").rename(path)

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        await self.take_away()
        yield
        await self.give_back()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """All that runs on the machine: workers, their lease keepers, the server."""
        roots = [psutil.Process(process.pid) for process in self.fleet.alive]
        everyone = [one for root in roots for one in (root, *root.children(recursive=True))]
        if self.fleet.server is not None:
            everyone.append(psutil.Process(self.fleet.server.pid))
        for one in everyone:
            one.suspend()
        yield
        for one in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(one.pid, signal.SIGCONT)

    @asynccontextmanager
    async def stepped(self, seconds: float) -> AsyncIterator[None]:
        if self._server is None:
            self._step.write_text(str(float(self._step.read_text()) + seconds))
        else:
            await _tell(self._server, f"update stepped.step set seconds = seconds + {seconds}")
        yield

    async def outage(
        self, how: contextlib.AbstractAsyncContextManager[None], seconds: float
    ) -> list[str]:
        """Says what is wrong afterwards: attempts or crashes that were counted, slots that are
        idle."""
        before = self._at_work()
        async with how:
            await asyncio.sleep(seconds)
        back = time.monotonic()
        slots = len(self.fleet.alive) * SLOTS
        while len(self._at_work()) < slots and time.monotonic() - back < 3 * BACK_SECONDS:
            await asyncio.sleep(0.05)
        took = time.monotonic() - back
        self.slowest = max(self.slowest, took)
        self.kept += len(before & self._at_work())
        wrong = (
            [f"{len(self._at_work())} of {slots} slots at work after {took:.1f} s"]
            if took > BACK_SECONDS
            else []
        )
        return wrong + await self.charged()

    async def charged(self) -> list[str]:
        found = await jobs(await self.fleet.forge.engine(), self.fleet.acknowledged)
        return [
            f"{job.id} is {job.status}, {job.crash_count} crashes, attempt {job.attempt_count}: "
            f"{job.reason}"
            for job in found
            if job.crash_count or job.attempt_count > 1 or job.status is JobStatus.FAILED
        ]

    def _at_work(self) -> set[tuple[str, int]]:
        """What handlers run, by what they wrote."""
        lines = self.fleet.history.lines
        ended = {
            (line["job"], line["epoch"]) for what in ("cancelled", "end") for line in lines(what)
        }
        alive = {process.pid for process in self.fleet.alive}
        return {
            (line["job"], line["epoch"]) for line in lines("start") if line["pid"] in alive
        } - ended

    def overlaps(self) -> list[str]:
        """Jobs that were run twice at the same time: nobody may begin beside a handler that has not
        been stopped."""
        spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        lines = self.fleet.history.lines
        ends = {
            (line["job"], line["epoch"]): line["at"]
            for what in ("cancelled", "end")
            for line in lines(what)
        }
        kills = self.fleet.history.kills
        for line in lines("start"):
            last = ends.get((line["job"], line["epoch"]), kills.get(line["pid"], time.time()))
            spans[line["job"]].append((line["at"], last))
        return [
            f"{job} began {end - start:.2f} s before it was stopped elsewhere"
            for job, times in spans.items()
            for (_, end), (start, _) in zip(sorted(times), sorted(times)[1:], strict=False)
            if start < end
        ]


async def _tell(server: LocalServer, statements: str) -> None:
    connection = await asyncpg.connect(server.url())
    try:
        await connection.execute(statements)
    finally:
        await connection.close()


@asynccontextmanager
async def site(
    source: str, folder: Path, server_directory: Path, twin: str = ""
) -> AsyncIterator[Site]:
    step = folder / "step"
    step.write_text("0")
    (folder / "sitecustomize.py").write_text(CLOCK.format(step=str(step)))
    with contextlib.ExitStack() as stack:
        server = (
            stack.enter_context(LocalServer.start(server_directory))
            if source == "postgres"
            else None
        )
        if server is not None:
            await _tell(server, DATABASE_CLOCK)
        url = server.url() if server is not None else f"sqlite:///{folder}/jobs.db"
        served = free_address() if source == "http" else ""
        async with Fleet(folder, twin=twin, served=served, lease=LEASE, url=url) as fleet:
            for _ in range(WORKERS):
                fleet.start(slots=SLOTS)
            await fleet.ready()
            made = Site(fleet, server, step)
            await fleet.enqueue("linger", *[()] * (WORKERS * SLOTS))
            async with asyncio.timeout(20):
                while len(made._at_work()) < WORKERS * SLOTS:
                    await asyncio.sleep(0.05)
            yield made


async def _die_meanwhile(made: Site) -> tuple[list[str], float]:
    """A worker is killed while the store is away. It is found when that is back, and its jobs alone
    are charged with it."""
    fleet = made.fleet
    victim = fleet.alive[0]
    engine = await fleet.forge.engine()
    held = {
        UUID(job): epoch for job, epoch in made._at_work() if _pid(fleet, job, epoch) == victim.pid
    }
    async with made.away():
        await asyncio.sleep(0.3 * LEASE)
        fleet.kill(victim)
        await asyncio.sleep(AWAY)
    back = time.monotonic()
    fleet.start(slots=SLOTS)
    async with asyncio.timeout(20):
        while any(job.epoch == held[job.id] for job in await jobs(engine, set(held))):
            await asyncio.sleep(0.05)
    took = time.monotonic() - back
    crashed = {job.id for job in await jobs(engine, fleet.acknowledged) if job.crash_count}
    wrong = [f"{job} was charged with another worker's death" for job in crashed - held.keys()]
    if crashed != held.keys():
        wrong.append(f"{len(crashed)} of {len(held)} jobs of the dead worker count a crash")
    return wrong, took


def _pid(fleet: Fleet, job: str, epoch: int) -> int:
    return next(
        int(line["pid"])
        for line in fleet.history.lines("start")
        if (line["job"], line["epoch"]) == (job, epoch)
    )


async def _r17(
    source: str, folder: Path, server_directory: Path, rounds: int, figure: Figure
) -> None:
    async with site(source, folder, server_directory) as made:
        outages = 0
        for _ in range(rounds):
            ways = [
                (made.away(), AWAY),
                (made.frozen(), AWAY),
                (made.stepped(STEP), 1.1 * LEASE),
                (made.stepped(-STEP), 1.1 * LEASE),
            ]
            for way, seconds in ways:
                assert await made.outage(way, seconds) == []
                outages += 1
        assert made.overlaps() == []
        wrong, found = await _die_meanwhile(made)
        assert wrong == []
        (folder / "released").touch()
        assert await made.fleet.drained()
        assert await made.fleet.violations() == []
        assert made.overlaps() == []
        n = outages * WORKERS * SLOTS
        figure(
            f"R17 {made.fleet.label}: {outages} outages over {WORKERS * SLOTS} jobs on {WORKERS} "
            f"workers, crashes counted and "
            f"attempts spent {bound(n)}, {made.kept} kept by their handlers, all slots at work ≤ "
            f"{made.slowest:.1f} s after; "
            f"a worker that died meanwhile found after {found:.1f} s"
        )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("source", SOURCES)
async def test_r17_outages(
    source: str, tmp_path: Path, server_directory: Path, figure: Figure
) -> None:
    await _r17(source, tmp_path, server_directory, 1, figure)


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
async def test_r17_outages_long(
    source: str, tmp_path: Path, server_directory: Path, figure: Figure
) -> None:
    await _r17(source, tmp_path, server_directory, 50, figure)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("source", "how"), [("sqlite", "away"), ("postgres", "stepped")])
async def test_r17_catches_a_twin_that_takes_silence_for_death(
    source: str, how: str, tmp_path: Path, server_directory: Path, figure: Figure
) -> None:
    async with site(source, tmp_path, server_directory, "takes silence for death") as made:
        wrong = await made.outage(made.away() if how == "away" else made.stepped(STEP), AWAY)
        figure(f"R17 twin {source} {how}: {len(wrong)} jobs charged with an outage")
        assert [one for one in wrong if "crashes" in one]
