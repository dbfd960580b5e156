"""Says why a job is not running."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.circuit import HeldCircuit
from taskforge.domain.errors import NotFound
from taskforge.domain.explain import explain
from taskforge.domain.explanation import MOST_AHEAD, Explanation, Judged, PlaceInLine, Rate
from taskforge.domain.fairness import NO_KEY, Share
from taskforge.domain.ids import last_fence_of
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.limiter import BucketState
from taskforge.domain.queue import Queue
from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import Card, Lane
from taskforge.storage.circuits import ProjectCircuits
from taskforge.storage.explaining import (
    MOST_LANES,
    Before,
    Stand,
    are_paced,
    lanes_before,
    verdicts,
)
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.gates import state_of
from taskforge.storage.postgres.loads import Loads
from taskforge.storage.postgres.reads import PostgresReads

MORE_LOOKS = 2


class Seen(NamedTuple):
    """What one look at a job brought."""

    job: StoredJob
    queue: Queue
    given: list[Judged]
    row: asyncpg.Record | None  # in ready or waiting
    ahead: int  # jobs of its queue that go first
    elsewhere: int  # and of others
    share: Share | None  # where its queue's keys take turns
    stand: Stand | None  # where it is ready
    circuits: tuple[HeldCircuit, ...]  # that let not all jobs of its kind through
    now: datetime

    @property
    def is_ready(self) -> bool:
        return self.row is not None and self.row["turn"] is not None

    @property
    def standing(self) -> PlaceInLine:
        """As far as one look tells."""
        if self.row is None:
            return PlaceInLine()
        return PlaceInLine(
            skipped=frozenset(self.row["skipped"] or ()),
            misfit_at=self.row["misfit_at"],
            misfit=self.row["misfit"],
            circuits=self.circuits,
            placed=self._placed,
        )

    @property
    def _placed(self) -> int | None:
        is_placed = self.queue.settings.is_balanced and self.is_ready
        return (self.row["key"] or NO_KEY) if is_placed and self.row is not None else None


class PostgresExplain:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        reads: PostgresReads,
        loads: Loads,
        heartbeat_timeout_seconds: float | None,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._reads = reads
        self._loads = loads
        self._heartbeat_timeout = heartbeat_timeout_seconds

    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation:
        seen = await self._look(projects, job)
        for _ in range(MORE_LOOKS):
            if seen.is_ready or seen.job.status is not JobStatus.PENDING:
                break
            seen = await self._look(projects, job)  # it moved between one statement and the next
        standing = (
            await self._standing(seen, seen.row)
            if seen.is_ready and seen.row is not None
            else seen.standing
        )
        return explain(seen.job, seen.queue, seen.given, standing, seen.now)

    async def _look(self, projects: Sequence[int], job: UUID) -> Seen:
        now, ahead, elsewhere = await self._connections.now(), 0, 0
        share: Share | None = None
        stand: Stand | None = None
        async with self._connections.reading(projects) as connection:
            found = await self._reads.find_jobs(connection, list(projects), [job])
            if not found:
                raise NotFound("job", str(job))
            listed = await connection.fetch(
                self._connections.sql("workers"),
                [found[job].project],
                self._connections.bound_now(),
            )
            row = await connection.fetchrow(
                self._connections.sql("stands"), job, last_fence_of(job)
            )
        card, lane, circuits = await self._place_of(found[job])
        given = verdicts(
            card,
            lane,
            [codec.worker(worker, worker["now"], self._heartbeat_timeout) for worker in listed],
        )
        if row is not None and row["turn"] is not None and lane is not None:
            urgency = card.queue.settings.urgency(lane.priority)
            stand = Stand(lane, row["turn"], urgency, Moment(round(now.timestamp() * 1e6)))
            stand, before, keys = await self._lanes_before(
                stand, given, row["skipped"] or (), circuits
            )
            place = row["turn"], row["fence"], now, MOST_AHEAD, lane.project
            own, others = before.here, before.elsewhere
            fairness, key = card.queue.settings.fairness, row["key"] or NO_KEY
            is_balanced = card.queue.settings.is_balanced
            by_key = fairness is not None or key != NO_KEY or is_balanced
            if by_key and not is_balanced:
                share = Share.among(fairness, key, keys)
            async with self._connections.reading(projects) as connection:
                ahead = await (
                    connection.fetchval(
                        self._connections.sql("ahead"), own.better, own.beside, *place
                    )
                    if not by_key
                    else connection.fetchval(
                        self._connections.sql("ahead_of_key"),
                        own.better,
                        own.beside,
                        *place,
                        key or None,
                    )
                )
                elsewhere = await connection.fetchval(
                    self._connections.sql("ahead"), others.better, others.beside, *place
                )
                ahead += await self._count_parts(connection, own.part, *place[2:])
                elsewhere += await self._count_parts(connection, others.part, *place[2:])
        held = circuits.held(card.queue, found[job].job_type)
        return Seen(found[job], card.queue, given, row, ahead, elsewhere, share, stand, held, now)

    async def _place_of(self, job: StoredJob) -> tuple[Card, Lane | None, ProjectCircuits]:
        """The queue a job stands in, deleted or not, its lane there, and its project's circuits."""
        catalog = await self._catalog_cache.newest(job.project)
        circuits = await self._catalog_cache.circuits(catalog)
        [facts] = await self._connections.fetch("queue_of", job.queue_id)
        card = (await self._catalog_cache.cards(job.project, [facts["number"]]))[facts["number"]]
        key = (card.queue.number, job.job_type, job.priority, job.requires)
        async with self._connections.connection() as connection:
            lane = await self._catalog_cache.look_for_lane(connection, key)
        return card, lane, circuits

    async def _count_parts(
        self,
        connection: Connection,
        parts: Sequence[tuple[int, int]],
        now: datetime,
        most: int,
        project: int,
    ) -> int:
        if not parts:
            return 0
        lanes, turns = zip(*parts, strict=True)
        text = self._connections.sql("ahead_in_part")
        return int(await connection.fetchval(text, lanes, turns, now, most, project))

    async def _lanes_before(
        self,
        stand: Stand,
        given: Sequence[Judged],
        skipped: Collection[UUID],
        circuits: ProjectCircuits,
    ) -> tuple[Stand, Before, set[int]]:
        """Where it stands as the project is loaded now, and the keys that take turns with it."""
        lane = stand.lane
        rows = await self._connections.fetch("occupied", lane.project, 0, 0, 0, MOST_LANES)
        occupied = await self._catalog_cache.lanes({one["lane"] for one in rows})
        queues = {lane.queue} | {other.queue for other in occupied.values()}
        cards = await self._catalog_cache.cards(lane.project, queues)
        if are_paced(cards.values()):
            loaded = await self._loads.is_loaded(lane.project, occupied, cards, circuits)
            stand = msgspec.structs.replace(stand, moment=Moment(stand.moment.now, loaded))
        before = lanes_before(stand, occupied.values(), cards, given, skipped, circuits)
        beside = set(before.here.beside)
        return stand, before, {one["key"] or NO_KEY for one in rows if one["lane"] in beside}

    async def _rate_of_key(self, seen: Seen, key: int, now: float) -> Rate | None:
        fairness = seen.queue.settings.fairness
        if fairness is None or fairness.bucket is None:
            return None
        rows = await self._connections.fetch("key_gates", [seen.queue.number], [key])
        state = BucketState(rows[0]["tokens"], rows[0]["refreshed_at"]) if rows else None
        return Rate.seen(fairness.bucket, state, now, seen.ahead)

    async def _standing(self, seen: Seen, row: asyncpg.Record) -> PlaceInLine:
        settings = seen.queue.settings
        running, key_running, key_waiting, rate, key_rate = 0, 0, 0, None, None
        if settings.is_gated:
            [gate] = await self._connections.fetch(
                "gate_now", seen.queue.number, self._connections.bound_now()
            )
            running = gate["running"]
            if settings.limits_keys and row["key"] is not None:
                counts = await self._connections.fetch(
                    "count_keys", [seen.queue.number], [row["key"]]
                )
                of_key = [one for one in counts if one["key"] == row["key"]]
                key_running = sum(one["running"] for one in of_key)
                key_waiting = sum(one["waiting"] for one in of_key)
                key_rate = await self._rate_of_key(seen, row["key"], gate["now"])
            if settings.bucket is not None:
                rate = Rate.seen(settings.bucket, state_of(gate), gate["now"], seen.ahead)
        return msgspec.structs.replace(
            seen.standing,
            ready_seconds=max(0.0, seen.now.timestamp() - row["turn"] / 1e6),
            ahead=seen.ahead,
            elsewhere=seen.elsewhere,
            share=seen.share,
            key_running=key_running,
            key_waiting=key_waiting,
            key_rate=key_rate,
            running=running,
            rate=rate,
            until=row["until"],
            steps=0 if seen.stand is None else seen.stand.steps,
            opens_at=None if seen.stand is None else _moment(seen.stand.opens_at),
        )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)
