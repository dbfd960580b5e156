"""What a store needs done now and then: bounded slices that any process may run."""

from typing import Protocol

from taskforge.domain.claim import Lapsed
from taskforge.domain.finding import PartitionUpkeep
from taskforge.domain.query import Pruned


class Maintenance(Protocol):
    async def stage(self, limit: int) -> int: ...  # due jobs become pending
    # What to decide and finish(lapsed=True); nothing if somebody has looked within these seconds.
    # `rhythm`: somebody looks again within so many seconds; None: nothing new is promised. Who
    # finds after a longer silence that nobody did (the store was away, or could not be written, or
    # its clock was stepped) first bridges it: those who were alive before have not died of it.
    async def lapsed(
        self, limit: int, *, unless_within: float = 0.0, rhythm: float | None = None
    ) -> list[Lapsed]: ...
    # Deadlines, start-by times, jobs that everyone skipped, deleted queues.
    async def expire(self, limit: int) -> int: ...
    async def fold(self, limit: int) -> int: ...  # deltas into rollups
    # Lanes that nobody uses: some are doubted, some of those doubted long ago are removed.
    async def retire_lanes(self, limit: int) -> int: ...
    # Old history, keys, events, rollups.
    async def prune(self, retention_days: float, limit: int) -> Pruned: ...
    # The leader's part, under its term (None: whoever asks): partitions ahead of time, and whole
    # days that are over dropped, one at a call. Nothing on SQLite.
    async def keep_partitions(self, retention_days: float, term: int | None) -> PartitionUpkeep: ...
