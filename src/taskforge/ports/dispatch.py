"""Load balancing: what a store does for the leader that places jobs on workers."""

from collections.abc import Sequence
from typing import Protocol

from taskforge.domain.dispatch import BalancedQueues, QueuePlacements


class Dispatch(Protocol):
    # A page of the balanced queues behind a number: those that hold jobs, each with the first so
    # many that are placed on nobody. None: there are no balanced queues at all.
    async def balanced_queues(self, after: int, jobs: int) -> BalancedQueues | None: ...
    # All of it in one transaction. What was claimed or changed meanwhile is left alone. Returns how
    # many jobs were placed. `Deposed` once the term is over.
    async def place(self, placements: Sequence[QueuePlacements], term: int) -> int: ...
