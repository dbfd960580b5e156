"""Holds claims to the limits of their queues: how many may run at once, and how many may start in a time."""

from taskforge.domain.limiter import BucketState, give_back, take
from taskforge.storage.catalog import OpenLane
from taskforge.storage.sqlite.codec import SECOND
from taskforge.storage.sqlite.keeper import sql
from taskforge.storage.sqlite.transaction import Transaction


class Gate:
    """What a limited queue lets through in this transaction."""

    __slots__ = ("granted", "state", "used")

    def __init__(self, granted: int, state: BucketState | None) -> None:
        self.granted = granted
        self.state = state
        self.used = 0


class Gates:
    """The limited queues that one claim comes across; the others cost nothing. Nobody else writes meanwhile."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._gates: dict[int, Gate] = {}
        self._lanes: dict[int, OpenLane] = {}

    def room(self, lane: OpenLane, wanted: int) -> int:
        """How many of `wanted` jobs of this lane may be taken."""
        if not lane.settings.is_gated:
            return wanted
        gate = self._gates.get(lane.queue)
        if gate is None:
            gate = self._gates[lane.queue] = self._open(lane)
            self._lanes[lane.queue] = lane
        return min(wanted, gate.granted - gate.used)

    def use(self, lane: OpenLane, count: int) -> None:
        gate = self._gates.get(lane.queue)
        if gate is not None:
            gate.used += count

    def _open(self, lane: OpenLane) -> Gate:
        settings, granted, state = lane.settings, 1_000_000_000, None
        if settings.max_concurrent_jobs is not None:
            running: int = self._transaction.execute("select count(*) from running where gate = ?", (lane.queue,)).fetchone()[0]
            granted = max(0, settings.max_concurrent_jobs - running)
        bucket = settings.bucket
        if bucket is not None:
            row = self._transaction.execute("select tokens, refreshed_at from gates where queue = ?", (lane.queue,)).fetchone()
            before = None if row is None or row[0] is None else BucketState(row[0], row[1])
            grant = take(bucket, before, self._transaction.now / SECOND, granted)
            granted, state = grant.granted, grant.state
        return Gate(granted, state)

    def save(self) -> None:
        for queue, gate in self._gates.items():
            bucket = self._lanes[queue].settings.bucket
            if bucket is not None and gate.state is not None and gate.used:
                kept = give_back(bucket, gate.state, gate.granted - gate.used)
                self._transaction.execute(sql("save_gate"), (queue, kept.tokens, kept.at))
