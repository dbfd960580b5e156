"""Scaling: what a policy makes of what was seen, and of a whole trace in virtual time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.scaling import (
    AskedWorkers,
    ScalingAction,
    ScalingPolicy,
    ScalingSight,
    check_policy,
    evaluate,
)
from taskforge.domain.scaling_trace import ScalingTrace, TracedJobs, check_trace, simulate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = ScalingPolicy(max_workers=6, scale_up_threshold=10, scale_down_threshold=5)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def advice(policy: ScalingPolicy = POLICY, **seen: Any) -> tuple[ScalingAction, int]:
    given = {"pending": 0, "processing": 0, "workers": 0} | seen
    found = evaluate(policy, ScalingSight(**given), NOW)
    assert found.reason
    return found.action, found.count


UP, DOWN, HOLD = ScalingAction.UP, ScalingAction.DOWN, (ScalingAction.HOLD, 0)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, HOLD),
        # from zero on the first job, whatever threshold and cooldown say
        ({"pending": 1, "last_up": ago(1)}, (UP, 1)),
        # by length alone, and by the measured rate: 240 jobs, 1 a second, 60 s
        ({"pending": 500, "workers": 1}, (UP, 4)),
        ({"pending": 240, "workers": 1, "jobs_per_second": 1.0}, (UP, 3)),
        ({"pending": 10, "workers": 1, "jobs_per_second": 0.01}, HOLD),
        ({"pending": 11, "workers": 1, "jobs_per_second": 0.01}, (UP, 5)),
        # what arrives is counted too: 2 a second at 80 % of 1 a second each are 2.5, and 0.25
        ({"pending": 15, "workers": 1, "jobs_per_second": 1.0, "arrivals_per_second": 2}, (UP, 2)),
        # busy slots: 2 workers of 10 slots, all busy, at 80 %
        ({"processing": 20, "workers": 2, "busy_slots": 20, "slots": 20}, (UP, 1)),
        ({"pending": 500, "workers": 1, "last_up": ago(29)}, HOLD),
        ({"pending": 500, "workers": 1, "last_up": ago(30)}, (UP, 4)),
        # on the way, and missing
        ({"pending": 500, "workers": 1, "asked": (AskedWorkers(4, ago(119)),)}, HOLD),
        ({"pending": 500, "workers": 1, "asked": (AskedWorkers(4, ago(120)),)}, (UP, 4)),
        # fewer: all but one while a job is there, to zero when none is
        ({"processing": 4, "workers": 3}, (DOWN, 2)),
        ({"workers": 3}, (DOWN, 3)),
        ({"processing": 5, "workers": 3}, HOLD),
        ({"workers": 3, "last_up": ago(119)}, HOLD),
        ({"workers": 3, "last_down": ago(119)}, HOLD),
        ({"workers": 3, "asked": (AskedWorkers(1, ago(1)),)}, HOLD),
        ({"pending": 500, "workers": 8}, (DOWN, 2)),
    ],
)
def test_advice_follows_from_what_was_seen(seen: Any, expected: Any) -> None:
    assert advice(**seen) == expected


def test_fewer_than_the_least_are_made_up_for_at_once_and_never_undercut() -> None:
    policy = ScalingPolicy(min_workers=2, max_workers=6)
    assert advice(policy, last_up=ago(1)) == (UP, 2)
    assert advice(policy, workers=1, asked=(AskedWorkers(1, ago(1)),)) == HOLD
    assert advice(policy, workers=5) == (DOWN, 3)
    assert advice(policy, workers=2) == HOLD


def test_a_policy_of_no_workers_asks_for_none() -> None:
    policy = check_policy(ScalingPolicy(max_workers=0))
    assert advice(policy, pending=1_000) == HOLD
    assert advice(policy, pending=1_000, workers=2) == (DOWN, 2)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("min_workers", {"min_workers": 7}),
        ("min_workers", {"min_workers": -1}),
        ("max_workers", {"max_workers": 10_001}),
        ("target_queue_length", {"target_queue_length": 0}),
        ("target_utilization_percent", {"target_utilization_percent": 0}),
        ("target_utilization_percent", {"target_utilization_percent": 101}),
        ("drain_seconds", {"drain_seconds": 0}),
        ("scale_up_threshold", {"scale_up_threshold": 0}),
        ("scale_down_threshold", {"scale_down_threshold": 11}),
        ("scale_down_threshold", {"scale_down_threshold": 0}),
        ("scale_up_cooldown_seconds", {"scale_up_cooldown_seconds": -1}),
        ("scale_down_cooldown_seconds", {"scale_down_cooldown_seconds": -1}),
        ("missing_after_seconds", {"missing_after_seconds": 0}),
    ],
)
def test_a_wrong_policy_is_refused_by_the_name_of_its_field(field: str, wrong: Any) -> None:
    check_policy(POLICY)
    with pytest.raises(Invalid) as refused:
        check_policy(ScalingPolicy(**{"max_workers": 6} | wrong))
    assert refused.value.field == field


BURST = ScalingTrace(arrivals=(TracedJobs(at_seconds=7, jobs=5_000, job_seconds=0.05),))


def test_a_burst_goes_up_once_and_down_once() -> None:
    found = simulate(POLICY, BURST)
    assert (found.jobs, found.has_finished, found.most_workers) == (5_000, True, 6)
    assert found.direction_changes == 1
    # asked for at 10 s, there at 15 s: 8 s after the burst; then 250 s of work by six
    assert 8 + 250 / 6 <= found.done_seconds < 8.1 + 250 / 6
    assert found.wait_p50_seconds == pytest.approx(8 + 125 / 6, abs=0.2)
    assert found.worker_hours < 6 * 200 / 3600


def test_more_workers_wait_less_and_none_finish_nothing() -> None:
    few, none = (simulate(ScalingPolicy(max_workers=most), BURST) for most in (2, 0))
    assert few.wait_p95_seconds > 2 * simulate(POLICY, BURST).wait_p95_seconds
    assert (none.has_finished, none.most_workers, none.worker_hours) == (False, 0, 0.0)


def test_a_drained_worker_ends_its_long_job() -> None:
    long_and_short = ScalingTrace(
        arrivals=(
            TracedJobs(at_seconds=0, jobs=200, job_seconds=0.1),
            TracedJobs(at_seconds=0, jobs=3, job_seconds=400.0),
        )
    )
    found = simulate(POLICY, long_and_short)
    assert (found.has_finished, found.direction_changes) == (True, 1)
    assert found.done_seconds > 400


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("arrivals", {"arrivals": ()}),
        ("slots", {"slots": 0}),
        ("look_seconds", {"look_seconds": 0}),
        (
            "arrivals[0].jobs",
            {"arrivals": (TracedJobs(at_seconds=0, jobs=0, job_seconds=1),)},
        ),
    ],
)
def test_a_wrong_trace_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(Invalid) as refused:
        check_trace(ScalingTrace(**{"arrivals": BURST.arrivals} | wrong))
    assert refused.value.field == field
