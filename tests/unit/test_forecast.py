"""What is foretold of a queue, and how sure that is."""

import random

from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.forecast import Minute, Outlook, forecast

COUNTS = st.integers(min_value=0, max_value=10**6)
MINUTES = st.lists(st.builds(Minute, COUNTS, COUNTS), max_size=15)


def test_a_queue_from_which_more_goes_than_comes_drains_within_its_range() -> None:
    told = forecast(600, [Minute(40, 100)] * 15)
    assert told.outlook is Outlook.DRAINING
    assert told.drain is not None
    assert told.wait is not None
    assert told.drain.likely == 600.0  # ten minutes at sixty a minute
    assert told.wait.likely == 360.0
    assert told.drain.high is not None
    assert told.drain.low < 600.0 < told.drain.high


def test_a_queue_that_only_grows_is_said_to() -> None:
    told = forecast(600, [Minute(100, 40)] * 15)
    assert told.outlook is Outlook.GROWING
    assert told.drain is None
    assert told.wait is not None
    assert told.wait.likely == 900.0
    assert forecast(600, [Minute(10, 0)] * 15).outlook is Outlook.GROWING


def test_what_chance_explains_is_neither_draining_nor_growing() -> None:
    assert forecast(50, [Minute(99, 100)] * 15).outlook is Outlook.STEADY
    assert forecast(50, [Minute(101, 100)] * 15).outlook is Outlook.STEADY


def test_uneven_minutes_make_the_range_wider() -> None:
    even = forecast(600, [Minute(0, 60)] * 14).wait
    uneven = forecast(600, [Minute(0, 0), Minute(0, 120)] * 7).wait
    assert even is not None
    assert uneven is not None
    assert even.likely == uneven.likely
    assert uneven.low < even.low
    assert even.high is not None
    assert uneven.high is None or uneven.high > even.high


def test_too_little_is_no_forecast() -> None:
    assert forecast(10, []).outlook is Outlook.UNKNOWN
    assert forecast(10, [Minute(0, 4)]).outlook is Outlook.UNKNOWN
    assert forecast(0, [Minute(9, 9)]).outlook is Outlook.EMPTY
    assert forecast(10, [Minute(0, 100)] * 15, is_active=False).outlook is Outlook.PAUSED


@given(COUNTS, MINUTES)
def test_a_range_holds_what_is_likely(pending: int, minutes: list[Minute]) -> None:
    told = forecast(pending, minutes)
    for time in (told.wait, told.drain):
        if time is not None:
            assert 0 <= time.low <= time.likely
            assert time.high is None or time.likely <= time.high
    assert (told.drain is not None) == (told.outlook is Outlook.DRAINING)


def test_the_range_holds_what_comes_true_most_of_the_time() -> None:
    """Queues whose jobs come and go by chance, foretold and then lived through."""
    chance = random.Random(7)

    def count(rate: int) -> int:
        return sum(chance.random() < 0.1 for _ in range(10 * rate))

    held = 0
    for _ in range(200):
        told = forecast(300, [Minute(count(20), count(50)) for _ in range(15)])
        assert told.drain is not None
        pending, minutes = 300, 0
        while pending > 0:
            pending += count(20) - count(50)
            minutes += 1
        most = float("inf") if told.drain.high is None else told.drain.high
        held += told.drain.low - 60 <= 60 * minutes <= most + 60
    assert held >= 180
