"""Keeps N worker processes running: restarts those that crash, replaces those that grew too large, passes signals on."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Sequence

import psutil

from taskforge.worker.parent import heard

logger = logging.getLogger("taskforge.supervisor")
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 30.0
DEREGISTERED = 4  # the exit status of a worker that somebody took out: it is not replaced
MEMORY_SECONDS = 2.0
REPLACE = 75  # the exit status of a worker whose handlers hang, and which wants to be replaced at once


class Supervisor:
    def __init__(self, command: Sequence[str], *, processes: int, max_memory_mb: float | None = None) -> None:
        self._command = list(command)
        self._count = processes
        self._max_memory = None if max_memory_mb is None else max_memory_mb * 1024 * 1024
        self._alive: dict[int, asyncio.subprocess.Process] = {}
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until a signal: the first is passed on for a graceful stop, the second for an immediate one."""
        loop = asyncio.get_running_loop()
        numbers = heard()
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        watching = asyncio.create_task(self._watch_memory())
        try:
            await asyncio.gather(*(self._keep(slot) for slot in range(self._count)))
        finally:
            watching.cancel()
            for number in numbers:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        self._stop.set()
        for process in self._alive.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    async def _keep(self, slot: int) -> None:
        delay = FIRST_DELAY_SECONDS
        while not self._stop.is_set():
            started = time.monotonic()
            # A session of its own: a Ctrl-C in the terminal reaches the supervisor alone, which passes it on in order.
            process = await asyncio.create_subprocess_exec(*self._command, start_new_session=True)
            self._alive[slot] = process
            if self._stop.is_set():  # which it was too early to be told
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
            logger.info("worker process %d started", process.pid)
            code = await process.wait()
            del self._alive[slot]
            if self._stop.is_set():
                return
            if code == DEREGISTERED:
                logger.info("worker process %d was deregistered; it is not replaced", process.pid)
                return
            if code == 0:
                logger.info("worker process %d has done its share; starting a fresh one", process.pid)
                continue
            if code == REPLACE:
                logger.warning("worker process %d had handlers that did not end; starting a fresh one", process.pid)
                continue
            if time.monotonic() - started > HEALTHY_AFTER_SECONDS:
                delay = FIRST_DELAY_SECONDS
            logger.warning("worker process %d ended with %s; starting another in %.1f s", process.pid, _how(code), delay)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay)
            delay = min(LONGEST_DELAY_SECONDS, delay * 2)

    async def _watch_memory(self) -> None:
        told: set[int] = set()  # a second SIGTERM would not let them finish
        while self._max_memory is not None:
            await asyncio.sleep(MEMORY_SECONDS)
            told &= {process.pid for process in self._alive.values()}
            for process in [one for one in self._alive.values() if one.pid not in told]:
                with contextlib.suppress(psutil.Error, ProcessLookupError):
                    if psutil.Process(process.pid).memory_info().rss > self._max_memory:
                        logger.info("worker process %d has grown too large; it finishes its jobs and is replaced", process.pid)
                        process.send_signal(signal.SIGTERM)
                        told.add(process.pid)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def supervise(command: Sequence[str], *, processes: int, max_memory_mb: float | None = None) -> None:
    """Run the command in this many processes until told to stop."""
    asyncio.run(Supervisor(command, processes=processes, max_memory_mb=max_memory_mb).run())
