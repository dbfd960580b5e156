"""Keeps N worker processes running: restarts those that crash, replaces those that grew too large,
passes signals on."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Sequence

import psutil

from taskforge.domain.retry import RetryPolicy
from taskforge.worker.processes.process_watch import heard
from taskforge.worker.processes.supervision import SupervisedProcess

logger = logging.getLogger("taskforge.supervisor")
# The waits between processes that end one after the other. As long as none was ever ready, its code
# or its settings are most likely wrong, and nobody waits for it.
START = RetryPolicy(delay=0.5, most=30.0, jitter=0.0)
RESTART = RetryPolicy(delay=0.5, most=5.0, jitter=0.0)
HEALTHY_AFTER_SECONDS = 10.0
DEREGISTERED = 4  # the exit status of a worker that somebody took out: it is not replaced
MEMORY_SECONDS = 2.0
# the exit status of a worker whose handlers hang, and which wants to be replaced at once
REPLACE = 75


class Supervisor:
    def __init__(
        self, command: Sequence[str], *, processes: int, max_memory_mb: float | None = None
    ) -> None:
        self._command = list(command)
        self._count = processes
        self._max_memory = None if max_memory_mb is None else max_memory_mb * 1024 * 1024
        self._alive: dict[int, SupervisedProcess] = {}
        self._was_ready = False
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until a signal: the first is passed on for a graceful stop, the second for an immediate
        one."""
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
            process.send_signal(signal.SIGTERM)

    async def _keep(self, slot: int) -> None:
        deaths = 0  # since the last process that worked well
        while not self._stop.is_set():
            process = await SupervisedProcess.start(
                self._command, was_ready=self._has_been_ready(), number=slot
            )
            self._alive[slot] = process
            if self._stop.is_set():  # which it was too early to be told
                process.send_signal(signal.SIGTERM)
            logger.info("worker process %d started", process.pid)
            status = await process.wait()
            self._has_been_ready()
            del self._alive[slot]
            if self._stop.is_set():
                return
            if process.has_left and status == DEREGISTERED:
                logger.info("worker process %d was deregistered; it is not replaced", process.pid)
                return
            if process.has_left and status == 0:
                logger.info(
                    "worker process %d has done its share; starting a fresh one", process.pid
                )
                continue
            if status == REPLACE:
                logger.warning(
                    "worker process %d had handlers that did not end; starting a fresh one",
                    process.pid,
                )
                continue
            if _worked_well(process):
                deaths = 0
            deaths += 1
            delay = (RESTART if self._was_ready else START).wait(deaths, chance=0.0)
            logger.warning(
                "worker process %d ended with %s; starting another in %.1f s",
                process.pid,
                _how(status),
                delay,
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay)

    def _has_been_ready(self) -> bool:
        """Whether any process so far has had its store and could take jobs."""
        self._was_ready |= any(process.was_ready for process in self._alive.values())
        return self._was_ready

    async def _watch_memory(self) -> None:
        told: set[int] = set()  # a second SIGTERM would not let them finish
        while self._max_memory is not None:
            await asyncio.sleep(MEMORY_SECONDS)
            told &= {process.pid for process in self._alive.values()}
            for process in [one for one in self._alive.values() if one.pid not in told]:
                with contextlib.suppress(psutil.Error, ProcessLookupError):
                    if psutil.Process(process.pid).memory_info().rss > self._max_memory:
                        logger.info(
                            "worker process %d has grown too large; it finishes its jobs and is "
                            "replaced",
                            process.pid,
                        )
                        process.send_signal(signal.SIGTERM)
                        told.add(process.pid)


def _worked_well(process: SupervisedProcess) -> bool:
    """Then its end says nothing about the next one: a job of many may have ended it."""
    return process.has_finished_jobs or (
        process.was_ready and process.seconds > HEALTHY_AFTER_SECONDS
    )


def _how(status: int) -> str:
    if status in (0, DEREGISTERED):
        return f"exit status {status}, without having left: a handler may have ended it"
    if status > 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def supervise(
    command: Sequence[str], *, processes: int, max_memory_mb: float | None = None
) -> None:
    """Run the command in this many processes until told to stop."""
    asyncio.run(Supervisor(command, processes=processes, max_memory_mb=max_memory_mb).run())
