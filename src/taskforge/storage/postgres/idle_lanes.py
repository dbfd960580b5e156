"""Retires lanes that nobody uses any more, as `storage/lane_numbers.py` says."""

from taskforge.storage.lane_numbers import KEPT_SECONDS
from taskforge.storage.postgres.connections import PostgresConnections


class PostgresIdleLanes:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._walked = 0  # the lane behind which the next look goes on

    async def retire(self, limit: int) -> int:
        """Doubt some, and remove some that were doubted long enough; how many were removed."""
        now = self._connections.bound_now()
        [look] = await self._connections.fetch(
            "doubt_lanes", self._walked, limit, KEPT_SECONDS, now
        )
        self._walked = look["stopped"] if look["walked"] >= limit else 0
        rows = await self._connections.fetch("doubted_lanes", KEPT_SECONDS, limit, now)
        if not rows:
            return 0
        numbers = [row["number"] for row in rows]
        [[gone]] = await self._connections.fetch("retire_lanes", numbers, KEPT_SECONDS, now)
        return int(gone)
