"""Holds claims to the limits of their queues: how many may run at once, and how many may start in a
time."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence

import msgspec

from taskforge.domain.fairness import NO_KEY
from taskforge.domain.job import cost_of
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
from taskforge.storage.circuits import CircuitRow, Probes
from taskforge.storage.key_limits import KeyLimits
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.circuits import save_circuits
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

    def __init__(self, transaction: Transaction, limit: int, project: int) -> None:
        """`limit`: how many jobs the claim may take of all queues together."""
        self._transaction = transaction
        self._limit = limit
        self._project = project
        self._now = transaction.now / SECOND
        self._probes = Probes(self._now)
        self._gates: dict[int, Gate] = {}
        self._keys: dict[int, KeyLimits] = {}  # of queues that limit theirs

    def room(self, lane: OpenLane, wanted: int) -> int:
        """How many of `wanted` jobs of this lane may be taken."""
        if not lane.settings.is_gated:
            return wanted
        gate = self._gates.get(lane.queue)
        if gate is None:
            gate = self._gates[lane.queue] = self._open(lane)
        return min(wanted, gate.granted - gate.used)

    def within_keys(self, lanes: Sequence[OpenLane]) -> tuple[list[OpenLane], dict[int, set[int]]]:
        """What may be asked of these lanes without breaking the limits of their keys, and the keys
        of each queue that may start nothing."""
        by_queue: dict[int, list[int]] = {}
        for lane in lanes:
            fairness = lane.settings.fairness
            if fairness is None or not fairness.limits_keys or lane.key == NO_KEY:
                continue
            if lane.queue not in self._keys:
                limits = self._keys[lane.queue] = KeyLimits(fairness, self._now)
                for counts in self._transaction.execute(sql("count_keys"), (lane.queue,)):
                    limits.count(*counts)
            by_queue.setdefault(lane.queue, []).append(lane.key)
        if not self._keys:
            return list(lanes), {}
        for queue, keys in by_queue.items():
            if self._keys[queue].has_rate:
                states = self._transaction.execute(sql("key_gates"), (queue, codec.json(keys)))
                for state in states.fetchall():
                    self._keys[queue].remember(*state)
        for limits in self._keys.values():
            limits.ask_anew()
        allowed = [
            lane if lane.queue not in self._keys else self._keys[lane.queue].within(lane)
            for lane in lanes
        ]
        full = {queue: limits.full for queue, limits in self._keys.items()}
        return [lane for lane in allowed if lane is not None], full

    def within_circuits(self, lanes: Sequence[OpenLane]) -> list[OpenLane]:
        """What may be asked of these lanes without more probes than half-open circuits let
        through."""
        allowed = []
        for lane in lanes:
            if not lane.probing:
                allowed.append(lane)
                continue
            for number in lane.probing:
                if number not in self._probes:
                    row = self._transaction.execute(sql("circuit_numbered"), (number,)).fetchone()
                    self._probes.lock(CircuitRow(*row), lane.settings)
            wanted = self._limit if lane.most is None else lane.most
            most = self._probes.allow(lane.probing, wanted)
            if most:
                allowed.append(msgspec.structs.replace(lane, most=most))
        return allowed

    def use(self, lane: OpenLane, count: int, extras: Iterable[str | None] = ()) -> None:
        """So many jobs of this lane were taken, with these extras."""
        if lane.probing:
            self._probes.take(lane.probing, count)
        gate = self._gates.get(lane.queue)
        if gate is not None:
            gate.used += count
        limits = self._keys.get(lane.queue)
        if limits is not None:
            units = sum(map(cost_of, extras)) if limits.has_rate else count
            limits.use(lane.key, count, units)

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
        save_circuits(self._transaction, self._project, self._probes.moved())
        waits: list[float] = []
        for queue, limits in self._keys.items():
            changed = [(queue, *one) for one in limits.kept()]
            if changed:
                self._transaction.executemany(sql("save_key_gate"), changed)
                if limits.forgets_before is not None:
                    forgotten = (queue, *limits.forgets_before)
                    self._transaction.execute(sql("forget_key_gates"), forgotten)
            waits += limits.waits()
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
