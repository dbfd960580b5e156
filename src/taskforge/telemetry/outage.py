"""Says once that a store does not serve, and once that it does again, however many calls met it."""

import logging
import threading
import time
from collections.abc import Callable

from taskforge.domain.durations import span

logger = logging.getLogger("taskforge.store")
# A store may refuse some calls and serve others, such as a read-only one or a full disk: it is not
# back before none was refused for this long. Whoever tries again waits for less.
QUIET_SECONDS = 3.0
# That a connection broke does not say why; the next one will be told. Whoever tries again does so
# within less.
BROKEN_SECONDS = 1.0
# A call may wait for so long before it is refused: an outage has begun with the last answer before
# it. An older one says nothing, because nobody may have asked since.
RECENT_SECONDS = 60.0


class Outage:
    """Of one store, as one process sees it; told from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._began = self._last = 0.0
        self._quiet = 0.0
        self._answered: float | None = None  # when a call was last served
        self._cause: BaseException | None = None
        self._is_told = False
        self.is_on = False
        # from when the store was opened until it is closed: in between nobody else would say it
        self.is_watching = False

    def meet(
        self, error: BaseException, *, unreachable: bool = False, broken: bool = False
    ) -> None:
        """A call was refused. `unreachable`: nobody was there at all, so the next call that is
        served means that it is back. `broken`: a connection ended under it, so the next call that
        is refused knows better why."""
        with self._guard:
            if not self.is_watching:
                return
            self._last = self._monotonic()
            is_first, self.is_on = not self.is_on, True
            if is_first:
                self._began, self._quiet, self._is_told = self._since(), 0.0, False
            if is_first or not broken:
                self._cause = error
            self._quiet = max(self._quiet, 0.0 if unreachable else QUIET_SECONDS)
            is_due = not self._is_told and (
                not broken or self._last - self._began >= BROKEN_SECONDS
            )
            self._is_told |= is_due
        if is_due:
            self._tell()

    def serve(self) -> None:
        """A call was served."""
        now = self._answered = self._monotonic()
        if self.is_on:
            self._end(now)

    def _end(self, now: float) -> None:
        with self._guard:
            if not self.is_on or now - self._last < self._quiet:
                return
            self.is_on = False
            lasted = self._last - self._began if self._quiet else now - self._began
            is_due, self._is_told = not self._is_told, True
        if is_due:
            self._tell()
        logger.warning("the store serves again, after %s", span(lasted))

    def _since(self) -> float:
        answered = self._answered
        if answered is None or self._last - answered > RECENT_SECONDS:
            return self._last
        return answered

    def _tell(self) -> None:
        logger.warning("the store does not serve, trying again until it does: %s", self._cause)
