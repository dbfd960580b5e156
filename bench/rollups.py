"""Rollups: how far percentiles are off, how many bytes a day of them takes on PostgreSQL, and what
a question about 30 days costs behind few executions and behind many.

    python -m bench.rollups [--executions 1000000] [--queues 1000]
"""

import argparse
import asyncio
import math
import random
import statistics
import time
from collections.abc import Callable

import asyncpg

from bench.grounds import PostgresGround
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.rollup import Cell, Delta, Scope, decode_cell, summed_up

CHANCE = random.Random(18)
SHAPES: dict[str, Callable[[], float]] = {
    "lognormal": lambda: CHANCE.lognormvariate(5, 1.5),
    "bimodal": lambda: (
        CHANCE.gauss(20, 2) if CHANCE.random() < 0.7 else CHANCE.gauss(90_000, 5_000)
    ),
    "constant": lambda: 250.0,
}
MINUTES = 20  # written for each queue; a day has 72 times as many
WORKERS = 10


def cell_of(times: list[float]) -> Cell:
    cell = Cell()
    cell.add(Delta(Scope(1), 0, ExecutionStatus.SUCCEEDED, len(times), times, times))
    return cell


def measure_errors(executions: int) -> None:
    for name, draw in SHAPES.items():
        times = [max(0.0, draw()) for _ in range(executions)]
        cells = [
            decode_cell(cell_of(times[start : start + 600]).encode())
            for start in range(0, executions, 600)
        ]
        figures = summed_up(cells).durations.figures()
        times.sort()
        worst = 0.0
        for share, found in ((0.5, figures.p50), (0.95, figures.p95), (0.99, figures.p99)):
            exact = times[math.ceil(share * executions) - 1]
            assert found is not None
            worst = max(worst, abs(found - exact) / exact)
        print(f"{name}: {executions:,} executions, off by at most {100 * worst:.3f} %")


def draw_cell(count: int) -> bytes:
    return cell_of([CHANCE.lognormvariate(5, 1) for _ in range(count)]).encode()


async def measure_sizes(queues: int) -> None:
    """Each queue ends a job a second, durations and waits lognormal; ten workers serve all."""
    ground = PostgresGround()
    try:
        await ground.execute("create database rollups")
        connection = await asyncpg.connect(ground.server.url("rollups"))
        await connection.execute(
            "create table rollups (scope int not null, step smallint not null, start int not null, "
            "project int not null, cell bytea not null, primary key (scope, step, start))"
        )

        async def size(step: int, scopes: int, starts: int, count: int) -> float:
            await connection.execute("truncate rollups")
            some = [draw_cell(count) for _ in range(200)]
            rows = [
                (scope, step, start, 1, some[(scope + start) % 200])
                for start in range(starts)
                for scope in range(scopes)
            ]
            await connection.copy_records_to_table("rollups", records=rows)
            found = await connection.fetchval("select pg_total_relation_size('rollups')")
            return int(found) / len(rows)

        minute = await size(0, queues, MINUTES, 60)
        pair_minute = await size(0, queues, MINUTES, 60 // WORKERS)
        hour = await size(1, queues, 1, 3_600)
        pair_hour = await size(1, queues, 1, 3_600 // WORKERS)
        parts = {
            "minutes of queues": minute * queues * 1_440,
            "hours of queues": hour * queues * 24,
            "hours of workers in queues": pair_hour * queues * WORKERS * 24,
        }
        for name, amount in parts.items():
            print(f"{name}: {amount / 1e6:.0f} MB a day")
        print(f"together: {sum(parts.values()) / 1e6:.0f} MB a day for {queues:,} queues")
        standing = pair_minute * queues * WORKERS * 120
        print(f"minutes of workers in queues, kept for 2 hours: {standing / 1e6:.0f} MB")
        print(f"a cell: minute {minute:.0f} bytes, hour {hour:.0f}, with its key and index")
        await connection.close()
    finally:
        ground.close()


def measure_reads() -> None:
    """30 days are 720 hours, whatever ran in them: only the cells are fuller."""
    medians = {}
    for executions in (10_000, 5_000_000):
        cells = [draw_cell(max(1, executions // 720)) for _ in range(30)]
        month = [cells[hour % 30] for hour in range(79)]  # 28 days, and the hours at both ends
        took = []
        for _ in range(20):
            started = time.perf_counter()
            summed_up(map(decode_cell, month)).durations.figures()
            took.append(time.perf_counter() - started)
        medians[executions] = statistics.median(took)
        print(f"30 days behind {executions:,}: {1000 * medians[executions]:.2f} ms of decoding")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=1_000)
    given = parser.parse_args()
    measure_errors(given.executions)
    measure_reads()
    asyncio.run(measure_sizes(given.queues))


if __name__ == "__main__":
    main()
