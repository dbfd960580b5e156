"""Keeps the books of one transaction: tallies of finished jobs, events for the outbox, rollups of
executions, the audit log."""

from array import array
from collections.abc import Iterable
from uuid import UUID

import msgspec

from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.failure_kind import READ_CHARACTERS, group_of, kind_of
from taskforge.domain.job import ErrorInfo
from taskforge.domain.limiter import Adaptive
from taskforge.domain.trail import Entry
from taskforge.storage.catalog import Lane
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import (
    EXECUTION_CODE,
    JOB_STATUSES,
    SECOND,
    epoch,
    job_bytes,
)
from taskforge.storage.sqlite.transaction import Transaction

_MINUTE = 60 * SECOND
_SUCCEEDED, _CANCELLED = (
    EXECUTION_CODE[ExecutionStatus.SUCCEEDED],
    EXECUTION_CODE[ExecutionStatus.CANCELLED],
)


def enter(transaction: Transaction, entries: Iterable[Entry]) -> None:
    """Append to the audit log."""
    transaction.executemany(
        sql("enter"), [(transaction.now, *msgspec.structs.astuple(entry)) for entry in entries]
    )


def announce(
    transaction: Transaction,
    project: int,
    topic: str,
    *,
    queue: int | None = None,
    worker: UUID | None = None,
) -> None:
    """Tell readers of the outbox what came of a queue or a worker."""
    identity = None if worker is None else worker.bytes
    transaction.execute(sql("announce"), (project, topic, queue, identity, transaction.now))


Run = tuple[int, bytes, int, float, float, int]
"""An execution that ended: lane, incarnation, status, how long it ran and how long it had waited,
in milliseconds, and when it was claimed."""


class Bookkeeping:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._cache = transaction.catalog_cache
        self._ended: dict[tuple[int, int], list[bytes]] = {}
        self._removed: dict[tuple[int, int], int] = {}
        self._retried: dict[int, list[bytes]] = {}  # by queue
        # by lane, incarnation and status: durations and waits
        self._rollups: dict[tuple[int, bytes, int], tuple[list[float], list[float]]] = {}
        # by project, queue, job type and group: how many, and one of them
        self._failures: dict[tuple[int, int, str, bytes], tuple[int, bytes, ErrorInfo]] = {}

    def ended(self, queue: int, status: int, jobs: bytes) -> None:
        """Jobs, their ids one behind the other, reached a final status: they count, and readers of
        the outbox hear of them."""
        self._ended.setdefault((queue, status), []).append(jobs)

    def retried(self, queue: int, job: bytes) -> None:
        """It failed, and is tried again."""
        self._retried.setdefault(queue, []).append(job)

    def removed(self, queue: int, status: int) -> None:
        """The job left its final status, or the store."""
        self._removed[queue, status] = self._removed.get((queue, status), 0) + 1

    def failed(
        self, project: int, queue: int, job_type: str, error: ErrorInfo, fence: bytes
    ) -> bytes:
        """A failure is counted in its group, whose id is returned. Of a job that never ran, the
        fence is the job's id."""
        group = group_of(project, job_type, kind_of(error)).bytes
        key = (project, queue, job_type, group)
        count, fence, error = self._failures.get(key, (0, fence, error))
        self._failures[key] = (count + 1, fence, error)
        return group

    def ran(self, runs: Iterable[Run]) -> None:
        """Executions that ended."""
        rollups = self._rollups
        for lane, worker, status, duration, wait, _ in runs:
            key = (lane, worker, status)
            times = rollups.get(key)
            if times is None:
                times = rollups[key] = ([], [])
            times[0].append(duration)
            times[1].append(wait)

    def write(self) -> None:
        now, project_of = self._transaction.now, self._cache.project_of
        lanes = {key[0]: self._cache.lane(key[0]) for key in self._rollups}
        minute = now - now % _MINUTE
        tallies = [
            (project_of(queue), queue, status, sum(map(len, jobs)) // 16)
            for (queue, status), jobs in self._ended.items()
        ]
        tallies += [
            (project_of(queue), queue, status, -count)
            for (queue, status), count in self._removed.items()
        ]
        events = [
            (project_of(queue), f"job.{JOB_STATUSES[status]}", queue, now, b"".join(jobs))
            for (queue, status), jobs in self._ended.items()
        ]
        events += [
            (project_of(queue), "job.retried", queue, now, b"".join(jobs))
            for queue, jobs in self._retried.items()
        ]
        rollups = [
            (
                lanes[lane].project,
                lanes[lane].queue,
                lane,
                worker,
                minute,
                status,
                len(waits),
                array("f", durations).tobytes(),
                array("f", waits).tobytes(),
            )
            for (lane, worker, status), (durations, waits) in self._rollups.items()
        ]
        failures = [
            (*key, count, job_bytes(fence), epoch(fence), error.type, said, now)
            for key, (count, fence, error) in self._failures.items()
            for said in [error.message[:READ_CHARACTERS]]
        ]
        news = self._news(lanes)
        for name, rows in (
            ("tally", tallies),
            ("event", events),
            ("rollup", rollups),
            ("failure", failures),
            ("gate_delta", news),
        ):
            if rows:
                self._transaction.executemany(sql(name), rows)

    def _news(self, lanes: dict[int, Lane]) -> list[tuple[int, int, int]]:
        """(queue, went well, did not) for queues whose rate limit learns from it."""
        learning = {
            lane.queue
            for lane in lanes.values()
            if isinstance(self._cache.queue_in(lane).settings.bucket, Adaptive)
        }
        counts = {queue: [0, 0] for queue in learning}
        for (lane, _, status), (_, waits) in self._rollups.items() if counts else ():
            count = counts.get(lanes[lane].queue)
            if count is not None and status != _CANCELLED:
                count[status != _SUCCEEDED] += len(waits)
        return [(queue, good, bad) for queue, (good, bad) in counts.items() if good or bad]
