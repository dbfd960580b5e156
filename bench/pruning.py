"""SQLite has one writer: how long it stalls while a million old jobs are pruned behind it."""

import asyncio
import itertools
import time

from bench import load
from bench.grounds import Ground, Site
from bench.report import Report, Row, Target, percentile
from bench.sizes import Sizes
from taskforge.domain.claim import Claim
from taskforge.domain.outcome import Finish, ToSucceeded

KEPT_DAYS = 30.0
OLD_DAYS = (60.0, 31.0)
SLICE = 500
BATCH = 20
PAUSE_SECONDS = 0.005
STALL = Target(ms_at_most=50)


async def pruning(ground: Ground, sizes: Sizes, report: Report) -> None:
    async with ground.site() as site:
        await site.add_history(sizes.pruned, *OLD_DAYS)
        report.say(f"{ground.name}: wrote {sizes.pruned:,} old finished jobs")
        stop = asyncio.Event()
        writer = asyncio.create_task(write(site, stop))
        await asyncio.sleep(min(5.0, sizes.prune_seconds / 6))
        stop.set()
        alone = await writer
        stop = asyncio.Event()
        writer = asyncio.create_task(write(site, stop))
        started = time.monotonic()
        try:
            pruned = await prune(site, sizes, writer)
        finally:
            stop.set()
        took, beside = time.monotonic() - started, await writer
    report.say(
        f"{ground.name}: pruned {pruned:,} jobs in {took:.1f} s, {pruned / took:,.0f}/s, beside "
        f"{len(beside):,} writes"
    )
    for share, name, target in ((0.5, "p50", None), (0.99, "p99", STALL), (1.0, "longest", None)):
        base, ours = (percentile(times, share) * 1_000 for times in (alone, beside))
        what = f"a write while {pruned:,} jobs are pruned, {name}"
        row = Row(
            engine=ground.name,
            what=what,
            against="no pruning",
            base=base,
            ours=ours,
            ratio=ours / base,
            unit="ms",
            target=target,
        )
        report.add(row)


async def prune(site: Site, sizes: Sizes, writer: asyncio.Task[list[float]]) -> int:
    """Day after day and slice after slice without a pause, which is the worst a pruner can do."""
    pruned, give_up = 0, time.monotonic() + sizes.prune_seconds
    while time.monotonic() < give_up and not writer.done():
        whole = await site.engine.keep_partitions(KEPT_DAYS, None)
        slice_ = await site.engine.prune(KEPT_DAYS, SLICE)
        pruned += whole.jobs + slice_.jobs
        if not slice_.more and not whole.jobs:
            break
    return pruned


async def write(site: Site, stop: asyncio.Event) -> list[float]:
    """A steady trickle of inserts, claims and finishes; returns how long each call took."""
    engine, jobs, claim = site.engine, load.plain_jobs(BATCH), Claim(site.incarnation, BATCH)
    took: list[float] = []
    while not stop.is_set():
        times = [time.perf_counter()]
        await engine.insert(load.PROJECT, jobs)
        times.append(time.perf_counter())
        claimed = await engine.claim(claim)
        times.append(time.perf_counter())
        lost = await engine.finish(
            [Finish(job.fence, ToSucceeded(load.RESULT), 0.001) for job in claimed]
        )
        times.append(time.perf_counter())
        assert not lost, lost
        took += [end - start for start, end in itertools.pairwise(times)]
        await asyncio.sleep(PAUSE_SECONDS)
    return took
