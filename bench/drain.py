"""The end-to-end benchmark: `python -m bench.drain`. Each figure stands beside that of a peer,
measured in turns in the same run.

It installs the peers into the user's cache folder, brings its own PostgreSQL (fsync on, the same
for us and for peers) and its own Redis, listens on the loopback address only, and ends every
process that it started.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from bench.beside import Comparison
from bench.engine import bounded
from bench.lineup import PEERS, Lineup
from bench.races import FULL, QUICK, Races, RaceSizes

NAMES = ("drain", "http", "mixed", "bulk", "single", "pickup")
QUICK_BOUND_SECONDS, FULL_BOUND_SECONDS = 900, 3_600


def names_of(known: tuple[str, ...], text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return chosen


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, one round; fails only on a collapse"
    )
    parser.add_argument(
        "--only",
        type=lambda text: names_of(NAMES, text),
        default=list(NAMES),
        help=f"of {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--peers",
        type=lambda text: names_of(PEERS, text),
        default=list(PEERS),
        help=f"of {', '.join(PEERS)}",
    )
    parser.add_argument("--rounds", type=int, help="how often each contender runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser.parse_args(given)


async def measure(only: list[str], peers: list[str], sizes: RaceSizes, report: Comparison) -> None:
    async with Lineup() as lineup:
        races = Races(lineup, peers, sizes, report)
        for name in NAMES:
            if name in only:
                await getattr(races, name)()


def main() -> int:
    given = arguments()
    sizes = QUICK if given.quick else FULL
    if given.rounds:
        sizes = msgspec.structs.replace(sizes, rounds=given.rounds, short_rounds=given.rounds)
    report = Comparison(Console(width=None if sys.stdout.isatty() else 140))
    report.say(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; other work on this machine moves "
        f"rates, less so ratios"
    )
    bound = QUICK_BOUND_SECONDS if given.quick else FULL_BOUND_SECONDS
    try:
        uvloop.run(bounded(measure(given.only, given.peers, sizes, report), bound))
    except TimeoutError:
        report.say(f"[red]not done after {bound} s[/red]")
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 130
    finally:
        report.show()
        if given.json:
            report.save(given.json, {name: str(value) for name, value in vars(given).items()})
    failures = report.failures(quick=given.quick)
    for row in failures:
        report.say(
            f"[red]{'collapsed' if given.quick else 'short'}[/red]: {row.engine}: {row.what}, "
            f"beside {row.against}"
        )
    return 1 if failures or (report.tables.get("missing") and not given.quick) else 0


if __name__ == "__main__":
    sys.exit(main())
