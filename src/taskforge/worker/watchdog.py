"""Sees from a thread of its own that a handler holds the event loop, says which one, and sees to it
that others do not pay for it.

The loop ticks; the thread looks a few times a second whether it still does. Of time in which the
thread itself could not run (a stopped process, a frozen machine, native code that holds the
interpreter's lock) it knows nothing, and counts none: for the last of these there is the lease
keeper, which it tells that it runs (`pulse.py`).
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.durations import span
from taskforge.domain.ids import job_of
from taskforge.worker.context import Running, current
from taskforge.worker.processes.supervisor import REPLACE

logger = logging.getLogger("taskforge.worker")
TICK_SECONDS = 0.1
LOOK_SECONDS = 0.25
HELD_SECONDS = 1.0  # without a tick: the loop is held
# without a tick although no task runs: a callback holds the loop, or the machine is too busy for it
STARVED_SECONDS = 5.0
UNKNOWN_SECONDS = 30.0  # what holds it, if that is no handler that we know, may do so for this long
PULSE_SECONDS = 1.0
GRACE_SECONDS = 3.0  # beyond the timeout of the handler that holds it
LEAVE_SECONDS = 2.0  # to say why, for a process that ends at once
LOG_AGAIN = 3.0  # times as long as when it was logged last


class Held(msgspec.Struct, frozen=True):
    """Who holds the event loop, as far as one can tell, and where in the code."""

    by: Running | None
    where: str

    @property
    def fence(self) -> UUID | None:
        return None if self.by is None else self.by.claimed.fence

    def __str__(self) -> str:
        if self.by is None:
            return "something"
        return f"handler {self.by.claimed.job_type} (job {job_of(self.by.claimed.fence)})"


class Watchdog:
    def __init__(
        self,
        running: Mapping[UUID, Running],
        *,
        on_held: Callable[[Held], None],
        on_back: Callable[[Held, float], None],
        give_up: Callable[[Held], None] | None = None,
        on_pulse: Callable[[], None] | None = None,
    ) -> None:
        """`on_held` is called once for each time that the loop is held, `give_up` when whoever
        holds it has had all of its time, both in the watchdog's thread; `on_back` in the event
        loop, before anything else that was due there. `on_held` must not wait for the loop, which
        does not tick until it has returned. `on_pulse` is called about once a second, in the
        thread, for as long as that can run."""
        self._running = running
        self._on_held = on_held
        self._on_back = on_back
        self._give_up = give_up
        self._on_pulse = on_pulse
        self._ticked = time.monotonic()
        self._ticks = 0
        self._held: Held | None = None
        # the loop is held and said to be, or has ticked: never something between
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_of_loop = 0

    # --- In the event loop ---

    def start(self) -> None:
        self._loop, self._thread_of_loop = asyncio.get_running_loop(), threading.get_ident()
        self._ticked = time.monotonic()
        self._ended.clear()
        self._tick()
        threading.Thread(target=self._watch, name="taskforge-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _tick(self) -> None:
        if self._ended.is_set() or self._loop is None:
            return
        self._loop.call_later(TICK_SECONDS, self._tick)
        with self._lock:
            now = time.monotonic()
            silent, self._ticked = now - self._ticked, now
            self._ticks += 1
            held, self._held = self._held, None
        if held is None:
            return
        self._on_back(held, silent)
        if silent < HELD_SECONDS:
            return  # it was back in the moment in which it was found to be held
        logger.warning(
            "%s held the event loop for %.1f s (%s); it must not block: await, or be a plain "
            "function",
            held,
            silent,
            held.where,
        )

    def held_for(self, running: Running) -> float:
        """For how long another job has kept this one from running, since the last tick."""
        held = self._held
        if held is None or held.by is None or held.by is running:
            return 0.0
        return time.monotonic() - self._ticked

    # --- In the thread ---

    def _watch(self) -> None:
        stood, seen, looked, logged, pulsed = 0.0, -1, time.monotonic(), 0.0, 0.0
        while not self._ended.wait(LOOK_SECONDS):
            before, looked = looked, time.monotonic()
            if self._on_pulse is not None and looked - pulsed >= PULSE_SECONDS:
                pulsed = looked
                self._on_pulse()
            if seen != self._ticks:
                stood, seen, logged = 0.0, self._ticks, HELD_SECONDS / LOG_AGAIN
                continue
            stood += min(looked - before, 2 * LOOK_SECONDS)
            if stood < HELD_SECONDS:
                continue
            held = self._held
            if held is None:
                held = self._who()
                if held.by is None and stood < STARVED_SECONDS:
                    continue
                with self._lock:
                    if seen != self._ticks:
                        continue  # it was back while we looked who holds it
                    self._held = held
                    self._on_held(held)
            if stood >= logged * LOG_AGAIN:
                logged = stood
                _log_aside(
                    "%s has held the event loop for %s and still does (%s); nothing else of this "
                    "worker runs",
                    held,
                    span(stood),
                    held.where,
                )
            if self._give_up is not None and seen == self._ticks and stood >= self._allowed(held):
                self._give_up(held)

    def _allowed(self, held: Held) -> float:
        if held.by is not None:
            ran = time.monotonic() - held.by.started
            stood = time.monotonic() - self._ticked
            return max(HELD_SECONDS, held.by.timeout_seconds + GRACE_SECONDS - (ran - stood))
        return self.longest_allowed()  # it may be a task that one of the handlers has started

    def longest_allowed(self) -> float:
        """For so long this process may stand still, whichever of its handlers it is that holds
        it."""
        return max(
            [
                UNKNOWN_SECONDS,
                *(one.timeout_seconds + GRACE_SECONDS for one in list(self._running.values())),
            ]
        )

    def _who(self) -> Held:
        frame = sys._current_frames().get(self._thread_of_loop)
        task = asyncio.current_task(self._loop)
        where = "" if frame is None else _where(frame)
        if task is None:
            return Held(None, where)
        for running in list(self._running.values()):
            if running.task is task:
                return Held(running, where)
        # A task that a handler has started has its context, which can be asked for from Python 3.12
        # on.
        context: Mapping[Any, Any] = getattr(task, "get_context", dict)()
        by = context.get(current)
        # What a job left behind when it ended is nobody's any more: there is no timeout that it
        # could go by.
        is_running = by is not None and self._running.get(by.claimed.fence) is by
        return Held(by if is_running else None, where)


def _log_aside(*message: object) -> None:
    """In a thread of its own: the event loop may be held inside a logging handler, whose lock
    nobody else gets then."""
    with contextlib.suppress(RuntimeError):  # no more threads can be started
        threading.Thread(
            target=logger.warning, args=message, name="taskforge-watchdog-log", daemon=True
        ).start()


def _where(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def leave_at_once(held: Held) -> None:
    """In the watchdog's thread: nothing else can end this process in order. What ran beside it goes
    back unspent."""
    # the loop may be held inside a logging handler
    in_any_case = threading.Timer(LEAVE_SECONDS, os._exit, (REPLACE,))
    in_any_case.daemon = True
    with contextlib.suppress(RuntimeError):  # no more threads can be started
        in_any_case.start()
    logger.error("%s does not let go of the event loop: this process ends and is replaced", held)
    with contextlib.suppress(Exception):
        logging.shutdown()
    os._exit(REPLACE)
