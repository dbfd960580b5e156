"""A work source on a server: the worker protocol of docs/reference/worker-protocol.md. What follows
from outcomes, the server decides."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TypeVar
from uuid import UUID

from taskforge.client import worker_protocol
from taskforge.client.problems import AnswerLost, ServerFault
from taskforge.client.requests import Request
from taskforge.client.transport import Transport
from taskforge.domain.access import Throttled
from taskforge.domain.custom_value import CustomSum
from taskforge.domain.errors import Invalid, LeaseLost, StoreUnavailable
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine, split
from taskforge.domain.outcome import HandBackOutcome, Outcome, TimedOut
from taskforge.domain.tenancy import QuotaExceeded
from taskforge.domain.worker import NewWorker, Registered
from taskforge.domain.worker_protocol import HELD_SECONDS
from taskforge.ports.work_source import Completion

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
        self._held: dict[UUID, UUID] = {}  # fence → the life of this worker that it was given to
        # until then claims say what is held, so that jobs whose giving out was lost go back
        self._doubt_until = 0.0
        self._faults = 0

    async def register(self, worker: NewWorker, lease_seconds: float) -> Registered:
        registered = await self._send(worker_protocol.register(worker, lease_seconds))
        # what the life before it still has to say is said in its name
        self._incarnation = registered.incarnation
        self._doubt_until = 0.0
        return registered

    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None:
        await self._send(worker_protocol.deregister(incarnation, died=died))

    # --- Getting jobs ---

    async def claim(self, incarnation: UUID, limit: int, reporting: int = 0) -> list[Claimed]:
        held = self._held_by(incarnation) if time.monotonic() < self._doubt_until else None
        # While the server or its store is away, a claim that waits would only tell at its end that
        # they are back.
        wait = (
            min(self.wait_seconds, DOUBTFUL_WAIT_SECONDS)
            if self._transport.outage.is_on
            else self.wait_seconds
        )
        try:
            jobs = await self._send(
                worker_protocol.claim(incarnation, limit, wait, held, reporting)
            )
        except (AnswerLost, asyncio.CancelledError):
            self._doubt_until = time.monotonic() + HELD_SECONDS
            raise
        self._held.update((job.fence, incarnation) for job in jobs)
        return jobs

    async def end_claim(self, incarnation: UUID) -> list[Claimed]:
        """A claim for nothing: a newer one ends the one that waits, whose answer then says all that
        was given out."""
        return await self._send(worker_protocol.claim(incarnation, 0, 0, None))

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        """The answer to a claim is the wake-up."""
        del wake
        return lambda: None

    # --- Saying what came of them ---

    async def complete(self, completions: Sequence[Completion]) -> list[UUID]:
        ended = [(one.job.fence, one.outcome, one.ran) for one in completions]
        try:
            lost = await self._send_all(ended, itemgetter(0), worker_protocol.complete)
        except Invalid as error:
            raise ValueError(f"the server refused an outcome: {error}") from error
        except ServerFault as error:
            self._faults += 1
            if self._faults < (MOST_FAULTS if len(completions) > 1 else MOST_FAULTS_ALONE):
                raise
            self._faults = 0
            raise ValueError(f"the server fails at an outcome: {error}") from error
        self._faults = 0
        self._forget(one.job.fence for one in completions)
        return lost

    async def hand_back(self, incarnation: UUID, fences: Sequence[UUID], reason: str) -> list[UUID]:
        return await self._end_all(incarnation, fences, HandBackOutcome(reason))

    async def time_out(self, incarnation: UUID, fence: UUID, seconds: float) -> list[UUID]:
        return await self._end_all(incarnation, [fence], TimedOut(seconds))

    async def _end_all(
        self, incarnation: UUID, fences: Sequence[UUID], outcome: Outcome
    ) -> list[UUID]:
        lost: list[UUID] = []
        for request in worker_protocol.complete(
            incarnation, [(fence, outcome, None) for fence in fences]
        ):
            answer: list[UUID] = await self._send(request)
            lost += answer
        return lost

    async def beat(self, beats: Sequence[Beat]) -> list[UUID]:
        return self._without(
            await self._send_all(beats, lambda one: one.fence, worker_protocol.progress)
        )

    async def log(self, lines: Sequence[NewLine]) -> list[UUID]:
        pieces = [piece for line in lines for piece in split(line)]
        return self._without(
            await self._send_all(pieces, lambda one: one.fence, worker_protocol.logs)
        )

    async def count(self, sums: Sequence[CustomSum]) -> None:
        assert self._incarnation is not None, "not registered"
        try:
            await self._send(worker_protocol.count(self._incarnation, sums))
        except LeaseLost as error:  # the next life of this worker says it
            raise StoreUnavailable(str(error)) from None

    def _without(self, lost: list[UUID]) -> list[UUID]:
        """Of a job that is lost nobody sends an outcome: it is not held any more."""
        self._forget(lost)
        return lost

    def _held_by(self, incarnation: UUID) -> tuple[UUID, ...]:
        return tuple(fence for fence, life in self._held.items() if life == incarnation)

    def _forget(self, fences: Iterable[UUID]) -> None:
        for fence in fences:
            self._held.pop(fence, None)

    async def _send_all(
        self,
        items: Sequence[T],
        fence_of: Callable[[T], UUID],
        requests: Callable[[UUID, Sequence[T]], Iterator[Request[list[UUID]]]],
    ) -> list[UUID]:
        """Each in the name of the life it was given to. Of a life that the server knows nothing of
        any more all is lost."""
        lives: dict[UUID, list[T]] = {}
        for item in items:
            life = self._held.get(fence_of(item), self._incarnation)
            assert life is not None, "not registered"
            lives.setdefault(life, []).append(item)
        lost: list[UUID] = []
        for life, own in lives.items():
            try:
                for request in requests(life, own):
                    answer: list[UUID] = await self._send(request)
                    lost += answer
            except LeaseLost:
                lost += [fence_of(item) for item in own]
        return lost

    async def _send(self, request: Request[T]) -> T:
        try:
            return await self._transport.send(request)
        except (QuotaExceeded, Throttled) as error:
            # To come back later is all that a worker can do about it.
            raise StoreUnavailable(str(error), retry_after=error.retry_after) from None
