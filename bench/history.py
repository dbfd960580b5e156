"""What calls cost with millions of finished jobs behind them, against the same calls on a store
without."""

import statistics
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

from bench import load
from bench.grounds import Ground, Site
from bench.report import Pairs, Report, Target
from bench.sizes import Sizes
from taskforge.domain.changes import Changed, RetryJob
from taskforge.domain.job import Claimed, ErrorInfo, Inserted, JobStatus
from taskforge.domain.outcome import ToFailed, Transition
from taskforge.domain.query import JobFilter, Page

LIMIT = 500
CALLS = 20
HISTORY_DAYS = (6.9, 0.1)
AS_BEFORE, NEARLY = Target(ratio_at_most=1.1), Target(ratio_at_most=1.5)
TARGETS = {
    "claim": AS_BEFORE,
    "finish": AS_BEFORE,
    "retry": NEARLY,
    "list of failed": NEARLY,
    "stats": NEARLY,
}
_FAILED = JobFilter(queues=(load.QUEUE,), statuses=(JobStatus.FAILED,))
_FAIL = ToFailed(ErrorInfo("ValueError", "no such customer"), "no attempts left")


async def behind_history(ground: Ground, sizes: Sizes, report: Report) -> None:
    async with ground.site() as empty, ground.site() as full:
        # Both have something to list and to retry.
        recent = await some_fail(empty)
        await some_fail(full)
        started = time.monotonic()
        old = await full.add_history(sizes.history, *HISTORY_DAYS)
        report.say(
            f"{ground.name}: wrote {sizes.history:,} finished jobs in "
            f"{time.monotonic() - started:.1f} s"
        )
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in TARGETS}
        for _ in range(sizes.rounds):
            await ground.analyse()
            without = await costs_of(empty, sizes.history_drain, recent)
            behind = await costs_of(full, sizes.history_drain, old)
            for name, pairs in costs.items():
                pairs.append((without[name], behind[name]))
    for name, pairs in costs.items():
        what = f"behind {sizes.history:,} finished: {name}"
        report.pairs(ground.name, what, "none there", Pairs(tuple(pairs)), TARGETS[name], "ms")


async def some_fail(site: Site) -> list[UUID]:
    def fail(_: Claimed) -> Transition:
        return _FAIL

    answers = await site.engine.insert(load.PROJECT, load.plain_jobs())
    await load.Drain(
        site.engine, site.incarnation, load.BATCH, enough=load.BATCH, verdict=fail
    ).run(1)
    return [answer.job for answer in answers if isinstance(answer, Inserted)]


async def costs_of(site: Site, count: int, failed: list[UUID]) -> dict[str, float]:
    """Milliseconds of each call in the median; takes the jobs it retries from `failed`."""
    engine = site.engine
    await load.fill(engine, count, load.plain_jobs())
    drain = await load.Drain(engine, site.incarnation, LIMIT, enough=count).run(1)
    while await engine.fold(10_000):
        pass

    async def retry() -> None:
        [answer] = await engine.change([load.PROJECT], [failed.pop()], RetryJob())
        assert isinstance(answer, Changed), answer

    costs = {
        "claim": statistics.median(drain.claims) * 1_000,
        "finish": statistics.median(drain.finishes) * 1_000,
        "retry": await median_ms(retry),
        "list of failed": await median_ms(
            lambda: engine.list_jobs([load.PROJECT], _FAILED, Page(limit=50))
        ),
        "stats": await median_ms(lambda: engine.stats([load.PROJECT])),
    }
    # What was retried goes through once more, so that the next round finds the lanes empty.
    await load.Drain(engine, site.incarnation, LIMIT, enough=CALLS).run(1)
    return costs


async def median_ms(call: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(CALLS):
        started = time.perf_counter()
        await call()
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1_000
