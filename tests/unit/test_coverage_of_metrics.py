"""Which cells answer for a period: each minute once, as coarse as it may be."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.metrics import Period, Subject, check_subject, cover, measure
from taskforge.domain.rollup import MINUTES, Cell, Grain

NOW = datetime(2026, 5, 20, 10, 42, 13, tzinfo=UTC)
THIS = int(NOW.timestamp()) // 60
DUE = {(Grain.HOUR, THIS - 42), (Grain.DAY, THIS - THIS % 1_440)}


def minutes_of(ranges: list[tuple[Grain, int, int]]) -> list[int]:
    return [minute for _, since, until in ranges for minute in range(since, until)]


@pytest.mark.parametrize("seconds", [60, 3_600, 7_000, 86_400, 30 * 86_400, 399 * 86_400])
@pytest.mark.parametrize("step", [None, 60, 300, 3_600, 5_400, 86_400])
def test_each_minute_is_read_once(seconds: int, step: int | None) -> None:
    try:
        coverage = cover(Period(last_seconds=seconds, step_seconds=step), NOW, is_pair=False)
    except Invalid:
        assert step is not None
        assert seconds / step > 1_000
        return
    ranges = list(coverage.ranges(DUE))
    assert minutes_of(ranges) == list(range(coverage.since, coverage.until))
    assert coverage.since <= THIS - seconds // 60
    assert coverage.until >= THIS
    for of, since, until in ranges:
        assert since % MINUTES[of] == until % MINUTES[of] == 0
        assert coverage.step is None or coverage.step % MINUTES[of] == 0
        if of is not Grain.MINUTE:
            assert not any(of == due and since <= start < until for due, start in DUE)
    if step is None:  # what is read does not grow with the period
        assert sum((until - since) // MINUTES[of] for of, since, until in ranges) < 600


def test_a_period_long_ago_is_told_by_the_hour_and_by_the_day() -> None:
    def covered(days: float) -> int:
        start = NOW - timedelta(days=days)
        period = Period(since=start, until=start + timedelta(hours=1), step_seconds=60)
        coverage = cover(period, NOW, is_pair=False)
        assert coverage.step is not None
        return coverage.step

    assert (covered(1), covered(3), covered(100)) == (1, 60, 1_440)


def test_periods_that_make_no_sense_are_refused() -> None:
    for period, field in (
        (Period(since=NOW, until=NOW), "since"),
        (Period(last_seconds=5), "last_seconds"),
        (Period(last_seconds=500 * 86_400.0), "last_seconds"),
        (Period(last_seconds=86_400.0, step_seconds=1), "step_seconds"),
        (Period(last_seconds=86_400.0, step_seconds=60), "step_seconds"),
    ):
        with pytest.raises(Invalid) as refused:
            cover(period, NOW, is_pair=False)
        assert refused.value.field == field
    with pytest.raises(Invalid, match="job type"):
        check_subject(Subject(job_type="mail", worker=UUID(int=1)))


def test_nothing_ran_is_a_success_rate_of_a_hundred() -> None:
    coverage = cover(Period(last_seconds=600, step_seconds=300), NOW, is_pair=False)
    metrics = measure(coverage, [(coverage.since, Cell())], NOW)
    assert metrics.totals.success_rate == 100.0
    assert metrics.totals.duration_ms.p99 is None
    assert [point.figures.executions for point in metrics.series] == [0, 0, 0]
