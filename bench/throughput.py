"""How fast jobs go in and through: plain, beside the raw floor, and mixed or behind a head that
nobody takes, beside plain."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from bench import load
from bench.floors import Floor
from bench.grounds import Ground, Site
from bench.report import Report, Row, Target, in_turns, percentile
from bench.sizes import Sizes
from taskforge.domain.job import Claimed, ErrorInfo, NewJob, new_job
from taskforge.domain.outcome import ToRetry, Transition
from taskforge.domain.queue import QueueSettings
from taskforge.ports.engine import Engine

CALLERS = 64
DRAIN = {
    "postgres": Target(rate_at_least=60_000, ratio_at_least=0.8),
    "sqlite": Target(rate_at_least=80_000, ratio_at_least=0.6),
}
SINGLES = {"postgres": Target(rate_at_least=12_000), "sqlite": Target(rate_at_least=25_000)}
MIXED = Target(ratio_at_least=0.6)
UNHANDLED = Target(ratio_at_least=0.9)

QUEUES = tuple(f"mixed-{number}" for number in range(5))
TYPES = tuple(f"kind-{number}" for number in range(20))
# A quarter of a batch: with a fifth of all jobs in that queue and two claims in flight, it binds.
LIMITED = QueueSettings(max_concurrent_jobs=load.BATCH // 4)
_AGAIN = ToRetry(0.1, ErrorInfo("ValueError", "no such customer"))


async def beside_the_floor(ground: Ground, sizes: Sizes, report: Report) -> None:
    async with ground.floor() as floor, ground.site() as site:
        jobs = load.plain_jobs()
        bulk = await in_turns(
            sizes.rounds,
            lambda: floor.bulk(sizes.bulk, load.BATCH),
            lambda: load.fill(site.engine, sizes.bulk, jobs),
        )
        report.pairs(ground.name, "bulk insert, batches of 1,000", "raw floor", bulk)
        single = await in_turns(
            sizes.rounds,
            lambda: floor.singles(sizes.singles, CALLERS),
            lambda: load.singles(site.engine, sizes.singles, CALLERS),
        )
        report.pairs(
            ground.name,
            f"single inserts, {CALLERS} callers",
            "raw floor",
            single,
            SINGLES[ground.name],
        )
    # A store of its own: what the inserts left behind would be drained with the rest.
    async with ground.floor() as floor, ground.site() as site:
        for limit in (100, 1_000):
            raw = partial(floor_drain, floor, sizes.drain, limit, ground)
            pairs = await in_turns(
                sizes.rounds, raw, partial(plain, site, sizes.drain, limit, ground)
            )
            target = DRAIN[ground.name] if limit == 1_000 else None
            report.pairs(
                ground.name, f"claim + finish, batches of {limit:,}", "raw floor", pairs, target
            )


async def floor_drain(floor: Floor, count: int, limit: int, ground: Ground) -> float:
    await ground.analyse()
    return await floor.drain(count, limit)


async def plain(site: Site, count: int, limit: int, ground: Ground) -> float:
    await ground.analyse()
    await load.fill(site.engine, count, load.plain_jobs())
    return (await site.drain(count, limit, ground.loops)).rate


# --- Mixed ----------------------------------------------------------------------------------------


def mixed_jobs(types: tuple[str, ...]) -> list[NewJob]:
    text = "x" * 1_000
    return [
        new_job(
            QUEUES[number % len(QUEUES)],
            types[number % len(types)],
            {"number": number, "text": text},
        )
        for number in range(load.BATCH)
    ]


class OneInTwentyFails:
    """At its first attempt; the second one succeeds."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, job: Claimed) -> Transition:
        if job.attempt > 1 or (job.fence.int >> 24) % 20:
            return load.success(job)
        self.failed += 1
        return _AGAIN


async def mixed(ground: Ground, sizes: Sizes, report: Report) -> None:
    async with ground.site() as easy, ground.site() as hard:
        for name in QUEUES:
            await load.make_queue(hard.engine, name, LIMITED if name == QUEUES[-1] else None)
        hard.incarnation = await load.make_worker(hard.engine, TYPES)
        await load.fill(
            hard.engine,
            sizes.mixed_head,
            mixed_jobs(tuple(f"nobodys-{number}" for number in range(5))),
        )

        async def ours() -> float:
            await ground.analyse()
            await load.fill(hard.engine, sizes.mixed, mixed_jobs(TYPES))
            staging = asyncio.create_task(stage(hard.engine))
            verdict = OneInTwentyFails()
            try:
                drain = load.Drain(
                    hard.engine, hard.incarnation, load.BATCH, enough=sizes.mixed, verdict=verdict
                )
                await drain.run(ground.loops)
                # The retries that are still to come are not timed: the rate would be that of
                # waiting for them.
                rest = sizes.mixed + verdict.failed - drain.done
                await load.Drain(hard.engine, hard.incarnation, load.BATCH, enough=rest).run(
                    ground.loops
                )
            finally:
                staging.cancel()
            return drain.rate

        pairs = await in_turns(
            sizes.rounds, lambda: plain(easy, sizes.mixed, load.BATCH, ground), ours
        )
        report.pairs(ground.name, "mixed load, batches of 1,000", "plain", pairs, MIXED)


async def stage(engine: Engine) -> None:
    while True:
        await engine.stage(load.BATCH)
        await asyncio.sleep(0.05)


# --- A head that nobody takes ---------------------------------------------------------------------


async def unhandled(ground: Ground, sizes: Sizes, report: Report) -> None:
    async with AsyncExitStack() as stack:
        without, behind = [await stack.enter_async_context(ground.site()) for _ in range(2)]
        await load.fill(behind.engine, sizes.unhandled, load.plain_jobs(job_type="nobodys"))
        claims: dict[Site, list[float]] = {without: [], behind: []}

        async def rate(site: Site) -> float:
            await ground.analyse()
            await load.fill(site.engine, sizes.unhandled_drain, load.plain_jobs())
            drain = await load.Drain(
                site.engine, site.incarnation, 100, enough=sizes.unhandled_drain
            ).run(1)
            claims[site] += drain.claims
            return drain.rate

        # Twice as many rounds, half as long: two rates this close are told apart only side by side.
        pairs = await in_turns(2 * sizes.rounds, lambda: rate(without), lambda: rate(behind))
        head = f"behind {sizes.unhandled:,} unhandled"
        report.pairs(ground.name, f"{head}: claim + finish of 100", "none there", pairs, UNHANDLED)
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            base, ours = (percentile(claims[site], share) * 1_000 for site in (without, behind))
            what = f"{head}: claim of 100, {name}"
            report.add(
                Row(
                    engine=ground.name,
                    what=what,
                    against="none there",
                    base=base,
                    ours=ours,
                    ratio=ours / base,
                    unit="ms",
                )
            )
