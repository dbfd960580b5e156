"""What becomes of a queue, told from how its last minutes went."""

from datetime import datetime, timedelta
from uuid import UUID

from taskforge.domain.errors import NotFound
from taskforge.domain.forecast import LOOKED_MINUTES, Forecast, Minute, forecast
from taskforge.domain.metrics import Metrics, Period, Subject
from taskforge.domain.query import QueueStats
from taskforge.ports.engine import AnyEngine
from taskforge.ports.metrics import MetricsSource

# What arrives is counted when its minute is over, and up to two minutes late.
_LATE = timedelta(minutes=2)


async def forecast_queue(engine: AnyEngine, source: MetricsSource, queue: UUID) -> Forecast:
    """Of a queue of the engine's own project."""
    found = await engine.stats([engine.home], of=[queue])
    if not found:
        raise NotFound("queue", str(queue))
    period = period_before(await engine.now())
    return forecast_from(found[0], await source.metrics(Subject(queue=queue), period))


def period_before(now: datetime) -> Period:
    """The minutes that a forecast at this time goes by."""
    until = now.replace(second=0, microsecond=0) - _LATE
    since = until - timedelta(minutes=LOOKED_MINUTES)
    return Period(since=since, until=until, step_seconds=60)


def forecast_from(stats: QueueStats, metrics: Metrics) -> Forecast:
    minutes = [
        Minute(figures.arrived, figures.succeeded + figures.failed_for_good + figures.dead_letter)
        for figures in (point.figures for point in metrics.series)
    ]
    return forecast(stats.pending, minutes, is_active=stats.is_active)
