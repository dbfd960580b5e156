"""Counts of a pool and its workers, as of the moment they were asked for."""

import msgspec


class WorkerStats(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    is_busy: bool
    buffered: int  # in its own queue; 0 where all share one
    succeeded: int
    failed: int  # attempts, those that were tried again included
    busy_seconds: float


class PoolStats(msgspec.Struct, frozen=True, kw_only=True):
    """submitted = succeeded + failed + cancelled + dropped + buffered + running + resting, at all
    times."""

    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    dropped: int
    rejected: int  # never accepted, so not submitted either
    retried: int
    timed_out: int  # attempts
    buffered: int
    running: int
    resting: int  # failed, and waiting for their next attempt
    workers: tuple[WorkerStats, ...]
