"""PostgreSQL while an idle transaction somewhere holds a snapshot: nothing that is deleted can be
cleaned away.

Minutes pass between before and after, in which the machine may become slower or faster by itself.
So each slice of load is set between short ones on a control database of the same server, whose dead
rows the snapshot does not keep, and only the ratio of the two is compared.
"""

import asyncio
import statistics
import time

import asyncpg
import msgspec

from bench import load
from bench.grounds import PostgresGround, Site
from bench.report import Report, Row, Target
from bench.sizes import Sizes

LIMIT = 500
BACKLOG = 5_000
HELD, RELEASED = Target(ratio_at_least=0.7), Target(ratio_at_least=0.95)
CONTROL = "control"


class Slice(msgspec.Struct, frozen=True):
    rate: float
    control: float

    @property
    def ratio(self) -> float:
        return self.rate / self.control


class Course:
    def __init__(self, held: Site, control: Site, sizes: Sizes, report: Report) -> None:
        self._held, self._control, self._sizes, self._report = held, control, sizes, report
        self._last: float | None = None

    async def slice(self, note: str, seconds: float) -> Slice:
        """Between two controls, of which the first is the last slice's second."""
        before = self._last or await self._load(self._control, self._sizes.control_seconds)
        rate = await self._load(self._held, seconds)
        self._last = await self._load(self._control, self._sizes.control_seconds)
        made = Slice(rate, (before + self._last) / 2)
        self._report.say(
            f"postgres: {note}: {made.rate:,.0f}/s, control {made.control:,.0f}/s, {made.ratio:.2f}"
        )
        return made

    async def slices(self, note: str, seconds: float) -> list[Slice]:
        """At least two; the time of the control does not count."""
        count = max(2, round(seconds / self._sizes.slice_seconds))
        return [await self.slice(note, seconds / count) for _ in range(count)]

    async def _load(self, site: Site, seconds: float) -> float:
        """Each claim is preceded by an insert of as many, so the backlog stays."""
        drain = load.Drain(
            site.engine,
            site.incarnation,
            LIMIT,
            until=time.perf_counter() + seconds,
            refill=load.plain_jobs(LIMIT),
        )
        return (await drain.run(PostgresGround.loops)).rate


async def held_snapshot(ground: PostgresGround, sizes: Sizes, report: Report) -> None:
    await ground.execute(f"create database {CONTROL}")
    async with ground.site() as held, ground.site(CONTROL) as control:
        for site in (held, control):
            await load.fill(site.engine, BACKLOG, load.plain_jobs())
        await ground.analyse()
        await ground.execute("analyze", CONTROL)
        course = Course(held, control, sizes, report)
        before = await course.slices("before", sizes.before_seconds)
        usual = statistics.median(one.ratio for one in before)
        holder = await asyncpg.connect(ground.server.url())
        try:
            await holder.execute(
                "begin isolation level repeatable read; select count(*) from pg_class"
            )
            under = await course.slices("snapshot held", sizes.held_seconds)
        finally:
            await holder.close()
        # The last third: the longer it is held, the more lies in the way.
        _add(
            report,
            f"snapshot held {sizes.held_seconds:.0f} s",
            before,
            under[-max(1, len(under) // 3) :],
            usual,
            HELD,
        )
        after = await recover(course, usual, sizes)
        _add(
            report,
            f"within {sizes.release_seconds:.0f} s of its release",
            before,
            after,
            usual,
            RELEASED,
        )


async def recover(course: Course, usual: float, sizes: Sizes) -> list[Slice]:
    """The best slice after the release, found at the latest when the time is over."""
    give_up = time.monotonic() + sizes.release_seconds
    seconds = min(sizes.slice_seconds, sizes.release_seconds / 4)
    best = await course.slice("released", seconds)
    while best.ratio / usual < (RELEASED.ratio_at_least or 1) and time.monotonic() < give_up:
        await asyncio.sleep(0)
        best = max(best, await course.slice("released", seconds), key=lambda one: one.ratio)
    return [best]


def _add(
    report: Report, what: str, before: list[Slice], now: list[Slice], usual: float, target: Target
) -> None:
    report.add(
        Row(
            engine="postgres",
            what=f"insert + claim + finish, {what}",
            against="before, by control",
            base=statistics.median(one.rate for one in before),
            ours=statistics.median(one.rate for one in now),
            ratio=statistics.median(one.ratio for one in now) / usual,
            target=target,
            pairs=tuple((one.control, one.rate) for one in now),
        )
    )
