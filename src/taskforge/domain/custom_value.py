"""Values of a user's own that handlers count with `ctx.update_metrics`: by job type and name,
summed up before they are sent, and again where they are kept."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from taskforge.domain import rules

MOST_NAMES = 50
"""Of one job type that are told apart; the values of further ones are counted together."""
OTHERS = "others"
MOST_VALUE = 1e15


class CustomValue(NamedTuple):
    """What was counted under one name: how often, the sum, and the last value with its second."""

    times: int
    total: float
    least: float
    most: float
    last: float
    at: float

    def merged(self, other: "CustomValue") -> "CustomValue":
        latest = max(self, other, key=lambda one: one.at)
        return CustomValue(
            self.times + other.times,
            self.total + other.total,
            min(self.least, other.least),
            max(self.most, other.most),
            latest.last,
            latest.at,
        )


CustomValues = dict[str, CustomValue]


def merge_values(values: CustomValues, others: Mapping[str, CustomValue]) -> None:
    """Adds what is new; names beyond the most become one."""
    for name, value in others.items():
        known = name if name in values or len(values) < MOST_NAMES else OTHERS
        values[known] = values[known].merged(value) if known in values else value


class CustomSum(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has counted of a job type under one name since it told so last."""

    job_type: str
    name: str
    count: int
    total: float
    least: float
    most: float
    last: float
    seconds_ago: float = 0.0  # since the last value


def check_sum(given: CustomSum) -> CustomSum:
    """As it comes over the wire."""
    rules.text("job_type", given.job_type, most=100)
    rules.text("name", given.name, most=100)
    rules.integer("count", given.count, 1, 1_000_000_000)
    for field in ("total", "least", "most", "last"):
        most = 1e24 if field == "total" else MOST_VALUE
        rules.number(field, getattr(given, field), -most, most)
    rules.number("seconds_ago", given.seconds_ago, 0, rules.MAX_SECONDS)
    return given


class CustomCounter:
    """Of one process: what its handlers have counted and nobody was told yet."""

    def __init__(self) -> None:
        self._values: dict[str, CustomValues] = {}

    def add(self, job_type: str, name: str, value: float, at: float) -> None:
        merge_values(
            self._values.setdefault(job_type, {}),
            {name: CustomValue(1, value, value, value, value, at)},
        )

    def put_back(self, sums: list[CustomSum], now: float) -> None:
        for one in sums:
            value = CustomValue(
                one.count, one.total, one.least, one.most, one.last, now - one.seconds_ago
            )
            merge_values(self._values.setdefault(one.job_type, {}), {one.name: value})

    def take(self, now: float) -> list[CustomSum]:
        values, self._values = self._values, {}
        return [
            CustomSum(
                job_type=job_type,
                name=name,
                count=one.times,
                total=one.total,
                least=one.least,
                most=one.most,
                last=one.last,
                seconds_ago=max(0.0, now - one.at),
            )
            for job_type, named in values.items()
            for name, one in named.items()
        ]
