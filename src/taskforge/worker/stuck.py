"""Handlers that did not end when they were told to: threads that never return, coroutines that
swallow their cancel."""

import logging
import time
from collections.abc import Container
from uuid import UUID

from taskforge.domain.durations import span
from taskforge.domain.ids import job_of
from taskforge.worker.context import Running

logger = logging.getLogger("taskforge.worker")
LATE_SECONDS = 5.0  # after they were told; some look only now and then whether they should stop
_AFTER = {
    "timeout": "its timeout",
    "deadline": "its deadline",
    "cancel": "it was cancelled",
    "lost": "it was lost to another worker",
}


class Stuck:
    """What each was told and when, and whether the log has it."""

    def __init__(self) -> None:
        self._told: dict[UUID, tuple[Running, float]] = {}
        self._threads: dict[UUID, Running] = {}
        self._logged: set[UUID] = set()

    def __bool__(self) -> bool:
        return bool(self._told)

    @property
    def threads(self) -> int:
        """Those whose job was reported but which still run, and hold a slot."""
        return len(self._threads)

    @property
    def slots(self) -> int:
        """How many slots are held by handlers that should have ended seconds ago."""
        return len(self._logged)

    def told(self, running: Running) -> None:
        self._told[running.claimed.fence] = (running, time.monotonic())

    def add(self, running: Running) -> None:
        """A thread, which nobody can end."""
        fence = running.claimed.fence
        self._threads[fence] = running
        self._told.setdefault(fence, (running, time.monotonic()))

    def remove(self, running: Running) -> None:
        self._threads.pop(running.claimed.fence, None)

    def is_stuck(self, fence: UUID) -> bool:
        return fence in self._logged

    def look(self, running: Container[UUID], now: float) -> None:
        """Name those that are late, once, and forget those that have ended."""
        for fence, (one, since) in list(self._told.items()):
            if fence not in running and fence not in self._threads:
                del self._told[fence]
                if fence in self._logged:
                    self._logged.discard(fence)
                    logger.warning(
                        "%s ended %s later; its slot is free again", _named(one), span(now - since)
                    )
            elif now - since >= LATE_SECONDS and fence not in self._logged:
                self._logged.add(fence)
                what = f"a thread of {_named(one)}" if fence in self._threads else _named(one)
                after = _AFTER.get(one.why or "", "it was told to stop")
                logger.warning(
                    "%s has not ended %s after %s; its slot stays taken",
                    what,
                    span(now - since),
                    after,
                )


def _named(running: Running) -> str:
    return f"handler {running.claimed.job_type} (job {job_of(running.claimed.fence)})"
