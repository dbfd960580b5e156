"""One round of the hot path, for `bench.commits`, which runs it on the source of either commit. It
uses only what applications and workers use, so that it fits both."""

import asyncio
import contextlib
import importlib
import itertools
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psutil

from taskforge import TaskForge
from taskforge.domain import outcome
from taskforge.domain.job import new_job
from taskforge.domain.outcome import Finish
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker, Sample

# Commits of before call it Succeed.
Succeeded: Any = vars(outcome).get("ToSucceeded") or vars(outcome)["Succeed"]


def _claim_type() -> Any:
    """It has moved from one module to another."""
    for module in ("taskforge.domain.claim", "taskforge.storage.engine"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(module).Claim
    raise ImportError("this commit has no Claim")


Claim = _claim_type()
JOBS, BATCH, SINGLES, CALLERS, PICKUPS = 12_000, 500, 3_000, 32, 150


def _cpu(server: int | None) -> float:
    """Processor seconds of this process, and of the database server if there is one."""
    processes = [psutil.Process()]
    if server is not None:
        postmaster = psutil.Process(server)
        processes += [postmaster, *postmaster.children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def measure(url: str, server: int | None) -> dict[str, float]:
    forge = TaskForge(url)
    figures: dict[str, float] = {}

    ran, some_ran, all_ran = itertools.count(1), asyncio.Event(), asyncio.Event()

    @forge.job()
    async def nothing(number: int = 0) -> int:
        some_ran.set()
        if next(ran) == JOBS + SINGLES // CALLERS * CALLERS:
            all_ran.set()
        return number

    async def timed(name: str, count: int, act: Callable[[], Awaitable[Any]]) -> None:
        cpu, started = _cpu(server), time.perf_counter()
        await act()
        figures[f"{name}, jobs/s"] = count / (time.perf_counter() - started)
        figures[f"{name}, µs of processor a job"] = (_cpu(server) - cpu) / count * 1e6

    async with forge:
        engine: Any = await forge.engine()
        home = engine.home
        await engine.change_queue(home, CreateQueue(name="bulk"))
        worker = NewWorker(name="probe", max_concurrent_jobs=1_000, queues=("bulk",))
        registered = await engine.register(home, worker, 600.0)
        await engine.renew(registered.incarnation, 600.0, Sample())

        async def insert_bulk() -> None:
            for _ in range(JOBS // BATCH):
                jobs = [new_job("bulk", "nothing", {"number": n}) for n in range(BATCH)]
                await engine.insert(home, jobs)

        async def claim_and_finish() -> None:
            left = JOBS
            while left:
                claimed = await engine.claim(Claim(registered.incarnation, min(left, BATCH)))
                await engine.finish([Finish(job.fence, Succeeded(b"1"), 0.001) for job in claimed])
                left -= len(claimed)

        async def insert_singles() -> None:
            async def caller(count: int) -> None:
                for number in range(count):
                    await engine.insert(home, [new_job("default", "nothing", {"number": number})])

            await asyncio.gather(*(caller(SINGLES // CALLERS) for _ in range(CALLERS)))

        await timed("bulk insert", JOBS, insert_bulk)
        await timed("claim and finish", JOBS, claim_and_finish)
        await timed("single inserts", SINGLES, insert_singles)
        await nothing.enqueue_many([(n,) for n in range(JOBS)])
        working = asyncio.create_task(forge.work(slots=100, queues=("default",)))
        # From the first handler to the last: a worker's start is timed apart, and who waits for a
        # result looks now and then, which would be seen in so short a time.
        started = time.perf_counter()
        await some_ran.wait()
        figures["start of a worker, ms"] = (time.perf_counter() - started) * 1_000
        await timed("drain", JOBS + SINGLES, all_ran.wait)
        waits = []
        for number in range(PICKUPS):
            started = time.perf_counter()
            await (await nothing.enqueue(number)).result(30)
            waits.append(time.perf_counter() - started)
        figures["pickup and result, ms"] = statistics.median(waits) * 1_000
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else None))))
