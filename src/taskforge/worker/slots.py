"""Slots: tasks that take one job after the other.

A task per job would cost 10 µs, and a timer per job 5 more: timeouts are kept by one sweep over
what runs. A slot that takes a job wakes the next one only if more jobs wait and none is waking up
yet, so handlers that never really suspend run back to back in one slot while handlers that do still
fill all of them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from taskforge.domain.job import Claimed

logger = logging.getLogger("taskforge.worker")

MOST_SLOTS = 1_000
CLOSE_SECONDS = 2.0
# A handler that took so long may have held the event loop: others get a turn before the next one.
LONG_SECONDS = 0.01
# Handlers that never suspend; then the event loop gets a turn, in which claims and reports go on.
BACK_TO_BACK = 50

Run = Callable[[Claimed, "asyncio.Task[Any] | None"], Awaitable[float]]


class Slots:
    def __init__(
        self,
        count: int,
        queues: tuple[deque[Claimed], deque[Claimed]],
        take: Callable[[], Claimed | None],
        run: Run,
        on_fault: Callable[[], None],
    ) -> None:
        """`queues`: where jobs wait; `take` gives the next, `run` says how long one ran."""
        self.count = count
        self._waiting, self._suspects = queues
        self._take = take
        self.run = run
        self._on_fault = on_fault
        self._idle: deque[asyncio.Future[None]] = deque()
        self._waking = False  # a slot was woken and has not looked for a job yet
        self._done = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False

    def wake(self) -> None:
        if self._waking:
            return
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                self._waking = True
                waiter.set_result(None)
                return
        if len(self.tasks) < self.count and (self._waiting or self._suspects):
            self._waking = True
            task = asyncio.get_running_loop().create_task(self._work())
            self.tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._waking = False
        if not task.cancelled() and task.exception() is not None:
            logger.error("a worker slot failed; please report this", exc_info=task.exception())
            self._on_fault()
            self.wake()

    async def _work(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        self._waking = False
        while not self.closing:
            job = self._take()
            if job is None:
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
                self._waking = False
                continue
            if self._waiting or self._suspects:
                self.wake()
            ran = await self.run(job, task)
            self._done += 1
            if self._waiting or self._suspects:
                self.wake()
            if ran >= LONG_SECONDS or self._done % BACK_TO_BACK == 0:
                await asyncio.sleep(0)

    async def close(self) -> None:
        """End all slots. A handler that will not be cancelled is left behind: nothing in Python can
        stop it."""
        self.closing = True
        tasks = set(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)


async def forget_cancels(task: asyncio.Task[Any], slots: Slots) -> None:
    """The slot goes on. A count left behind would make the next handler's task groups believe that
    they were cancelled, and a cancel that the handler asked for and did not wait for would strike
    the next job."""
    while task.cancelling():
        task.uncancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if slots.closing:
            raise
