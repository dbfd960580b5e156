"""One claim statement: which of them fits the lanes that are asked, with what, and what it tells of
those lanes."""

import time
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

import asyncpg
import msgspec

from taskforge.domain.claim import Claim
from taskforge.domain.fairness import NO_KEY
from taskforge.storage.aging_lanes import Moment
from taskforge.storage.catalog import OpenLane, Taker, spot_of
from taskforge.storage.lane_views import BEHIND_ALL, Frontier
from taskforge.storage.occupancy import LARGE_CLAIM, Occupancy
from taskforge.storage.postgres.claim_window import ClaimWindow
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.postgres.connections import PostgresConnections

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
    moment: Moment | None  # as of which some rise or are held back


class ClaimStatements:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._one, self._many, self._some, self._keys, self._aging = map(
            connections.sql,
            ("claim_one", "claim_many", "claim_some", "claim_keys", "claim_aging"),
        )

    async def run(
        self,
        connection: Connection,
        ask: Ask,
        lanes: Sequence[OpenLane],
        caps: dict[int, int] | None,
        window: ClaimWindow,
        occupancy: Occupancy,
    ) -> list[asyncpg.Record]:
        """`caps` holds what each limited queue lets through, None leaves that
        to the statement."""
        taker, wish, frontier = ask.taker, ask.wish, ask.frontier
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
        if ask.moment is not None:
            text = self._aging
            behind = (*(behind or (None, None))[:2], *_aging(lanes, ask.moment))
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
            window.left = {spot_in(row): _TURN(row) for row in rows if _FENCE(row) is None}
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
            [*zip(map(spot_in if in_rounds else _LANE, rows), map(_TURN, rows), strict=True)],
            finished,
            finished - started,
        )
        return rows


def _aging(lanes: Sequence[OpenLane], moment: Moment) -> tuple[list[Any], list[Any], list[Any]]:
    """For each lane whether its rounds say how many, after how many microseconds its jobs rise, and
    for how many they are held back."""
    urgencies = [lane.urgency for lane in lanes]
    return (
        [lane.most is not None for lane in lanes],
        [
            one.boost if one is not None and lane.key == NO_KEY else None
            for one, lane in zip(urgencies, lanes, strict=True)
        ],
        [one.pace or None if one is not None and moment.is_loaded else None for one in urgencies],
    )


def spot_in(row: asyncpg.Record) -> int:
    return spot_of(_LANE(row), _KEY(row) or NO_KEY)
