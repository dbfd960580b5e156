"""Says once that a store does not serve, and once that it does again, however many calls met it."""

import logging
import threading
import time
from collections.abc import Callable

from taskforge.domain.durations import span

logger = logging.getLogger("taskforge.store")
# A store may refuse some calls and serve others, such as a read-only one or a full disk: it is not back before none was refused for
# this long. Whoever tries again waits for less.
QUIET_SECONDS = 3.0


class Outage:
    """Of one store, as one process sees it; told from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._began = self._last = 0.0
        self._quiet = 0.0
        self.is_on = False  # whoever was served looks here first
        self.is_watching = False  # from when the store was opened until it is closed: in between nobody else would say it

    def meet(self, error: BaseException, *, unreachable: bool = False) -> None:
        """A call was refused. `unreachable`: nobody was there at all, so the next call that is served means that it is back."""
        with self._guard:
            if not self.is_watching:
                return
            self._last = self._monotonic()
            is_first, self.is_on = not self.is_on, True
            if is_first:
                self._began, self._quiet = self._last, 0.0
            self._quiet = max(self._quiet, 0.0 if unreachable else QUIET_SECONDS)
        if is_first:
            logger.warning("the store does not serve, trying again until it does: %s", error)

    def serve(self) -> None:
        """A call was served."""
        with self._guard:
            now = self._monotonic()
            if not self.is_on or now - self._last < self._quiet:
                return
            self.is_on = False
            lasted = self._last - self._began if self._quiet else now - self._began
        logger.warning("the store serves again, after %s", span(lasted))
