"""A work source on a server: the worker protocol of docs/reference/worker-protocol.md. What follows from outcomes, the server
decides."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from taskforge.client import protocol
from taskforge.client.problems import AnswerLost, ServerFault
from taskforge.client.requests import Request
from taskforge.client.transport import Transport
from taskforge.domain.access import Throttled
from taskforge.domain.errors import Invalid, StoreUnavailable
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine, split
from taskforge.domain.tenancy import QuotaExceeded
from taskforge.domain.wire import HELD_SECONDS
from taskforge.domain.worker import NewWorker, Registered
from taskforge.worker.source import Completion

T = TypeVar("T")
WAIT_SECONDS = 30.0
DOUBTFUL_WAIT_SECONDS = 1.0
MOST_FAULTS = 3  # of the server, before a batch is sent one by one
MOST_FAULTS_ALONE = 8  # before one outcome is taken for what it fails at: about five seconds


class HttpSource:
    side_by_side = True

    def __init__(self, transport: Transport, wait_seconds: float = WAIT_SECONDS) -> None:
        self.wait_seconds = wait_seconds
        self._transport = transport
        self._incarnation: UUID | None = None
        self._held: set[UUID] = set()
        self._doubt_until = 0.0  # until then claims say what is held, so that jobs whose giving out was lost go back
        self._faults = 0

    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered:
        registered = await self._send(protocol.register(worker, lease_seconds))
        self._incarnation = registered.incarnation
        self._held.clear()
        self._doubt_until = 0.0
        return registered

    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None:
        await self._send(protocol.deregister(incarnation, died=died))

    # --- Getting jobs ---

    async def claim(self, incarnation: UUID, limit: int) -> list[Claimed]:
        held = tuple(self._held) if time.monotonic() < self._doubt_until else None
        # While the server or its store is away, a claim that waits would only tell at its end that they are back.
        wait = min(self.wait_seconds, DOUBTFUL_WAIT_SECONDS) if self._transport.outage.is_on else self.wait_seconds
        try:
            jobs = await self._send(protocol.claim(incarnation, limit, wait, held))
        except (AnswerLost, asyncio.CancelledError):
            self._doubt_until = time.monotonic() + HELD_SECONDS
            raise
        self._held.update(job.fence for job in jobs)
        return jobs

    async def end_claim(self, incarnation: UUID) -> list[Claimed]:
        """A claim for nothing: a newer one ends the one that waits, whose answer then says all that was given out."""
        return await self._send(protocol.claim(incarnation, 0, 0, None))

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        """The answer to a claim is the wake-up."""
        del wake
        return lambda: None

    # --- Saying what came of them ---

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]:
        ended = [(one.job.fence, one.outcome, one.ran) for one in completions]
        try:
            lost = await self._send_all(protocol.complete(self._own(), ended))
        except Invalid as error:
            raise ValueError(f"the server refused an outcome: {error}") from error
        except ServerFault as error:
            self._faults += 1
            if self._faults < (MOST_FAULTS if len(completions) > 1 else MOST_FAULTS_ALONE):
                raise
            self._faults = 0
            raise ValueError(f"the server fails at an outcome: {error}") from error
        self._faults = 0
        self._held.difference_update(one.job.fence for one in completions)
        return lost

    async def beat(self, beats: Sequence[Beat]) -> list[UUID]:
        return self._without(await self._send_all(protocol.progress(self._own(), beats)))

    async def log(self, lines: Sequence[NewLine]) -> list[UUID]:
        return self._without(await self._send_all(protocol.logs(self._own(), [piece for line in lines for piece in split(line)])))

    def _without(self, lost: list[UUID]) -> list[UUID]:
        """Of a job that is lost nobody sends an outcome: it is not held any more."""
        self._held.difference_update(lost)
        return lost

    def _own(self) -> UUID:
        assert self._incarnation is not None, "not registered"
        return self._incarnation

    async def _send_all(self, requests: Iterator[Request[list[UUID]]]) -> list[UUID]:
        return [fence for request in requests for fence in await self._send(request)]

    async def _send(self, request: Request[T]) -> T:
        try:
            return await self._transport.send(request)
        except (QuotaExceeded, Throttled) as error:
            # To come back later is all that a worker can do about it.
            raise StoreUnavailable(str(error), retry_after=error.retry_after) from None
