"""What a pool or a limiter cannot be made with is said when it is made, with the parameter's name
and what would be right."""

import math
from typing import Any

import pytest

from taskforge.pool import Adaptive, FixedRate, RateLimiter, RetryPolicy, TokenBucket, WorkerPool
from tests.pool.jobs import double


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"size": 0}, "size is 0; use a whole number of at least 1"),
        ({"size": "4"}, "size is '4'; use a whole number"),
        ({"size": 2.5}, "size is 2.5; use a whole number"),
        ({"attempts": 0}, "attempts is 0"),
        ({"order": "prio"}, "order is 'prio'; use one of 'fifo', 'priority'"),
        (
            {"when_full": "block"},
            "when_full is 'block'; use one of 'wait', 'reject', 'drop_oldest'",
        ),
        ({"workers": "threads"}, "workers is 'threads'; use one of 'async', 'thread', 'process'"),
        ({"distribution": "random"}, "distribution is 'random'; use one of 'round_robin'"),
        ({"timeout": -1}, "timeout is -1; use a number above 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": math.nan}, "timeout is nan"),
        ({"timeout": "5"}, "timeout is '5'"),
        ({"retry": 3}, "retry is 3; use a RetryPolicy"),
        ({"retry": RetryPolicy(delay=-1)}, "retry.delay is -1"),
        ({"retry": RetryPolicy(jitter=5)}, "retry.jitter is 5; use a number from 0 to 1"),
        ({"retry_on": "ConnectionError"}, "retry_on is 'ConnectionError'; use types of exceptions"),
        ({"retry_on": [ConnectionError()]}, "retry_on is"),
        ({"retry_on": int}, "retry_on is"),
        (
            {"limiter": TokenBucket(10, 1)},
            r"limiter is TokenBucket\(rate=10, burst=1\); use a RateLimiter such as",
        ),
    ],
)
def test_a_pool_names_the_option_that_is_wrong(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((ValueError, TypeError), match=problem):
        WorkerPool(**({"size": 1} | options))


@pytest.mark.parametrize(
    ("bucket", "options", "problem"),
    [
        (10, {}, "bucket is 10; use a TokenBucket"),
        (TokenBucket(0, 1), {}, "rate is 0; use a number above 0"),
        (FixedRate(-1), {}, "rate is -1"),
        (TokenBucket("5", 1), {}, "rate is '5'"),  # type: ignore[arg-type]
        (FixedRate(math.inf), {}, "rate is inf"),
        (TokenBucket(5, 0), {}, "burst is 0"),
        (Adaptive(5, 1, least_share=0), {}, "least_share is 0"),
        (FixedRate(1), {"most_waiting": -1}, "most_waiting is -1"),
        (FixedRate(1), {"slow_seconds": 0}, "slow_seconds is 0"),
    ],
)
def test_a_limiter_names_what_is_wrong(bucket: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises((ValueError, TypeError), match=problem):
        RateLimiter(bucket, **options)


async def test_a_job_names_the_option_that_is_wrong() -> None:
    async with WorkerPool(2, distribution="sticky") as pool:
        with pytest.raises(ValueError, match="timeout is -1; use a number above 0"):
            await pool.submit(double, 1, timeout=-1)
        with pytest.raises(ValueError, match="key is 5; use text"):
            await pool.submit(double, 1, key=5)  # type: ignore[call-overload]
        assert await (await pool.submit(double, 1, timeout=math.inf)) == 2
