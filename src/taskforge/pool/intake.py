"""The way into a pool: who is accepted, who waits for room, who is pushed out, and in whose queue a
job stands."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from taskforge.domain.retry import RetryPolicy
from taskforge.pool.buffer import Buffer
from taskforge.pool.distributor import Distributor
from taskforge.pool.errors import Dropped, PoolClosed, PoolFull
from taskforge.pool.handle import OUTSIDE, Handle
from taskforge.pool.limiter import RateLimiter
from taskforge.pool.runners import Runner
from taskforge.pool.worker import PoolWorker

COUNTED = ("succeeded", "failed", "cancelled", "dropped", "rejected", "retried", "timed_out")
WhenFull = Literal["wait", "reject", "drop_oldest"]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every job of the pool."""

    buffer: int
    when_full: WhenFull
    by_priority: bool
    attempts: int
    retry: RetryPolicy
    retry_on: tuple[type[Exception], ...]
    limiter: RateLimiter | None


class Intake:
    def __init__(
        self, terms: Terms, runners: Sequence[Runner | None], distributor: Distributor | None
    ) -> None:
        self._terms = terms
        self._distributor = distributor
        self._loop = asyncio.get_running_loop()
        self._shared = Buffer(by_priority=terms.by_priority)
        width = len(str(len(runners) - 1))
        self.workers = [
            PoolWorker(
                number,
                f"worker-{number:0{width}}",
                runner,
                self._shared
                if distributor is None
                else Buffer(by_priority=terms.by_priority, owner=number),
            )
            for number, runner in enumerate(runners)
        ]
        # the last that came free goes first: a light load keeps few processes warm
        self._idle = self.workers[::-1]
        # those who wait for room
        self._line: deque[tuple[Handle[Any], asyncio.Future[None]]] = deque()
        self._buffered = 0
        self._most = terms.buffer
        self._joined = 0  # so many have stood in a worker's own queue; tells which is the oldest
        self._unsettled = 0
        self._counts = dict.fromkeys(COUNTED, 0)
        self._is_open = True

    @abstractmethod
    def _launch(self, worker: PoolWorker, handle: Handle[Any]) -> None: ...

    @abstractmethod
    def _settle(self, handle: Handle[Any], how: str) -> None: ...

    def offer(self, handle: Handle[Any]) -> bool:
        """Accept the job if there is room, or if room can be made; False when its caller must
        wait."""
        if not self._is_open:
            raise PoolClosed("the pool is stopping and takes no more jobs")
        if not self._line and self._place(handle):
            return True
        match self._terms.when_full:
            case "wait":
                return False
            case "reject":
                self._counts["rejected"] += 1
                raise PoolFull(
                    f"{self._buffered} jobs wait already; submit fewer, or let the pool "
                    f"wait or drop"
                )
            case "drop_oldest":
                self._push_out(handle)
                return True

    async def enter(self, handle: Handle[Any]) -> None:
        """Wait in line until there is room."""
        turn = self._loop.create_future()
        self._line.append((handle, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # accepted in the moment its caller gave up: nobody else holds its handle
                handle.cancel()
            raise

    def _place(self, handle: Handle[Any]) -> bool:
        """Give it to a worker, or let it stand in a queue; False when there is no room. Every job
        comes here: calls are spared."""
        if self._distributor is None:
            if not self._idle and self._buffered >= self._most:
                return False
            if handle._place == OUTSIDE:
                self._unsettled += 1
            if self._idle:
                self._launch(self._idle.pop(), handle)
            else:
                self._shared.put(handle)
                self._buffered += 1
            return True
        number = self._distributor.choose(handle._key)
        if number is None:
            return False
        if handle._place == OUTSIDE:
            self._unsettled += 1
        self._join(number, handle)
        return True

    def _squeeze(self, handle: Handle[Any]) -> None:
        """A job that was accepted before joins even a full buffer; newcomers wait the longer."""
        if self._distributor is None:
            self._shared.put(handle)
            self._buffered += 1
        else:
            self._join(min(self.workers, key=lambda worker: len(worker.buffer)).number, handle)

    def _join(self, number: int, handle: Handle[Any]) -> None:
        """Stand in this worker's own queue."""
        assert self._distributor is not None
        self._distributor.change(number, 1)
        worker = self.workers[number]
        if worker.task is None:
            self._launch(worker, handle)
        else:
            self._joined += 1
            handle._number = self._joined
            handle._buffer = worker.buffer
            worker.buffer.put(handle)
            self._buffered += 1

    def _push_out(self, handle: Handle[Any]) -> None:
        """Drop the oldest of the least urgent, which may be the newcomer itself."""
        buffers = (
            [self._shared]
            if self._distributor is None
            else [worker.buffer for worker in self.workers]
        )
        waiting = [
            oldest for oldest in (buffer.oldest() for buffer in buffers) if oldest is not None
        ]
        victim = min(waiting, key=lambda each: (each._priority, each._number), default=handle)
        if self._terms.by_priority and handle._priority < victim._priority:
            victim = handle
        if victim is not handle:
            self._forget(victim)
        else:
            self._unsettled += 1
        victim.set_exception(Dropped("a full buffer had no room for it"))
        self._settle(victim, "dropped")
        if victim is not handle and not self._place(handle):
            # Retried jobs had joined a full buffer. One has left it and one comes: it is as full as
            # before.
            self._unsettled += 1
            self._squeeze(handle)

    def _admit(self) -> None:
        """Let those in who wait in line, as far as there is room."""
        while self._line:
            handle, turn = self._line[0]
            if not turn.done():
                if not self._place(handle):
                    return
                turn.set_result(None)
            self._line.popleft()

    def _forget(self, handle: Handle[Any]) -> None:
        """Take it out of the buffer it stands in."""
        buffer = handle._buffer or self._shared
        buffer.forget(handle)
        self._buffered -= 1
        if self._distributor is not None:
            self._distributor.change(buffer.owner, -1)
