"""Rate limiting as pure steps: (state, now, wanted) → (state, granted, wait). The caller keeps the
state and the clock.

Every algorithm is a bucket of tokens, one token a job; they differ in what may gather in it and in
how fast it fills. So one small state serves them all, a queue may change its algorithm without
losing what it has spent, and one bound holds for all of them: over any stretch of time no more is
granted than rate × length + burst.
"""

from typing import assert_never

import msgspec


class TokenBucket(msgspec.Struct, frozen=True):
    """`rate` tokens a second flow into a bucket that holds `burst`. Time that nobody used gathers,
    up to the burst."""

    rate: float
    burst: float


class FixedRate(msgspec.Struct, frozen=True):
    """Starts are at least 1/rate seconds apart, always. Time that nobody used is lost, also when
    someone is late to use it."""

    rate: float

    @property
    def burst(self) -> float:
        return 1.0


class LeakyBucket(msgspec.Struct, frozen=True):
    """What waits leaks out one by one at the rate. Quiet time gathers nothing; but while something
    waits, the schedule goes on, and whoever comes late for it makes up for what was missed, up to
    the burst at once."""

    rate: float
    burst: float


class Adaptive(msgspec.Struct, frozen=True):
    """A token bucket whose rate is learned: up by small equal steps while things go well, down by a
    factor when they do not.

    Judged once a period rather than at each failure: what was on its way already when the rate fell
    fails too and says nothing new.
    """

    rate: float  # never more than this
    burst: float
    # of the rate; some must get through, or nobody would notice that things are well again
    least_share: float = 0.01
    climb_share: float = 0.05  # of the rate, added by each period that went well
    cut: float = 0.5
    tolerance: float = 0.1  # the share that may go badly without harm
    period: float = 1.0


Bucket = TokenBucket | FixedRate | LeakyBucket | Adaptive


class BucketState(msgspec.Struct, frozen=True):
    tokens: float
    at: float  # seconds on the caller's clock
    rate: float | None = None  # as learned; adaptive only
    judged_at: float | None = None  # adaptive only
    behind: bool = False  # something waits and the schedule goes on; leaky only


class Grant(msgspec.Struct, frozen=True):
    state: BucketState
    granted: int
    wait: float  # seconds until the next whole token; 0 when everything wanted was granted


class Decision(msgspec.Struct, frozen=True):
    state: BucketState
    admitted: bool
    wait: float  # seconds until it would be admitted if nobody else came; 0 when it was


# Sums of small refills fall short of a whole token by rounding; a nanotoken is forgiven.
FORGIVEN = 1e-9
# A reading that is behind the last one by more is of a clock that was set back, and time goes on
# from there; by less, of a caller that was late, and time goes on from the last one.
SET_BACK_SECONDS = 10.0


def take(bucket: Bucket, state: BucketState | None, now: float, wanted: int) -> Grant:
    """Grant up to `wanted` tokens. A clock that is set back adds nothing and takes nothing away."""
    state = refill(bucket, state, now)
    granted = max(0, min(wanted, int(state.tokens + FORGIVEN)))
    # Below nothing is what starts have cost beyond what was there: it is paid before the next one.
    left = max(min(0.0, state.tokens), state.tokens - granted)
    wait = 0.0 if granted >= wanted else max(0.0, (1.0 - left) / _pace(bucket, state))
    behind = isinstance(bucket, LeakyBucket) and (state.behind or granted < wanted)
    return Grant(_with(state, left, behind), granted, wait)


def foresee(
    bucket: Bucket, state: BucketState | None, now: float, count: int
) -> tuple[float, float]:
    """After how many seconds the last of so many would be granted if all are taken as they come,
    and tokens a second just now."""
    state = refill(bucket, state, now)
    pace = _pace(bucket, state)
    return max(0.0, (count - state.tokens - FORGIVEN) / pace), pace


def admit(
    bucket: Bucket,
    state: BucketState | None,
    now: float,
    cost: float = 1.0,
    *,
    others_wait: bool | None = None,
) -> Decision:
    """All of `cost` or nothing, for one caller. A cost beyond the burst could never be met and is
    refused by `check_cost`.

    `others_wait`: whether somebody waits behind this one; None when the caller cannot know. What
    was missed is then made up for until it is spent.
    """
    state = refill(bucket, state, now)
    admitted = cost <= state.tokens + FORGIVEN
    left = max(0.0, state.tokens - cost) if admitted else state.tokens
    wait = 0.0 if admitted else (cost - left) / _pace(bucket, state)
    waits = (state.behind and left >= 1.0) if others_wait is None else others_wait
    return Decision(
        _with(state, left, isinstance(bucket, LeakyBucket) and (waits or not admitted)),
        admitted,
        wait,
    )


def give_back(bucket: Bucket, state: BucketState, count: float) -> BucketState:
    """Return tokens that were granted but not used."""
    return _with(state, min(_room(bucket, behind=state.behind), state.tokens + count), state.behind)


def settle(
    bucket: Bucket, before: BucketState | None, grant: Grant, used: int, *, more: bool
) -> BucketState | None:
    """The state to keep after `used` of what was granted; None when what is kept already (`before`)
    says as much.

    `more`: that not all was used does not mean that nothing waits; whoever used it may have had its
    hands full.
    """
    kept = give_back(bucket, grant.state, grant.granted - used)
    if used < grant.granted and not more:
        kept = refill(bucket, _with(kept, kept.tokens, False), kept.at)
    if used or (
        before is not None
        and (
            kept.at < before.at
            or (kept.behind, kept.rate, kept.judged_at)
            != (before.behind, before.rate, before.judged_at)
        )
    ):
        return kept
    return None


def is_due(bucket: Adaptive, state: BucketState | None, now: float) -> bool:
    """Whether a period is over and `judge` should hear what came of it."""
    if state is None:
        return False
    judged_at = state.judged_at
    return (
        judged_at is None or now - judged_at >= bucket.period or now < judged_at - SET_BACK_SECONDS
    )


def judge(bucket: Adaptive, state: BucketState, now: float, good: int, bad: int) -> BucketState:
    """Move the rate by what came of a period's work. What is bad is the caller's to say: failed,
    too slow, too much load."""
    if good + bad == 0:
        return state
    state = refill(bucket, state, now)
    rate, tokens = _pace(bucket, state), state.tokens
    if bad > bucket.tolerance * (good + bad):
        # What has gathered was meant for the old rate; it is cut alike, but for one: that much is
        # due at any rate.
        rate, tokens = rate * bucket.cut, min(tokens, max(1.0, tokens * bucket.cut))
    else:
        rate += bucket.climb_share * bucket.rate
    return BucketState(
        tokens, state.at, min(bucket.rate, max(bucket.least_share * bucket.rate, rate)), now
    )


def refill(bucket: Bucket, state: BucketState | None, now: float) -> BucketState:
    """The state at `now`, before anything is taken. A new bucket is full, but for a leaky one:
    there nothing has waited yet."""
    if state is None:
        learned = (bucket.rate, now) if isinstance(bucket, Adaptive) else (None, None)
        return BucketState(_room(bucket, behind=False), now, *learned)
    elapsed = max(0.0, now - state.at)
    tokens = min(_room(bucket, behind=state.behind), state.tokens + elapsed * _pace(bucket, state))
    at = now if now < state.at - SET_BACK_SECONDS else max(now, state.at)
    if isinstance(bucket, Adaptive) and state.rate is None:
        return BucketState(tokens, at, bucket.rate, now)
    return BucketState(tokens, at, state.rate, state.judged_at, state.behind)


def check_cost(bucket: Bucket, cost: float) -> None:
    if not 0 < cost <= bucket.burst:
        raise ValueError(
            f"a cost of {cost:g} is never admitted; use more than 0 and at most the burst of "
            f"{bucket.burst:g}"
        )


def _pace(bucket: Bucket, state: BucketState) -> float:
    """Tokens a second just now."""
    match bucket:
        case TokenBucket() | FixedRate() | LeakyBucket():
            return bucket.rate
        case Adaptive():
            # Clamped because the operator may have changed the rate since it was learned.
            learned = bucket.rate if state.rate is None else state.rate
            return min(bucket.rate, max(bucket.least_share * bucket.rate, learned))
        case _:
            assert_never(bucket)


def _room(bucket: Bucket, *, behind: bool) -> float:
    """How many tokens may gather."""
    match bucket:
        case TokenBucket() | FixedRate() | Adaptive():
            return bucket.burst
        case LeakyBucket():
            return bucket.burst if behind else 1.0
        case _:
            assert_never(bucket)


def _with(state: BucketState, tokens: float, behind: bool) -> BucketState:
    return BucketState(tokens, state.at, state.rate, state.judged_at, behind)
