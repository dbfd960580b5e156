"""The pool as applications use it."""

import asyncio
import math
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, TypeVarTuple, get_args, overload

from taskforge.domain.retry import RetryPolicy
from taskforge.pool import checks
from taskforge.pool.buffer import PRIORITIES
from taskforge.pool.crew import Crew
from taskforge.pool.distributor import Distribution, Distributor
from taskforge.pool.errors import PoolClosed, PoolFull
from taskforge.pool.handle import Handle
from taskforge.pool.intake import Terms, WhenFull
from taskforge.pool.limiter import RateLimiter
from taskforge.pool.results import Results
from taskforge.pool.runners import Kind, Runner, runner
from taskforge.pool.stats import PoolStats

T = TypeVar("T")
Item = TypeVar("Item")
Ts = TypeVarTuple("Ts")
Order = Literal["fifo", "priority"]


class WorkerPool:
    """A fixed number of workers behind a bounded buffer.

    Every job that was accepted ends, for whoever holds its handle, in a value, an exception or a
    cancellation; whether the pool is stopped in order (`stop()`, or leaving `async with`) or at
    once (`stop(now=True)`, or leaving it by an exception).
    """

    def __init__(
        self,
        size: int,
        *,
        buffer: int = 1_000,
        when_full: WhenFull = "wait",
        order: Order = "fifo",
        workers: Kind = "async",
        timeout: float | None = None,
        attempts: int = 1,
        retry: RetryPolicy | None = None,
        retry_on: type[Exception] | Iterable[type[Exception]] = (Exception,),
        limiter: RateLimiter | None = None,
        distribution: Distribution | None = None,
        weights: Sequence[int] | None = None,
    ) -> None:
        """`timeout` (seconds) and `attempts` hold for each job; `retry` says how long a failed one
        rests before it is tried again.

        With a `distribution` each worker has a queue of its own, and the buffer is shared out among
        them; without one all take from one queue, which keeps everyone busy and is right unless a
        job should stay with a worker.
        """
        for name, number in (("size", size), ("buffer", buffer), ("attempts", attempts)):
            checks.whole(name, number, 1)
        checks.choice("when_full", when_full, get_args(WhenFull))
        checks.choice("order", order, get_args(Order))
        checks.choice("workers", workers, get_args(Kind))
        if distribution is not None:
            checks.choice("distribution", distribution, get_args(Distribution))
        if timeout is not None:
            checks.positive("timeout", timeout)
        if retry is not None:
            checks.retry_policy(retry)
        if limiter is not None:
            checks.kind_of(
                "limiter", limiter, RateLimiter, "RateLimiter(TokenBucket(rate=10, burst=1))"
            )
        if weights is not None and distribution not in ("weighted", "sticky"):
            raise ValueError("weights are used by distribution='weighted' and 'sticky' only")
        self.size = size
        self.buffer = buffer
        self._timeout = timeout
        self._kind: Kind = workers
        self._terms = Terms(
            buffer=buffer,
            when_full=when_full,
            by_priority=order == "priority",
            attempts=attempts,
            retry=retry or RetryPolicy(),
            retry_on=checks.error_types("retry_on", retry_on),
            limiter=limiter,
        )
        self._distributor = distribution and Distributor(
            distribution, size, 1 + -(-buffer // size), weights
        )
        self._crew: Crew | None = None
        self._threads: ThreadPoolExecutor | None = None

    # --- Life ---

    async def start(self) -> Self:
        if self._crew is not None:
            raise PoolClosed("a pool is started once; make a new one")
        if self._kind != "async":
            self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="taskforge-pool")
        self._crew = Crew(
            self._terms,
            [runner(self._kind, self._threads) for _ in range(self.size)],
            self._distributor or None,
        )
        return self

    async def stop(self, *, now: bool = False) -> None:
        """Take no more jobs, and finish all that were accepted; or cancel them, `now`. The second
        may follow the first.

        What runs in a thread cannot be cancelled: `now` ends its handle and does not wait for it.
        Processes are killed.
        """
        if self._crew is None:
            return
        await self._crew.end(now=now)
        runners = [worker.runner for worker in self._crew.workers if worker.runner is not None]
        if runners:
            await asyncio.to_thread(_close, runners)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.stop(now=error is not None)
        except asyncio.CancelledError:
            await self.stop(now=True)
            raise

    # --- Work ---

    @overload
    async def submit(
        self,
        function: Callable[[*Ts], Coroutine[Any, Any, T]],
        *arguments: *Ts,
        priority: int = 0,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Handle[T]: ...

    @overload
    async def submit(
        self,
        function: Callable[[*Ts], T],
        *arguments: *Ts,
        priority: int = 0,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Handle[T]: ...

    async def submit(
        self,
        function: Callable[[*Ts], Any],
        *arguments: *Ts,
        priority: int = 0,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Handle[Any]:
        """Hand in a job, waiting for room if need be, and get its handle. Keyword arguments go in a
        `functools.partial`.

        `priority` 0 to 9, higher first, counts where the pool's order is by priority. `timeout`
        replaces the pool's; `math.inf` is none. Jobs with the same `key` go to the same worker
        where the distribution is sticky.
        """
        handle = self.handle(function, arguments, priority, timeout, key)
        if not handle._crew.offer(handle):
            await handle._crew.enter(handle)
        return handle

    def submit_nowait(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        priority: int = 0,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Handle[Any]:
        """The same without waiting: `PoolFull` when there is no room."""
        handle = self.handle(function, arguments, priority, timeout, key)
        if not handle._crew.offer(handle):
            raise PoolFull(f"all {self.size} workers are busy and {self.buffer} jobs wait already")
        return handle

    @overload
    def map(
        self,
        function: Callable[[Item], Coroutine[Any, Any, T]],
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = True,
        return_exceptions: Literal[False] = False,
        priority: int = 0,
        timeout: float | None = None,
        key: Callable[[Item], str] | None = None,
    ) -> Results[T]: ...

    @overload
    def map(
        self,
        function: Callable[[Item], Coroutine[Any, Any, T]],
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = True,
        return_exceptions: bool,
        priority: int = 0,
        timeout: float | None = None,
        key: Callable[[Item], str] | None = None,
    ) -> Results[T | BaseException]: ...

    @overload
    def map(
        self,
        function: Callable[[Item], T],
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = True,
        return_exceptions: Literal[False] = False,
        priority: int = 0,
        timeout: float | None = None,
        key: Callable[[Item], str] | None = None,
    ) -> Results[T]: ...

    @overload
    def map(
        self,
        function: Callable[[Item], T],
        items: Iterable[Item] | AsyncIterable[Item],
        *,
        ordered: bool = True,
        return_exceptions: bool,
        priority: int = 0,
        timeout: float | None = None,
        key: Callable[[Item], str] | None = None,
    ) -> Results[T | BaseException]: ...

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool = True,
        return_exceptions: bool = False,
        priority: int = 0,
        timeout: float | None = None,
        key: Callable[[Any], str] | None = None,
    ) -> Results[Any]:
        """A job for each item. `async for` gives the results, in the items' order or
        (`ordered=False`) as they complete; `await` gives them as a list."""
        return Results(
            self,
            function,
            items,
            ordered=ordered,
            return_exceptions=return_exceptions,
            priority=priority,
            timeout=timeout,
            key=key,
        )

    def stats(self) -> PoolStats:
        return self.crew.stats()

    # --- For this package ---

    @property
    def crew(self) -> Crew:
        if self._crew is None:
            raise PoolClosed(
                "the pool is not started; use `async with WorkerPool(…)` or `await pool.start()`"
            )
        return self._crew

    def handle(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        priority: int,
        timeout: float | None,
        key: str | None,
        sink: Callable[[Handle[Any]], None] | None = None,
    ) -> Handle[Any]:
        crew = self._crew
        if crew is None:
            raise PoolClosed(
                "the pool is not started; use `async with WorkerPool(…)` or `await pool.start()`"
            )
        handle: Handle[Any] = Handle(crew, function, arguments)
        limit = self._timeout
        if timeout is not None:
            checks.positive("timeout", timeout)
            limit = timeout
        if limit is not None and limit != math.inf:
            handle._timeout = limit
        if priority:
            if not 0 <= priority < PRIORITIES:
                raise ValueError(f"priority is {priority}; use 0 to {PRIORITIES - 1}, higher first")
            handle._priority = priority
        if key is not None:
            if not isinstance(key, str):
                raise ValueError(f"key is {key!r}; use text")
            handle._key = key
        if sink is not None:
            handle._sink = sink
        return handle


def _close(runners: Sequence[Runner]) -> None:
    for each in runners:
        each.close()
