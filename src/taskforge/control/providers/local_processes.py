"""Worker processes on the machine of whoever leads. They are children of its process, and end with
it: each looks every second whether its parent is still there.

The next leader has none of them. It sees that workers are missing, and starts its own: started
anew, never doubled, for those of the last leader are told to stop, or have noticed that it died."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from uuid import uuid4

import msgspec

from taskforge.control.providers.factory import FleetOwner
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.retry import RetryPolicy
from taskforge.domain.scaling_provider import LocalDeclaration

logger = logging.getLogger("taskforge.scaling")
# The waits between processes that end one after the other: as long as none was ever ready, its code
# or its settings are most likely wrong.
START = RetryPolicy(delay=0.5, most=30.0, jitter=0.0)
RESTART = RetryPolicy(delay=0.5, most=5.0, jitter=0.0)
FAILED_STARTS = 3
DEREGISTERED = 4  # the exit status of a worker that somebody took out: it is not replaced


class StartedProcess(Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def was_ready(self) -> bool: ...

    @property
    def has_left(self) -> bool: ...

    def send_signal(self, number: int) -> None: ...

    async def wait(self) -> int: ...


class ProcessOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process that is to be started."""

    app: str
    name: str
    queue: str
    slots: int
    environment: Mapping[str, str]
    directory: str | None


StartProcess = Callable[[ProcessOrder], Awaitable[StartedProcess]]


class _Place:
    """One worker that is wanted, whichever process is it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: StartedProcess | None = None
        self.is_stopped = asyncio.Event()
        self.keeping: asyncio.Task[None] | None = None

    def stop(self) -> None:
        self.is_stopped.set()
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)


class LocalProcesses:
    """Implements `Provider`."""

    def __init__(
        self, declaration: LocalDeclaration, owner: FleetOwner, start: StartProcess
    ) -> None:
        self._declaration = declaration
        self._owner = owner
        self._start = start
        self._places: list[_Place] = []
        self._leaving: set[_Place] = set()
        self._was_ready = False
        self._failed_starts = 0
        self._failure = ""

    async def current(self) -> Fleet:
        self._check_starts()
        alive = sum(place.process is not None for place in self._places)
        return Fleet(len(self._places), alive)

    async def scale_up(self, count: int, *, above: int) -> None:
        self._check_starts()
        while len(self._places) < above + count:
            place = _Place(f"{self._owner.queue[:60]}-{uuid4().hex[:8]}")
            self._places.append(place)
            place.keeping = asyncio.create_task(self._keep(place), name=f"worker {place.name}")

    async def stop(self, worker: Departing) -> None:
        """By its name, or by the process, if that is one of these. What a worker says of its own
        process is trusted no further."""
        is_here = worker.host == socket.gethostname()[:255]
        for place in list(self._places):
            pid = None if place.process is None else place.process.pid
            if place.name == worker.name or (is_here and pid is not None and pid == worker.pid):
                self._leave(place)

    async def close(self) -> None:
        """All are told to stop, and end within their grace time. A leader that resigns does not
        wait for them."""
        for place in list(self._places):
            self._leave(place)

    async def wait_closed(self) -> None:
        tasks = [place.keeping for place in self._leaving if place.keeping is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _leave(self, place: _Place) -> None:
        self._places.remove(place)
        self._leaving.add(place)
        place.stop()

    def _check_starts(self) -> None:
        if self._failed_starts >= FAILED_STARTS:
            raise ProviderFailed(
                f"worker processes of {self._declaration.app} end before they are ready "
                f"({self._failure}); their log says why"
            )

    # --- One worker ---

    async def _keep(self, place: _Place) -> None:
        deaths = 0
        try:
            while not place.is_stopped.is_set():
                try:
                    process = await self._start(self._order(place))
                except OSError as error:
                    self._fail(f"cannot be started: {error}")
                else:
                    if await self._follow(place, process):
                        return
                    deaths = 0 if process.was_ready else deaths
                deaths += 1
                policy = RESTART if self._was_ready else START
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(place.is_stopped.wait(), policy.wait(deaths, 0.5))
        finally:
            if place in self._places:
                self._places.remove(place)
            self._leaving.discard(place)

    async def _follow(self, place: _Place, process: StartedProcess) -> bool:
        """Until it ends; whether it is not to be replaced."""
        place.process = process
        if place.is_stopped.is_set():  # which it was too early to be told
            process.send_signal(signal.SIGTERM)
        logger.info("worker %s started: process %d", place.name, process.pid)
        told = asyncio.create_task(self._hear_ready(process))
        try:
            status = await process.wait()
        finally:
            told.cancel()
            place.process = None
        if place.is_stopped.is_set():
            logger.info("worker %s has stopped", place.name)
            return True
        if process.has_left and status == DEREGISTERED:
            logger.info("worker %s was deregistered; it is not replaced", place.name)
            return True
        if process.was_ready:
            self._hear()
        else:
            self._fail(f"exit status {status}")
        logger.warning("worker %s ended with status %d, and is replaced", place.name, status)
        return False

    async def _hear_ready(self, process: StartedProcess) -> None:
        while not process.was_ready:  # noqa: ASYNC110 - it says so through a pipe that nobody else reads
            await asyncio.sleep(0.2)
        self._hear()

    def _hear(self) -> None:
        self._was_ready, self._failed_starts = True, 0

    def _fail(self, why: str) -> None:
        self._failed_starts += 1
        self._failure = why

    def _order(self, place: _Place) -> ProcessOrder:
        return ProcessOrder(
            app=self._declaration.app,
            name=place.name,
            queue=self._owner.queue,
            slots=self._declaration.slots,
            environment={
                "TASKFORGE_PROJECT": self._owner.project,
                "TASKFORGE_SCALED_BY": str(self._owner.policy),
                "TASKFORGE_GRACE_SECONDS": f"{self._declaration.grace_seconds:g}",
                "TASKFORGE_METRICS_PORT": "0",
            },
            directory=self._declaration.directory or None,
        )
