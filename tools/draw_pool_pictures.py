"""Draws the pictures of docs/guides/pool.md: `python -m tools.draw_pool_pictures`. Each comes from
a run of the real thing, in virtual time, so that it looks the same on every machine."""

import asyncio
import itertools
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from taskforge.domain.balancer import Contender, sticky
from taskforge.domain.limiter import Bucket
from taskforge.pool import Adaptive, FixedRate, LeakyBucket, RateLimiter, TokenBucket, WorkerPool
from tests.support.virtual_time import run
from tools.svg import BLUE, COLORS, GREY, INK, RED, SOFT, Canvas, Plot

FOLDER = Path(__file__).parents[1] / "docs" / "guides" / "pictures"
WIDTH, HEIGHT = 720, 260
SECONDS = 28


# --- Limiters: rate over time ---


async def served(bucket: Bucket) -> tuple[list[float], list[float]]:
    """When jobs came, and when they were let through, by a worker that looks twenty times a second
    but is away for two seconds."""
    loop = asyncio.get_running_loop()
    limiter = RateLimiter(bucket, clock=loop.time)
    came = sorted([index / 20 for index in range(120)] + [18.0] * 60)
    started: list[float] = []
    waiting = 0
    arrivals = list(came)
    while loop.time() < SECONDS:
        while arrivals and arrivals[0] <= loop.time():
            arrivals.pop(0)
            waiting += 1
        away = 8.0 <= loop.time() + 1e-6 < 10.0
        while waiting and not away and limiter.try_acquire():
            waiting -= 1
            started.append(loop.time())
        await asyncio.sleep(0.05)
    return came, started


def limiter_picture(bucket: Bucket, title: str, words: str) -> str:
    came, started = run(served(bucket))
    canvas = Canvas(WIDTH, HEIGHT, title)
    canvas.text(24, 48, words, color=SOFT)
    plot = Plot(canvas, (56, 86, 696, 214), SECONDS, 34)
    canvas.bar(
        plot.x(8), plot.top, plot.x(10) - plot.x(8), plot.bottom - plot.top, GREY, opacity=0.25
    )
    plot.scales(4, 10, "seconds", "starts in a second")
    # Moments are sums of small steps: one that falls short of its second by rounding belongs to it
    # all the same.
    came_in, started_in = (
        Counter(int(moment + 1e-6) for moment in moments) for moments in (came, started)
    )
    for second in range(SECONDS):
        left, width = plot.x(second), plot.x(1) - plot.x(0) - 2
        for count, color, opacity in (
            (came_in[second], GREY, 0.6),
            (started_in[second], BLUE, 1.0),
        ):
            if count:
                canvas.bar(
                    left, plot.y(count), width, plot.bottom - plot.y(count), color, opacity=opacity
                )
    canvas.line(
        [(plot.left, plot.y(bucket.rate)), (plot.right, plot.y(bucket.rate))],
        RED,
        width=1.4,
        dash="5 4",
    )
    canvas.text(plot.right, plot.y(bucket.rate) - 5, "the rate", color=RED, anchor="end")
    for moment, what in ((9, "nobody asks"), (16, "nothing waits"), (20, "60 at once")):
        canvas.text(plot.x(moment), plot.top - 10, what, color=SOFT, anchor="middle")
    _legend(canvas, [(GREY, "jobs that came"), (BLUE, "jobs that started")])
    return canvas.whole()


async def guarded() -> tuple[list[float], list[tuple[float, float]], list[float]]:
    """A pool in front of a service that for a while takes only 20 calls a second: starts, learned
    rates, failures."""
    loop = asyncio.get_running_loop()
    limiter = RateLimiter(Adaptive(50.0, 5.0), clock=loop.time)
    starts: list[float] = []
    failures: list[float] = []
    rates: list[tuple[float, float]] = []

    async def call(_: int) -> None:
        starts.append(loop.time())
        rates.append((loop.time(), limiter.rate))
        recent = sum(1 for moment in starts[-60:] if moment > loop.time() - 1)
        await asyncio.sleep(0.1)
        if 15 <= loop.time() < 40 and recent > 20:
            failures.append(loop.time())
            raise ConnectionError

    async with WorkerPool(20, limiter=limiter) as pool:
        async for _ in pool.map(call, itertools.count(), return_exceptions=True):
            if loop.time() >= 60:
                break
    return starts, rates, failures


def adaptive_picture() -> str:
    starts, rates, failures = run(guarded())
    canvas = Canvas(WIDTH, HEIGHT, "Adaptive")
    canvas.text(
        24,
        48,
        "The rate halves when more than a tenth fails, and climbs by a twentieth a second while "
        "things go well.",
        color=SOFT,
    )
    plot = Plot(canvas, (56, 86, 696, 214), 60, 60)
    canvas.bar(
        plot.x(15), plot.top, plot.x(40) - plot.x(15), plot.bottom - plot.top, GREY, opacity=0.25
    )
    plot.scales(10, 20, "seconds", "starts in a second")
    began, failed = Counter(map(int, starts)), Counter(map(int, failures))
    for second in range(60):
        width = plot.x(1) - plot.x(0) - 2
        canvas.bar(
            plot.x(second), plot.y(began[second]), width, plot.bottom - plot.y(began[second]), BLUE
        )
        if failed[second]:
            canvas.bar(
                plot.x(second),
                plot.y(failed[second]),
                width,
                plot.bottom - plot.y(failed[second]),
                RED,
            )
    canvas.line([(plot.x(15), plot.y(20)), (plot.x(40), plot.y(20))], INK, width=1.4, dash="5 4")
    canvas.text(
        plot.x(27.5), plot.top - 10, "the service takes 20 a second", color=SOFT, anchor="middle"
    )
    each = {int(moment * 4): (moment, rate) for moment, rate in rates}
    canvas.line(
        [(plot.x(moment), plot.y(rate)) for moment, rate in each.values()], "#edae49", width=2.2
    )
    _legend(canvas, [(BLUE, "calls"), (RED, "of them failed"), ("#edae49", "learned rate")])
    return canvas.whole()


# --- Balancers: share per worker ---

Job = Callable[[str, int], Awaitable[None]]


async def shared_out(
    jobs: int, job: Job, gap: float, **options: Any
) -> tuple[list[str], WorkerPool]:
    """Which worker each job went to, in the order they started."""
    went: list[str] = []
    async with WorkerPool(buffer=200, **options) as pool:

        async def run_one(index: int) -> None:
            mine = asyncio.current_task()
            name = next(worker.name for worker in pool.crew.workers if worker.task is mine)
            went.append(name)
            await job(name, index)

        for index in range(jobs):
            await pool.submit(run_one, index, key=f"customer {index % 12}")
            await asyncio.sleep(gap)
    return went, pool


def balancer_picture(
    title: str, words: str, jobs: int, job: Job, gap: float, note: str = "", **options: Any
) -> str:
    went, pool = run(shared_out(jobs, job, gap, **options))
    stats = pool.stats().workers
    canvas = Canvas(WIDTH, HEIGHT, title)
    canvas.text(24, 48, words, color=SOFT)
    _share_bars(
        canvas,
        [
            (worker.name, went.count(worker.name), f"{worker.busy_seconds:.0f} s busy")
            for worker in stats
        ],
    )
    rows = [worker.name for worker in stats]
    _dots(canvas, rows, [(index, name, name, False) for index, name in enumerate(went)], len(went))
    canvas.text(696, 240, note or "jobs, in the order they started →", color=SOFT, anchor="end")
    return canvas.whole()


async def second_each(_: str, __: int) -> None:
    await asyncio.sleep(1.0)


async def some_long(_: str, index: int) -> None:
    await asyncio.sleep(12.0 if index in (0, 1, 40) else 1.0)


async def one_slow(name: str, index: int) -> None:
    await asyncio.sleep(
        random.Random(index).uniform(0.8, 1.2)
        * (8.0 if name == "worker-2" and 40 <= index < 90 else 1.0)
    )


def sticky_picture() -> str:
    """Which worker each of 64 keys belongs to, and where the keys of one that leaves go."""
    workers = [f"worker-{index}" for index in range(4)]
    whole = [Contender(name) for name in workers]
    rest = [each for each in whole if each.name != "worker-2"]
    keys = [f"customer {index}" for index in range(64)]
    before = [str(sticky(key, whole)) for key in keys]
    after = [str(sticky(key, rest)) for key in keys]
    canvas = Canvas(WIDTH, HEIGHT, "Sticky")
    canvas.text(
        24,
        48,
        "The same key goes to the same worker. When worker-2 leaves, its keys go to the others; "
        "no other key moves.",
        color=SOFT,
    )
    _share_bars(
        canvas, [(name, before.count(name), f"then {after.count(name)}") for name in workers]
    )
    moves = list(enumerate(zip(before, after, strict=True)))
    left = [(index, old, old, True) for index, (old, new) in moves if old != new]
    _dots(
        canvas,
        workers,
        [*left, *[(index, new, old, False) for index, (old, new) in moves]],
        len(keys),
    )
    canvas.text(696, 240, "keys →", color=SOFT, anchor="end")
    return canvas.whole()


def _share_bars(canvas: Canvas, rows: list[tuple[str, int, str]]) -> None:
    most, step = max(count for _, count, _ in rows), 150 / len(rows)
    for index, (name, count, words) in enumerate(rows):
        middle = 80 + step * (index + 0.5)
        canvas.text(24, middle + 4, name, color=INK)
        canvas.bar(88, middle - 8, max(2.0, 72 * count / most), 16, COLORS[index % len(COLORS)])
        canvas.text(94 + max(2.0, 72 * count / most), middle, str(count), weight=600)
        canvas.text(94 + max(2.0, 72 * count / most), middle + 12, words, size=9, color=SOFT)


def _dots(
    canvas: Canvas, names: list[str], dots: list[tuple[int, str, str, bool]], count: int
) -> None:
    """Dots are (place in the row, worker, worker whose color it has, whether it is hollow)."""
    left, right, step = 262.0, 692.0, 150 / len(names)
    radius = min(4.0, max(2.2, (right - left) / count / 2))
    for index in range(len(names)):
        canvas.line(
            [(left - 8, 80 + step * (index + 0.5)), (right + 4, 80 + step * (index + 0.5))],
            "#e4e7eb",
        )
    for position, name, painted, hollow in dots:
        x, y = (
            left + (right - left) * (position + 0.5) / count,
            80 + step * (names.index(name) + 0.5),
        )
        canvas.dot(
            x, y, COLORS[names.index(painted) % len(COLORS)], radius=round(radius, 1), hollow=hollow
        )


def _legend(canvas: Canvas, entries: list[tuple[str, str]]) -> None:
    x = 56.0
    for color, words in entries:
        canvas.bar(x, 237, 10, 10, color)
        canvas.text(x + 15, 246, words, color=SOFT)
        x += 30 + 6.2 * len(words)


PICTURES: dict[str, Callable[[], str]] = {
    "fixed-rate": lambda: limiter_picture(
        FixedRate(10.0), "Fixed rate", "Starts are always a tenth of a second apart. Time that "
            "nobody used is lost."
    ),
    "token-bucket": lambda: limiter_picture(
        TokenBucket(10.0, 20.0), "Token bucket",
        "Unused time gathers, up to a burst of 20: before the start, while nobody asks or "
            "nothing waits."
    ),
    "leaky-bucket": lambda: limiter_picture(
        LeakyBucket(10.0, 20.0), "Leaky bucket",
        "Steady, and no burst after quiet; but what was missed while jobs waited is made up for."
    ),
    "adaptive": adaptive_picture,
    "round-robin": lambda: balancer_picture(
        "Round robin", "One after the other, whatever "
            "they do.", 48, second_each, 0.25, size=4, distribution="round_robin"
    ),
    "weighted": lambda: balancer_picture(
        "Weighted", "Shares of 5 : 3 : 1 : 1, and nobody is ever a whole job ahead of its share "
            "or behind it.",
        40, second_each, 1.0, size=4, distribution="weighted", weights=[5, 3, 1, 1],
    ),
    "least-load": lambda: balancer_picture(
        "Least load", "Three jobs of 12 seconds among those of one: whoever has one gets few "
            "others meanwhile.",
        64, some_long, 0.3, size=4, distribution="least_load",
    ),
    "balance-adaptive": lambda: balancer_picture(
        "Adaptive", "Worker-2 takes eight times as long for a while. It is avoided, looked at now "
            "and then, and trusted again.",
        200, one_slow, 0.3, size=4, distribution="adaptive",
    ),
    "sticky": sticky_picture,
}  # fmt: skip


def main(folder: Path = FOLDER) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw())
        print(
            f"{folder / name}.svg: "
            f"{(folder / name).with_suffix('.svg').stat().st_size / 1024:.1f} KiB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
