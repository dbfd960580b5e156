"""What handlers counted over a period, as users read it."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from taskforge.domain.custom_value import CustomValue, CustomValues, merge_values
from taskforge.domain.metrics import Coverage, moment_at
from taskforge.domain.rollup import Cell


class CustomFigures(msgspec.Struct, frozen=True):
    count: int  # how often a handler said something
    sum: float
    min: float
    max: float
    avg: float
    last: float


class CustomPoint(msgspec.Struct, frozen=True):
    at: datetime
    figures: CustomFigures


class CustomMetric(msgspec.Struct, frozen=True):
    job_type: str
    name: str
    totals: CustomFigures
    series: list[CustomPoint]  # of those times in which something was counted
    project: int = 0


class CustomMetrics(msgspec.Struct, frozen=True):
    """What `since` and `until` cover."""

    since: datetime
    until: datetime
    step_seconds: int | None
    items: list[CustomMetric]


def measure_customs(
    job_type: str, coverage: Coverage, cells: Iterable[tuple[int, Cell]], project: int = 0
) -> list[CustomMetric]:
    """By name, from the cells of a job type, each with its start."""
    totals: CustomValues = {}
    slots: dict[int, CustomValues] = {}
    step = coverage.step
    for start, cell in cells:
        merge_values(totals, cell.customs)
        if step is not None:
            at = start - (start - coverage.since) % step
            merge_values(slots.setdefault(at, {}), cell.customs)
    return [
        CustomMetric(
            job_type,
            name,
            _figures(value),
            [
                CustomPoint(moment_at(at), _figures(values[name]))
                for at, values in sorted(slots.items())
                if name in values
            ],
            project,
        )
        for name, value in sorted(totals.items())
    ]


def _figures(value: CustomValue) -> CustomFigures:
    return CustomFigures(
        value.times,
        value.total,
        value.least,
        value.most,
        value.total / value.times,
        value.last,
    )
