"""Claims whose answer was lost: what they took is found again."""

import time
from operator import itemgetter
from typing import Any
from uuid import UUID

from taskforge.domain.job import Claimed
from taskforge.domain.urgency import MICROSECONDS
from taskforge.storage.catalog import OpenLane, open_lane
from taskforge.storage.postgres import codec
from taskforge.storage.postgres.catalog_cache import CatalogCache
from taskforge.storage.postgres.connections import PostgresConnections

DOUBT_SECONDS = 60.0
# in what claim.sql and adopt.sql return
_LANE, _TURN, _WAITED, _KEY = map(itemgetter, (1, 10, 12, 14))


class LostClaims:
    def __init__(self, connections: PostgresConnections, catalog_cache: CatalogCache) -> None:
        self._connections = connections
        self._catalog_cache = catalog_cache
        self._doubts: dict[UUID, dict[int, float]] = {}

    def forget(self, incarnation: UUID) -> None:
        self._doubts.pop(incarnation, None)

    def doubt(self, incarnation: UUID, batches: list[int]) -> None:
        """They may have committed although nobody heard of it: the next claim looks for what they
        took."""
        if batches:
            self._doubts.setdefault(incarnation, {}).update(
                dict.fromkeys(batches, time.monotonic())
            )

    async def adopt(self, incarnation: UUID) -> list[Claimed]:
        """What claims with a lost answer took, also from lanes that are no longer open to the
        worker: it holds those jobs already. Batches that took nothing stay in doubt for a while,
        because the server may commit them late."""
        doubts = self._doubts.get(incarnation)
        if not doubts:
            return []
        rows = await self._connections.fetch(
            "adopt", incarnation, list(doubts), self._connections.bound_now()
        )
        lanes = await self._catalog_cache.lanes({_LANE(row) for row in rows})
        asked = {}
        for lane in lanes.values():
            cards = await self._catalog_cache.cards(lane.project, [lane.queue])
            asked[lane.number] = open_lane(cards[lane.queue].queue, lane)
        found, now = {row["batch"] for row in rows}, time.monotonic()
        for batch, since in list(doubts.items()):
            if batch in found or now - since >= DOUBT_SECONDS:
                doubts.pop(batch, None)
        return in_order(sorted(rows, key=_TURN), asked)


def in_order(rows: list[Any], lanes: dict[int, OpenLane]) -> list[Claimed]:
    asked = [lanes[number] for number in set(map(_LANE, rows))]
    if len({lane.tier for lane in asked}) > 1:
        rows.sort(key=lambda row: lanes[_LANE(row)].tier)  # stable: by turn within a tier
    if any(lane.urgency is not None for lane in asked):
        rows.sort(key=lambda row: _tier(lanes[_LANE(row)], row))
    return [codec.claimed(row, lanes[_LANE(row)]) for row in rows]


def _tier(lane: OpenLane, row: Any) -> tuple[int, int]:
    """As of which tier a job was taken, and its turn."""
    risen = 0
    if lane.urgency is not None and not _KEY(row):
        risen = lane.urgency.steps(round(_WAITED(row) * MICROSECONDS))
    return lane.tier - risen, _TURN(row)
