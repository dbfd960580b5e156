"""The engine benchmark: `python -m bench.engine`. Each figure stands beside a raw-SQL floor, or the
plain case, of the same run.

It brings its own PostgreSQL server (fsync on) and its own files, listens on the loopback address
only, and removes both.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from bench import history, layouts, pruning, snapshot, throughput
from bench.grounds import Ground, PostgresGround, SqliteGround
from bench.report import Report
from bench.sizes import FULL, QUICK, Sizes

Measurement = Callable[[Ground, Sizes, Report], Awaitable[None]]
BOTH: dict[str, Measurement] = {
    "floor": throughput.beside_the_floor,
    "mixed": throughput.mixed,
    "unhandled": throughput.unhandled,
    "history": history.behind_history,
}
NAMES = (*BOTH, "snapshot", "pruning", "layouts")
QUICK_BOUND_SECONDS, FULL_BOUND_SECONDS = 300, 5_400


async def measure(engines: list[str], only: list[str], sizes: Sizes, report: Report) -> None:
    for engine in engines:
        report.say(f"{engine}: starting")
        ground: Ground = PostgresGround() if engine == "postgres" else SqliteGround()
        try:
            for name, measurement in BOTH.items():
                if name in only:
                    await measurement(ground, sizes, report)
            if isinstance(ground, PostgresGround):
                if "snapshot" in only:
                    await snapshot.held_snapshot(ground, sizes, report)
                if "layouts" in only:
                    await layouts.compare(ground, sizes, report)
            elif "pruning" in only:
                await pruning.pruning(ground, sizes, report)
        finally:
            ground.close()


async def bounded(work: Awaitable[None], seconds: float) -> None:
    """Ends by itself, and in order when it is asked to end: a server must not outlive its
    benchmark."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.timeout(seconds):
        await work


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument(
        "--quick", action="store_true", help="short form for CI; fails only on a collapse"
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, help="measure only these")
    parser.add_argument(
        "--layouts", action="store_true", help="also compare three table layouts on PostgreSQL"
    )
    parser.add_argument(
        "--history", metavar="COUNT", help="finished jobs behind, such as 10M (1M unless told)"
    )
    parser.add_argument("--rounds", type=int, help="pairs of floor and engine")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times all sizes, to try the benchmark itself out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser.parse_args(given)


def sizes_of(given: argparse.Namespace) -> Sizes:
    sizes = QUICK if given.quick else FULL
    if given.history:
        number = given.history.upper().replace("K", "e3").replace("M", "e6")
        sizes = msgspec.structs.replace(sizes, history=int(float(number)))
    if given.rounds:
        sizes = msgspec.structs.replace(sizes, rounds=given.rounds)
    return sizes.scaled(given.scale)


def main() -> int:
    given = arguments()
    engines = ["sqlite", "postgres"] if given.engine == "both" else [given.engine]
    only = given.only or [name for name in NAMES if name != "layouts" or given.layouts]
    report = Report(Console(width=None if sys.stdout.isatty() else 140))
    report.say(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; other work on this machine moves "
        f"rates, less so ratios"
    )
    bound = QUICK_BOUND_SECONDS if given.quick else FULL_BOUND_SECONDS
    try:
        uvloop.run(bounded(measure(engines, only, sizes_of(given), report), bound))
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
        report.say(
            f"[red]{'collapsed' if given.quick else 'short'}[/red]: {row.engine}: {row.what}"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
