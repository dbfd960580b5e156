"""How executions went, as callers see it."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.custom_metrics import CustomFigures, CustomMetrics
from taskforge.domain.metrics import Figures, Metrics


class PointView(msgspec.Struct, frozen=True):
    at: Time
    figures: Figures


class MetricsView(msgspec.Struct, frozen=True):
    since: Time
    until: Time
    step_seconds: int | None
    """The distance of the points; more than was asked for where nothing so fine is kept"""
    totals: Figures
    series: list[PointView]


class NamedMetricsView(msgspec.Struct, frozen=True):
    name: str
    id: UUID | None
    """Of a queue or a worker"""
    metrics: MetricsView


def metrics_view(metrics: Metrics) -> MetricsView:
    series = [PointView(point.at, point.figures) for point in metrics.series]
    return MetricsView(metrics.since, metrics.until, metrics.step_seconds, metrics.totals, series)


class CustomPointView(msgspec.Struct, frozen=True):
    at: Time
    figures: CustomFigures


class CustomMetricView(msgspec.Struct, frozen=True):
    job_type: str
    name: str
    totals: CustomFigures
    series: list[CustomPointView]
    """Of those times in which something was counted"""


class CustomMetricsView(msgspec.Struct, frozen=True):
    since: Time
    until: Time
    step_seconds: int | None
    items: list[CustomMetricView]


def customs_view(found: CustomMetrics) -> CustomMetricsView:
    items = [
        CustomMetricView(
            one.job_type,
            one.name,
            one.totals,
            [CustomPointView(point.at, point.figures) for point in one.series],
        )
        for one in found.items
    ]
    return CustomMetricsView(found.since, found.until, found.step_seconds, items)
