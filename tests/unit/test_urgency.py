"""What waiting does for a job: by how many steps it rises, and for how long it is held back."""

import pytest

from taskforge.domain.queue import QueueSettings
from taskforge.domain.urgency import Pacing, Urgency, should_execute_immediately, urgency_of

SECOND = 1_000_000
DEFAULTS = {"priority_pacing": {}}


@pytest.mark.parametrize(
    ("priority", "seconds"),
    [(0, 30), (1, 30), (2, 30), (3, 10), (4, 10), (5, 10), (6, 5), (7, 5), (8, 0), (9, 0)],
)
def test_paces_are_those_of_the_table_and_from_eight_on_nothing_waits(
    priority: int, seconds: float
) -> None:
    assert Pacing().seconds(priority) == seconds
    assert should_execute_immediately(priority) == (seconds == 0)
    urgency = QueueSettings.parse(DEFAULTS).urgency(priority)
    assert (urgency.pace if urgency else 0) == seconds * SECOND


def test_queues_without_either_have_no_urgency() -> None:
    assert QueueSettings().urgency(0) is None
    assert QueueSettings.parse({"age_boost": 5}).urgency(9) is None  # nothing is above it
    assert QueueSettings.parse(DEFAULTS).urgency(8) is None


def test_a_job_rises_by_a_step_after_each_so_many_seconds_up_to_nine() -> None:
    urgency = Urgency(6, boost=10 * SECOND)
    waited = [-5, 0, 9.999_999, 10, 29.999_999, 30, 1_000]
    assert [urgency.steps(round(one * SECOND)) for one in waited] == [0, 0, 0, 1, 2, 3, 3]


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_the_last_turn_that_has_risen_so_far_is_where_steps_change(steps: int) -> None:
    urgency, now = Urgency(6, boost=7 * SECOND + 1), 100 * SECOND
    last = urgency.risen_until(steps, now)
    if steps == 4:
        assert last is None
    else:
        assert last is not None
        assert urgency.steps(now - last) == steps
        assert urgency.steps(now - last - 1) == steps - 1


def test_who_rises_meanwhile_waits_no_longer_than_what_it_goes_as() -> None:
    def pace(boost: float, priority: int) -> float:
        urgency = urgency_of(boost, Pacing(), priority)
        return urgency.pace / SECOND if urgency else 0.0

    assert pace(100, 0) == 30
    assert pace(4, 0) == 12  # goes as 3 then, which waits 10 s
    assert pace(1, 0) == 6  # goes as 6 then, which waits 5 s
    assert pace(0.5, 5) == 1.5  # goes as 8 then
    assert pace(0.5, 8) == 0


def test_nothing_is_held_back_but_while_the_project_is_loaded() -> None:
    urgency = Urgency(0, pace=30 * SECOND)
    assert urgency.held_behind(100 * SECOND, is_loaded=True) == 70 * SECOND
    assert urgency.held_behind(100 * SECOND, is_loaded=False) is None
    assert Urgency(8, boost=1).held_behind(100, is_loaded=True) is None
