"""Which number a lane has, as far as it may be used without asking the store again.

A lane in which nothing has stood for long is retired in two steps. Upkeep doubts it first. Whoever
looks for a lane that is doubted, to put a job there, takes the doubt from it. A day later upkeep
removes what is still doubted and empty. So a number that was looked up and not doubted may be used
for an hour without a look: a doubt that comes after the look is not older than that, and nothing is
removed before it is a day old. No lock is taken, and no insert waits.
"""

import time

from taskforge.storage.catalog import MOST_LANES, LaneKey, Remembered

TRUSTED_SECONDS = 3_600.0
# Unused for so long and empty, a lane is doubted; unused for so long again, it is removed.
KEPT_SECONDS = 86_400.0


def steady_seconds() -> float:
    """Goes on while the machine sleeps, where there is such a clock: what was looked up before it
    slept for a day is not used after."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class LaneNumbers:
    __slots__ = ("_numbers", "_until")

    def __init__(self) -> None:
        self._numbers: Remembered[LaneKey, int] = Remembered(MOST_LANES)
        self._until = 0.0

    def get(self, key: LaneKey) -> int | None:
        if steady_seconds() >= self._until:
            self.clear()
        return self._numbers.get(key)

    def put(self, key: LaneKey, number: int) -> None:
        """Just looked up, and not doubted."""
        if steady_seconds() >= self._until:
            self.clear()
        self._numbers.put(key, number)

    def clear(self) -> None:
        self._numbers.clear()
        self._until = steady_seconds() + TRUSTED_SECONDS

    def __len__(self) -> int:
        return len(self._numbers)
