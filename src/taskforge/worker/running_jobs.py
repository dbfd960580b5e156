"""The jobs that run in a worker: how they are told to stop, and how long they may take."""

import time
from collections.abc import Callable
from uuid import UUID

from taskforge.worker.context import Running
from taskforge.worker.stuck import Stuck


class RunningJobs:
    def __init__(self) -> None:
        self.by_fence: dict[UUID, Running] = {}
        self.stuck = Stuck()
        self.held_up: dict[UUID, float] = {}  # seconds for which others held the event loop
        # and for which another holds it just now, if one does
        self.held_for: Callable[[Running], float] = lambda _: 0.0

    @property
    def can_end(self) -> bool:
        """Whether something runs that may still end by itself, or because it was told to."""
        return any(not self.stuck.is_stuck(fence) for fence in self.by_fence)

    def interrupt(self, fence: UUID, why: str, reason: str | None = None) -> bool:
        """Stop one job, if it runs; the first to say why counts, `reason` in the words of whoever
        asked. Async handlers are cancelled, processes killed, threads asked."""
        running = self.by_fence.get(fence)
        if running is None or running.why is not None:
            return False
        running.why, running.reason = why, reason
        self.stuck.told(running)
        if running.stop is not None:
            running.stop()
        elif running.task is not None:
            running.task.cancel(why)
        return True

    def interrupt_late(self) -> None:
        """Stop what ran too long."""
        now = time.monotonic()
        for running in list(self.by_fence.values()):
            fence = running.claimed.fence
            held_up = (
                self.held_up.get(fence, 0.0) if self.held_up and running.may_be_excused else 0.0
            )
            why = running.overran(now - running.started, held_up)
            if why is not None:
                self.interrupt(fence, why)
        if self.stuck or self.held_up:
            self.stuck.look(self.by_fence, now)
            self.held_up = {
                fence: seconds for fence, seconds in self.held_up.items() if fence in self.by_fence
            }

    def has_overrun(self, running: Running, ran: float) -> bool:
        """Whether an attempt that has ended came too late, though the event loop was held and
        nobody could tell it to stop. Then it says why."""
        held_up = self.held_up.get(running.claimed.fence, 0.0) + self.held_for(running)
        late = running.overran(ran, held_up)
        if late is None or late == "held up":
            return False
        running.why = late
        return True

    def excuse(self, seconds: float, culprit: Running | None) -> None:
        """The event loop was held for so long: that is not the time of those who waited for it."""
        for fence, running in self.by_fence.items():
            if running is not culprit and running.stop is None:
                self.held_up[fence] = self.held_up.get(fence, 0.0) + min(
                    seconds, time.monotonic() - running.started
                )
