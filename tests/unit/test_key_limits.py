"""What limits let each fairness key of a queue start, whatever a claim asks at once."""

import pytest

from taskforge.domain.fairness import Fairness
from taskforge.domain.queue import QueueSettings
from taskforge.storage.catalog import OpenLane
from taskforge.storage.key_limits import KeyLimits


def lane(number: int, key: int, most: int) -> OpenLane:
    return OpenLane(
        number=number,
        tier=number,
        queue=1,
        queue_name="fair",
        job_type="work",
        priority=0,
        settings=QueueSettings(),
        key=key,
        most=most,
    )


def asked(limits: KeyLimits, *lanes: OpenLane) -> list[int | None]:
    limits.ask_anew()
    return [None if one is None else one.most for one in map(limits.within, lanes)]


@pytest.mark.parametrize(
    "fairness",
    [
        Fairness(max_concurrent_per_key=3),
        Fairness(rate_limit_per_key=60.0, rate_limit_burst_per_key=3),
    ],
)
def test_lanes_of_one_key_share_its_limit_in_one_statement_and_in_the_next(
    fairness: Fairness,
) -> None:
    limits = KeyLimits(fairness, now=0.0)
    lanes = lane(1, 7, 2), lane(2, 7, 2), lane(3, 7, 2), lane(1, 8, 2)
    assert asked(limits, *lanes) == [2, 1, None, 2]
    limits.use(7, 1, 1)  # the first lane gave one, the second none
    assert asked(limits, *lanes) == [2, None, None, 2]
    limits.use(7, 2, 2)
    assert asked(limits, *lanes) == [None, None, None, 2]
    assert limits.full == {7}
    limits.use(8, 2, 2)
    assert limits.full == {7}, "it gave all that it was asked for, and may give more"


def test_jobs_without_a_key_are_not_limited() -> None:
    limits = KeyLimits(Fairness(max_concurrent_per_key=1), now=0.0)
    assert asked(limits, lane(1, 0, 5), lane(2, 0, 5)) == [5, 5]


def test_what_a_start_takes_beyond_one_unit_is_paid_before_the_next_one() -> None:
    fairness = Fairness(rate_limit_per_key=60.0, rate_limit_burst_per_key=5)
    limits = KeyLimits(fairness, now=100.0)
    assert asked(limits, lane(1, 7, 2)) == [2]
    limits.use(7, 2, 4)
    assert limits.full == set()
    assert asked(limits, lane(1, 7, 9)) == [1]  # of five units
    limits.use(7, 1, 10)
    assert limits.full == {7}
    assert list(limits.waits()) == [10.0]
    [(key, tokens, at)] = limits.kept()
    assert (key, tokens, at) == (7, -9.0, 100.0)
    later = KeyLimits(fairness, now=109.5)
    later.remember(7, tokens, at)
    assert asked(later, lane(1, 7, 3)) == [None]
    assert list(later.waits()) == [0.5]
    later = KeyLimits(fairness, now=110.0)
    later.remember(7, tokens, at)
    assert asked(later, lane(1, 7, 3)) == [1]
