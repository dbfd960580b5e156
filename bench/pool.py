"""The pool benchmark: `python -m bench.pool`. What a job that does nothing costs, beside the ways
to do without a pool; and whether memory stays flat.

Costs are processor time per job, measured in turns within one process, so that a busy machine slows
all of them alike.
"""

import argparse
import asyncio
import gc
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from bench.report import Report, Row, Target
from taskforge.pool import WorkerPool

SIZE, BUFFER = 100, 1_000
TARGET = Target(ratio_at_most=1.5)
Way = Callable[[int], Awaitable[None]]


async def nothing(value: int) -> int:
    return value


async def task_group(jobs: int) -> None:
    """The bare way with bounded memory: a task for each job, a semaphore before it is made."""
    slots = asyncio.Semaphore(SIZE)

    async def one(value: int) -> None:
        try:
            await nothing(value)
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        for value in range(jobs):
            await slots.acquire()
            group.create_task(one(value))


async def task_group_at_once(jobs: int) -> None:
    """The shorter idiom: all tasks at once, each waits for the semaphore. Memory grows with the
    number of jobs."""
    slots = asyncio.Semaphore(SIZE)

    async def one(value: int) -> None:
        async with slots:
            await nothing(value)

    async with asyncio.TaskGroup() as group:
        for value in range(jobs):
            group.create_task(one(value))


async def with_aiometer(jobs: int) -> None:
    import aiometer  # noqa: PLC0415 - a bench-only dependency; its absence is told

    async with aiometer.amap(nothing, range(jobs), max_at_once=SIZE) as results:
        async for _ in results:
            pass


async def with_aioitertools(jobs: int) -> None:
    from aioitertools.asyncio import gather_iter  # noqa: PLC0415 - a bench-only dependency; its absence is told

    coroutines: Any = (nothing(value) for value in range(jobs))
    await gather_iter(coroutines, limit=SIZE)


async def pool_submit(jobs: int, **options: Any) -> None:
    async with WorkerPool(SIZE, buffer=BUFFER, **options) as pool:
        for value in range(jobs):
            await pool.submit(nothing, value)


async def pool_map(jobs: int, *, ordered: bool) -> None:
    async with WorkerPool(SIZE, buffer=BUFFER) as pool:
        async for _ in pool.map(nothing, range(jobs), ordered=ordered):
            pass


BASE = "TaskGroup + semaphore"
OURS: dict[str, Way] = {
    "pool.submit": pool_submit,
    "pool.map, as completed": partial(pool_map, ordered=False),
    "pool.map, in order": partial(pool_map, ordered=True),
}
OTHERS: dict[str, Way] = {
    "TaskGroup, all at once": task_group_at_once,
    "aiometer.amap": with_aiometer,
    "aioitertools gather_iter": with_aioitertools,
}
UNUSUAL: dict[str, Way] = {
    "pool.submit, by priority": partial(pool_submit, order="priority"),
    "pool.submit, with a timeout": partial(pool_submit, timeout=60.0),
    "pool.submit, round robin": partial(pool_submit, distribution="round_robin"),
}


async def cost(way: Way, jobs: int) -> float:
    """Microseconds of processor time per job."""
    gc.collect()
    began = time.process_time()
    await way(jobs)
    return (time.process_time() - began) / jobs * 1e6


async def beside_the_bare_way(jobs: int, rounds: int, report: Report) -> None:
    ways: dict[str, Way] = {}
    for name, way in {BASE: task_group, **OURS, **OTHERS, **UNUSUAL}.items():
        try:
            await way(200)
            ways[name] = way
        except ImportError as missing:
            report.say(f"[yellow]{name}: not measured, {missing.name} is not installed[/yellow]")
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            costs[name].append(await cost(way, jobs))
    for name in ways:
        if name != BASE:
            report.add(
                Row(
                    engine=f"pool of {SIZE}, {jobs:,} jobs that do nothing",
                    what=name,
                    against=BASE,
                    base=statistics.median(costs[BASE]),
                    ours=statistics.median(costs[name]),
                    ratio=statistics.median(
                        ours / base for base, ours in zip(costs[BASE], costs[name], strict=True)
                    ),
                    unit="µs",
                    target=TARGET if name in OURS else None,
                    pairs=tuple(zip(costs[BASE], costs[name], strict=True)),
                )
            )


async def flat(jobs: int, report: Report) -> bool:
    """Memory while many jobs go through: after a tenth of them, and at the end."""
    process, marks, rows = psutil.Process(), 10, []
    gc.collect()
    tracemalloc.start()
    sizes = []
    async with WorkerPool(SIZE, buffer=BUFFER) as pool:
        for value in range(5 * BUFFER):
            await pool.submit(nothing, value)  # a full buffer is where it begins
        began = time.monotonic()
        for part in range(marks):
            most = 0
            for value in range(jobs // marks):
                await pool.submit(nothing, value)
                if value % 500 == 0:
                    most = max(most, tracemalloc.get_traced_memory()[0])
            sizes.append(most)
            if part in (0, 4, marks - 1):
                rows.append(
                    {
                        "jobs through": f"{(part + 1) * (jobs // marks):,}",
                        "Python memory, KiB": most / 1024,
                        "resident, MiB": process.memory_info().rss / 2**20,
                        "seconds": time.monotonic() - began,
                    }
                )
    tracemalloc.stop()
    report.table(
        f"Memory: {jobs:,} jobs through a pool of {SIZE} with a buffer of {BUFFER:,} (slowed by "
        f"watching)",
        rows,
    )
    is_flat = sizes[-1] < 1.1 * sizes[0] + 64 * 1024
    verdict = "[green]flat[/green]" if is_flat else "[red]grows[/red]"
    report.say(
        f"memory: {sizes[0] / 1024:,.0f} KiB after a tenth, {sizes[-1] / 1024:,.0f} KiB at the "
        f"end: {verdict}"
    )
    return is_flat


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pool", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="short form for CI; fails only on a collapse"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times all sizes, to try the benchmark itself out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser.parse_args(given)


async def measure(given: argparse.Namespace, report: Report) -> bool:
    jobs, rounds, through = (20_000, 3, 100_000) if given.quick else (50_000, 5, 1_000_000)
    await beside_the_bare_way(int(jobs * given.scale), rounds, report)
    return await flat(int(through * given.scale), report)


def main() -> int:
    given = arguments()
    report = Report(Console(width=None if sys.stdout.isatty() else 140))
    report.say(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; processor time is measured, "
        f"which other work moves little"
    )
    is_flat = asyncio.run(measure(given, report))
    report.show()
    if given.json:
        report.save(given.json, {name: str(value) for name, value in vars(given).items()})
    failures = report.failures(quick=given.quick)
    for row in failures:
        report.say(f"[red]{'collapsed' if given.quick else 'short'}[/red]: {row.what}")
    return 1 if failures or not is_flat else 0


if __name__ == "__main__":
    sys.exit(main())
