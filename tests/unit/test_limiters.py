"""What holds for every algorithm, and what sets each apart. The token bucket's own tests are in
test_limiter.py."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.limiter import (
    Adaptive,
    Bucket,
    BucketState,
    FixedRate,
    LeakyBucket,
    TokenBucket,
    admit,
    check_cost,
    give_back,
    is_due,
    judge,
    settle,
    take,
)

RATES = st.floats(min_value=0.01, max_value=1000)
BURSTS = st.integers(1, 100).map(float)
BUCKETS = st.one_of(
    st.builds(TokenBucket, RATES, BURSTS),
    st.builds(FixedRate, RATES),
    st.builds(LeakyBucket, RATES, BURSTS),
    st.builds(Adaptive, RATES, BURSTS),
)
# A caller of the interleaving: after a pause (negative: its clock is behind the last one's) it
# takes some and gives back what it does not use, asks for one at a cost, or reports how things
# went.
ACTIONS = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 50), st.integers(0, 50)),
    st.tuples(st.just("admit"), st.floats(0.1, 1.0), st.sampled_from([True, False, None])),
    st.tuples(st.just("judge"), st.integers(0, 9), st.integers(0, 9)),
)
PAUSES = st.one_of(st.floats(min_value=-1, max_value=10), st.floats(min_value=-4_000, max_value=-5))
STEPS = st.lists(st.tuples(PAUSES, ACTIONS), min_size=1, max_size=60)


def walk(bucket: Bucket, steps: list) -> list[tuple[float, float]]:
    """(when, how much) for everything that was let through, by whatever mixture of callers."""
    state: BucketState | None = None
    now, lost, passed = 1e6, 0.0, []
    for pause, (kind, first, second) in steps:
        now += pause
        # A caller's clock that is behind counts from the highest reading, as far as that was kept;
        # time goes on from where a clock was set back to.
        before = state
        highest = now if before is None else max(before.at, now)
        latest = lost + highest
        if kind == "take":
            grant = take(bucket, state, now, first)
            assert 0 <= grant.granted <= first
            used = max(0, grant.granted - second)
            state = settle(bucket, before, grant, used, more=bool(second % 2)) or before
            passed += [(latest, used)] if used else []
        elif kind == "admit":
            decision = admit(bucket, state, now, first, others_wait=second)
            state = decision.state
            passed += [(latest, first)] if decision.admitted else []
        elif isinstance(bucket, Adaptive) and state is not None and is_due(bucket, state, now):
            state = judge(bucket, state, now, first, second)
        if before is not None and state is not None and state.at < before.at:
            lost += before.at - state.at
        if state is not None:
            assert -1e-9 <= state.tokens <= bucket.burst
            assert state == msgspec.json.decode(msgspec.json.encode(state), type=BucketState)
    return passed


@given(BUCKETS, STEPS)
def test_no_window_ever_sees_more_than_rate_times_length_plus_burst(
    bucket: Bucket, steps: list
) -> None:
    passed = walk(bucket, steps)
    for first in range(len(passed)):
        total = 0.0
        for moment, amount in passed[first:]:
            total += amount
            assert total <= bucket.burst + bucket.rate * (moment - passed[first][0]) + 1e-3


@given(BUCKETS, STEPS, st.floats(0.1, 1.0))
def test_waiting_as_told_is_enough(bucket: Bucket, steps: list, cost: float) -> None:
    state: BucketState | None = None
    now = 1e6
    for pause, _ in steps:
        now += abs(pause)
        state = take(bucket, state, now, 50).state
    decision = admit(bucket, state, now, cost)
    if not decision.admitted:
        assert decision.wait > 0
        assert admit(bucket, decision.state, now + decision.wait + 1e-6, cost).admitted


@given(BUCKETS, st.integers(2, 40))
def test_an_eager_caller_gets_the_whole_rate(bucket: Bucket, count: int) -> None:
    """Not starving matters as much as the limit: whoever comes exactly when told is never sent
    away."""
    now, state, passed = 1e6, None, 0
    decision = admit(bucket, None, now)
    while decision.admitted:
        decision = admit(bucket, decision.state, now)
    state = decision.state
    began = now
    for _ in range(count):
        now += decision.wait + 1e-9
        decision = admit(bucket, state, now)
        passed += decision.admitted
        decision = admit(bucket, decision.state, now)
        state = decision.state
    assert passed == count
    assert now - began <= count / bucket.rate + 1e-3


# --- Fixed rate ---


@given(RATES, st.lists(st.floats(0, 5), min_size=2, max_size=50))
def test_fixed_rate_keeps_starts_apart_however_late_the_callers_are(
    rate: float, pauses: list[float]
) -> None:
    bucket, state, now, starts = FixedRate(rate), None, 1e6, []
    for pause in pauses:
        now += pause
        grant = take(bucket, state, now, 10)
        state = grant.state
        assert grant.granted <= 1
        starts += [now] * grant.granted
    assert all(later - earlier >= 1 / rate - 1e-3 for earlier, later in itertools.pairwise(starts))


# --- Leaky bucket ---


def test_a_leaky_bucket_gathers_nothing_while_nothing_waits() -> None:
    bucket = LeakyBucket(10.0, 5.0)
    quiet = settle(bucket, None, take(bucket, None, 0.0, 9), 1, more=False)
    # All that was granted was used, so something may still wait: the schedule goes on, and the late
    # claim makes up for it.
    assert quiet is not None
    assert quiet.behind
    assert take(bucket, quiet, 0.35, 9).granted == 3
    # A claim that found less than it was granted: nothing waits. However long that lasts, the next
    # one starts alone.
    idle = settle(bucket, quiet, take(bucket, quiet, 0.35, 9), 1, more=False)
    assert idle is not None
    assert not idle.behind
    assert take(bucket, idle, 3600.0, 9).granted == 1


def test_a_leaky_bucket_makes_up_for_at_most_its_burst() -> None:
    bucket = LeakyBucket(10.0, 5.0)
    waiting = take(bucket, take(bucket, None, 0.0, 1).state, 0.0, 9).state
    assert take(bucket, waiting, 60.0, 99).granted == 5


def test_a_caller_with_full_hands_does_not_mean_that_nothing_waits() -> None:
    bucket = LeakyBucket(10.0, 5.0)
    waiting = BucketState(0.0, 0.0, behind=True)
    grant = take(bucket, waiting, 0.4, 9)
    kept = settle(bucket, waiting, grant, 1, more=True)
    assert kept is not None
    assert (kept.behind, kept.tokens) == (True, 3.0)


def test_the_last_one_admitted_leaves_no_schedule_behind() -> None:
    bucket = LeakyBucket(10.0, 5.0)
    first = admit(bucket, None, 0.0, others_wait=True)
    assert first.state.behind
    last = admit(bucket, first.state, 0.1, others_wait=False)
    assert last.admitted
    assert not last.state.behind


def test_who_cannot_know_whether_others_wait_makes_up_for_what_was_missed_and_no_more() -> None:
    bucket, passed = LeakyBucket(10.0, 5.0), []
    decision = admit(bucket, admit(bucket, None, 0.0).state, 0.0)
    for moment in (0.3, 0.3, 0.3, 0.3, 60.0, 60.0, 60.0):
        decision = admit(bucket, decision.state, moment)
        passed.append(decision.admitted)
        if moment == 0.3 and not decision.admitted:
            decision = admit(bucket, decision.state, 0.4)
            assert decision.admitted
    assert passed == [True, True, True, False, True, False, False]


# --- Adaptive ---


def test_adaptive_falls_by_half_and_climbs_by_equal_steps() -> None:
    bucket = Adaptive(100.0, 10.0)
    state = take(bucket, None, 0.0, 1).state
    rates = []
    for second in range(1, 13):
        state = judge(
            bucket, state, float(second), 0 if second <= 2 else 50, 50 if second <= 2 else 0
        )
        rates.append(state.rate)
    assert rates == [50.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0, 75.0]


@pytest.mark.parametrize(
    ("good", "bad", "rate"),
    [(90, 10, 55.0), (89, 11, 25.0), (0, 1, 25.0), (1, 0, 55.0), (0, 0, 50.0)],
)
def test_adaptive_tolerates_a_tenth(good: int, bad: int, rate: float) -> None:
    assert (
        judge(Adaptive(100.0, 10.0), BucketState(0.0, 0.0, 50.0, 0.0), 1.0, good, bad).rate == rate
    )


@given(RATES, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=100))
def test_adaptive_stays_between_its_least_and_its_most(
    rate: float, news: list[tuple[int, int]]
) -> None:
    bucket = Adaptive(rate, 10.0)
    state = take(bucket, None, 0.0, 1).state
    for second, (good, bad) in enumerate(news, 1):
        state = judge(bucket, state, float(second), good, bad)
        assert state.rate is not None
        assert rate * bucket.least_share - 1e-9 <= state.rate <= rate


def test_adaptive_is_judged_once_a_period() -> None:
    bucket = Adaptive(100.0, 10.0, period=2.0)
    assert not is_due(bucket, None, 5.0)
    state = take(bucket, None, 0.0, 1).state
    assert not is_due(bucket, state, 1.9)
    assert is_due(bucket, state, 2.0)
    assert not is_due(bucket, judge(bucket, state, 2.0, 0, 1), 3.9)


def test_adaptive_is_judged_after_the_clock_was_set_back() -> None:
    bucket = Adaptive(100.0, 10.0, period=2.0)
    state = take(bucket, None, 10_000.0, 1).state
    assert not is_due(bucket, state, 9_995.0)
    assert is_due(bucket, state, 6_400.0)
    assert not is_due(bucket, judge(bucket, state, 6_400.0, 0, 1), 6_401.9)


def test_a_slower_bucket_says_so_in_its_waits() -> None:
    bucket = Adaptive(100.0, 1.0)
    slow = BucketState(0.0, 0.0, 10.0, 0.0)
    assert admit(bucket, slow, 0.0).wait == pytest.approx(0.1)


# --- Changing one's mind ---


@given(BUCKETS, BUCKETS, st.floats(0, 100))
def test_a_state_survives_a_change_of_algorithm(old: Bucket, new: Bucket, pause: float) -> None:
    state = take(old, None, 0.0, 3).state
    assert take(new, state, pause, 1_000).granted <= new.burst
    assert give_back(new, state, 5).tokens <= new.burst


def test_a_cost_that_can_never_be_met_is_refused() -> None:
    check_cost(TokenBucket(1.0, 5.0), 5.0)
    for cost in (0.0, -1.0, 5.5):
        with pytest.raises(ValueError, match="never admitted"):
            check_cost(TokenBucket(1.0, 5.0), cost)
    with pytest.raises(ValueError, match="never admitted"):
        check_cost(FixedRate(100.0), 2.0)
