"""What a worker says of itself to its lease keeper, which passes it on to the store: whether it is
healthy, whether its event loop is held and by whom, that its process runs."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

from taskforge.domain.job import Claimed
from taskforge.domain.outcome import HELD_UP, HandBackOutcome
from taskforge.ports.work_source import Completion
from taskforge.worker.executor import Executor
from taskforge.worker.processes.keeper_words import WorkerHealth
from taskforge.worker.processes.lease_keeper import LeaseKeeper
from taskforge.worker.processes.pulse import Pulse
from taskforge.worker.watchdog import GRACE_SECONDS, Held

logger = logging.getLogger("taskforge.worker")
WORD_FENCES = 64  # so many in one word that it fits into a pipe in one piece
# after the event loop was held, until the others that it kept from running have been handed back
FORGIVE_SECONDS = 2.0

HealthCheck = Callable[[], Awaitable[bool] | bool]


class SelfReport:
    def __init__(
        self,
        executor: Executor,
        complete: Callable[[Completion], None],
        stop: asyncio.Event,
    ) -> None:
        self._executor = executor
        self._complete = complete
        self._stop = stop
        # how long handlers may hold this process before it is replaced; None: nobody replaces it
        self.longest_allowed: Callable[[], float] | None = None
        self.keeper: LeaseKeeper | None = None
        self.is_healthy = True
        self.was_held = False  # the event loop is back, and nobody has looked around since
        self._held: Held | None = None
        self._is_blocked = False
        self._forgive_until = 0.0
        self._unstarted: list[Claimed] = []
        self._pulse_lock = threading.Lock()

    def tell(self, unstarted: tuple[UUID, ...] = ()) -> None:
        """Also from the watchdog's thread."""
        keeper, held, executor = self.keeper, self._held, self._executor
        if keeper is None:
            return
        fence, is_stopping = None if held is None else held.fence, self._stop.is_set()
        if self._is_blocked:
            keeper.tell(WorkerHealth(False, is_stopping, executor.slots, fence, unstarted))
        else:
            keeper.tell(WorkerHealth(self.is_healthy, is_stopping, executor.stuck.slots, fence))

    def send_pulse(self) -> None:
        """From the watchdog's thread, and before a job begins that may take longer than those of
        which the keeper knows: should it hold the interpreter's lock, nobody here could say so any
        more."""
        keeper, executor = self.keeper, self._executor
        if keeper is None:
            return
        if self.longest_allowed is None:
            keeper.send_pulse(Pulse(executor.slots))
            return
        with self._pulse_lock:
            # before the look at what runs: whoever begins after it waits for this, and looks again
            executor.foreseen_seconds = 0.0
            patience = self.longest_allowed()
            if keeper.send_pulse(Pulse(executor.slots, patience)):
                executor.foreseen_seconds = patience - GRACE_SECONDS

    async def watch_health(self, check: HealthCheck | None, seconds: float) -> None:
        """A failing check stops the claiming and says so; what runs goes on."""
        while check is not None:
            try:
                answer = check()
                is_healthy = bool(await answer if isinstance(answer, Awaitable) else answer)
            except Exception:
                logger.exception("the health check failed")
                is_healthy = False
            if is_healthy != self.is_healthy:
                logger.warning(
                    "the worker is %s",
                    "healthy again" if is_healthy else "unhealthy and claims nothing",
                )
                self.is_healthy = is_healthy
                self.tell()
            await asyncio.sleep(seconds)
        await asyncio.Event().wait()

    # --- When the event loop is held ---

    def loop_is_held(self, held: Held) -> None:
        """In the watchdog's thread. The keeper, which runs on, says so, and hands back what has not
        started."""
        self._held, self._is_blocked = held, True
        self._unstarted = self._executor.take_unstarted()
        fences = [job.fence for job in self._unstarted]
        for start in range(0, max(1, len(fences)), WORD_FENCES):
            self.tell(tuple(fences[start : start + WORD_FENCES]))

    def tell_overrun(self, held: Held) -> None:
        """In the watchdog's thread, before it ends this process: the keeper tells the store then
        whose time was over."""
        if self.keeper is not None:
            self.keeper.tell(
                WorkerHealth(
                    False,
                    self._stop.is_set(),
                    self._executor.slots,
                    held.fence,
                    overran_seconds=0.0 if held.by is None else held.by.timeout_seconds,
                )
            )

    def loop_is_back(self, held: Held, seconds: float) -> None:
        """Whom it held up is remembered in the store a little longer than that: until they are
        handed back."""
        unstarted, self._unstarted = self._unstarted, []
        for job in unstarted:  # once more: should the keeper have done it, nothing changes
            self._complete(Completion(job, HandBackOutcome(HELD_UP)))
        if held.by is not None:
            self._executor.jobs.excuse(seconds, held.by)
        self._is_blocked, self.was_held = False, True
        self._forgive_until = time.monotonic() + FORGIVE_SECONDS
        self.tell()

    def forgive(self) -> None:
        """Whoever held the loop is named no longer, once what it held up is dealt with."""
        if (
            self._held is not None
            and not self._is_blocked
            and time.monotonic() > self._forgive_until
        ):
            self._held = None
            self.tell()
