"""Jobs that were accepted and wait for a worker: first in, first out, or by priority and then
so."""

from collections import deque
from typing import Any

from taskforge.pool.handle import BUFFERED, OUTSIDE, Handle

PRIORITIES = 10


class Buffer:
    """Length counts what still waits: a cancelled job leaves at once, though its entry goes only
    when it is come across."""

    __slots__ = ("_dead", "_lanes", "_live", "owner")

    def __init__(self, *, by_priority: bool, owner: int = 0) -> None:
        self.owner = owner  # the number of the worker whose own it is
        # One lane for each priority, the highest first: taking, putting and finding the one to drop
        # are all a step or ten.
        self._lanes: list[deque[Handle[Any]]] = [
            deque() for _ in range(PRIORITIES if by_priority else 1)
        ]
        self._live = 0
        self._dead = 0

    def __len__(self) -> int:
        return self._live

    def put(self, handle: Handle[Any]) -> None:
        lanes = self._lanes
        (lanes[0] if len(lanes) == 1 else lanes[PRIORITIES - 1 - handle._priority]).append(handle)
        handle._place = BUFFERED
        self._live += 1

    def take(self) -> Handle[Any] | None:
        """The next to run."""
        if self._live:
            for lane in self._lanes:
                while lane:
                    handle = lane.popleft()
                    if handle._place == BUFFERED:
                        self._live -= 1
                        return handle
                    self._dead -= 1
        return None

    def oldest(self) -> Handle[Any] | None:
        """The one to drop: the oldest of the least urgent."""
        for lane in reversed(self._lanes):
            while lane:
                handle: Handle[Any] = lane[0]
                if handle._place == BUFFERED:
                    return handle
                lane.popleft()
                self._dead -= 1
        return None

    def all(self) -> list[Handle[Any]]:
        return [handle for lane in self._lanes for handle in lane if handle._place == BUFFERED]

    def forget(self, handle: Handle[Any]) -> None:
        """It will not run: it was cancelled or dropped."""
        handle._place = OUTSIDE
        self._live -= 1
        self._dead += 1
        # Entries of cancelled jobs must not pile up behind workers that are stuck.
        if self._dead > 2 * self._live + 64:
            for lane in self._lanes:
                kept = [each for each in lane if each._place == BUFFERED]
                lane.clear()
                lane.extend(kept)
            self._dead = 0
