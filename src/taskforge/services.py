"""A service is a thing that runs until it is cancelled, and says how it fares. `node.py` says which
services a process runs."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.retry import Patience, RetryPolicy

logger = logging.getLogger("taskforge.services")
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 60.0
LATE_ROUNDS = 3.0  # intervals since the last round that succeeded
LEAST_LATE_SECONDS = 5.0  # ten rounds a second are not late after 0.3 s
CANCEL_AGAIN_SECONDS = 1.0

Act = Callable[[], Awaitable[object]]
Monotonic = Callable[[], float]


class ServiceHealth(msgspec.Struct, frozen=True):
    """How a service fares."""

    name: str
    seconds_ago: float | None = None  # since it last ran as it should; None: not yet
    took_seconds: float | None = None  # then
    is_late: bool = False  # by its own rhythm
    error: str | None = None  # of its last round, if that failed
    # for so long what it should do has been overdue in the store, whoever should have done it
    behind_seconds: float | None = None


class Service(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Until cancelled. If it fails, its process stops."""

    async def run_once(self) -> object:
        """One round of it, for tests: what fails is raised."""

    def health(self) -> list[ServiceHealth]:
        """One for each loop that it runs."""


class Periodic:
    """Does one thing at once, then again and again, whatever it meets: it ends no process. A store
    that is away is tried again after ever longer waits, and so is what failed, which is told of
    once. Several processes drift apart by jitter."""

    def __init__(
        self, name: str, act: Act, *, seconds: float, monotonic: Monotonic = time.monotonic
    ) -> None:
        self.name = name
        self._act = act
        self._seconds = seconds
        self._monotonic = monotonic
        self._since: float | None = None  # it runs, or a round last succeeded
        self._took: float | None = None
        self._error: str | None = None

    async def run(self) -> None:
        away = Patience()
        failed = Patience(RetryPolicy(delay=FIRST_REST_SECONDS, most=LONGEST_REST_SECONDS))
        told = ""
        self.begin()
        while True:
            try:
                await self.run_once()
            except StoreUnavailable as error:
                await asyncio.sleep(away.wait(error.asked_for))
                continue
            except Exception as error:
                if told != repr(error):
                    logger.exception("%s failed and is tried again", self.name)
                    told = repr(error)
                await asyncio.sleep(failed.wait())
                continue
            away.forget()
            failed.forget()
            told = ""
            await asyncio.sleep(self._seconds * random.uniform(0.8, 1.2))

    def begin(self) -> None:
        """From here on it can be late."""
        self._since = self._monotonic()

    async def run_once(self) -> object:
        began = self._monotonic()
        try:
            answer = await self._act()
        except Exception as error:
            self._error = repr(error)
            raise
        self._since = self._monotonic()
        self._took, self._error = self._since - began, None
        return answer

    def health(self) -> list[ServiceHealth]:
        passed = 0.0 if self._since is None else self._monotonic() - self._since
        return [
            ServiceHealth(
                self.name,
                None if self._took is None else passed,
                self._took,
                passed > max(LATE_ROUNDS * self._seconds, LEAST_LATE_SECONDS),
                self._error,
            )
        ]


class Lasting:
    """Runs what must not end before it is cancelled. Should that end, the log says so, and it
    begins again, after ever longer rests; it is late while it rests."""

    def __init__(self, name: str, act: Act, *, monotonic: Monotonic = time.monotonic) -> None:
        self.name = name
        self._act = act
        self._monotonic = monotonic
        self._began: float | None = None
        self._ended: float | None = None
        self._error: str | None = None

    async def run(self) -> None:
        rest = FIRST_REST_SECONDS
        while True:
            began = self._monotonic()
            try:
                await self.run_once()
                logger.error("%s ended by itself and begins again", self.name)
            except Exception:
                logger.exception("%s failed and begins again", self.name)
            if self._monotonic() - began > LONGEST_REST_SECONDS:
                rest = FIRST_REST_SECONDS
            await asyncio.sleep(rest)
            rest = min(LONGEST_REST_SECONDS, 2 * rest)

    async def run_once(self) -> object:
        """Until it ends by itself."""
        self._began, self._ended = self._monotonic(), None
        try:
            answer = await self._act()
            self._error = "ended by itself"
        except Exception as error:
            self._error = repr(error)
            raise
        finally:
            self._ended = self._monotonic()
        return answer

    def health(self) -> list[ServiceHealth]:
        if self._began is None:
            return [ServiceHealth(self.name)]
        now = self._monotonic()
        ended = now if self._ended is None else self._ended
        return [
            ServiceHealth(
                self.name,
                now - ended,
                ended - self._began,
                self._ended is not None,
                self._error,
            )
        ]


class Errand:
    """Runs what may end by itself, and ends with its process at the latest. If it fails, its
    process stops."""

    def __init__(self, name: str, act: Act) -> None:
        self.name = name
        self._act = act

    async def run(self) -> None:
        await self._act()

    async def run_once(self) -> object:
        return await self._act()

    def health(self) -> list[ServiceHealth]:
        return [ServiceHealth(self.name)]


class ServiceGroup:
    """Services that run together as one. If one of them fails, all end."""

    def __init__(self, name: str, services: Sequence[Service]) -> None:
        self.name = name
        self.services = tuple(services)

    async def run(self) -> None:
        async with running(self.services) as tasks:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()

    async def run_once(self) -> object:
        return [await service.run_once() for service in self.services]

    def health(self) -> list[ServiceHealth]:
        return [health for service in self.services for health in service.health()]


@asynccontextmanager
async def running(services: Sequence[Service]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """They start in this order and run within this block. Who needs to know that one has failed
    looks at its task."""
    tasks = [asyncio.create_task(service.run(), name=service.name) for service in services]
    try:
        yield tasks
    finally:
        await end_tasks(*tasks)


async def end_tasks(*tasks: asyncio.Task[Any], again_seconds: float = CANCEL_AGAIN_SECONDS) -> None:
    """Cancel them until they have ended: a call to a store that stands still can swallow a cancel
    (`asyncio.wait_for` before Python 3.12 does), and the task goes on as if nothing were."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_seconds)
    await asyncio.gather(*tasks, return_exceptions=True)
