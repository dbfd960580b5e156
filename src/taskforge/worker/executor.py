"""Runs handlers in a fixed number of slots: a straight line of small steps, from a claimed job to
an outcome."""

import asyncio
import contextlib
import contextvars
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.job import Claimed, error_info
from taskforge.domain.outcome import (
    MAX_RESULT_BYTES,
    Crashed,
    Failure,
    HandBackOutcome,
    MisfitOutcome,
    Outcome,
    Success,
)
from taskforge.ports.work_source import Completion
from taskforge.worker.context import Channel, Running, current
from taskforge.worker.context_await import ContextAwait
from taskforge.worker.failure_log import FailureLog
from taskforge.worker.finisher import OutcomeSink, watched
from taskforge.worker.handler_calls import FailureHook, HandlerCalls, Middleware
from taskforge.worker.handler_outcomes import (
    outcome_of_error,
    outcome_of_nonsense,
    outcome_of_raised_verdict,
    outcome_of_stop,
    outcome_of_verdict,
)
from taskforge.worker.interrupts import is_interrupt
from taskforge.worker.isolation import Isolation
from taskforge.worker.processes.children import ArgumentsUnfit, ChildDied
from taskforge.worker.registry import Registry
from taskforge.worker.running_jobs import RunningJobs
from taskforge.worker.slots import Run, Slots, forget_cancels
from taskforge.worker.verdicts import Verdict

logger = logging.getLogger("taskforge.worker")

LEAST_TIMEOUT_SECONDS = 0.1  # what ends sooner was in time; nearly all do
_NOTHING = Success(None)


class Executor:
    def __init__(
        self,
        registry: Registry,
        channel: Channel,
        outcomes: OutcomeSink,
        *,
        slots: int,
        most: int | None = None,
        middleware: Sequence[Middleware] = (),
        failure_hooks: Sequence[FailureHook] = (),
    ) -> None:
        """`most`: so many are run in all, and no more are claimed."""
        self._registry = registry
        self._channel = channel
        self._outcomes = outcomes
        self._complete: Callable[[Completion], None] = outcomes.put
        self._most = most
        self._waiting: deque[Claimed] = deque()
        self._isolation = Isolation(channel, outcomes.drained)
        queues = (self._waiting, self._isolation.suspects)
        self._slots = Slots(slots, queues, self._take, self._run, self._forget_alone)
        self.jobs = RunningJobs()
        self.running = self.jobs.by_fence
        self.stuck = self.jobs.stuck
        self.freed = asyncio.Event()
        self._calls = HandlerCalls(middleware, failure_hooks, self.stuck, self.freed.set)
        self.children = self._calls.children
        self._failures = FailureLog()
        # Whoever watches this process from outside knows that handlers may take so long; before one
        # that may take longer begins, it is told.
        self.foreseen_seconds = math.inf
        self.foresee: Callable[[], None] = lambda: None
        self.done = 0

    @property
    def slots(self) -> int:
        return self._slots.count

    @property
    def reporting(self) -> int:
        """How many jobs have ended whose outcomes the store has not taken yet."""
        return self._outcomes.unsent

    def watch(self, look: Callable[[Completion], None]) -> None:
        """From now on this sees every outcome too; nobody who does not ask for it pays."""
        self._complete = watched(self._complete, look)

    def surround(self, around: Callable[[Run], Run]) -> None:
        """From now on each job is run through this, at no cost where nobody asks for it."""
        self._slots.run = around(self._slots.run)

    async def settle(self) -> None:
        """Until the store has taken all outcomes."""
        await self._outcomes.drained()

    def resize(self, slots: int) -> None:
        """From now on so many run at once. What runs goes on; what has not started and is too much
        goes back."""
        self._slots.count = slots
        while self._waiting and self.busy > slots:
            self._complete(
                Completion(self._waiting.pop(), HandBackOutcome("the worker has fewer slots now"))
            )
        self.freed.set()
        self._slots.wake()

    @property
    def free(self) -> int:
        slots, isolation = self._slots.count, self._isolation
        if isolation.suspects or isolation.alone is not None:
            return 0
        if self._outcomes.unsent >= 2 * slots:
            # A store that is slow to take outcomes must not make this worker hold more and more
            # that a crash would undo.
            return 0
        free = slots - len(self.running) - len(self._waiting) - self.stuck.threads
        if self._most is not None:
            free = min(free, self._most - self.done - self.busy)
        # What is claimed beside a suspect would only be handed back.
        return min(1, free) if isolation.is_wary else free

    @property
    def busy(self) -> int:
        return len(self.running) + len(self._waiting) + len(self._isolation.suspects)

    @property
    def has_stuck(self) -> bool:
        """Whether threads, or handlers that would not be cancelled, still run."""
        return self.stuck.threads > 0 or (self._slots.closing and bool(self._slots.tasks))

    # --- Taking jobs ---

    def add(self, jobs: Sequence[Claimed]) -> None:
        isolation = self._isolation
        for job in jobs:
            (isolation.suspects if job.must_run_alone else self._waiting).append(job)
        isolation.is_wary = bool(isolation.suspects)
        if isolation.is_wary:
            self._make_room()
        while self._most is not None and self._waiting and self.done + self.busy > self._most:
            # Two claims may have been under way. What is not to be run here must not wait for what
            # is.
            self._complete(
                Completion(
                    self._waiting.pop(), HandBackOutcome("the worker runs no more jobs than it has")
                )
            )
        self._slots.wake()

    def _make_room(self) -> None:
        """Keep one job under which workers died before, and hand back the others that have not
        started: should this one die too, they would be taken for what killed it."""
        for job in (*self._waiting, *self._isolation.keep_first()):
            self._complete(Completion(job, HandBackOutcome("another job must run alone")))
        self._waiting.clear()

    def take_back(self) -> list[Claimed]:
        """Jobs that have not started; they leave the executor."""
        jobs = [*self._waiting, *self._isolation.suspects]
        self._waiting.clear()
        self._isolation.suspects.clear()
        return jobs

    def _take(self) -> Claimed | None:
        """The next job to start."""
        isolation = self._isolation
        if isolation.alone is not None or (
            self._most is not None and self.done + len(self.running) >= self._most
        ):
            return None
        if isolation.suspects:
            return isolation.take_suspect(is_idle=not self.running)
        if len(self.running) >= self._slots.count:
            return None  # there were more slots before
        try:
            return self._waiting.popleft() if self._waiting else None
        except IndexError:  # the watchdog took them between the two
            return None

    def _forget_alone(self) -> None:
        self._isolation.alone = None

    # --- Running one job ---

    async def _run(self, claimed: Claimed, task: asyncio.Task[Any] | None) -> float:
        """How long it ran."""
        running = self._begin(claimed, task)
        # A context of its own: what a handler sets must not be there for the next job of its slot.
        context = contextvars.copy_context()
        context.run(current.set, running)
        handling = self._outcome(running)
        try:
            outcome = await ContextAwait(context, handling, context.run(handling.send, None))
        except StopIteration as ended:  # without having to wait
            outcome = ended.value
        except Exception as error:  # noqa: BLE001 - the log has it
            outcome = outcome_of_nonsense(claimed, error)
        finally:
            self._end(running)
        ran = time.monotonic() - running.started
        self._report(running, outcome, ran)
        if task is not None and task.cancelling():
            await forget_cancels(task, self._slots)
        if self._isolation.alone is not None and self._isolation.alone == claimed.fence:
            await self._isolation.end()
            self.freed.set()
        return ran

    def _begin(self, claimed: Claimed, task: asyncio.Task[Any] | None) -> Running:
        running = Running(claimed, self._channel)
        running.task = task
        self.running[claimed.fence] = running
        if claimed.timeout_seconds > self.foreseen_seconds:
            self.foresee()
        return running

    async def _outcome(self, running: Running) -> Outcome:
        """Find the handler, make sure that it runs alone if it must, read the arguments, call it,
        read what it said."""
        claimed = running.claimed
        handler = running.handler = self._registry.get(claimed.job_type)
        if handler is None:
            problem = f"this worker has no handler for {claimed.job_type!r} any more"
            return Failure(error_info("NoHandler", problem))
        try:
            if self._isolation.alone is not None and self._isolation.alone == claimed.fence:
                await self._isolation.begin(running)
            try:
                arguments = handler.decode(claimed.payload)
            except Invalid as error:
                return MisfitOutcome(error_info("InvalidArguments", str(error)))
            value = await self._calls.call(running, handler, arguments)
            if value is None:
                return _NOTHING
            if isinstance(value, Verdict):
                return outcome_of_verdict(value)
            return Success(rules.json_bytes("result", value, most=MAX_RESULT_BYTES))
        except BaseException as error:
            outcome = await self._outcome_of_failure(running, error)
            if outcome is None:
                raise
            return outcome

    async def _outcome_of_failure(self, running: Running, error: BaseException) -> Outcome | None:
        """What an attempt comes to that ended in an exception; None if that is not the job's."""
        match error:
            case asyncio.CancelledError() if running.why is not None:
                return outcome_of_stop(running)
            case asyncio.CancelledError() if self._slots.closing:
                return None
            case asyncio.CancelledError():
                # a task that the handler waited for was cancelled, or its own
                return await self._calls.failed(running, error)
            case ChildDied():
                return outcome_of_stop(running) if running.why is not None else Crashed(str(error))
            case ArgumentsUnfit():
                return MisfitOutcome(error_info("InvalidArguments", str(error)))
            case GeneratorExit():
                # its own, or the event loop ends: then nobody hears what is said, but no one may
                # wait any more
                return outcome_of_error(error)
            case KeyboardInterrupt() if is_interrupt(error):
                return None
        outcome = outcome_of_raised_verdict(error)
        if outcome is not None:
            return outcome
        if running.why in ("shutdown", "away", "lease"):
            return outcome_of_stop(running)  # what comes of being stopped is no failure of the job
        return await self._calls.failed(running, error)

    def _end(self, running: Running) -> None:
        self.running.pop(running.claimed.fence, None)
        # each holds the other: only the garbage collector would find them
        running.context = None
        if not self.freed.is_set():
            self.freed.set()

    def _report(self, running: Running, outcome: Outcome, ran: float) -> None:
        self.done += 1
        if running.why == "lost":
            return
        if ran >= LEAST_TIMEOUT_SECONDS:
            outcome = self._in_time(running, ran, outcome)
        self._complete(Completion(running.claimed, outcome, ran))
        if type(outcome) is not Success:
            self._failures.tell(running.claimed, outcome)

    def _in_time(self, running: Running, ran: float, outcome: Outcome) -> Outcome:
        """What came of an attempt that ran longer than it may is not its outcome: the store may
        have ended it already, and must not say otherwise where it has not."""
        if running.why not in (None, "timeout", "deadline") or isinstance(outcome, HandBackOutcome):
            return outcome
        return outcome_of_stop(running) if self.jobs.has_overrun(running, ran) else outcome

    # --- Stopping jobs ---

    def interrupt(self, fence: UUID, why: str, reason: str | None = None) -> bool:
        return self.jobs.interrupt(fence, why, reason)

    def interrupt_all(self, why: str) -> int:
        return sum(self.jobs.interrupt(fence, why) for fence in list(self.running))

    def give_up(self) -> None:
        """Report what did not stop when told to: the worker ends, and nobody waits for what else it
        does."""
        for running in self.running.values():
            if running.why is not None and running.why != "lost":
                ran = time.monotonic() - running.started
                self._complete(Completion(running.claimed, outcome_of_stop(running), ran))
                running.why = "lost"

    def sweep(self) -> None:
        """Stop what ran too long. Called a few times a second."""
        self.jobs.interrupt_late()
        if self._isolation.suspects:
            self._slots.wake()
        self._failures.look()

    # --- When the event loop was held ---

    def take_unstarted(self) -> list[Claimed]:
        """Jobs that have not started leave the executor. From any thread: the event loop may be
        back at any moment."""
        jobs: list[Claimed] = []
        with contextlib.suppress(IndexError):
            while True:
                jobs.append(self._waiting.popleft())
        return jobs

    async def close(self) -> None:
        """End all slots, threads and processes of handlers."""
        self._calls.end()
        await self._slots.close()
        await self._calls.close()
