"""Whether a worker's process shows signs of life, as its lease keeper sees it. While native code
holds the interpreter's lock nothing else of that process runs, its watchdog neither: only somebody
outside can see that."""

import asyncio
import logging
import time

import msgspec

from taskforge.domain.durations import span
from taskforge.worker.processes.process_id import ProcessId, kill_group
from taskforge.worker.processes.process_watch import is_standing_still

logger = logging.getLogger("taskforge.worker")
LOOK_SECONDS = 0.5
# without a pulse, of which there should be one a second: it is said, and shown
SILENT_SECONDS = 5.0
LOG_AGAIN = 3.0  # times as long as when it was logged last


class Pulse(msgspec.Struct, frozen=True, tag="pulse"):
    """What the worker's watchdog says from its thread, about once a second."""

    slots: int
    # killed after so much silence, for its supervisor starts another; None: never
    patience: float | None = None


class PulseWatch:
    def __init__(self, worker: ProcessId, news: asyncio.Event) -> None:
        self._worker = worker
        self._news = news
        self._pulse: Pulse | None = None
        self._was_heard = False
        self.stuck_slots = 0  # all, while it shows no sign of life
        self.has_killed = False

    def hear(self, pulse: Pulse) -> None:
        self._pulse, self._was_heard = pulse, True

    async def run(self) -> None:
        """Time in which the worker is stopped, or in which nobody could look, as on a frozen
        machine, is no silence of its own."""
        silent, logged, looked = 0.0, 0.0, time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, looked = looked, time.monotonic()
            if self._was_heard:
                if self.stuck_slots:
                    logger.warning(
                        "worker process %d shows signs of life again, after %s",
                        self._worker.pid,
                        span(silent),
                    )
                    self._show(0)
                silent, logged, self._was_heard = 0.0, SILENT_SECONDS / LOG_AGAIN, False
                continue
            if self._pulse is None or self.has_killed or is_standing_still(self._worker.pid):
                continue
            silent += min(looked - before, 2 * LOOK_SECONDS)
            if silent >= SILENT_SECONDS and not self.stuck_slots:
                self._show(self._pulse.slots)
            if silent >= logged * LOG_AGAIN:
                logged = silent
                logger.warning(
                    "worker process %d has shown no sign of life for %s: native code in a handler "
                    "holds the interpreter's lock, "
                    "and nothing of this worker runs",
                    self._worker.pid,
                    span(silent),
                )
            if self._pulse.patience is not None and silent >= self._pulse.patience:
                text = (
                    "worker process %d has shown no sign of life for %s: it is killed, and its "
                    "supervisor starts another"
                )
                logger.error(text, self._worker.pid, span(silent))
                self.has_killed = True
                kill_group(self._worker)

    def _show(self, stuck_slots: int) -> None:
        self.stuck_slots = stuck_slots
        self._news.set()
