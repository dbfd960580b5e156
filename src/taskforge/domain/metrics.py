"""What operators ask of the past: a period, and how the executions of it went."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.rollup import (
    MINUTES,
    Cell,
    Gauge,
    Grain,
    SpreadFigures,
    first_kept,
    minute_at,
    summed_up,
)

MOST_POINTS = 1_000
DEFAULT_SECONDS = 3_600.0
MOST_SECONDS = 400 * 86_400.0
# What a store's column holds, with room for a step behind it: in the year 6051.
MOST_MINUTE = 2**31 - 1_000_000


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Whose executions are meant: with nothing named, those of the whole project."""

    queue: UUID | None = None
    job_type: str | None = None
    worker: UUID | None = None  # the identity


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """From `since` to `until`, else the last so many seconds; with a step, also as a series of
    points so many seconds apart."""

    since: datetime | None = None
    until: datetime | None = None
    last_seconds: float = DEFAULT_SECONDS
    step_seconds: float | None = None


def check_subject(subject: Subject) -> None:
    if subject.job_type is None:
        return
    rules.text("job_type", subject.job_type, most=100)
    for name in ("queue", "worker"):
        if getattr(subject, name) is not None:
            raise Invalid(
                name,
                "is given together with a job type",
                "ask for one of them: job types are counted for the whole project",
            )


class Coverage(msgspec.Struct, frozen=True):
    """What an answer covers, in minutes since 1970: whole minutes, or whole hours or days where the
    period lies so far back that nothing finer is kept. Without a step there is no series."""

    since: int
    until: int
    step: int | None
    coarsest: Grain

    def ranges(self, due: Collection[tuple[int, int]]) -> Iterator[tuple[Grain, int, int]]:
        """Which cells make it up, each minute once: days and hours as far as they fit and are
        summed up (not `due`), else what is finer."""
        yield from _cover(self.since, self.until, self.coarsest, due)


def _cover(
    since: int, until: int, step: Grain, due: Collection[tuple[int, int]]
) -> Iterator[tuple[Grain, int, int]]:
    if since >= until:
        return
    if step is Grain.MINUTE:
        yield step, since, until
        return
    width, finer = MINUTES[step], Grain(step - 1)
    first, last = -(-since // width) * width, until // width * width
    if first >= last:
        yield from _cover(since, until, finer, due)
        return
    yield from _cover(since, first, finer, due)
    at = first
    for start in sorted(start for of, start in due if of == step and first <= start < last):
        if at < start:
            yield step, at, start
        yield from _cover(start, start + width, finer, due)
        at = start + width
    if at < last:
        yield step, at, last
    yield from _cover(last, until, finer, due)


def cover(period: Period, now: datetime, *, is_pair: bool) -> Coverage:
    """What of a period can be told, as fine as it is kept."""
    rules.number("last_seconds", period.last_seconds, 60, MOST_SECONDS)
    until = period.until or now
    rules.moment("until", until)
    since = period.since or until - timedelta(seconds=period.last_seconds)
    rules.moment("since", since)
    if since >= until:
        raise Invalid("since", "is not before until", "name an earlier time")
    kept = first_kept(now, is_pair=is_pair)
    first = minute_at(since)
    # The minute that is under way belongs to a period that ends now.
    last = minute_at(now) + 1 if period.until is None else -(-int(until.timestamp()) // 60)
    first, last = max(first, kept[Grain.DAY]), max(last, kept[Grain.DAY] + 1)
    first, last = min(first, MOST_MINUTE), min(last, MOST_MINUTE + 1)
    finest = Grain.MINUTE
    if first < kept[Grain.MINUTE]:
        finest = Grain.HOUR if first >= kept[Grain.HOUR] else Grain.DAY
    width, coarsest = MINUTES[finest], Grain.DAY
    step = None
    if period.step_seconds is not None:
        rules.number("step_seconds", period.step_seconds, 60, MOST_SECONDS)
        width = step = -(-int(period.step_seconds) // (60 * width)) * width
        coarsest = max(one for one in Grain if step % MINUTES[one] == 0)
        if (last - first) // step > MOST_POINTS:
            least = -(-(last - first) // MOST_POINTS) * 60
            raise Invalid(
                "step_seconds",
                f"makes {(last - first) // step:,} points, and {MOST_POINTS:,} are the most",
                f"use {least:,} or more, or a shorter period",
            )
    return Coverage(first // width * width, -(-last // width) * width, step, coarsest)


class GaugeFigures(msgspec.Struct, frozen=True):
    """Of looks once a minute; None where nothing was seen."""

    avg: float | None = None
    max: float | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How executions went. Durations are those of executions that succeeded, waits those of all."""

    executions: int
    succeeded: int
    failed: int  # the next three together
    failed_for_good: int
    retry_scheduled: int
    dead_letter: int
    cancelled: int  # also those that were handed back, skipped or snoozed
    success_rate: float  # in percent, of those that succeeded or failed
    arrived: int  # jobs that were enqueued, up to two minutes ago; not told of workers
    throughput_per_minute: float  # executions
    duration_ms: SpreadFigures
    wait_ms: SpreadFigures
    # looked at once a minute: the most jobs that waited in one queue, and for how long the first
    max_pending: int
    oldest_pending_seconds: float
    cpu_percent: GaugeFigures  # of workers; 100 is one core
    memory_bytes: GaugeFigures


class Point(msgspec.Struct, frozen=True):
    at: datetime
    figures: Figures


class Metrics(msgspec.Struct, frozen=True):
    """What was asked for, over what `since` and `until` cover."""

    since: datetime
    until: datetime
    step_seconds: int | None
    totals: Figures
    series: list[Point]


def figures_of(cell: Cell, minutes: float) -> Figures:
    succeeded = cell.ended(ExecutionStatus.SUCCEEDED)
    for_good = cell.ended(ExecutionStatus.FAILED)
    retried = cell.ended(ExecutionStatus.RETRY_SCHEDULED)
    buried = cell.ended(ExecutionStatus.DEAD_LETTER)
    cancelled = cell.ended(ExecutionStatus.CANCELLED)
    failed = for_good + retried + buried
    executions = succeeded + failed + cancelled
    ran = succeeded + failed
    return Figures(
        executions=executions,
        succeeded=succeeded,
        failed=failed,
        failed_for_good=for_good,
        retry_scheduled=retried,
        dead_letter=buried,
        cancelled=cancelled,
        success_rate=round(100 * succeeded / ran, 3) if ran else 100.0,
        arrived=cell.arrived,
        throughput_per_minute=round(executions / minutes, 3) if minutes > 0 else 0.0,
        duration_ms=cell.durations.figures(),
        wait_ms=cell.waits.figures(),
        max_pending=int(cell.gauges.get(Gauge.PENDING, (0, 0.0, 0.0))[2]),
        oldest_pending_seconds=cell.gauges.get(Gauge.OLDEST_SECONDS, (0, 0.0, 0.0))[2],
        cpu_percent=_gauge(cell, Gauge.CPU_PERCENT),
        memory_bytes=_gauge(cell, Gauge.MEMORY_BYTES),
    )


def _gauge(cell: Cell, gauge: Gauge) -> GaugeFigures:
    seen = cell.gauges.get(gauge)
    if seen is None:
        return GaugeFigures()
    looks, total, most = seen
    return GaugeFigures(round(total / looks, 2), round(most, 2))


def measure(coverage: Coverage, cells: Iterable[tuple[int, Cell]], now: datetime) -> Metrics:
    """From the cells of a period, each with its start. A point that is under way, and a total of
    it, is measured by the time that has passed."""
    step = coverage.step
    slots: dict[int, Cell] = {}
    for start, cell in cells:
        at = coverage.since if step is None else start - (start - coverage.since) % step
        slots.setdefault(at, Cell()).merge(cell)
    this = now.timestamp() / 60

    def figures(cell: Cell, since: int, until: int) -> Figures:
        return figures_of(cell, min(until, max(this, since + 1)) - since)

    series = []
    if step is not None:
        series = [
            Point(moment_at(at), figures(slots.get(at, _NOTHING), at, at + step))
            for at in range(coverage.since, coverage.until, step)
        ]
    totals = figures(summed_up(slots.values()), coverage.since, coverage.until)
    since, until = moment_at(coverage.since), moment_at(coverage.until)
    return Metrics(since, until, None if step is None else step * 60, totals, series)


_NOTHING = Cell()


def moment_at(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


class NamedMetrics(msgspec.Struct, frozen=True):
    """One queue, job type or worker among others."""

    name: str
    metrics: Metrics
    id: UUID | None = None  # of a queue or a worker
    project: int = 0


Cells = Mapping[int, list[tuple[int, Cell]]]
"""By scope: starts and cells."""
