"""What fairness within a queue costs, and what it is worth: rows of `bench.growth`."""

import asyncio
import time
from collections import Counter

from bench import load
from bench.grounds import Ground, Site
from bench.report import Pairs, Report, Target, in_turns, percentile
from taskforge.domain.claim import Claim
from taskforge.domain.job import Claimed, NewJob, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import QueueSettings

AT_100_KEYS, AT_MANY_KEYS = Target(ratio_at_least=0.8), Target(ratio_at_least=0.5)
LIMITED_AT_100_KEYS = Target(ratio_at_least=0.7)
BESIDE_A_FLOOD = Target(ratio_at_most=2)
SHARES = Target(ratio_at_most=1.02)
LIMIT = 100
SLOTS, HANDLER_SECONDS = 8, 0.020
WEIGHTS = {f"key-{number}": float(1 + number % 3) for number in range(30)}


def keyed_jobs(queue: str, keys: int, count: int) -> list[NewJob]:
    """In turns, so that each key has about as many."""
    return [
        new_job(queue, "noop", load.PAYLOAD, fairness_key=f"key-{number % keys}")
        for number in range(count)
    ]


async def costs(
    ground: Ground, keys: int, jobs: int, rounds: int, report: Report, *, limited: bool = False
) -> None:
    """The same jobs in a queue without fairness and in one with it, or with a limit by key, too."""
    fairness = {"max_concurrent_per_key": LIMIT} if limited else {}
    count = max(jobs, keys)
    async with ground.site() as site:
        await load.make_queue(site.engine, "fair", QueueSettings.parse({"fairness": fairness}))

        async def rate(queue: str) -> float:
            given = keyed_jobs(queue, keys, count)
            await ground.analyse()
            for start in range(0, count, load.BATCH):
                await site.engine.insert(load.PROJECT, given[start : start + load.BATCH])
            return (await site.drain(count, LIMIT, ground.loops)).rate

        pairs = await in_turns(rounds, lambda: rate(load.QUEUE), lambda: rate("fair"))
        least = (LIMITED_AT_100_KEYS if limited else AT_100_KEYS) if keys <= 100 else AT_MANY_KEYS
        what = "limits by key" if limited else "fairness"
        report.pairs(ground.name, f"{what}, {keys:,} keys hold jobs", "no fairness", pairs, least)


class Crew:
    """Eight slots and handlers that take 20 ms."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._free = SLOTS
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.waits: dict[str, list[float]] = {}

    async def run(self, key: str, count: int) -> None:
        """Until so many jobs were taken whose type is this."""
        while len(self.waits.get(key, ())) < count:
            claimed = await self._site.engine.claim(Claim(self._site.incarnation, self._free))
            for one in claimed:
                self.waits.setdefault(one.job_type, []).append(one.waited_seconds)
                self._free -= 1
                task = asyncio.create_task(self._handle(one))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            self._ended.clear()
            if not self._free:
                await self._ended.wait()
        await asyncio.gather(*self._tasks)

    async def _handle(self, claimed: Claimed) -> None:
        await asyncio.sleep(HANDLER_SECONDS)
        await self._site.engine.finish([Finish(claimed.fence, ToSucceeded())])
        self._free += 1
        self._ended.set()


async def flood(ground: Ground, jobs: int, report: Report) -> None:
    """One key with very many jobs, then 99 keys with 10 each."""
    small = [
        new_job("fair", "small", fairness_key=f"small-{number}")
        for _ in range(10)
        for number in range(99)
    ]

    async def wait(before: int) -> float:
        async with ground.site() as site:
            await load.make_queue(site.engine, "fair", QueueSettings.parse({"fairness": {}}))
            site.incarnation = await load.make_worker(site.engine, ("small", "flood"))
            large = [new_job("fair", "flood", fairness_key="flood")] * min(load.BATCH, before)
            for _ in range(0, before, load.BATCH):
                await site.engine.insert(load.PROJECT, large)
            await site.engine.insert(load.PROJECT, small)
            crew = Crew(site)
            await crew.run("small", len(small))
            return percentile(crew.waits["small"], 0.95) * 1e3

    pairs = await in_turns(1, lambda: wait(0), lambda: wait(jobs))
    report.pairs(
        ground.name,
        f"p95 wait of 99 keys behind {jobs:,} jobs of another",
        "without those",
        pairs,
        BESIDE_A_FLOOD,
        "ms",
    )


async def shares(ground: Ground, jobs: int, report: Report) -> None:
    """What each of 30 keys got of so many jobs, beside what its weight gives it."""
    async with ground.site() as site:
        settings = QueueSettings.parse({"fairness": {"weights": WEIGHTS}})
        await load.make_queue(site.engine, "fair", settings)
        site.incarnation = await load.make_worker(site.engine, tuple(WEIGHTS))
        whole = sum(WEIGHTS.values())
        given = [
            new_job("fair", key, fairness_key=key)
            for key, weight in WEIGHTS.items()
            for _ in range(int(2 * jobs * weight / whole))
        ]
        for start in range(0, len(given), load.BATCH):
            await site.engine.insert(load.PROJECT, given[start : start + load.BATCH])
        taken: Counter[str] = Counter()
        started = time.monotonic()
        while taken.total() < jobs:
            claimed = await site.engine.claim(Claim(site.incarnation, 50))
            taken.update(one.job_type for one in claimed)
            await site.engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed])
        report.say(f"{jobs:,} jobs of weighted keys in {time.monotonic() - started:.1f} s")
        worst = max(
            abs(taken[key] / taken.total() / (weight / whole) - 1)
            for key, weight in WEIGHTS.items()
        )
        report.pairs(
            ground.name,
            f"farthest share of 30 weighted keys over {jobs:,} jobs",
            "its weight",
            Pairs(((100.0, 100.0 * (1 + worst)),)),
            SHARES,
            "ms",
        )


async def measure_fairness(
    ground: Ground, keys: int, jobs: int, rounds: int, report: Report
) -> None:
    """`keys`: how many hold jobs where very many do."""
    for limited in (False, True):
        await costs(ground, 100, jobs, rounds, report, limited=limited)
        await costs(ground, keys, jobs, rounds, report, limited=limited)
    await shares(ground, min(10_000, jobs), report)
    await flood(ground, 100_000 if jobs >= 10_000 else jobs, report)
