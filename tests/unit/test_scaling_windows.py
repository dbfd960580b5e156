"""Windows of scaling policies: which bounds hold when, by which clock."""

from datetime import UTC, datetime

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.queue_scaling import read_scaling
from taskforge.domain.scaling import ScalingPolicy, check_policy
from taskforge.domain.scaling_windows import ScalingWindow

HOURS = ScalingWindow(cron="* 8-17 * * 1-5", zone="Europe/Berlin", min_workers=2)
LUNCH = ScalingWindow(cron="* 12 * * *", zone="Europe/Berlin", max_workers=1)


@pytest.mark.parametrize(
    ("moment", "bounds"),
    [
        ("2026-03-27T06:59:59", (0, 6)),  # Friday, winter time: an hour ahead of UTC
        ("2026-03-27T07:00:00", (2, 6)),
        ("2026-03-27T16:59:59", (2, 6)),
        ("2026-03-27T17:00:00", (0, 6)),
        ("2026-03-28T10:00:00", (0, 6)),  # Saturday
        ("2026-03-28T11:30:00", (0, 1)),
        ("2026-03-27T11:30:00", (2, 6)),  # the first that holds counts
        ("2026-03-30T06:00:00", (2, 6)),  # Monday, summer time
        ("2026-03-30T05:59:00", (0, 6)),
    ],
)
def test_the_first_window_that_holds_gives_the_bounds(moment: str, bounds: tuple[int, int]) -> None:
    policy = check_policy(ScalingPolicy(max_workers=6, windows=(HOURS, LUNCH)))
    now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    held = policy.at(now)
    assert (held.min_workers, held.max_workers) == bounds


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ("* 8 * * *", "is not a list"),
        ([{"cron": "@daily"}], "names moments"),
        ([{"cron": "0 * 8 * * *"}], "names moments"),
        ([{"cron": "* 8 * * *", "zone": "Europe/Berlim"}], "Europe/Berlin"),
        ([{"cron": "* 8 * * *", "max_workers": 1}], r"windows\[0\].min_workers"),
        ([{"cron": "* 8 * * *", "least": 1}], "does not fit"),
        ([{"cron": "* 8 * * *"}] * 21, "at most 20"),
    ],
)
def test_windows_that_are_wrong_are_named(windows: object, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        read_scaling({"max_workers": 6, "min_workers": 2, "windows": windows})
