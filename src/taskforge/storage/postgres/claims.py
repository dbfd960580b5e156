"""Hands jobs to workers."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost, StoreUnavailable
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.job import Claimed, cost_of
from taskforge.domain.limiter import LeakyBucket
from taskforge.domain.queue import QueueSettings
from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import OpenLane, Taker, spot_of
from taskforge.storage.event_sums import EventSums
from taskforge.storage.lane_views import View
from taskforge.storage.loads import LOOK_SECONDS
from taskforge.storage.occupancy import most_asked
from taskforge.storage.postgres.bookkeeping import tell_sums
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.claim_statements import Ask, ClaimStatements, spot_in
from taskforge.storage.postgres.claim_window import ClaimWindow
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.gates import Gates, is_stepped
from taskforge.storage.postgres.lane_surveys import Doubt, LaneSurveys
from taskforge.storage.postgres.loads import Loads
from taskforge.storage.postgres.lost_claims import LostClaims, in_order
from taskforge.storage.postgres.signals import Signals
from taskforge.storage.postgres.silences import bridge

CONTENDED_TRIES = 5
MOST_ROUNDS = 64
# in what claim.sql and adopt.sql return
_LANE, _EXTRAS, _TURN, _KEY = map(itemgetter, (1, 9, 10, 14))


class Filled(msgspec.Struct):
    """What came of asking."""

    rows: list[asyncpg.Record] = []
    asked: dict[int, OpenLane] = {}  # by number, and by spot
    spent: set[int] = set()  # spots that gave nothing, or may not
    is_over: bool = False  # all lanes were asked that are known
    skipped: bool = False  # a limit was passed over because another claim held it
    moment: Moment | None = None


class PostgresClaims:
    def __init__(
        self,
        connections: PostgresConnections,
        catalog_cache: CatalogCache,
        signals: Signals,
        loads: Loads,
        tell_seconds: float | None,
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._surveys = LaneSurveys(connections, catalog_cache, signals)
        self._loads = loads
        self.sums = EventSums(partial(tell_sums, connections), tell_seconds)
        self._statements = ClaimStatements(connections)
        self._windows: dict[UUID, ClaimWindow] = {}
        self._batches = itertools.count(random.getrandbits(62))
        self._lost = LostClaims(connections, catalog_cache)

    async def claim(self, claim: Claim) -> list[Claimed]:
        adopted = await self._lost.adopt(claim.incarnation)
        if adopted:
            return adopted
        batches: list[int] = []
        try:
            return await self._claim_or_bridge(batches, claim)
        except LeaseLost:
            self._windows.pop(claim.incarnation, None)
            self._lost.forget(claim.incarnation)
            raise
        except BaseException:
            self._lost.doubt(claim.incarnation, batches)
            raise

    async def _claim_or_bridge(self, batches: list[int], claim: Claim) -> list[Claimed]:
        try:
            return await self._claim_in(batches, claim)
        except LeaseLost:
            await bridge(self._connections, claim.incarnation)  # perhaps nobody could renew
            return await self._claim_in(batches, claim)

    async def _claim_in(self, batches: list[int], wish: Claim) -> list[Claimed]:
        """`batches` gets the numbers of all that took something, or may have."""
        contended = 0
        while True:
            taker, version = await self._catalog_cache.find_taker(wish.incarnation)
            takes = taker.accepts and wish.limit > 0
            occupancy = self._surveys.occupancy_of(taker.project)
            if takes and occupancy.heads and occupancy.is_due(time.monotonic()):
                await self._surveys.survey(taker.project)
            filled = Filled()
            if takes:
                view = await self._surveys.view(taker)
                filled.moment = await self._loads.moment_of(taker, view, occupancy)
                await self._fill(filled, batches, taker, version, view, wish)
                if filled.rows:
                    self._wake_later(taker, filled, wish)
                    return self.sums.started(taker.project, in_order(filled.rows, filled.asked))
            doubt = await self._surveys.doubt(
                taker, survey=takes and self._surveys.may_survey(taker.project)
            )
            if not doubt.is_alive:
                raise await self._catalog_cache.lost(wish.incarnation)
            if (doubt.version or 0) != version:
                await self._catalog_cache.of(taker.project, newer_than=version)
            elif takes and filled.is_over and await self._has_more(taker, filled, doubt):
                continue
            elif filled.skipped and contended < CONTENDED_TRIES:
                contended += 1
                await asyncio.sleep(random.uniform(0.001, 0.004))
            else:
                self._wake_later(taker, filled, wish)
                return []

    def _wake_later(self, taker: Taker, filled: Filled, wish: Claim) -> None:
        """What pacing holds back is looked at again when its time is over, or when the project may
        no longer be loaded."""
        moment = filled.moment
        if moment is not None and moment.is_loaded and len(filled.rows) < wish.limit:
            opens = self._surveys.occupancy_of(taker.project).view(taker).opens_in(moment)
            self._signals.wake_in(min(LOOK_SECONDS, opens or LOOK_SECONDS))

    async def _has_more(self, taker: Taker, filled: Filled, doubt: Doubt) -> bool:
        """Whether the survey has found lanes that were not asked, or goes on."""
        view = await self._surveys.view(taker)
        occupancy = self._surveys.occupancy_of(taker.project)
        filled.moment = filled.moment or await self._loads.moment_of(taker, view, occupancy)
        known = filled.asked.keys() | filled.spent
        return doubt.more or bool(view.best(1, known, moment=filled.moment)[0])

    def look_from_head(self) -> None:
        for window in self._windows.values():
            window.from_head()

    async def _fill(
        self,
        filled: Filled,
        batches: list[int],
        taker: Taker,
        version: int,
        view: View,
        wish: Claim,
    ) -> None:
        """Ask the best lanes. Where that brings too few, because one lane holds nearly all there is
        or those asked held little, ask again at once."""
        window = self._windows.setdefault(taker.incarnation, ClaimWindow())
        rows, spent = filled.rows, filled.spent
        by_age, once = True, self._claim_all
        for _ in range(MOST_ROUNDS):
            rest = msgspec.structs.replace(wish, limit=wish.limit - len(rows)) if rows else wish
            lanes, frontier = view.best(most_asked(rest.limit), spent, rest.limit, filled.moment)
            filled.is_over = frontier is None
            quiet = bool(self._catalog_cache.unheard.get(taker.project))
            if not lanes and not (quiet and not rows):
                break
            for lane in lanes:
                filled.asked[lane.number] = filled.asked[lane.spot] = lane
            # Rates and limits by key are kept in Python, in steps; how many may run in the claim
            # itself, which does not say why it gives none.
            if quiet or any(is_stepped(lane) for lane in lanes):
                once = self._claim_gated
            batches.append(next(self._batches))
            ask = Ask(
                taker, version, lanes, frontier, by_age, rest, batches[-1], spent, filled.moment
            )
            view.charge(lanes)
            try:
                more, skipped = await once(ask)
            except StoreUnavailable:
                if not rows:
                    raise
                self._lost.doubt(taker.incarnation, batches[-1:])
                break  # what was taken counts
            filled.skipped |= skipped
            if any(lane.most is not None for lane in lanes):
                view.settle(lanes, Counter(map(spot_in, more)))
            rows += more
            if not more:
                batches.pop()
            if len(rows) >= wish.limit:
                break
            if more and (window.cut_short or frontier is not None):
                continue
            if (
                not rows
                and once == self._claim_all
                and any(lane.settings.is_gated for lane in lanes)
            ):
                once = self._claim_gated
            elif more or frontier is None or window.left is None:
                break  # all that there is, or nothing was given to look at
            elif any(head is not None for head in window.left.values()):
                if not by_age:
                    break  # there are jobs, but no slots
                by_age = False  # they are younger than what the other lanes are thought to hold
            else:
                spent.update(lane.spot for lane in lanes)
        rows.sort(key=_TURN)

    async def _claim_all(self, ask: Ask) -> tuple[list[asyncpg.Record], bool]:
        async with self._connections.connection() as connection:
            return await self._claim(connection, ask, ask.lanes, None), False

    async def _claim(
        self,
        connection: Connection,
        ask: Ask,
        lanes: Sequence[OpenLane],
        caps: dict[int, int] | None,
    ) -> list[asyncpg.Record]:
        window = self._windows.setdefault(ask.taker.incarnation, ClaimWindow())
        occupancy = self._surveys.occupancy_of(ask.taker.project)
        return await self._statements.run(connection, ask, lanes, caps, window, occupancy)

    async def _claim_gated(self, ask: Ask) -> tuple[list[asyncpg.Record], bool]:
        """Claim while holding the limits' state. Also says whether a limit was passed over because
        another claim held it."""
        limits = {lane.queue: lane.settings for lane in ask.lanes if lane.settings.is_gated}
        limits |= await self._unheard(ask.taker.project)
        async with self._connections.transaction() as connection:
            gates = Gates(self._connections, connection, limits)
            await gates.open(ask.wish.limit)
            caps = gates.caps
            usable = [
                lane
                for lane in ask.lanes
                if lane.queue not in limits or caps.get(lane.queue, 0) > 0
            ]
            usable, full = await gates.within_keys(usable)
            usable = await gates.within_circuits(usable)
            ask.spent.update(
                spot_of(lane.number, key) for lane in ask.lanes for key in full.get(lane.queue, ())
            )
            rows = await self._claim(connection, ask, usable, caps) if usable else []
            queue_of = {lane.number: lane.queue for lane in usable}
            taken = Counter(queue_of[row["lane"]] for row in rows)
            by_key: dict[tuple[int, int], list[int]] = {}
            for row in rows if gates.limits_keys else ():
                spot = queue_of[_LANE(row)], _KEY(row) or NO_KEY
                by_key.setdefault(spot, []).append(cost_of(_EXTRAS(row)))
            await gates.count_probes(ask.taker.project, usable, Counter(map(_LANE, rows)))
            wait = await gates.close(taken, by_key, len(rows))
        unheard = self._catalog_cache.unheard.setdefault(ask.taker.project, set())
        for queue, settings in limits.items():
            if isinstance(settings.bucket, LeakyBucket):
                unheard.add(queue)
                if gates.hears_of_quiet(queue, taken[queue], len(rows)):
                    unheard.discard(queue)
        if not usable:
            self._windows[ask.taker.incarnation].left = {}
        if wait is not None:
            self._signals.wake_in(wait)
        return rows, len(caps) < len(limits)

    async def _unheard(self, project: int) -> dict[int, QueueSettings]:
        """Queues of which this process took jobs, and whose gate must hear when nothing stands
        before it any more."""
        queues = self._catalog_cache.unheard.get(project)
        if not queues:
            return {}
        cards = await self._catalog_cache.cards(project, queues)
        limits = {
            number: card.queue.settings
            for number, card in cards.items()
            if isinstance(card.queue.settings.bucket, LeakyBucket)
        }
        queues &= limits.keys()
        return limits
