"""Hands jobs to workers."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from operator import itemgetter
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.errors import LeaseLost, StoreUnavailable
from taskforge.domain.job import Claimed
from taskforge.storage.catalog import Catalog, OpenLane, Taker
from taskforge.storage.engine import Claim
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.bridge import Bridge
from taskforge.storage.postgres.connections import Connection
from taskforge.storage.postgres.gates import Gates
from taskforge.storage.postgres.reach import Reach

DOUBT_SECONDS = 60.0
CONTENDED_TRIES = 5
_LANE, _TURN, _BUSY_SINCE = itemgetter(1), itemgetter(10), itemgetter(13)  # in what claim.sql and adopt.sql return
# Takes jobs once, in a batch of this number, and says whether a limit was passed over because another claim held it.
Once = Callable[[Catalog, Taker, tuple[OpenLane, ...], Claim, int], Awaitable[tuple[list[asyncpg.Record], bool]]]


class Claimer(Bridge):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._one, self._many = (self.sql("claim").replace("$chosen", self.sql(name)) for name in ("claim_one", "claim_many"))
        self._reaches: dict[UUID, Reach] = {}
        self._batches = itertools.count(random.getrandbits(62))
        self._doubts: dict[UUID, dict[int, float]] = {}

    async def claim(self, claim: Claim) -> list[Claimed]:
        adopted = await self._adopt(claim.incarnation)
        if adopted:
            return adopted
        batches: list[int] = []
        try:
            return await self._claim_or_bridge(batches, claim)
        except LeaseLost:
            self._reaches.pop(claim.incarnation, None)
            self._doubts.pop(claim.incarnation, None)
            raise
        except BaseException:
            self._doubt(claim.incarnation, batches)
            raise

    async def _claim_or_bridge(self, batches: list[int], claim: Claim) -> list[Claimed]:
        try:
            return await self._claim_in(batches, claim)
        except LeaseLost:
            await self.bridge(claim.incarnation)  # perhaps nobody could renew
            return await self._claim_in(batches, claim)

    async def _claim_in(self, batches: list[int], claim: Claim) -> list[Claimed]:
        """`batches` gets the numbers of all that took something, or may have."""
        newer_than: int | None = None
        contended = 0
        while True:
            catalog = await self.catalog(newer_than=newer_than)
            taker = await self.taker(claim.incarnation)
            lanes = catalog.open_lanes(taker)
            skipped = False
            rows: list[asyncpg.Record] = []
            if lanes and claim.limit > 0:
                # A rate is kept in Python, in steps; how many may run in the claim itself, which does not say why it gives none.
                if not any(lane.settings.bucket is not None for lane in lanes):
                    rows, _ = await self._fill(batches, self._claim_all, catalog, taker, lanes, claim)
                if not rows and any(lane.settings.is_gated for lane in lanes):
                    rows, skipped = await self._fill(batches, self._claim_gated, catalog, taker, lanes, claim)
            if rows:
                return _in_order(rows, lanes)
            doubt = (await self.fetch("claim_doubt", claim.incarnation, self.bound_now()))[0]
            if not doubt["alive"]:
                raise await self.lost(claim.incarnation)
            if doubt["version"] != catalog.version:
                newer_than = catalog.version
            elif skipped and contended < CONTENDED_TRIES:
                contended += 1
                await asyncio.sleep(random.uniform(0.001, 0.004))
            else:
                return []

    def look_from_head(self) -> None:
        for reach in self._reaches.values():
            reach.from_head()

    async def _fill(
        self, batches: list[int], claim: Once, catalog: Catalog, taker: Taker, lanes: tuple[OpenLane, ...], wish: Claim
    ) -> tuple[list[asyncpg.Record], bool]:
        """Where one lane holds nearly all there is, a claim that looks at a little of each brings too few: look again at once."""
        batches.append(next(self._batches))
        rows, skipped = await claim(catalog, taker, lanes, wish, batches[-1])
        if not rows:
            batches.pop()
        while 0 < len(rows) < wish.limit and self._reaches[taker.incarnation].cut_short:
            batches.append(next(self._batches))
            try:
                rest = msgspec.structs.replace(wish, limit=wish.limit - len(rows))
                more, skipped = await claim(catalog, taker, lanes, rest, batches[-1])
            except StoreUnavailable:
                self._doubt(taker.incarnation, batches[-1:])
                break  # what was taken counts
            if not more:
                break
            rows += more
        rows.sort(key=_TURN)
        return rows, skipped

    async def _claim_all(
        self, catalog: Catalog, taker: Taker, lanes: tuple[OpenLane, ...], wish: Claim, batch: int
    ) -> tuple[list[asyncpg.Record], bool]:
        async with self.connection() as connection:
            return await self._claim(connection, catalog, taker, lanes, wish, batch, None), False

    async def _claim(
        self,
        connection: Connection,
        catalog: Catalog,
        taker: Taker,
        lanes: tuple[OpenLane, ...],
        wish: Claim,
        batch: int,
        caps: dict[int, int] | None,
    ) -> list[asyncpg.Record]:
        """One claim statement; `caps` holds what each limited queue lets through, None leaves that to the statement."""
        reach = self._reaches.setdefault(taker.incarnation, Reach())
        numbers = [lane.number for lane in lanes]
        started = time.monotonic()
        bounds, most = reach.ask(numbers, wish.limit, started)
        if caps:
            most = [min(rows, caps.get(lane.queue, rows)) for rows, lane in zip(most, lanes, strict=True)]
        rows = await connection.fetch(
            self._one if len(lanes) == 1 else self._many,
            taker.incarnation,
            catalog.version,
            self.bound_now(),
            wish.limit,
            taker.worker,
            batch,
            numbers,
            [lane.tier for lane in lanes],
            bounds,
            most,
            [lane.settings.timeout_seconds for lane in lanes],
            [lane.settings.heartbeat_timeout_seconds for lane in lanes],
            [lane.queue if lane.settings.is_gated else None for lane in lanes],
            None if caps is None else [caps.get(lane.queue) for lane in lanes],
            [lane.queue for lane in lanes],
            [lane.settings.max_concurrent_jobs for lane in lanes] if caps is None else None,
            wish.reporting,
            reach.busy_since,
        )
        finished = time.monotonic()
        if rows:
            reach.is_busy_since(_BUSY_SINCE(rows[0]))
        rows.sort(key=_TURN)
        reach.learn([*zip(map(_LANE, rows), map(_TURN, rows), strict=True)], finished, finished - started)
        return rows

    async def _claim_gated(
        self, catalog: Catalog, taker: Taker, lanes: tuple[OpenLane, ...], wish: Claim, batch: int
    ) -> tuple[list[asyncpg.Record], bool]:
        """Claim while holding the limits' state. Also says whether a limit was passed over because another claim held it."""
        limits = {lane.queue: lane.settings for lane in lanes if lane.settings.is_gated}
        async with self.transaction() as connection:
            gates = Gates(self, connection, limits)
            await gates.open(wish.limit)
            caps = gates.caps
            usable = tuple(lane for lane in lanes if lane.queue not in limits or caps.get(lane.queue, 0) > 0)
            rows = await self._claim(connection, catalog, taker, usable, wish, batch, caps) if usable else []
            queue_of = {lane.number: lane.queue for lane in usable}
            wait = await gates.close(Counter(queue_of[row["lane"]] for row in rows), len(rows))
        if wait is not None:
            self.signals.wake_in(wait)
        return rows, len(caps) < len(limits)

    def _doubt(self, incarnation: UUID, batches: list[int]) -> None:
        """They may have committed although nobody heard of it: the next claim looks for what they took."""
        if batches:
            self._doubts.setdefault(incarnation, {}).update(dict.fromkeys(batches, time.monotonic()))

    async def _adopt(self, incarnation: UUID) -> list[Claimed]:
        """What claims with a lost answer took, also from lanes that are no longer open to the worker: it holds those jobs already.
        Batches that took nothing stay in doubt for a while, because the server may commit them late."""
        doubts = self._doubts.get(incarnation)
        if not doubts:
            return []
        rows = await self.fetch("adopt", incarnation, list(doubts), self.bound_now())
        catalog, numbers = await self.catalog(), {_LANE(row) for row in rows}
        if not numbers <= catalog.lanes.keys():
            catalog = await self.catalog(newer_than=catalog.version)
        lanes = tuple(catalog.opened(catalog.lanes[number]) for number in numbers)
        found, now = {row["batch"] for row in rows}, time.monotonic()
        for batch, since in list(doubts.items()):
            if batch in found or now - since >= DOUBT_SECONDS:
                doubts.pop(batch, None)
        return _in_order(sorted(rows, key=_TURN), lanes)


def _in_order(rows: list[Any], lanes: tuple[OpenLane, ...]) -> list[Claimed]:
    by_number = {lane.number: lane for lane in lanes}
    if len({lane.tier for lane in lanes}) > 1:
        rows.sort(key=lambda row: by_number[_LANE(row)].tier)  # stable: by turn within a tier
    return [codec.claimed(row, by_number[_LANE(row)]) for row in rows]
