"""Counts what organizations keep in the store, of those that have a ceiling of it: one walk through
the rows of all of them, a piece at a time, with a rest behind each. However much is stored, a piece
costs the same; what was removed shows when the walk has come to its end."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.storage.records.stored_bytes import PARTS, Measured, StoredByteRecords

COUNT_SECONDS = 10.0
REST = 20  # times as long as a piece took
LEAST_ROWS, MOST_ROWS = 100, 5_000
PIECE_SECONDS = 0.01
_FIRST = Measured(UUID(int=0), 0, 0, 0, 0)


class Walk:
    """How far a count has come."""

    def __init__(self, projects: dict[int, int]) -> None:
        self.organizations = projects
        self.totals = Counter(dict.fromkeys(projects.values(), 0))
        self.parts = list(PARTS)
        self.last = _FIRST

    def take(self, rows: list[Measured], limit: int) -> None:
        for row in rows:
            organization = self.organizations.get(row.project)
            if organization is not None:
                self.totals[organization] += row.bytes
        if len(rows) < limit:
            self.parts.pop(0)
            self.last = _FIRST
        else:
            self.last = rows[-1]


class ByteCounter(Rounds):
    def __init__(
        self,
        records: StoredByteRecords,
        seconds: float = COUNT_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__("byte counter", self._count_piece, seconds)
        self._records = records
        self._sleep = sleep
        self._walk: Walk | None = None
        self._term = 0
        self._rows = LEAST_ROWS

    async def _count_piece(self, term: Term) -> bool:
        return await self.count_piece(term.number)

    async def count_piece(self, term: int) -> bool:
        """Whether the count goes on."""
        if self._walk is None or self._term != term:
            projects = await self._records.projects()
            if not projects:
                return False
            await self._records.begin_count(term)
            self._walk, self._term = Walk(projects), term
        walk, limit, began = self._walk, self._rows, time.monotonic()
        walk.take(await self._records.measure(walk.parts[0], walk.last, limit), limit)
        took = time.monotonic() - began
        grown = limit * 2 if took < PIECE_SECONDS / 2 else limit // 2
        if not PIECE_SECONDS / 2 <= took <= PIECE_SECONDS:
            self._rows = min(MOST_ROWS, max(LEAST_ROWS, grown))
        if not walk.parts:
            self._walk = None
            await self._records.end_count(term, walk.totals)
            return False
        await self._sleep(REST * took)
        return True
