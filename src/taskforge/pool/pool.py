"""A fixed number of workers, a bounded buffer in front of them, and a promise: every job that was accepted ends, for whoever holds its
handle, in a value, an exception or a cancellation.

Each job runs in a task of its own, so that context variables set by one are not seen by the next and each can be cancelled alone. A worker
is a slot: it takes its next job in the moment its last one ends.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, TypeVarTuple, overload

from taskforge.domain.retry import RetryPolicy
from taskforge.pool.buffer import PRIORITIES, Buffer
from taskforge.pool.distributor import Distribution, Distributor
from taskforge.pool.errors import Dropped, PoolClosed, PoolFull
from taskforge.pool.handle import Handle, Place
from taskforge.pool.limiter import RateLimiter
from taskforge.pool.results import Results
from taskforge.pool.runners import Kind, awaitable, runner
from taskforge.pool.stats import PoolStats
from taskforge.pool.worker import Worker

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item
Ts = TypeVarTuple("Ts")
WhenFull = Literal["wait", "reject", "drop_oldest"]


class WorkerPool:
    def __init__(
        self,
        size: int,
        *,
        buffer: int = 1_000,
        when_full: WhenFull = "wait",
        order: Literal["fifo", "priority"] = "fifo",
        workers: Kind = "async",
        timeout: float | None = None,
        attempts: int = 1,
        retry: RetryPolicy | None = None,
        retry_on: tuple[type[Exception], ...] = (Exception,),
        limiter: RateLimiter | None = None,
        distribution: Distribution | None = None,
        weights: Sequence[int] | None = None,
    ) -> None:
        """`timeout` (seconds) and `attempts` hold for each job; `retry` says how long a failed one rests before it is tried again.

        With a `distribution` each worker has a queue of its own, and `buffer` is shared out among them; without one all take from
        one queue, which keeps everyone busy and is right unless jobs should stay with a worker.
        """
        if size < 1 or buffer < 1 or attempts < 1:
            raise ValueError(f"size is {size}, buffer {buffer}, attempts {attempts}; use at least 1 for each")
        if weights is not None and distribution not in ("weighted", "sticky"):
            raise ValueError("weights need distribution='weighted' or 'sticky'")
        self.size = size
        self.buffer = buffer
        self._when_full = when_full
        self._timeout = timeout
        self._attempts = attempts
        self._retry = retry or RetryPolicy()
        self._retry_on = retry_on
        self._limiter = limiter
        self._threads = None if workers == "async" else ThreadPoolExecutor(size, thread_name_prefix="taskforge-pool")
        self._by_priority = order == "priority"
        self._distributor = (
            None if distribution is None else Distributor(distribution, size, 1 + -(-buffer // size), weights)
        )
        self._shared = Buffer(by_priority=self._by_priority)
        self._workers = [
            Worker(number, size, runner(workers, self._threads), Buffer(by_priority=self._by_priority) if distribution else self._shared)
            for number in range(size)
        ]
        self._idle = self._workers[::-1]
        self._line: deque[tuple[Handle[Any], asyncio.Future[None]]] = deque()
        self._buffered = 0
        self._resting: set[Handle[Any]] = set()
        self._counts = dict.fromkeys(("submitted", "succeeded", "failed", "cancelled", "dropped", "rejected", "retried", "timed_out"), 0)
        self._unsettled = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = False
        self._quiet: asyncio.Event | None = None

    # --- Life ---
