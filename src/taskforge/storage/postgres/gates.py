"""Holds claims to the limits of their queues: how many may run at once, and how many may start in a
time."""

from collections.abc import Mapping, Sequence

import asyncpg
import msgspec

from taskforge.domain.fairness import NO_KEY
from taskforge.domain.limiter import Adaptive, BucketState, Grant, is_due, judge, settle, take
from taskforge.domain.queue import QueueSettings
from taskforge.storage.catalog import OpenLane
from taskforge.storage.circuits import CircuitRow, Probes
from taskforge.storage.key_limits import KeyLimits
from taskforge.storage.postgres.circuits import lock_circuits, save_circuits
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections


class Gate(msgspec.Struct):
    """What a limited queue lets through in this transaction."""

    settings: QueueSettings
    before: BucketState | None
    now: float
    cap: int
    grant: Grant | None = None


class Gates:
    """The limits of one claim. Their rows stay locked until its transaction ends."""

    def __init__(
        self,
        connections: PostgresConnections,
        connection: Connection,
        limits: Mapping[int, QueueSettings],
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._limits = limits
        self._limit = 0
        self._gates: dict[int, Gate] = {}
        self._keys: dict[int, KeyLimits] = {}  # of queues that limit theirs
        self._probes: Probes | None = None

    @property
    def caps(self) -> dict[int, int]:
        """How many jobs of each queue may be taken. Queues whose gate another claim held are not
        named."""
        return {queue: gate.cap for queue, gate in self._gates.items()}

    async def open(self, limit: int) -> None:
        """`limit`: how many jobs the claim may take of all queues together."""
        self._limit = limit
        rows = await self._connection.fetch(
            self._connections.sql("lock_gates"), list(self._limits), self._connections.bound_now()
        )
        self._gates = {
            row["queue"]: Gate(self._limits[row["queue"]], state_of(row), row["now"], limit)
            for row in rows
        }
        if not self._gates:
            return
        counted = [
            queue
            for queue, gate in self._gates.items()
            if gate.settings.max_concurrent_jobs is not None
        ]
        count = self._connections.sql("count_gates")
        counts = await self._connection.fetch(count, counted) if counted else []
        running = {row["gate"]: row["running"] for row in counts}
        news = await self._news()
        for queue, gate in self._gates.items():
            most, bucket, state = (
                gate.settings.max_concurrent_jobs,
                gate.settings.bucket,
                gate.before,
            )
            if most is not None:
                gate.cap = min(gate.cap, max(0, most - running.get(queue, 0)))
            if bucket is not None:
                if isinstance(bucket, Adaptive) and state is not None and queue in news:
                    state = judge(bucket, state, gate.now, *news[queue])
                gate.grant = take(bucket, state, gate.now, gate.cap)
                gate.cap = gate.grant.granted

    async def within_keys(
        self, lanes: Sequence[OpenLane]
    ) -> tuple[list[OpenLane], dict[int, set[int]]]:
        """What may be asked of these lanes without breaking the limits of their keys, and the keys
        of each queue that may start nothing."""
        limited = [lane for lane in lanes if lane.settings.limits_keys and lane.key != NO_KEY]
        if not limited:
            return list(lanes), {}
        for lane in limited:
            fairness = lane.settings.fairness
            if fairness is not None and lane.queue not in self._keys:
                self._keys[lane.queue] = KeyLimits(fairness, self._gates[lane.queue].now)
        queues, keys = list(self._keys), [lane.key for lane in limited]
        for row in await self._connection.fetch(self._connections.sql("count_keys"), queues, keys):
            self._keys[row["queue"]].count(row["key"], row["running"], row["waiting"])
        if any(limits.has_rate for limits in self._keys.values()):
            states = self._connections.sql("key_gates")
            for row in await self._connection.fetch(states, queues, keys):
                self._keys[row["queue"]].remember(row["key"], row["tokens"], row["refreshed_at"])
        for limits in self._keys.values():
            limits.ask_anew()
        allowed = [
            lane if lane.queue not in self._keys else self._keys[lane.queue].within(lane)
            for lane in lanes
        ]
        full = {queue: limits.full for queue, limits in self._keys.items()}
        return [lane for lane in allowed if lane is not None], full

    @property
    def limits_keys(self) -> bool:
        """Whether any queue that was asked limits its keys."""
        return bool(self._keys)

    async def within_circuits(self, lanes: Sequence[OpenLane]) -> list[OpenLane]:
        """What may be asked of these lanes without more probes than half-open circuits let
        through."""
        behind = {number: lane for lane in lanes for number in lane.probing}
        if not behind:
            return list(lanes)
        rows = await lock_circuits(self._connections, self._connection, (), behind)
        probes = self._probes = Probes(rows[0]["now"] if rows else 0.0)
        for row in rows:
            probes.lock(CircuitRow(*row[:-1]), behind[row["number"]].settings)
        allowed = []
        for lane in lanes:
            if not lane.probing:
                allowed.append(lane)
                continue
            wanted = self._limit if lane.most is None else lane.most
            most = probes.allow(lane.probing, wanted)
            if most:
                allowed.append(msgspec.structs.replace(lane, most=most))
        return allowed

    async def count_probes(
        self, project: int, lanes: Sequence[OpenLane], taken: Mapping[int, int]
    ) -> None:
        """Keep how many probes were taken, by lane."""
        if self._probes is None:
            return
        names = {lane.queue: lane.queue_name for lane in lanes}
        for number, circuits in {lane.number: lane.probing for lane in lanes}.items():
            self._probes.take(circuits, taken.get(number, 0))
        moved = self._probes.moved()
        await save_circuits(self._connections, self._connection, project, moved, names)

    async def _close_keys(self, taken: Mapping[tuple[int, int], Sequence[int]]) -> list[float]:
        """Keep what the rates of keys have left; `taken`: what each job took, by queue and key."""
        for (queue, key), costs in taken.items():
            if queue in self._keys:
                self._keys[queue].use(key, len(costs), sum(costs))
        kept = [(queue, *one) for queue, limits in self._keys.items() for one in limits.kept()]
        if kept:
            await self._connection.executemany(self._connections.sql("save_key_gate"), kept)
            for queue, limits in self._keys.items():
                if limits.forgets_before is not None:
                    forget = self._connections.sql("forget_key_gates")
                    await self._connection.execute(forget, queue, *limits.forgets_before)
        return [wait for limits in self._keys.values() for wait in limits.waits()]

    async def _news(self) -> dict[int, tuple[int, int]]:
        """What came of the jobs of adaptive queues since they were judged last: how many went well,
        how many did not."""
        due = [
            queue
            for queue, gate in self._gates.items()
            if isinstance(gate.settings.bucket, Adaptive)
            and is_due(gate.settings.bucket, gate.before, gate.now)
        ]
        if not due:
            return {}
        rows = await self._connection.fetch(self._connections.sql("take_gate_news"), due)
        return {row["queue"]: (row["good"], row["bad"]) for row in rows}

    def hears_of_quiet(self, queue: int, used: int, claimed: int) -> bool:
        """Whether this claim tells the gate that nothing waits before it."""
        gate = self._gates.get(queue)
        return gate is not None and used < gate.cap and claimed < self._limit

    async def close(
        self,
        taken: Mapping[int, int],
        by_key: Mapping[tuple[int, int], Sequence[int]],
        claimed: int,
    ) -> float | None:
        """Keep what the limits remember; `taken`: how many jobs of each queue, `by_key`: what each
        took, by queue and fairness key. Returns after how many seconds a rate that held jobs back
        lets the next one through."""
        changed, waits = [], await self._close_keys(by_key)
        for queue, gate in self._gates.items():
            bucket, used = gate.settings.bucket, taken.get(queue, 0)
            if bucket is None or gate.grant is None:
                continue
            kept = settle(bucket, gate.before, gate.grant, used, more=claimed >= self._limit)
            if kept is not None:
                changed.append(
                    (queue, kept.tokens, kept.at, kept.rate, kept.judged_at, kept.behind)
                )
            if used == gate.cap and gate.grant.wait > 0:
                waits.append(gate.grant.wait)
        if changed:
            await self._connection.executemany(self._connections.sql("save_gate"), changed)
        return min(waits, default=None)


def is_stepped(lane: OpenLane) -> bool:
    """Whether its limits are kept in Python, in steps."""
    return lane.settings.bucket is not None or lane.settings.limits_keys or bool(lane.probing)


def state_of(row: asyncpg.Record) -> BucketState | None:
    """What a queue's rate limit remembers."""
    if row["tokens"] is None:
        return None
    return BucketState(
        row["tokens"], row["refreshed_at"], row["rate"], row["judged_at"], row["behind"]
    )
