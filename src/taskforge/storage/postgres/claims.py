"""Hands jobs to workers."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.errors import LeaseLost, StoreUnavailable
from taskforge.domain.fairness import NO_KEY
from taskforge.domain.job import Claimed
from taskforge.domain.limiter import LeakyBucket
from taskforge.domain.queue import QueueSettings
from taskforge.storage.catalog import OpenLane, Taker, spot_of
from taskforge.storage.lane_views import BEHIND_ALL, Frontier, View
from taskforge.storage.occupancy import LARGE_CLAIM, most_asked
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.claim_window import ClaimWindow
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.gates import Gates, is_stepped
from taskforge.storage.postgres.lane_surveys import Doubt, LaneSurveys
from taskforge.storage.postgres.lost_claims import LostClaims, in_order
from taskforge.storage.postgres.signals import Signals
from taskforge.storage.postgres.silences import bridge

CONTENDED_TRIES = 5
MOST_ROUNDS = 64
# in what claim.sql and adopt.sql return
_FENCE, _LANE, _TURN, _BUSY_SINCE, _KEY = map(itemgetter, (0, 1, 10, 13, 14))
_GUARDED = attrgetter("guarded")


class Ask(msgspec.Struct, frozen=True):
    """What one claim statement is asked for."""

    taker: Taker
    version: int  # of the catalog by which these lanes were judged
    lanes: list[OpenLane]
    frontier: Frontier | None  # where the lanes that are not asked begin, if there are any
    by_age: bool  # whether nothing younger than that may be taken of its tier
    wish: Claim
    batch: int
    spent: set[int]  # spots that gave nothing; gets those whose key may start nothing


class Filled(msgspec.Struct):
    """What came of asking."""

    rows: list[asyncpg.Record] = []
    asked: dict[int, OpenLane] = {}  # by number, and by spot
    spent: set[int] = set()  # spots that gave nothing, or may not
    is_over: bool = False  # all lanes were asked that are known
    skipped: bool = False  # a limit was passed over because another claim held it


class PostgresClaims:
    def __init__(
        self, connections: PostgresConnections, catalog_cache: CatalogCache, signals: Signals
    ) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._signals = signals
        self._surveys = LaneSurveys(connections, catalog_cache, signals)
        self._one, self._many, self._some, self._keys = map(
            connections.sql, ("claim_one", "claim_many", "claim_some", "claim_keys")
        )
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
                await self._fill(filled, batches, taker, version, view, wish)
                if filled.rows:
                    return in_order(filled.rows, filled.asked)
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
                return []

    async def _has_more(self, taker: Taker, filled: Filled, doubt: Doubt) -> bool:
        """Whether the survey has found lanes that were not asked, or goes on."""
        view = await self._surveys.view(taker)
        return doubt.more or bool(view.best(1, filled.asked.keys() | filled.spent)[0])

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
            lanes, frontier = view.best(most_asked(rest.limit), spent, rest.limit)
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
            ask = Ask(taker, version, lanes, frontier, by_age, rest, batches[-1], spent)
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
                view.settle(lanes, Counter(map(_spot, more)))
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
        """One claim statement; `caps` holds what each limited queue lets through, None leaves that
        to the statement."""
        taker, wish, frontier = ask.taker, ask.wish, ask.frontier
        window = self._windows.setdefault(taker.incarnation, ClaimWindow())
        occupancy = self._surveys.occupancy_of(taker.project)
        spots, moment, started = [lane.spot for lane in lanes], occupancy.moment, time.monotonic()
        bounds, most = window.ask(spots, wish.limit, started)
        in_rounds = any(lane.most is not None for lane in lanes)
        if in_rounds:
            # What is tried again may stand before what was taken last.
            bounds = [
                0 if lane.settings.limits_keys else bound
                for bound, lane in zip(bounds, lanes, strict=True)
            ]
            most = [
                rows if lane.most is None else lane.most
                for rows, lane in zip(most, lanes, strict=True)
            ]
        if caps:
            most = [
                min(rows, caps.get(lane.queue, rows))
                for rows, lane in zip(most, lanes, strict=True)
            ]
        text = self._one if len(lanes) == 1 else self._many
        behind: tuple[Any, ...] = ()
        if frontier is not None:
            by_age = ask.by_age and wish.limit < LARGE_CLAIM and frontier[1] != BEHIND_ALL
            text, behind = self._some, (frontier[0], frontier[1] if by_age else None)
        if in_rounds:
            text = self._keys
            behind = (*(behind or (None, None)), [lane.most is not None for lane in lanes])
        rows = await connection.fetch(
            text,
            taker.incarnation,
            ask.version,
            self._connections.bound_now(),
            wish.limit,
            taker.worker,
            ask.batch,
            [lane.number for lane in lanes],
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
            window.busy_since,
            taker.project,
            [lane.key or None for lane in lanes] if in_rounds else None,
            [lane.guarded or None for lane in lanes] if any(map(_GUARDED, lanes)) else None,
            *behind,
        )
        finished, window.left = time.monotonic(), None
        if behind and rows:
            window.left = {_spot(row): _TURN(row) for row in rows if _FENCE(row) is None}
            rows = [row for row in rows if _FENCE(row) is not None]
            in_turns: dict[int, int | None] = {}
            for lane, spot in zip(lanes, spots, strict=True):
                head = window.left.get(spot)
                if head is None and caps is None and lane.settings.is_gated:
                    continue  # of a limited queue nothing may have been looked at
                if lane.most is not None:
                    in_turns[spot] = head
                else:
                    occupancy.leave(spot, head, moment)
            occupancy.leave_in_turns(in_turns, moment)
        if rows:
            window.is_busy_since(_BUSY_SINCE(rows[0]))
        rows.sort(key=_TURN)
        window.learn(
            [*zip(map(_spot if in_rounds else _LANE, rows), map(_TURN, rows), strict=True)],
            finished,
            finished - started,
        )
        return rows

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
            by_key = Counter((queue_of[_LANE(row)], _KEY(row) or NO_KEY) for row in rows)
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


def _spot(row: asyncpg.Record) -> int:
    return spot_of(_LANE(row), _KEY(row) or NO_KEY)
