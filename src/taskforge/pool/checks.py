"""The checks of what a pool or a limiter is made with. Each names the parameter, its value and what
would be right."""

import math
from collections.abc import Iterable
from typing import Any

from taskforge.domain.limiter import Adaptive, Bucket
from taskforge.domain.retry import RetryPolicy


def whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; use a whole number of at least {least}")


def positive(name: str, value: Any, *, most: float = math.inf) -> None:
    # Written so that it also refuses what is not a number at all (NaN).
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise ValueError(
            f"{name} is {value!r}; use a number above 0"
            + ("" if most == math.inf else f" and at most {most:g}")
        )


def choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; use one of " + ", ".join(map(repr, choices)))


def kind_of(name: str, value: Any, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}; use a {kind.__name__} such as {example}")


def error_types(name: str, value: Any) -> tuple[type[Exception], ...]:
    """One type of exception, or any iterable of them."""
    types = (
        (value,)
        if isinstance(value, type)
        else tuple(value)
        if isinstance(value, Iterable)
        else None
    )
    if types is None or not all(
        isinstance(one, type) and issubclass(one, BaseException) for one in types
    ):
        raise ValueError(
            f"{name} is {value!r}; use types of exceptions such as (ConnectionError, TimeoutError)"
        )
    return types


def retry_policy(value: Any) -> None:
    kind_of("retry", value, RetryPolicy, "RetryPolicy(delay=1)")
    for name in ("delay", "most", "multiplier", "jitter"):
        number, most = getattr(value, name), 1 if name == "jitter" else math.inf
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not 0 <= number <= most
        ):
            raise ValueError(f"retry.{name} is {number!r}; use a number from 0 to {most:g}")


def bucket(value: Any) -> None:
    if not isinstance(value, Bucket):
        raise TypeError(
            f"bucket is {value!r}; use a TokenBucket, FixedRate, LeakyBucket or Adaptive"
        )
    positive("rate", value.rate, most=1e9)
    positive("burst", value.burst, most=1e9)
    if isinstance(value, Adaptive):
        positive("least_share", value.least_share, most=1)
        positive("period", value.period)
