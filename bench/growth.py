"""What many queues and many tenants cost: `python -m bench.growth`. Each figure stands beside the
same work in a store that has few of them, measured in turns.

It brings its own PostgreSQL server (fsync on) and its own files, listens on the loopback address
only, and removes both.
"""

import argparse
import asyncio
import contextlib
import os
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import asyncpg
import msgspec
import uvloop
from rich.console import Console

from bench import load
from bench.engine import bounded
from bench.fairness import measure_fairness
from bench.grounds import Ground, PostgresGround, PostgresSite, Site, SqliteGround, SqliteSite
from bench.report import Report, Target, in_turns, percentile
from taskforge.domain.job import NewJob, new_job
from taskforge.domain.queue import CreateQueue, UpdateQueue
from taskforge.ports.engine import Engine
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.storage.sqlite.engine import SqliteEngine

FEW_OF_MANY = Target(ratio_at_least=0.8)
ALL_OF_MANY = Target(ratio_at_least=0.5)
CHANGES_ELSEWHERE = Target(ratio_at_least=0.95)
CHANGES_HERE = Target(ratio_at_least=0.7)
NEIGHBOUR = 2
CHANGES_A_SECOND = 20
LIMIT = 100
QUICK_BOUND_SECONDS, FULL_BOUND_SECONDS = 300, 3_600


class Sizes(msgspec.Struct, frozen=True):
    queues: int
    jobs: int  # that a round drains
    rounds: int
    keys: int = 20_000  # of a fair queue, that hold jobs


FULL, QUICK = Sizes(50_000, 30_000, 5), Sizes(2_000, 4_000, 2, 2_000)


# --- Queues that stand about ---------------------------------------------------------------------

_POSTGRES = """
insert into {schema}.queues (id, project, name, created_at, updated_at, stamp)
select gen_random_uuid(), {project}, 'crowd-' || i, now(), now(), 1
from generate_series(1, {count}) i;
insert into {schema}.lanes (project, queue, job_type, priority)
select project, number, 'noop', 0 from {schema}.queues
where project = {project} and name like 'crowd-%';
update {schema}.projects set most_lanes = 1000000;
analyze {schema}.queues; analyze {schema}.lanes
"""
_SQLITE = """
insert into queues (id, project, name, created_at, updated_at, stamp)
with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})
select randomblob(16), {project}, 'crowd-' || i, 0, 0, 1 from n;
insert into lanes (project, queue, job_type, priority)
select project, number, 'noop', 0 from queues where project = {project} and name like 'crowd-%';
update projects set most_lanes = 1000000
"""


async def add_queues(site: Site, project: int, count: int) -> None:
    """Written past the engine, each with a lane that holds nothing; more of them than is allowed
    otherwise."""
    if isinstance(site, PostgresSite):
        text = _POSTGRES.format(schema=site.schema, project=project, count=count)
        connection = await asyncpg.connect(site.url)
        try:
            await connection.execute(text)
        finally:
            await connection.close()
    else:
        assert isinstance(site, SqliteSite)
        with contextlib.closing(sqlite3.connect(site.path)) as file:
            file.executescript(f"begin; {_SQLITE.format(project=project, count=count)}; commit")


async def add_neighbour(site: Site) -> None:
    if isinstance(site, PostgresSite):
        connection = await asyncpg.connect(site.url)
        try:
            await connection.execute(
                f"insert into {site.schema}.projects (number, id, organization, name) "
                f"values ({NEIGHBOUR}, gen_random_uuid(), 1, 'neighbour')"
            )
        finally:
            await connection.close()
    else:
        assert isinstance(site, SqliteSite)
        with contextlib.closing(sqlite3.connect(site.path)) as file:
            file.execute(
                "insert into projects (number, id, organization, name, created_at) "
                f"values ({NEIGHBOUR}, ?, 1, 'neighbour', 0)",
                (uuid4().bytes,),
            )
            file.commit()


def another(site: Site) -> Engine:
    """Of another process, as far as the store can tell."""
    if isinstance(site, PostgresSite):
        return PostgresEngine(site.url, schema=site.schema)
    assert isinstance(site, SqliteSite)
    return SqliteEngine(site.path)


# --- Measurements --------------------------------------------------------------------------------


def three_lanes() -> list[NewJob]:
    return [new_job(load.QUEUE, f"kind-{number % 3}", load.PAYLOAD) for number in range(load.BATCH)]


class Rate:
    """Fills and drains one site, and remembers how long its claims took."""

    def __init__(self, ground: Ground, site: Site, jobs: list[NewJob], sizes: Sizes) -> None:
        self._ground, self._site, self._jobs, self._sizes = ground, site, jobs, sizes
        self.claims: list[float] = []

    async def __call__(self) -> float:
        await self._ground.analyse()
        await load.fill(self._site.engine, self._sizes.jobs, self._jobs)
        drain = await self._site.drain(self._sizes.jobs, LIMIT, self._ground.loops)
        self.claims += drain.claims
        return drain.rate


async def few_of_many(ground: Ground, sizes: Sizes, report: Report) -> None:
    """Three lanes hold jobs, of three that exist and of very many."""
    types = tuple(f"kind-{number}" for number in range(3))
    async with ground.site() as small, ground.site() as large:
        await add_queues(large, load.PROJECT, sizes.queues)
        for site in (small, large):
            site.incarnation = await load.make_worker(site.engine, types)
        pairs = await in_turns(
            sizes.rounds,
            Rate(ground, small, three_lanes(), sizes),
            Rate(ground, large, three_lanes(), sizes),
        )
        report.pairs(
            ground.name,
            f"3 lanes hold jobs of {sizes.queues:,} queues",
            "of 1 queue",
            pairs,
            FEW_OF_MANY,
        )


async def all_of_many(ground: Ground, sizes: Sizes, report: Report) -> None:
    """Every queue holds some jobs."""
    async with ground.site() as small, ground.site() as large:
        await add_queues(large, load.PROJECT, sizes.queues)
        everywhere = [
            new_job(f"crowd-{number + 1}", "noop", load.PAYLOAD) for number in range(sizes.queues)
        ]

        async def ours() -> float:
            count = sizes.queues * 10
            for _ in range(10):
                for start in range(0, sizes.queues, load.BATCH):
                    await large.engine.insert(load.PROJECT, everywhere[start : start + load.BATCH])
            await ground.analyse()
            drain = await large.drain(min(count, sizes.jobs), LIMIT, ground.loops)
            await large.drain(count - drain.done, 1_000, ground.loops)
            return drain.rate

        pairs = await in_turns(
            min(sizes.rounds, 3), Rate(ground, small, load.plain_jobs(), sizes), ours
        )
        report.pairs(
            ground.name,
            f"{sizes.queues:,} queues with 10 jobs each",
            "1 queue",
            pairs,
            ALL_OF_MANY,
        )


async def changes(
    ground: Ground, sizes: Sizes, report: Report, project: int, where: str, target: Target
) -> None:
    """Somebody changes queues all the time, in a project that has very many."""
    async with ground.site() as site:
        await add_neighbour(site)
        await add_queues(site, project, sizes.queues)
        other = another(site)
        await other.open()
        [queue, *_] = await other.queues([project])
        still, disturbed = (Rate(ground, site, load.plain_jobs(), sizes) for _ in range(2))

        async def meddle() -> None:
            for number in range(1_000_000):
                await other.change_queue(
                    project, UpdateQueue(queue=queue.id, description=str(number))
                )
                await asyncio.sleep(1 / CHANGES_A_SECOND)

        async def ours() -> float:
            meddling = asyncio.create_task(meddle())
            try:
                return await disturbed()
            finally:
                meddling.cancel()
                await asyncio.wait([meddling])

        try:
            pairs = await in_turns(sizes.rounds, still, ours)
        finally:
            await other.close()
        report.pairs(
            ground.name,
            f"{CHANGES_A_SECOND} changes a second among {sizes.queues:,} queues of {where}",
            "none",
            pairs,
            target,
        )
        if disturbed.claims:
            middle, worst = (percentile(disturbed.claims, share) for share in (0.5, 0.999))
            report.say(f"claims: p50 {middle * 1e3:.2f} ms, p99.9 {worst * 1e3:.2f} ms")


async def new_types(ground: Ground, sizes: Sizes, report: Report) -> None:
    """A neighbour enqueues jobs of types that nobody has seen."""
    async with ground.site() as site:
        await add_neighbour(site)
        other = another(site)
        await other.open()
        await other.change_queue(NEIGHBOUR, CreateQueue(name=load.QUEUE))
        numbers = iter(range(100_000_000))
        still, disturbed = (Rate(ground, site, load.plain_jobs(), sizes) for _ in range(2))

        def with_neighbour(kinds: Callable[[], str], rate: Rate) -> Callable[[], Awaitable[float]]:
            async def enqueue() -> None:
                while True:
                    await other.insert(NEIGHBOUR, [new_job(load.QUEUE, kinds())])
                    await asyncio.sleep(0.01)

            async def run() -> float:
                enqueueing = asyncio.create_task(enqueue())
                try:
                    return await rate()
                finally:
                    enqueueing.cancel()
                    await asyncio.wait([enqueueing])

            return run

        try:
            pairs = await in_turns(
                sizes.rounds,
                with_neighbour(lambda: "plain", still),
                with_neighbour(lambda: f"kind-{next(numbers)}", disturbed),
            )
        finally:
            await other.close()
        report.pairs(
            ground.name,
            "a neighbour's jobs are each of a new type",
            "of one type",
            pairs,
            CHANGES_ELSEWHERE,
        )


async def measure(engines: list[str], sizes: Sizes, report: Report) -> None:
    for engine in engines:
        report.say(f"{engine}: starting")
        ground: Ground = PostgresGround() if engine == "postgres" else SqliteGround()
        try:
            await few_of_many(ground, sizes, report)
            await all_of_many(ground, sizes, report)
            await changes(ground, sizes, report, NEIGHBOUR, "another project", CHANGES_ELSEWHERE)
            await changes(ground, sizes, report, load.PROJECT, "the same project", CHANGES_HERE)
            await new_types(ground, sizes, report)
            await measure_fairness(ground, sizes.keys, sizes.jobs, sizes.rounds, report)
        finally:
            ground.close()


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--quick", action="store_true", help="short form; fails only on a collapse")
    parser.add_argument("--queues", type=int, help="how many there are")
    parser.add_argument("--jobs", type=int, help="how many a round drains")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser.parse_args(given)


def main() -> int:
    given = arguments()
    engines = ["sqlite", "postgres"] if given.engine == "both" else [given.engine]
    sizes = QUICK if given.quick else FULL
    sizes = Sizes(
        given.queues or sizes.queues,
        given.jobs or sizes.jobs,
        given.rounds or sizes.rounds,
        sizes.keys,
    )
    report = Report(Console(width=None if sys.stdout.isatty() else 140))
    report.say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%H:%M')}")
    bound = QUICK_BOUND_SECONDS if given.quick else FULL_BOUND_SECONDS
    try:
        uvloop.run(bounded(measure(engines, sizes, report), bound))
    except TimeoutError:
        report.say(f"[red]not done after {bound} s[/red]")
        return 1
    except asyncio.CancelledError:
        return 143
    finally:
        report.show()
        if given.json:
            report.save(given.json, {name: str(value) for name, value in vars(given).items()})
    failures = report.failures(quick=given.quick)
    for row in failures:
        report.say(f"[red]short[/red]: {row.engine}: {row.what}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
