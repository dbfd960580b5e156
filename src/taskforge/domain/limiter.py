"""Rate limiting as pure steps: (state, now, wanted) → (state, granted, wait). The caller keeps the state and the clock."""

import msgspec


class TokenBucket(msgspec.Struct, frozen=True):
    """`rate` tokens a second flow into a bucket that holds `burst`; each job takes one."""

    rate: float
    burst: float


class BucketState(msgspec.Struct, frozen=True):
    tokens: float
    at: float  # seconds on the caller's clock


class Grant(msgspec.Struct, frozen=True):
    state: BucketState
    granted: int
    wait: float  # seconds until the next whole token; 0 when everything wanted was granted


def take(bucket: TokenBucket, state: BucketState | None, now: float, wanted: int) -> Grant:
    """Grant up to `wanted` tokens. A new bucket is full. A clock that steps back adds nothing and takes nothing away."""
    if state is None:
        tokens = bucket.burst
    else:
        elapsed = max(0.0, now - state.at)
        tokens, now = min(bucket.burst, state.tokens + elapsed * bucket.rate), max(now, state.at)
    # Sums of small refills fall short of a whole token by rounding; a nanotoken is forgiven.
    granted = max(0, min(wanted, int(tokens + 1e-9)))
    left = max(0.0, tokens - granted)
    wait = 0.0 if granted >= wanted else max(0.0, (1.0 - left) / bucket.rate)
    return Grant(BucketState(left, now), granted, wait)


def give_back(bucket: TokenBucket, state: BucketState, count: int) -> BucketState:
    """Return tokens that were granted but not used."""
    return BucketState(min(bucket.burst, state.tokens + count), state.at)
