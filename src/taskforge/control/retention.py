"""Removes what slots did once it is older than history is kept."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from taskforge.control.leader import Term
from taskforge.storage.records.schedules import ScheduleRecords

Now = Callable[[], Awaitable[datetime]]
PRUNE_SECONDS = 60.0
SLICE = 1_000


class SlotRetention:
    name = "retention of slots"

    def __init__(self, now: Now, schedules: ScheduleRecords, days: float) -> None:
        self._now = now
        self._schedules = schedules
        self._days = days

    async def run(self, term: Term) -> None:
        while True:
            term.check()
            if await self.prune(term.number) < SLICE:
                await asyncio.sleep(PRUNE_SECONDS)

    async def prune(self, term: int) -> int:
        before = await self._now() - timedelta(days=self._days)
        return await self._schedules.prune_slots(term, before, SLICE)
