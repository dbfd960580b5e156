"""What a scraper of metrics is told: read from the store, so that every server tells the same, and
bounded, however many queues and workers there are."""

from collections import Counter
from collections.abc import Mapping, Sequence

from taskforge.domain.custom_metrics import CustomMetric
from taskforge.domain.metrics import NamedMetrics, Period
from taskforge.domain.query import QueueStats
from taskforge.operations.custom_metrics import read_recent_customs
from taskforge.operations.metrics import read_by_queue_named
from taskforge.ports.engine import Engine
from taskforge.telemetry.exposition import MetricFamily
from taskforge.version import __version__

MOST_QUEUES = 200
MOST_PROJECTS = 100
MOST_CUSTOMS = 200
MOST_TYPES = 200  # job types of all projects, of which is told what their handlers counted
RECENT_SECONDS = 300.0
_PLACES = ("pending", "scheduled", "processing")
_ENDINGS = ("succeeded", "failed_for_good", "retry_scheduled", "dead_letter", "cancelled")
_QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))
Series = list[tuple[Mapping[str, str], float]]


async def gather_metrics(
    engine: Engine, projects: Mapping[int, str], late: Sequence[str]
) -> list[MetricFamily]:
    """Of these projects, by number and name."""
    told = sorted(projects)[:MOST_PROJECTS]
    queues: list[tuple[str, int, QueueStats]] = []
    workers: Counter[tuple[str, str]] = Counter()
    ended: Series = []
    for number in told:
        name = projects[number]
        queues += [(name, number, stats) for stats in await engine.stats([number])]
        workers.update((name, one.status.value) for one in await engine.workers([number]))
        totals = await engine.worker_totals([number])
        ended += [
            ({"project": name, "outcome": "succeeded"}, sum(one.completed for one in totals)),
            ({"project": name, "outcome": "failed"}, sum(one.failed for one in totals)),
        ]
    queues.sort(key=lambda one: (-(one[2].pending + one[2].processing), one[0], one[2].queue))
    shown, left_out = queues[:MOST_QUEUES], len(queues) - MOST_QUEUES
    recent = await _recent(engine, shown)
    lately = Period(last_seconds=RECENT_SECONDS)
    customs = await read_recent_customs(engine, told, lately, types=MOST_TYPES)
    return [
        MetricFamily("taskforge_info", "gauge", "The server.", [({"version": __version__}, 1)]),
        MetricFamily(
            "taskforge_jobs",
            "gauge",
            "Jobs of a queue that wait or run.",
            [
                ({"project": name, "queue": one.queue, "status": place}, getattr(one, place))
                for name, _, one in shown
                for place in _PLACES
            ],
        ),
        MetricFamily(
            "taskforge_queue_oldest_pending_seconds",
            "gauge",
            "For how long the first pending job of a queue waits.",
            [
                ({"project": name, "queue": one.queue}, one.oldest_pending_seconds or 0)
                for name, _, one in shown
            ],
        ),
        MetricFamily(
            "taskforge_queue_paused",
            "gauge",
            "Whether a queue is paused.",
            [({"project": name, "queue": one.queue}, not one.is_active) for name, _, one in shown],
        ),
        MetricFamily(
            "taskforge_executions_total",
            "counter",
            "Executions that ended, of all workers of a project.",
            ended,
        ),
        *_recently(recent),
        *_custom_families(customs[:MOST_CUSTOMS], projects),
        MetricFamily(
            "taskforge_workers",
            "gauge",
            "Workers of a project by status.",
            [
                ({"project": name, "status": status}, count)
                for (name, status), count in sorted(workers.items())
            ],
        ),
        MetricFamily(
            "taskforge_late_services",
            "gauge",
            "Services of this server that should have run by now.",
            [({}, len(late))],
        ),
        MetricFamily(
            "taskforge_left_out",
            "gauge",
            "What is not told of because there is too much of it: the queues with the fewest jobs, "
            "the newest projects, names that handlers count under.",
            [
                ({"what": "queues"}, max(0, left_out)),
                ({"what": "projects"}, max(0, len(projects) - len(told))),
                ({"what": "custom"}, max(0, len(customs) - MOST_CUSTOMS)),
            ],
        ),
    ]


async def _recent(
    engine: Engine, shown: Sequence[tuple[str, int, QueueStats]]
) -> list[tuple[str, NamedMetrics]]:
    period = Period(last_seconds=RECENT_SECONDS)
    names = {number: name for name, number, _ in shown}
    found = []
    for number, name in names.items():
        ids = [stats.queue_id for _, of, stats in shown if of == number]
        found += [(name, one) for one in await read_by_queue_named(engine, number, ids, period)]
    return found


def _custom_families(
    customs: Sequence[CustomMetric], projects: Mapping[int, str]
) -> list[MetricFamily]:
    labels = [
        {"project": projects[one.project], "job_type": one.job_type, "name": one.name}
        for one in customs
    ]
    return [
        MetricFamily(
            f"taskforge_recent_custom_{field}",
            "gauge",
            f"{words} of the last five minutes.",
            [(of, getattr(one.totals, field)) for of, one in zip(labels, customs, strict=True)],
        )
        for field, words in (
            ("count", "How many values handlers said"),
            ("sum", "The sum of the values that handlers said"),
            ("max", "The highest value that handlers said"),
        )
    ]


def _recently(recent: Sequence[tuple[str, NamedMetrics]]) -> list[MetricFamily]:
    ended: Series = []
    times: dict[str, Series] = {"duration_ms": [], "wait_ms": []}
    for project, one in recent:
        labels = {"project": project, "queue": one.name}
        figures = one.metrics.totals
        ended += [
            ({**labels, "status": status.removesuffix("_for_good")}, getattr(figures, status))
            for status in _ENDINGS
        ]
        for name, series in times.items():
            for quantile, field in _QUANTILES:
                value = getattr(getattr(figures, name), field)
                if value is not None:
                    series.append(({**labels, "quantile": quantile}, value / 1000))
    return [
        MetricFamily(
            "taskforge_recent_executions",
            "gauge",
            "Executions of a queue that ended in the last five minutes.",
            ended,
        ),
        MetricFamily(
            "taskforge_recent_duration_seconds",
            "gauge",
            "How long executions of a queue took that succeeded in the last five minutes.",
            times["duration_ms"],
        ),
        MetricFamily(
            "taskforge_recent_wait_seconds",
            "gauge",
            "How long executions of a queue had waited that ended in the last five minutes.",
            times["wait_ms"],
        ),
    ]
