"""What of retention needs exactly one to act: partitions are made ahead of time and dropped when
they are over, and what slots did is removed. The slices that go job by job run in every process
(`operations/upkeep.py`)."""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.domain.finding import PartitionUpkeep
from taskforge.storage.records.schedules import ScheduleRecords

logger = logging.getLogger("taskforge.retention")
Now = Callable[[], Awaitable[datetime]]
PRUNE_SECONDS = 60.0
SLICE = 1_000


class PartitionStore(Protocol):
    async def keep_partitions(self, retention_days: float, term: int | None) -> PartitionUpkeep: ...


class PartitionKeeper(Rounds):
    def __init__(self, store: PartitionStore, days: float) -> None:
        super().__init__("partitions", self._keep, PRUNE_SECONDS)
        self._store = store
        self._days = days
        self._told: set[str] = set()

    async def _keep(self, term: Term) -> bool:
        kept = await self._store.keep_partitions(self._days, term.number)
        for day in kept.missing:
            if day not in self._told:
                logger.warning(
                    "the partition of %s could not be made: jobs of that day lie in the one for "
                    "all else, where they are pruned one by one",
                    day,
                )
        self._told = set(kept.missing)
        return kept.jobs > 0


class SlotRetention(Rounds):
    def __init__(self, now: Now, schedules: ScheduleRecords, days: float) -> None:
        super().__init__("retention of slots", self._prune, PRUNE_SECONDS)
        self._now = now
        self._schedules = schedules
        self._days = days

    async def _prune(self, term: Term) -> bool:
        return await self.prune(term.number) == SLICE

    async def prune(self, term: int) -> int:
        before = await self._now() - timedelta(days=self._days)
        return await self._schedules.prune_slots(term, before, SLICE)
