"""Whether a project is loaded, which `priority_pacing` asks: whether more of its jobs are ready
than its workers have free slots.

Ready are the pending jobs of queues that are not paused, as far as no circuit that is shut holds
them. Free are the slots of workers that accept jobs and whose lease is alive, less what those run.
A claim takes one of each, so the answer is the same for all of it. Only claims from queues with
pacing count, in the store, and no further than to one ready job more than there are free slots.
Where there are many slots or lanes the answer is remembered for a second.
"""

import time
from collections.abc import Iterable, Mapping

from taskforge.storage.catalog import Card, Lane
from taskforge.storage.circuits import ProjectCircuits

MANY_SLOTS = MANY_LANES = 250
MOST_LANES = 5_000  # whose jobs are counted
REMEMBERED_SECONDS = 1.0
# A worker that waits looks again so soon, because nobody is told that a project is no longer
# loaded.
LOOK_SECONDS = 1.0


def lanes_that_count(
    lanes: Iterable[Lane], cards: Mapping[int, Card], circuits: ProjectCircuits
) -> list[int]:
    """Of lanes that hold jobs those whose jobs count as ready."""
    return [
        lane.number
        for lane in lanes
        if cards[lane.queue].is_open
        and circuits.lets_through(cards[lane.queue].queue, lane.job_type)
    ]


class RememberedLoads:
    """What was dear to count, by project."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bool, float]] = {}

    def get(self, project: int) -> bool | None:
        is_loaded, until = self._known.get(project, (None, 0.0))
        return is_loaded if time.monotonic() < until else None

    def learn(self, project: int, lanes: int, slots: int, free: int, ready: int) -> bool:
        is_loaded = ready > free
        if lanes > MANY_LANES or slots > MANY_SLOTS:
            self._known[project] = (is_loaded, time.monotonic() + REMEMBERED_SECONDS)
        else:
            self._known.pop(project, None)
        return is_loaded
