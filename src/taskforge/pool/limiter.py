"""Rate limits for callers in one event loop: `acquire()` waits its turn, `try_acquire()` answers at
once.

The algorithms are the steps of `taskforge.domain.limiter`; this keeps their state, the clock, and
the line of those who wait.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from taskforge.domain.limiter import (
    Adaptive,
    Bucket,
    BucketState,
    admit,
    check_cost,
    give_back,
    is_due,
    judge,
    refill,
)
from taskforge.pool import checks
from taskforge.pool.errors import LimiterFull


class RateLimiter:
    def __init__(
        self,
        bucket: Bucket,
        *,
        most_waiting: int | None = None,
        slow_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_waiting`: whoever comes when so many wait hears `LimiterFull` (a leaky bucket that
        overflows).

        `slow_seconds`: for an adaptive bucket, what took longer counts as bad as a failure.
        """
        checks.bucket(bucket)
        if most_waiting is not None:
            checks.whole("most_waiting", most_waiting, 0)
        if slow_seconds is not None:
            checks.positive("slow_seconds", slow_seconds)
        self._bucket = bucket
        self._most_waiting = most_waiting
        self._slow_seconds = slow_seconds
        self._clock = clock
        self._state: BucketState | None = None
        self._line: deque[tuple[asyncio.Future[None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._good = self._bad = 0

    @property
    def rate(self) -> float:
        """Starts a second just now: what an adaptive bucket has learned, else what it was told."""
        learned = None if self._state is None else self._state.rate
        return self._bucket.rate if learned is None else learned

    @property
    def waiting(self) -> int:
        return sum(not turn.done() for turn, _ in self._line)

    def try_acquire(self, cost: float = 1.0) -> bool:
        """Whether it may start now. Nobody overtakes those who wait."""
        check_cost(self._bucket, cost)
        return not self._line and self._admit(cost) is None

    async def acquire(self, cost: float = 1.0) -> None:
        """Wait until it may start; first come, first served."""
        check_cost(self._bucket, cost)
        if not self._line and self._admit(cost) is None:
            return
        if self._most_waiting is not None and self.waiting >= self._most_waiting:
            raise LimiterFull(f"{self._most_waiting} callers wait already; try again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((turn, cost))
        if self._timer is None:
            self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and self._state is not None:
                # It was let through and cancelled in the same turn of the loop: the next one may go
                # instead.
                self._state = give_back(self._bucket, self._state, cost)
                self._serve()
            raise

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.report(failed=isinstance(error, Exception))

    def report(
        self, *, failed: bool = False, seconds: float = 0.0, overloaded: bool = False
    ) -> None:
        """How a piece of work went. An adaptive bucket learns from it; to the others it is all the
        same."""
        if not isinstance(self._bucket, Adaptive):
            return
        slow = self._slow_seconds is not None and seconds > self._slow_seconds
        if failed or slow or overloaded:
            self._bad += 1
        else:
            self._good += 1
        now = self._clock()
        if self._state is None:
            self._state = refill(self._bucket, None, now)
        if is_due(self._bucket, self._state, now):
            self._state = judge(self._bucket, self._state, now, self._good, self._bad)
            self._good = self._bad = 0

    def _admit(self, cost: float, *, others_wait: bool | None = None) -> float | None:
        """None when it may start, else the seconds to wait."""
        decision = admit(self._bucket, self._state, self._clock(), cost, others_wait=others_wait)
        self._state = decision.state
        return None if decision.admitted else decision.wait

    def _serve(self) -> None:
        """Let through whoever may go, in order, and come back when the next one may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._line:
            turn, cost = self._line[0]
            if turn.done():
                self._line.popleft()
                continue
            wait = self._admit(cost, others_wait=len(self._line) > 1)
            if wait is not None:
                self._timer = turn.get_loop().call_later(wait, self._serve)
                return
            self._line.popleft()
            turn.set_result(None)
