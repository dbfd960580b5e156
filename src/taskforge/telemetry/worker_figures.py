"""What a worker's process tells a scraper of itself: names, kinds and labels stand here, and
nowhere else. The number of series is bounded, whatever runs."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from taskforge.telemetry.exposition import MetricFamily

BUCKET_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
MOST_TYPES = 50  # of jobs that are told apart; what comes later counts as one
OTHERS = "others"
MOST_CUSTOMS = 200  # names that handlers count under, in all types; what comes later counts as one
_CUSTOMS = (
    ("values_total", "counter", "How often handlers said a value of their own."),
    ("sum", "gauge", "The sum of those values."),
    ("last", "gauge", "The last of those values."),
)
Labels = Mapping[str, str]


class WorkerFigures:
    """Counted on the event loop of the worker, for as long as its process lives."""

    def __init__(self) -> None:
        self._ended: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._customs: dict[tuple[str, str], tuple[int, float, float]] = {}
        self.loop_lag_seconds = 0.0

    def count(self, job_type: str, outcome: str, seconds: float | None) -> None:
        """An execution has ended; None seconds: it had not begun."""
        if job_type not in self._buckets:
            if len(self._buckets) >= MOST_TYPES:
                job_type = OTHERS
            self._buckets.setdefault(job_type, [0] * (len(BUCKET_SECONDS) + 1))
        self._ended[job_type, outcome] += 1
        if seconds is not None:
            self._buckets[job_type][bisect_left(BUCKET_SECONDS, seconds)] += 1
            self._seconds[job_type] += seconds  # type: ignore[assignment]

    def count_custom(self, job_type: str, name: str, value: float) -> None:
        """What a handler counted, from any thread."""
        key = (job_type, name)
        if key not in self._customs and len(self._customs) >= MOST_CUSTOMS:
            key = (OTHERS, OTHERS)
        count, total, _ = self._customs.get(key, (0, 0.0, 0.0))
        self._customs[key] = (count + 1, total + value, value)

    def families(self, worker: str, slots: int, busy: int, unsent: int) -> list[MetricFamily]:
        """As they stand now. Every series names its worker."""
        of: Labels = {"worker": worker}
        gauges = (
            ("slots", "Jobs that this worker runs at once, at most.", slots),
            ("busy", "Jobs in its hands.", busy),
            ("unsent", "Outcomes that the store has not taken yet.", unsent),
            ("loop_lag_seconds", "How late its event loop woke up last.", self.loop_lag_seconds),
        )
        return [
            *(
                MetricFamily(f"taskforge_worker_{name}", "gauge", words, [(of, value)])
                for name, words, value in gauges
            ),
            MetricFamily(
                "taskforge_worker_executions_total",
                "counter",
                "Executions that ended in this process.",
                [
                    ({**of, "job_type": job_type, "outcome": outcome}, count)
                    for (job_type, outcome), count in sorted(self._ended.items())
                ],
            ),
            MetricFamily(
                "taskforge_worker_duration_seconds",
                "histogram",
                "How long executions ran in this process, whatever came of them.",
                [],
                [part for job_type in self._buckets for part in self._histogram(of, job_type)],
            ),
            *self._custom_families(of),
        ]

    def _custom_families(self, of: Labels) -> list[MetricFamily]:
        named = [
            ({**of, "job_type": job_type, "name": name}, value)
            for (job_type, name), value in sorted(self._customs.copy().items())
        ]
        return [
            MetricFamily(
                f"taskforge_worker_custom_{behind}",
                kind,
                words,
                [(labels, value[position]) for labels, value in named],
            )
            for position, (behind, kind, words) in enumerate(_CUSTOMS)
        ]

    def _histogram(self, of: Labels, job_type: str) -> list[tuple[str, Labels, float]]:
        labels = {**of, "job_type": job_type}
        bounds = [f"{bound:g}" for bound in BUCKET_SECONDS] + ["+Inf"]
        parts: list[tuple[str, Labels, float]] = []
        total = 0
        for bound, count in zip(bounds, self._buckets[job_type], strict=True):
            total += count
            parts.append(("_bucket", {**labels, "le": bound}, total))
        return [
            *parts,
            ("_sum", labels, self._seconds[job_type]),
            ("_count", labels, total),
        ]
