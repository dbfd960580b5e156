"""Holds claims to the limits of their queues: how many may run at once, and how many may start in a
time."""

import sqlite3
from collections.abc import Callable

from taskforge.domain.limiter import (
    Adaptive,
    Bucket,
    BucketState,
    Grant,
    is_due,
    judge,
    settle,
    take,
)
from taskforge.storage.catalog import OpenLane
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import SECOND
from taskforge.storage.sqlite.transaction import Transaction


class Gate:
    """What a limited queue lets through in this transaction."""

    __slots__ = ("before", "bucket", "grant", "granted", "used")

    def __init__(
        self, granted: int, bucket: Bucket | None, before: BucketState | None, grant: Grant | None
    ) -> None:
        self.granted = granted
        self.bucket = bucket
        self.before = before
        self.grant = grant
        self.used = 0


class Gates:
    """The limited queues that one claim comes across; the others cost nothing. Nobody else writes
    meanwhile."""

    def __init__(self, transaction: Transaction, limit: int) -> None:
        """`limit`: how many jobs the claim may take of all queues together."""
        self._transaction = transaction
        self._limit = limit
        self._now = transaction.now / SECOND
        self._gates: dict[int, Gate] = {}

    def room(self, lane: OpenLane, wanted: int) -> int:
        """How many of `wanted` jobs of this lane may be taken."""
        if not lane.settings.is_gated:
            return wanted
        gate = self._gates.get(lane.queue)
        if gate is None:
            gate = self._gates[lane.queue] = self._open(lane)
        return min(wanted, gate.granted - gate.used)

    def use(self, lane: OpenLane, count: int) -> None:
        gate = self._gates.get(lane.queue)
        if gate is not None:
            gate.used += count

    def _open(self, lane: OpenLane) -> Gate:
        settings, granted, bucket = lane.settings, self._limit, lane.settings.bucket
        if settings.max_concurrent_jobs is not None:
            running = count_running(self._transaction.execute, lane.queue)
            granted = min(granted, max(0, settings.max_concurrent_jobs - running))
        if bucket is None:
            return Gate(granted, None, None, None)
        before = state = state_of(self._transaction.execute, lane.queue)
        if isinstance(bucket, Adaptive) and state is not None and is_due(bucket, state, self._now):
            state = judge(bucket, state, self._now, *self._news(lane.queue))
        grant = take(bucket, state, self._now, granted)
        return Gate(grant.granted, bucket, before, grant)

    def _news(self, queue: int) -> tuple[int, int]:
        """What came of the queue's jobs since it was judged last: how many went well, how many did
        not."""
        good, bad = self._transaction.execute(sql("gate_news"), (queue,)).fetchone()
        if good is None:
            return 0, 0
        self._transaction.execute(sql("remove_gate_news"), (queue,))
        return good, bad

    def hears_of_quiet(self, queue: int, claimed: int) -> bool:
        """Whether this claim tells the gate that nothing waits before it, or there is no gate."""
        gate = self._gates.get(queue)
        return gate is None or (gate.used < gate.granted and claimed < self._limit)

    def close(self, claimed: int) -> float | None:
        """Keep what the limits remember. Returns after how many seconds a rate that held jobs back
        lets the next one through."""
        waits = []
        for queue, gate in self._gates.items():
            if gate.bucket is None or gate.grant is None:
                continue
            kept = settle(
                gate.bucket, gate.before, gate.grant, gate.used, more=claimed >= self._limit
            )
            if kept is not None:
                row = (queue, kept.tokens, kept.at, kept.rate, kept.judged_at, kept.behind)
                self._transaction.execute(sql("save_gate"), row)
            if gate.used == gate.granted and gate.grant.wait > 0:
                waits.append(gate.grant.wait)
        return min(waits, default=None)


def state_of(execute: Callable[..., sqlite3.Cursor], queue: int) -> BucketState | None:
    """What a queue's rate limit remembers."""
    row = execute(sql("gate_now"), (queue,)).fetchone()
    if row is None or row[0] is None:
        return None
    tokens, at, rate, judged_at, behind = row
    return BucketState(tokens, at, rate, judged_at, bool(behind))


def count_running(execute: Callable[..., sqlite3.Cursor], queue: int) -> int:
    """How many jobs of a limited queue run."""
    running: int = execute(sql("count_gates"), (queue,)).fetchone()[0]
    return running
