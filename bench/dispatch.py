"""Load balancing at work: `python -m bench.dispatch`. Real worker processes, one of which leads, on
a private PostgreSQL server or an SQLite file; both are gone when the run is over.

Each policy stands beside `pull`, or beside round robin, of the same run.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import msgspec
from rich.console import Console
from rich.table import Table

from bench.grounds import SETTINGS
from taskforge import TaskForge
from taskforge.domain.assignment import Assign
from taskforge.domain.job import new_job
from taskforge.domain.queue import CreateQueue, QueueSettings
from taskforge.testing.postgres import LocalServer, make_directory

APP = "bench.dispatch:forge"
WORKER = (sys.executable, "-m", "taskforge.cli", "worker", APP, "--processes", "0")
SLOTS = 10
PATIENCE_SECONDS = 120.0
WEIGHTS = (5, 3, 2)
SLOW = 5.0

forge = TaskForge()


@forge.job(queue="spread")
async def work(seconds: float) -> None:
    """On a slow worker it takes as many times as long."""
    await asyncio.sleep(seconds * float(os.environ.get("BENCH_SLOWNESS", "1")))


@forge.job(queue="spread")
async def nothing() -> None:
    pass


@contextmanager
def working(settings: dict[str, Any], slowness: tuple[float, ...]) -> Iterator[None]:
    """So many worker processes."""
    flags = {f"TASKFORGE_{name.upper()}": str(value) for name, value in settings.items()}
    processes = [
        subprocess.Popen(
            [*WORKER, "--slots", str(SLOTS), "--name", f"worker {number}"],
            env={**os.environ, **flags, "BENCH_SLOWNESS": str(times)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number, times in enumerate(slowness)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


@contextmanager
def places(engine: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Where each measurement has a store of its own."""
    if engine == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield lambda: {"url": f"sqlite:///{folder}/{uuid4().hex}.db"}
        return
    server = LocalServer.start(make_directory(), settings=SETTINGS)
    try:
        yield lambda: {"url": server.url(), "schema": f"bench_{uuid4().hex[:8]}"}
    finally:
        server.close()


class Outcome(msgspec.Struct, frozen=True):
    policy: str
    jobs: int
    seconds: float
    shares: list[int]  # by worker
    wait_p50_ms: float
    wait_p95_ms: float
    first_p95_ms: float  # from an enqueue on an idle system to the handler's start

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


async def measure(
    settings: dict[str, Any],
    policy: str,
    *,
    jobs: int,
    job_seconds: float,
    slowness: tuple[float, ...] = (1.0, 1.0, 1.0),
    paced: float = 0.0,
    singles: int = 0,
) -> Outcome:
    """`paced`: jobs a second; else all at once. `singles`: how many come one by one first."""
    app = TaskForge(**settings)
    engine: Any = await app.engine()
    made = await engine.change_queue(
        engine.home,
        CreateQueue(name="spread", settings=QueueSettings(load_balancing=policy)),
    )
    try:
        with working(settings, slowness):
            workers = await _come_up(engine, len(slowness))
            for worker, weight in zip(workers, WEIGHTS, strict=True):
                await engine.change_assignment(engine.home, Assign(made.id, worker, weight))
            await asyncio.sleep(4.0)  # one of them leads by now
            waits = [await _single(app, engine) for _ in range(singles)]
            payload = {"seconds": job_seconds} if job_seconds else {}
            made_jobs: list[UUID] = []
            began = time.monotonic()
            if paced:
                while len(made_jobs) < jobs:
                    due = min(jobs, int((time.monotonic() - began) * paced))
                    made_jobs += await insert(engine, "work", payload, due - len(made_jobs))
                    await asyncio.sleep(0.01)
            else:
                kind = "work" if job_seconds else "nothing"
                for start in range(0, jobs, 1_000):
                    count = min(1_000, jobs - start)
                    made_jobs += await insert(engine, kind, payload, count)
            await _drained(engine, jobs + singles)
            took = time.monotonic() - began
            done = [
                job
                for start in range(0, jobs, 1_000)
                for job in await engine.get([engine.home], made_jobs[start : start + 1_000])
            ]
            lives = {
                one.incarnation: workers.index(one.id)
                for one in await engine.workers([engine.home])
            }
            by_worker = Counter(lives.get(job.worker) for job in done)
            spread = statistics.quantiles(
                [(job.started_at - job.created_at).total_seconds() * 1_000 for job in done], n=20
            )
            return Outcome(
                policy,
                jobs,
                took,
                [by_worker[number] for number in range(len(workers))],
                spread[9],
                spread[-1],
                statistics.quantiles(waits, n=20)[-1] if waits else 0.0,
            )
    finally:
        await app.close()


async def insert(engine: Any, kind: str, payload: dict[str, Any], count: int) -> list[UUID]:
    jobs = [new_job("spread", kind, payload) for _ in range(count)]
    return [one.job for one in await engine.insert(engine.home, jobs)]


async def _come_up(engine: Any, count: int) -> list[UUID]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [one for one in await engine.workers([engine.home]) if one.accepts_jobs]
            if len(found) == count:
                return [one.id for one in sorted(found, key=lambda one: one.name)]
            await asyncio.sleep(0.1)


async def _single(app: TaskForge, engine: Any) -> float:
    """Milliseconds from an enqueue to the claim."""
    [made] = await insert(engine, "nothing", {}, 1)
    job = await app.wait(made)
    [execution] = await engine.executions([engine.home], job.id)
    await asyncio.sleep(0.05)
    return float((execution.started_at - job.created_at).total_seconds() * 1_000)


async def _drained(engine: Any, jobs: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            [stats] = await engine.stats([engine.home])
            if stats.succeeded >= jobs:
                return
            await asyncio.sleep(0.05)


def show(console: Console, title: str, outcomes: list[Outcome]) -> None:
    table = Table(title=title)
    for name in ("policy", "jobs/s", "shares", "wait p50", "wait p95", "single p95"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for one in outcomes:
        table.add_row(
            one.policy,
            f"{one.rate:,.0f}",
            " / ".join(f"{share:,}" for share in one.shares),
            f"{one.wait_p50_ms:,.0f} ms",
            f"{one.wait_p95_ms:,.0f} ms",
            f"{one.first_p95_ms:,.1f} ms" if one.first_p95_ms else "",
        )
    console.print(table)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), action="append")
    parser.add_argument("--quick", action="store_true", help="a fifth of the jobs")
    chosen = parser.parse_args()
    console = Console()
    part = 5 if chosen.quick else 1
    for engine in chosen.engine or ("sqlite", "postgres"):
        with places(engine) as place:
            plain = [
                await measure(place(), policy, jobs=10_000 // part, job_seconds=0, singles=20)
                for policy in ("pull", "round_robin", "weighted_round_robin", "least_load")
            ]
            show(console, f"{engine}: no-op jobs at once, weights 5 / 3 / 2", plain)
            slow = [
                await measure(
                    place(),
                    policy,
                    jobs=3_000 // part,
                    job_seconds=0.05,
                    slowness=(1.0, 1.0, SLOW),
                    paced=150.0,
                )
                for policy in ("pull", "round_robin", "least_load", "adaptive")
            ]
            show(console, f"{engine}: one of three workers slowed 5 ×, 150 jobs/s", slow)


if __name__ == "__main__":
    asyncio.run(main())
