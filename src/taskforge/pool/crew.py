"""The workers of a pool and the jobs among them. Every job that was accepted is settled exactly once.

Each job runs in a task of its own, so that context variables set by one are not seen by the next, and each can be cancelled alone. A
worker takes its next job in the moment its last one ends.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from taskforge.domain.retry import RetryPolicy
from taskforge.pool.buffer import Buffer
from taskforge.pool.distributor import Distributor
from taskforge.pool.errors import Dropped, PoolClosed, PoolFull
from taskforge.pool.handle import Handle, Place
from taskforge.pool.limiter import RateLimiter
from taskforge.pool.runners import Runner, awaitable
from taskforge.pool.stats import PoolStats
from taskforge.pool.worker import Worker

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


class Crew:
    def __init__(self, terms: Terms, runners: Sequence[Runner | None], distributor: Distributor | None) -> None:
        self._terms = terms
        self._distributor = distributor
        self._limiter = terms.limiter
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._shared = Buffer(by_priority=terms.by_priority)
        width = len(str(len(runners) - 1))
        self.workers = [
            Worker(
                number,
                f"worker-{number:0{width}}",
                runner,
                self._shared if distributor is None else Buffer(by_priority=terms.by_priority, owner=number),
            )
            for number, runner in enumerate(runners)
        ]
        self._idle = self.workers[::-1]  # the last that came free goes first: a light load keeps few processes warm
        self._line: deque[tuple[Handle[Any], asyncio.Future[None]]] = deque()  # those who wait for room
        self._resting: set[Handle[Any]] = set()
        self._buffered = 0
        self._busy = 0
        self._unsettled = 0
        self._counts: Counter[str] = Counter()
        self._is_open = True
        self._is_ending = False
        self._quiet = asyncio.Event()

    # --- In ---

    def offer(self, handle: Handle[Any]) -> bool:
        """Accept the job if there is room, or if room can be made; False when its caller must wait."""
        if not self._is_open:
            raise PoolClosed("the pool is stopping and takes no more jobs")
        if not self._line and self._place(handle):
            return True
        match self._terms.when_full:
            case "wait":
                return False
            case "reject":
                self._counts["rejected"] += 1
                raise PoolFull(f"{self._buffered} jobs wait already; submit fewer, or let the pool wait or drop")
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
                handle.cancel()  # accepted in the moment its caller gave up: nobody else holds its handle
            raise

    def _place(self, handle: Handle[Any]) -> bool:
        if self._distributor is None:
            if self._idle:
                self._accept(handle)
                self._launch(self._idle.pop(), handle)
                return True
            if self._buffered >= self._terms.buffer:
                return False
            self._accept(handle)
            self._put(self._shared, handle)
            return True
        number = self._distributor.choose(handle._key)
        if number is None:
            return False
        self._accept(handle)
        self._join(number, handle)
        return True

    def _accept(self, handle: Handle[Any]) -> None:
        if handle._place is Place.OUTSIDE:
            self._counts["submitted"] += 1
            self._unsettled += 1

    def _join(self, number: int, handle: Handle[Any]) -> None:
        """Stand in this worker's own queue."""
        assert self._distributor is not None
        self._distributor.change(number, 1)
        worker = self.workers[number]
        if worker.task is None:
            self._launch(worker, handle)
        else:
            self._put(worker.buffer, handle)

    def _put(self, buffer: Buffer, handle: Handle[Any]) -> None:
        buffer.put(handle)
        self._buffered += 1

    def _push_out(self, handle: Handle[Any]) -> None:
        """Drop the oldest of the least urgent, which may be the newcomer itself."""
        buffers = [self._shared] if self._distributor is None else [worker.buffer for worker in self.workers]
        waiting = [oldest for oldest in (buffer.oldest() for buffer in buffers) if oldest is not None]
        victim = min(waiting, key=lambda each: (each._priority, each._number), default=handle)
        if self._terms.by_priority and handle._priority < victim._priority:
            victim = handle
        if victim is not handle:
            self._forget(victim)
        else:
            self._accept(handle)
        victim.set_exception(Dropped("a full buffer had no room for it"))
        self._settle(victim, "dropped")
        if victim is not handle and not self._place(handle):
            raise AssertionError("a job left the buffer and made no room")

    # --- Running ---

    def _launch(self, worker: Worker, handle: Handle[Any]) -> None:
        handle._place = Place.RUNNING
        worker.handle = handle
        self._busy += 1
        # Not through the loop's task factory: an eager one would run job after job inside each other.
        worker.task = asyncio.Task(self._run(worker, handle), loop=self._loop)

    async def _run(self, worker: Worker, handle: Handle[Any]) -> None:
        # Until now a cancel only marked the handle: a task that is cancelled before it began would not even come here.
        handle._task = worker.task
        began = self._time()
        try:
            if not handle.done():
                if self._limiter is not None:
                    await self._limiter.acquire()
                    began = self._time()
                if handle._timeout is not None:
                    value = await self._within(handle._timeout, worker.runner, handle._function, handle._arguments)
                elif worker.runner is None:
                    value = await awaitable(handle._function, handle._arguments)
                else:
                    value = await worker.runner.run(handle._function, handle._arguments)
                seconds = self._time() - began
                self._note(worker, seconds, failed=False)
                if not handle.done():
                    handle.set_result(value)
        except asyncio.CancelledError:
            worker.busy_seconds += self._time() - began
        except Exception as error:  # noqa: BLE001 - any failure of the job's is its answer
            self._note(worker, self._time() - began, failed=True)
            # Without this frame: it holds the handle, which holds the error, which holds the frame.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            if self._rest(handle, error):
                await self._leave(worker)
                return
            if not handle.done():
                handle.set_exception(error)
        except BaseException as error:
            if not handle.done():
                handle.set_exception(error)
            self._settle(handle, "failed")
            self._release(worker)
            raise
        if not handle.done():
            handle.cancel()
        self._settle(handle, "cancelled" if handle.cancelled() else "succeeded" if handle._exception is None else "failed")
        await self._leave(worker)

    async def _leave(self, worker: Worker) -> None:
        if worker.runner is not None and not self._is_ending:
            try:
                await worker.runner.idle()
            except asyncio.CancelledError:
                pass  # the pool stops now; what still runs in a thread is nobody's any more
        self._release(worker)

    async def _within(self, seconds: float, runner: Runner | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await (awaitable(function, arguments) if runner is None else runner.run(function, arguments))
        except TimeoutError:
            if not limit.expired():
                raise
            self._counts["timed_out"] += 1
            raise TimeoutError(f"the job ran longer than its timeout of {seconds:g} s") from None

    def _note(self, worker: Worker, seconds: float, *, failed: bool) -> None:
        worker.busy_seconds += seconds
        if failed:
            worker.failed += 1
        else:
            worker.succeeded += 1
        if self._distributor is not None:
            self._distributor.observe(worker.number, seconds, failed=failed)
        if self._limiter is not None:
            self._limiter.report(failed=failed, seconds=seconds)

    def _release(self, worker: Worker) -> None:
        worker.task = worker.handle = None
        self._busy -= 1
        if self._distributor is not None:
            self._distributor.change(worker.number, -1)
        following = worker.buffer.take()
        if following is not None:
            self._buffered -= 1
            self._launch(worker, following)
        elif self._distributor is None:
            self._idle.append(worker)
        if self._line:
            self._admit()
        self._hush()

    def _admit(self) -> None:
        """Let those in who wait in line, as far as there is room."""
        while self._line:
            handle, turn = self._line[0]
            if not turn.done():
                if not self._place(handle):
                    return
                turn.set_result(None)
            self._line.popleft()

    # --- Trying again ---

    def _rest(self, handle: Handle[Any], error: Exception) -> bool:
        """Whether the job is tried again, after a while in which its worker is free for others."""
        terms = self._terms
        if self._is_ending or handle.done() or handle._attempt >= terms.attempts or not isinstance(error, terms.retry_on):
            return False
        delay = terms.retry.wait(handle._attempt, random.random())
        handle._attempt += 1
        handle._place = Place.RESTING
        handle._task = None
        self._counts["retried"] += 1
        self._resting.add(handle)
        handle._timer = self._loop.call_later(delay, self._again, handle)
        return True

    def _again(self, handle: Handle[Any]) -> None:
        """It was accepted once, so it joins even a full buffer; newcomers wait the longer."""
        self._resting.discard(handle)
        handle._timer = None
        if self._place(handle):
            return
        if self._distributor is None:
            self._put(self._shared, handle)
        else:
            self._join(min(self.workers, key=lambda worker: len(worker.buffer)).number, handle)

    # --- Out ---

    def abandon(self, handle: Handle[Any]) -> None:
        """Its handle was cancelled."""
        match handle._place:
            case Place.BUFFERED:
                self._forget(handle)
                self._settle(handle, "cancelled")
                self._admit()
            case Place.RUNNING:
                if handle._task is not None:
                    handle._task.cancel()
            case Place.RESTING:
                self._resting.discard(handle)
                if handle._timer is not None:
                    handle._timer.cancel()
                self._settle(handle, "cancelled")
            case Place.OUTSIDE:
                pass

    def _forget(self, handle: Handle[Any]) -> None:
        """Take it out of the buffer it stands in."""
        assert handle._buffer is not None
        handle._buffer.forget(handle)
        self._buffered -= 1
        if self._distributor is not None:
            self._distributor.change(handle._buffer.owner, -1)

    def _settle(self, handle: Handle[Any], how: str) -> None:
        handle._place = Place.OUTSIDE
        handle._task = handle._timer = None
        self._counts[how] += 1
        self._unsettled -= 1
        if handle._sink is not None:
            handle._sink(handle)
        self._hush()

    def _hush(self) -> None:
        if not self._is_open and not self._unsettled and not self._busy:
            self._quiet.set()

    # --- The end ---

    async def end(self, *, now: bool) -> None:
        """Until nothing is left to do: all is finished, or, if it must be now, cancelled."""
        if asyncio.current_task() in {worker.task for worker in self.workers if worker.task is not None}:
            raise RuntimeError("a job cannot wait for the pool that runs it to stop")
        self._is_open = False
        for _, turn in self._line:
            if not turn.done():
                turn.set_exception(PoolClosed("the pool stopped before there was room for the job"))
        self._line.clear()
        if now:
            self._is_ending = True
            for buffer in {worker.buffer for worker in self.workers}:
                for handle in buffer.all():
                    handle.cancel()
            for handle in tuple(self._resting):
                handle.cancel()
            for worker in self.workers:
                if worker.handle is not None and worker.handle._place is Place.RUNNING and worker.handle._task is None:
                    worker.handle.cancel()
                elif worker.task is not None:
                    worker.task.cancel()
        self._hush()
        await self._quiet.wait()

    def stats(self) -> PoolStats:
        counts = self._counts
        return PoolStats(
            submitted=counts["submitted"],
            succeeded=counts["succeeded"],
            failed=counts["failed"],
            cancelled=counts["cancelled"],
            dropped=counts["dropped"],
            rejected=counts["rejected"],
            retried=counts["retried"],
            timed_out=counts["timed_out"],
            buffered=self._buffered,
            running=self._unsettled - self._buffered - len(self._resting),
            resting=len(self._resting),
            workers=tuple(worker.stats(owns_buffer=self._distributor is not None) for worker in self.workers),
        )
