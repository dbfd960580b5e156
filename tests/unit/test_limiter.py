from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.limiter import (
    SET_BACK_SECONDS,
    BucketState,
    TokenBucket,
    give_back,
    settle,
    take,
)
from taskforge.domain.retry import RetryPolicy

BUCKETS = st.builds(
    TokenBucket,
    rate=st.floats(min_value=0.01, max_value=1000),
    burst=st.integers(1, 100).map(float),
)
STEPS = st.lists(
    st.tuples(st.floats(min_value=0, max_value=10), st.integers(0, 50)), min_size=1, max_size=60
)


@given(BUCKETS, STEPS)
def test_no_window_ever_sees_more_than_rate_times_length_plus_burst(
    bucket: TokenBucket, steps: list[tuple[float, int]]
) -> None:
    now, state, grants = 1e6, None, []
    for pause, wanted in steps:
        now += pause
        grant = take(bucket, state, now, wanted)
        state = grant.state
        grants.append((now, grant.granted))
        assert 0 <= grant.granted <= wanted
        assert 0 <= state.tokens <= bucket.burst
    for first in range(len(grants)):
        total = 0
        for moment, granted in grants[first:]:
            total += granted
            allowed = bucket.burst + bucket.rate * (moment - grants[first][0])
            assert total <= allowed + 1e-3


@given(BUCKETS, st.integers(1, 50))
def test_waiting_as_told_is_enough_for_the_next_token(bucket: TokenBucket, wanted: int) -> None:
    grant = take(bucket, BucketState(0.0, 1000.0), 1000.0, wanted)
    assert grant.granted == 0
    assert grant.wait > 0
    assert take(bucket, grant.state, 1000.0 + grant.wait + 1e-6, wanted).granted >= 1


@given(BUCKETS, STEPS)
def test_an_eager_caller_gets_all_that_flows(
    bucket: TokenBucket, steps: list[tuple[float, int]]
) -> None:
    """Not starving matters as much as the limit: whoever asks for everything leaves less than one
    token behind."""
    now, state = 1e6, None
    for pause, _ in steps:
        now += pause
        grant = take(bucket, state, now, 10_000)
        state = grant.state
        assert state.tokens < 1.0


def test_a_new_bucket_is_full_and_a_full_grant_waits_for_nothing() -> None:
    grant = take(TokenBucket(1.0, 5.0), None, 0.0, 3)
    assert (grant.granted, grant.wait, grant.state.tokens) == (3, 0.0, 2.0)


def test_a_caller_that_is_late_adds_nothing_and_takes_nothing_away() -> None:
    bucket = TokenBucket(1.0, 5.0)
    state = BucketState(2.0, 100.0)
    back = take(bucket, state, 100.0 - SET_BACK_SECONDS, 1)
    assert back.granted == 1
    assert back.state == BucketState(1.0, 100.0)
    assert take(bucket, back.state, 101.0, 9).granted == 2


def test_tokens_flow_on_from_where_the_clock_was_set_back_to() -> None:
    """Otherwise nothing would for as long as it was set back by."""
    bucket = TokenBucket(1.0, 5.0)
    spent = BucketState(0.0, 10_000.0)
    grant = take(bucket, spent, 6_400.0, 9)
    assert grant.granted == 0
    kept = settle(bucket, spent, grant, 0, more=False)
    assert kept == BucketState(0.0, 6_400.0)
    assert take(bucket, kept, 6_403.0, 9).granted == 3


def test_many_small_refills_make_a_whole_token() -> None:
    bucket, state = TokenBucket(0.1, 1.0), BucketState(0.0, 0.0)
    for step in range(1, 11):
        grant = take(bucket, state, float(step), 1)
        state = grant.state
    assert grant.granted == 1


@given(BUCKETS, st.integers(0, 200))
def test_given_back_tokens_never_overfill(bucket: TokenBucket, count: int) -> None:
    assert give_back(bucket, BucketState(0.5, 1.0), count).tokens == min(bucket.burst, 0.5 + count)


# --- Backoff ---


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (10_000, 300)]
)
def test_backoff_doubles_up_to_its_cap(attempt: int, seconds: float) -> None:
    assert RetryPolicy(jitter=0.0).wait(attempt, 0.7) == seconds


@given(
    st.builds(
        RetryPolicy,
        delay=st.floats(0, 1e6),
        most=st.floats(0, 3e6),
        multiplier=st.floats(1, 100),
        jitter=st.floats(0, 1),
    ),
    st.integers(1, 10_000),
    st.floats(0, 1, exclude_max=True),
)
def test_jitter_stays_within_its_share_of_the_delay(
    policy: RetryPolicy, attempt: int, chance: float
) -> None:
    base = RetryPolicy(policy.delay, policy.most, policy.multiplier, 0.0).wait(attempt, 0.5)
    waited = policy.wait(attempt, chance)
    assert waited >= 0
    # At the cap the share lies below it, and is as wide as one around the middle.
    least = base * (1 - policy.jitter) / (1 + policy.jitter)
    assert least - 1e-6 <= waited <= base * (1 + policy.jitter) + 1e-6
    assert waited <= policy.most


def test_jitter_also_spreads_what_waits_the_longest_time() -> None:
    waits = {RetryPolicy().wait(50, chance / 10) for chance in range(10)}
    assert len(waits) == 10
    assert min(waits) == pytest.approx(200)
    assert max(waits) <= 300


def test_no_second_is_crowded_when_all_wait_the_longest_time() -> None:
    """R15: no bucket of a second holds more than three times the window's mean."""
    buckets = Counter(int(RetryPolicy().wait(50, chance / 5_000)) for chance in range(5_000))
    assert max(buckets.values()) <= 3 * 5_000 / (max(buckets) - min(buckets) + 1)
