"""Two commits side by side: `python -m bench.commits OLD [NEW]`. Pairs of rounds in turns, each on
a store of its own, so that whatever else the machine does meets both alike.

Of each figure it shows the median ratio (new to old, above 1 is better) and the interval in which
19 of 20 medians of as many pairs would lie.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.table import Table

from taskforge.testing.postgres import LocalServer, make_directory

LEAST_MEDIAN, LEAST_OF_INTERVAL = 0.97, 0.93
ROUND_SECONDS = 300


def check_out(commit: str, folder: Path) -> Path:
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), commit], check=True)
    return folder


def probe(source: Path, url: str, server: int | None) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(source / "src")}
    command = [sys.executable, str(Path(__file__).with_name("commit_probe.py")), url]
    done = subprocess.run(
        [*command, *([str(server)] if server is not None else [])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=ROUND_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2_000:])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


async def make_database(server: LocalServer, name: str) -> str:
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"create database {name}")
    await connection.close()
    return server.url(name)


async def wal_bytes(server: LocalServer) -> float:
    connection = await asyncpg.connect(server.url())
    value = await connection.fetchval("select pg_current_wal_lsn() - '0/0'::pg_lsn")
    await connection.close()
    return float(value)


async def run_round(
    source: Path, engine: str, server: LocalServer, number: int
) -> dict[str, float]:
    if engine == "sqlite":
        folder = Path(tempfile.mkdtemp())
        try:
            return probe(source, f"sqlite:///{folder / 'jobs.db'}", None)
        finally:
            shutil.rmtree(folder)
    url = await make_database(server, f"round{number}")
    before = await wal_bytes(server)
    figures = probe(source, url, server.pid)
    figures["WAL, KB a round"] = (await wal_bytes(server) - before) / 1_000
    return figures


def is_better_when_high(name: str) -> bool:
    return name.endswith("jobs/s")


def interval(ratios: list[float]) -> tuple[float, float]:
    """Of the median, by drawing again from what was measured."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2_000))
    return medians[50], medians[1_950]


def show(engine: str, pairs: list[tuple[dict[str, float], dict[str, float]]]) -> bool:
    shown = Table(title=f"{engine}, n = {len(pairs)} pairs", title_justify="left")
    for name in ("what", "old", "new", "ratio", "95 %", ""):
        shown.add_column(name, justify="left" if name == "what" else "right")
    is_met = True
    for name in pairs[0][0]:
        old, new = ([pair[side][name] for pair in pairs] for side in (0, 1))
        ratios = [
            b / a if is_better_when_high(name) else a / b for a, b in zip(old, new, strict=True)
        ]
        middle, (low, high) = statistics.median(ratios), interval(ratios)
        good = middle >= LEAST_MEDIAN and low >= LEAST_OF_INTERVAL
        is_met = is_met and good
        shown.add_row(
            name,
            f"{statistics.median(old):,.1f}",
            f"{statistics.median(new):,.1f}",
            f"{middle:.3f}",
            f"{low:.3f} – {high:.3f}",
            "[green]ok[/]" if good else "[red]short[/]",
        )
    Console().print(shown)
    return is_met


async def compare(old: Path, new: Path, engines: list[str], pairs: int) -> bool:
    directory = make_directory()
    is_met = True
    try:
        with LocalServer.start(directory, settings={"max_wal_size": "4GB"}) as server:
            for engine in engines:
                measured = []
                for number in range(pairs):
                    # who goes first changes, so that what warms up helps both
                    order = (old, new) if number % 2 == 0 else (new, old)
                    came = {
                        source: await run_round(source, engine, server, 2 * number + place)
                        for place, source in enumerate(order)
                    }
                    measured.append((came[old], came[new]))
                    print(f"{engine}: pair {number + 1} of {pairs}", file=sys.stderr)
                is_met = show(engine, measured) and is_met
    finally:
        shutil.rmtree(directory)
    return is_met


def main() -> int:

    parser = argparse.ArgumentParser(prog="python -m bench.commits", description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--engine", choices=["sqlite", "postgres", "both"], default="both")
    given = parser.parse_args()
    engines = ["sqlite", "postgres"] if given.engine == "both" else [given.engine]
    folder = Path(tempfile.mkdtemp())
    try:
        old, new = (check_out(getattr(given, name), folder / name) for name in ("old", "new"))
        is_met = asyncio.run(compare(old, new, engines, given.pairs))
    finally:
        for name in ("old", "new"):
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(folder / name)], check=False
            )
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
