"""The workers of a pool and the jobs among them. Every job that was accepted is settled exactly
once.

Each job runs in a task of its own, in the context of whoever handed it in, and can be cancelled
alone. A worker takes its next job in the moment its last one ends.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any

from taskforge.pool.distributor import Distributor
from taskforge.pool.errors import PoolClosed
from taskforge.pool.handle import BUFFERED, OUTSIDE, RESTING, RUNNING, Handle
from taskforge.pool.intake import Intake, Terms
from taskforge.pool.runners import Runner, checked
from taskforge.pool.stats import PoolStats
from taskforge.pool.worker import PoolWorker


class Crew(Intake):
    def __init__(
        self, terms: Terms, runners: Sequence[Runner | None], distributor: Distributor | None
    ) -> None:
        super().__init__(terms, runners, distributor)
        self._limiter = terms.limiter
        # A standard loop's clock is this one behind two calls; a loop that keeps its own time is
        # asked for it.
        self._time = (
            time.monotonic
            if type(self._loop).time is asyncio.BaseEventLoop.time
            else self._loop.time
        )
        self._is_watched = distributor is not None or terms.limiter is not None
        self._resting: dict[Handle[Any], asyncio.TimerHandle] = {}
        self._busy = 0
        self._is_ending = False
        self._quiet = asyncio.Event()

    # --- Running ---

    def _launch(self, worker: PoolWorker, handle: Handle[Any]) -> None:
        handle._place = RUNNING
        worker.handle = handle
        self._busy += 1
        # Not through the loop's task factory: an eager one would run job after job inside each
        # other.
        worker.task = asyncio.Task(
            self._run(worker, handle), loop=self._loop, context=handle._context
        )

    async def _run(self, worker: PoolWorker, handle: Handle[Any]) -> None:
        # Until now a cancel only marked the handle: a task that is cancelled before it began would
        # not even come here.
        handle._task = worker.task
        how = "cancelled"
        began = self._time()
        try:
            if not handle.done():
                if self._limiter is not None:
                    await self._limiter.acquire()
                    began = self._time()
                if handle._timeout is not None:
                    value = await self._within(
                        handle._timeout, worker.runner, handle._function, handle._arguments
                    )
                elif worker.runner is None:
                    answer = handle._function(*handle._arguments)
                    value = await (
                        answer
                        if type(answer) is CoroutineType
                        else checked(handle._function, answer)
                    )
                else:
                    value = await worker.runner.run(handle._function, handle._arguments)
                seconds = self._time() - began
                worker.busy_seconds += seconds
                worker.succeeded += 1
                if self._is_watched:
                    self._tell(worker, seconds, failed=False)
                if not handle.done():
                    handle.set_result(value)
                    how = "succeeded"
        except asyncio.CancelledError:
            worker.busy_seconds += self._time() - began
        except Exception as error:  # noqa: BLE001 - any failure of the job's is its answer
            how = self._after(worker, handle, error, self._time() - began)
        except BaseException as error:
            self._settle(handle, self._fail(handle, error))
            self._release(worker)
            raise
        if how != "resting":
            self._settle(handle, how)
        if worker.runner is None:
            self._release(worker)
        else:
            await self._leave(worker)

    def _after(
        self, worker: PoolWorker, handle: Handle[Any], error: Exception, seconds: float
    ) -> str:
        """What comes of a failure. Whatever goes wrong here ends the job too: nothing may leave it
        unsettled."""
        worker.busy_seconds += seconds
        worker.failed += 1
        try:
            if self._is_watched:
                self._tell(worker, seconds, failed=True)
            # Without the frame of `_run`: it holds the handle, which holds the error, which holds
            # the frame.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            if self._rest(handle, error):
                return "resting"
        except Exception as fault:  # noqa: BLE001 - of a limiter or a retry policy that its caller has made over
            error = fault
        return self._fail(handle, error)

    @staticmethod
    def _fail(handle: Handle[Any], error: BaseException) -> str:
        if handle.done():
            return "cancelled"
        if isinstance(error, StopIteration):  # which no future can carry
            error = RuntimeError(f"the job raised {error!r}")
        handle.set_exception(error)
        return "failed"

    async def _leave(self, worker: PoolWorker) -> None:
        worker.handle = None
        if worker.runner is not None and not self._is_ending:
            # Interrupted when the pool stops now: what still runs in a thread is nobody's any more.
            with contextlib.suppress(asyncio.CancelledError):
                await worker.runner.idle()
        self._release(worker)

    async def _within(
        self,
        seconds: float,
        runner: Runner | None,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> Any:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await (
                    checked(function, function(*arguments))
                    if runner is None
                    else runner.run(function, arguments)
                )
        except TimeoutError:
            if not limit.expired():
                raise
            self._counts["timed_out"] += 1
            raise TimeoutError(f"the job ran longer than its timeout of {seconds:g} s") from None

    def _tell(self, worker: PoolWorker, seconds: float, *, failed: bool) -> None:
        """Those who learn from how jobs went."""
        if self._distributor is not None:
            self._distributor.observe(worker.number, seconds, failed=failed)
        if self._limiter is not None:
            self._limiter.report(failed=failed, seconds=seconds)

    def _release(self, worker: PoolWorker) -> None:
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
        if not self._is_open:
            self._hush()

    # --- Trying again ---

    def _rest(self, handle: Handle[Any], error: Exception) -> bool:
        """Whether the job is tried again, after a while in which its worker is free for others."""
        terms = self._terms
        if (
            self._is_ending
            or handle.done()
            or handle._attempt >= terms.attempts
            or not isinstance(error, terms.retry_on)
        ):
            return False
        delay = terms.retry.wait(handle._attempt, random.random())
        handle._attempt += 1
        handle._place = RESTING
        handle._task = None
        self._counts["retried"] += 1
        self._resting[handle] = self._loop.call_later(delay, self._again, handle)
        return True

    def _again(self, handle: Handle[Any]) -> None:
        del self._resting[handle]
        if not self._place(handle):
            self._squeeze(handle)

    # --- Out ---

    def abandon(self, handle: Handle[Any]) -> None:
        """Its handle was cancelled."""
        if handle._place == BUFFERED:
            self._forget(handle)
            self._settle(handle, "cancelled")
            self._admit()
        elif handle._place == RUNNING:
            if handle._task is not None:
                handle._task.cancel()
        elif handle._place == RESTING:
            self._resting.pop(handle).cancel()
            self._settle(handle, "cancelled")

    def _settle(self, handle: Handle[Any], how: str) -> None:
        handle._place = OUTSIDE
        handle._task = None
        if how == "cancelled":
            handle.cancel()  # no more than a mark: it is out already
        self._counts[how] += 1
        self._unsettled -= 1
        if handle._sink is not None:
            handle._sink(handle)
        if not self._is_open:
            self._hush()

    def _hush(self) -> None:
        if not self._unsettled and not self._busy:
            self._quiet.set()

    def cancel(self, sink: Callable[[Handle[Any]], None]) -> None:
        """All jobs that were to be told to this sink."""
        running = [worker.handle for worker in self.workers if worker.handle is not None]
        for handle in (*self._waiting(), *running):
            if handle._sink == sink:
                handle.cancel()

    def _waiting(self) -> list[Handle[Any]]:
        buffers = {worker.buffer for worker in self.workers}
        return [*(handle for buffer in buffers for handle in buffer.all()), *self._resting]

    # --- The end ---

    async def end(self, *, now: bool) -> None:
        """Until nothing is left to do: all is finished, or, if it must be now, cancelled."""
        if asyncio.current_task() in {
            worker.task for worker in self.workers if worker.task is not None
        }:
            raise RuntimeError("a job cannot wait for the pool that runs it to stop")
        self._is_open = False
        for _, turn in self._line:
            if not turn.done():
                turn.set_exception(PoolClosed("the pool stopped before there was room for the job"))
        self._line.clear()
        if now:
            self._is_ending = True
            for handle in self._waiting():
                handle.cancel()
            for worker in self.workers:
                if worker.handle is not None and worker.handle._task is None:
                    worker.handle.cancel()
                elif worker.task is not None:
                    worker.task.cancel()
        self._hush()
        await self._quiet.wait()

    def stats(self) -> PoolStats:
        counts = self._counts
        return PoolStats(
            submitted=self._unsettled
            + sum(counts[how] for how in ("succeeded", "failed", "cancelled", "dropped")),
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
            workers=tuple(
                worker.stats(owns_buffer=self._distributor is not None) for worker in self.workers
            ),
        )
