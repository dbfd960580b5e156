"""Runs handlers in a fixed number of slots. A straight line of small steps, from a claimed job to an outcome.

A slot is a task that takes one job after the other, because a task per job costs 10 µs and a timer per job 5 more: timeouts are
kept by one sweep over what runs. A slot that takes a job wakes the next one only if more jobs wait and none is waking up yet, so
handlers that never really suspend run back to back in one slot while handlers that do still fill all of them.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

from taskforge.domain import rules
from taskforge.domain.errors import Invalid, text_of
from taskforge.domain.ids import job_of
from taskforge.domain.job import Claimed, error_info
from taskforge.domain.outcome import MAX_RESULT_BYTES, Crashed, Failure, HandBackOutcome, MisfitOutcome, Outcome, Success
from taskforge.worker.children import ArgumentsUnfit, ChildDied, Children
from taskforge.worker.context import Channel, Context, Running, context_of, current
from taskforge.worker.failure_log import FailureLog
from taskforge.worker.interrupts import is_interrupt
from taskforge.worker.outcomes import meant, raised, said, stopped
from taskforge.worker.registry import Handler, Registry
from taskforge.worker.source import Completion
from taskforge.worker.stuck import Stuck
from taskforge.worker.verdicts import Verdict
from taskforge.worker.within import Within

logger = logging.getLogger("taskforge.worker")

Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
FailureHook = Callable[[Context, BaseException], Any]
MOST_SLOTS = 1_000
ISOLATION_SECONDS = 2.0
CLOSE_SECONDS = 2.0
HOOK_SECONDS = 10.0
LEAST_TIMEOUT_SECONDS = 0.1  # what ends sooner was in time; nearly all do
LONG_SECONDS = 0.01  # a handler that may have held the event loop: others get a turn before the next one starts
BACK_TO_BACK = 50  # handlers that never suspend; then the event loop gets a turn, in which claims and reports go on
_NOTHING = Success(None)


class Executor:
    def __init__(
        self,
        registry: Registry,
        channel: Channel,
        complete: Callable[[Completion], None],
        *,
        slots: int,
        most: int | None = None,
        middleware: Sequence[Middleware] = (),
        failure_hooks: Sequence[FailureHook] = (),
        settled: Callable[[], Awaitable[None]] | None = None,
        unsettled: Callable[[], int] | None = None,
    ) -> None:
        """`complete` takes outcomes to be reported; `settled` waits until all of them have been, `unsettled` counts those left.
        `most`: so many are run in all, and no more are claimed."""
        self._registry = registry
        self._channel = channel
        self._complete = complete
        self._settled = settled
        self._unsettled = unsettled
        self._slots = slots
        self._most = most
        self._middleware = tuple(middleware)
        self._failure_hooks = tuple(failure_hooks)
        self._waiting: deque[Claimed] = deque()
        self._suspects: deque[Claimed] = deque()
        self._suspect_since: float | None = None
        self._alone: UUID | None = None
        self._wary = False  # the last claim brought a suspect: there may be more
        self.running: dict[UUID, Running] = {}
        self.stuck = Stuck()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._waking = False  # a slot was woken and has not looked for a job yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self.children = Children()
        self._failures = FailureLog()
        self._closing = False
        self.held_up: dict[UUID, float] = {}  # seconds for which others held the event loop
        self.held_for: Callable[[Running], float] = lambda _: 0.0  # and for which another holds it just now, if one does
        # Whoever watches this process from outside knows that handlers may take so long; before one that may take longer begins, it
        # is told.
        self.foreseen_seconds = math.inf
        self.foresee: Callable[[], None] = lambda: None
        self.freed = asyncio.Event()
        self.done = 0

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def reporting(self) -> int:
        """How many jobs have ended whose outcomes the store has not taken yet."""
        return 0 if self._unsettled is None else self._unsettled()

    async def settle(self) -> None:
        """Until the store has taken all outcomes."""
        if self._settled is not None:
            await self._settled()

    def resize(self, slots: int) -> None:
        """From now on so many run at once. What runs goes on; what has not started and is too much goes back."""
        self._slots = slots
        while self._waiting and self.busy > slots:
            self._complete(Completion(self._waiting.pop(), HandBackOutcome("the worker has fewer slots now")))
        self.freed.set()
        self._wake()

    @property
    def free(self) -> int:
        if self._suspects or self._alone is not None:
            return 0
        if self._unsettled is not None and self._unsettled() >= 2 * self._slots:
            # A store that is slow to take outcomes must not make this worker hold more and more that a crash would undo.
            return 0
        free = self._slots - len(self.running) - len(self._waiting) - self.stuck.threads
        if self._most is not None:
            free = min(free, self._most - self.done - self.busy)
        return min(1, free) if self._wary else free  # what is claimed beside a suspect would only be handed back

    @property
    def busy(self) -> int:
        return len(self.running) + len(self._waiting) + len(self._suspects)

    @property
    def has_stuck(self) -> bool:
        """Whether threads, or handlers that would not be cancelled, still run."""
        return self.stuck.threads > 0 or (self._closing and bool(self._tasks))

    @property
    def can_end(self) -> bool:
        """Whether something runs that may still end by itself, or because it was told to."""
        return any(not self.stuck.is_stuck(fence) for fence in self.running)

    # --- Taking jobs ---

    def add(self, jobs: Sequence[Claimed]) -> None:
        for job in jobs:
            (self._suspects if job.must_run_alone else self._waiting).append(job)
        self._wary = bool(self._suspects)
        if self._wary:
            self._make_room()
        while self._most is not None and self._waiting and self.done + self.busy > self._most:
            # Two claims may have been under way. What is not to be run here must not wait for what is.
            self._complete(Completion(self._waiting.pop(), HandBackOutcome("the worker runs no more jobs than it has")))
        self._wake()

    def _make_room(self) -> None:
        """Keep one job under which workers died before, and hand back the others that have not started: should this one die too,
        they would be taken for what killed it."""
        kept, *others = self._suspects
        for job in (*self._waiting, *others):
            self._complete(Completion(job, HandBackOutcome("another job must run alone")))
        self._waiting.clear()
        self._suspects = deque([kept])

    def take_back(self) -> list[Claimed]:
        """Jobs that have not started; they leave the executor."""
        jobs = [*self._waiting, *self._suspects]
        self._waiting.clear()
        self._suspects.clear()
        return jobs

    def _wake(self) -> None:
        if self._waking:
            return
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                self._waking = True
                waiter.set_result(None)
                return
        if len(self._tasks) < self._slots and (self._waiting or self._suspects):
            self._waking = True
            task = asyncio.get_running_loop().create_task(self._slot())
            self._tasks.add(task)
            task.add_done_callback(self._slot_ended)

    def _slot_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._waking = False
        if not task.cancelled() and task.exception() is not None:
            logger.error("a worker slot failed; please report this", exc_info=task.exception())
            self._wake()

    async def _slot(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        self._waking = False
        while not self._closing:
            job = self._next()
            if job is None:
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
                self._waking = False
                continue
            if self._waiting or self._suspects:
                self._wake()
            ran = await self._run(job, task)
            if ran >= LONG_SECONDS or self.done % BACK_TO_BACK == 0:
                await asyncio.sleep(0)

    def _next(self) -> Claimed | None:
        """The next job to start. A suspect starts when nothing else runs, or its patience is over."""
        if self._alone is not None or (self._most is not None and self.done + len(self.running) >= self._most):
            return None
        if self._suspects:
            now = time.monotonic()
            self._suspect_since = self._suspect_since or now
            if not self.running or now - self._suspect_since > ISOLATION_SECONDS:
                self._suspect_since = None
                job = self._suspects.popleft()
                self._alone = job.fence
                return job
            return None
        if len(self.running) >= self._slots:
            return None  # there were more slots before
        try:
            return self._waiting.popleft() if self._waiting else None
        except IndexError:  # the watchdog took them between the two
            return None

    # --- Running one job ---

    async def _run(self, claimed: Claimed, task: asyncio.Task[Any] | None) -> float:
        """How long it ran."""
        running = Running(claimed, self._channel)
        running.task = task
        self.running[claimed.fence] = running
        if claimed.timeout_seconds > self.foreseen_seconds:
            self.foresee()
        # A context of its own: what a handler sets must not be there for the next job of its slot.
        context = contextvars.copy_context()
        context.run(current.set, running)
        handling = self._outcome(running)
        try:
            outcome = await Within(context, handling, context.run(handling.send, None))
        except StopIteration as ended:  # without having to wait
            outcome = ended.value
        except Exception as error:
            # What it said cannot be understood. Its end must be told all the same, or it would seem to run until its timeout.
            logger.exception("the outcome of job %s is not one", job_of(claimed.fence))
            outcome = Failure(error_info(type(error).__name__, f"the handler's outcome is not one: {text_of(error)}"))
        finally:
            self.running.pop(claimed.fence, None)
            running.context = None  # each holds the other: only the garbage collector would find them
            if self._alone is not None and self._alone == claimed.fence:
                self._alone = None
            if not self.freed.is_set():
                self.freed.set()
        self.done += 1
        ran = time.monotonic() - running.started
        if running.why != "lost":
            if ran >= LEAST_TIMEOUT_SECONDS:
                outcome = self._in_time(running, ran, outcome)
            self._complete(Completion(claimed, outcome, ran))
            if type(outcome) is not Success:
                self._failures.tell(claimed, outcome)
        if self._waiting or self._suspects:
            self._wake()
        if task is not None and task.cancelling():
            await self._forget_cancels(task)
        return ran

    def _in_time(self, running: Running, ran: float, outcome: Outcome) -> Outcome:
        """What came of an attempt that ran longer than it may came too late, though the event loop was held and nobody could tell
        it to stop: the store may have ended it already, and must not say otherwise where it has not."""
        if running.why not in (None, "timeout", "deadline") or isinstance(outcome, HandBackOutcome):
            return outcome
        late = running.overran(ran, self.held_up.get(running.claimed.fence, 0.0) + self.held_for(running))
        if late is None or late == "held up":
            return outcome
        running.why = late
        return stopped(running)

    async def _forget_cancels(self, task: asyncio.Task[Any]) -> None:
        """The slot goes on. A count left behind would make the next handler's task groups believe that they were cancelled, and a
        cancel that the handler asked for and did not wait for would strike the next job."""
        while task.cancelling():
            task.uncancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._closing:
                raise

    async def _outcome(self, running: Running) -> Outcome:
        claimed = running.claimed
        handler = running.handler = self._registry.get(claimed.job_type)
        if handler is None:
            return Failure(error_info("NoHandler", f"this worker has no handler for {claimed.job_type!r} any more"))
        try:
            if self._alone is not None and self._alone == claimed.fence and self._settled is not None:
                await self._settled()  # what has ended must be known before a crash can make it look unfinished
            try:
                arguments = handler.decode(claimed.payload)
            except Invalid as error:
                return MisfitOutcome(error_info("InvalidArguments", str(error)))
            if self._middleware:
                value = await self._through(running, handler, arguments)
            elif handler.kind == "async":
                value = await (
                    handler.invoke(context_of(running), *arguments) if handler.takes_context else handler.invoke(*arguments)
                )
            else:
                value = await self._outside(running, handler, arguments)
            if value is None:
                return _NOTHING
            if isinstance(value, Verdict):
                return said(value)
            return Success(rules.json_bytes("result", value, most=MAX_RESULT_BYTES))
        except asyncio.CancelledError as error:
            if running.why is not None:
                return stopped(running)
            if self._closing:
                raise
            return await self._failed(running, error)  # a task that the handler waited for was cancelled, or its own
        except ChildDied as error:
            return stopped(running) if running.why is not None else Crashed(str(error))
        except ArgumentsUnfit as error:
            return MisfitOutcome(error_info("InvalidArguments", str(error)))
        except GeneratorExit as error:
            return raised(error)  # its own, or the event loop ends: then nobody hears what is said, but no one may wait any more
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and is_interrupt(error):
                raise
            outcome = meant(error)
            if outcome is not None:
                return outcome
            if running.why in ("shutdown", "away", "lease"):
                return stopped(running)  # what comes of being stopped is not the job's failure
            return await self._failed(running, error)

    async def _through(self, running: Running, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        context = context_of(running)

        async def innermost() -> Any:
            if handler.kind == "async":
                return await (handler.invoke(context, *arguments) if handler.takes_context else handler.invoke(*arguments))
            return await self._outside(running, handler, arguments)

        step: Callable[[], Awaitable[Any]] = innermost
        for layer in reversed(self._middleware):
            step = partial(layer, context, step)
        return await step()

    async def _outside(self, running: Running, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        """Plain functions: in a thread, or in a process of their own that can be killed."""
        if handler.kind == "process":
            return await self.children.run(running, handler)
        if self._threads is None:
            # As many as there may ever be slots: threads are made as they are needed, and slots are counted elsewhere.
            self._threads = ThreadPoolExecutor(MOST_SLOTS, thread_name_prefix="taskforge")
        call = contextvars.copy_context().run
        arguments = (context_of(running), *arguments) if handler.takes_context else arguments
        future = asyncio.get_running_loop().run_in_executor(self._threads, call, _in_thread, handler.invoke, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():
                # A thread cannot be killed: the job is reported, but the slot stays taken until the thread ends.
                self._linger(future, running)
            raise

    def _linger(self, future: asyncio.Future[Any], running: Running) -> None:
        self.stuck.add(running)

        def ended(done: asyncio.Future[Any]) -> None:
            self.stuck.remove(running)
            self.freed.set()
            if not done.cancelled():
                done.exception()  # seen: the job was reported long ago

        future.add_done_callback(ended)

    async def _failed(self, running: Running, error: BaseException) -> Outcome:
        for hook in self._failure_hooks:
            try:
                answer = hook(context_of(running), error)
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(HOOK_SECONDS):
                        await answer
            except asyncio.CancelledError:
                if self._closing:
                    raise
                logger.warning("a failure hook was stopped: the job's time was over")
            except Exception:
                logger.exception("a failure hook failed")
        return raised(error)

    # --- Stopping jobs ---

    def interrupt(self, fence: UUID, why: str, reason: str | None = None) -> bool:
        """Stop one job, if it runs; the first to say why counts, `reason` in the words of whoever asked. Async handlers are
        cancelled, processes killed, threads asked."""
        running = self.running.get(fence)
        if running is None or running.why is not None:
            return False
        running.why, running.reason = why, reason
        self.stuck.told(running)
        if running.stop is not None:
            running.stop()
        elif running.task is not None:
            running.task.cancel(why)
        return True

    def interrupt_all(self, why: str) -> int:
        return sum(self.interrupt(fence, why) for fence in list(self.running))

    def give_up(self) -> None:
        """Report what did not stop when told to: the worker ends, and nobody waits for what else it does."""
        for running in self.running.values():
            if running.why is not None and running.why != "lost":
                self._complete(Completion(running.claimed, stopped(running), time.monotonic() - running.started))
                running.why = "lost"

    def sweep(self) -> None:
        """Stop what ran too long. Called a few times a second."""
        now = time.monotonic()
        for running in list(self.running.values()):
            fence = running.claimed.fence
            held_up = self.held_up.get(fence, 0.0) if self.held_up and running.may_be_excused else 0.0
            why = running.overran(now - running.started, held_up)
            if why is not None:
                self.interrupt(fence, why)
        if self._suspects:
            self._wake()
        self._failures.look()
        if self.stuck or self.held_up:
            self.stuck.look(self.running, now)
            self.held_up = {fence: seconds for fence, seconds in self.held_up.items() if fence in self.running}

    # --- When the event loop was held ---

    def take_unstarted(self) -> list[Claimed]:
        """Jobs that have not started leave the executor. From any thread: the event loop may be back at any moment."""
        jobs: list[Claimed] = []
        with contextlib.suppress(IndexError):
            while True:
                jobs.append(self._waiting.popleft())
        return jobs

    def excuse(self, seconds: float, culprit: Running | None) -> None:
        """The event loop was held for so long: that is not the time of those who waited for it."""
        for fence, running in self.running.items():
            if running is not culprit and running.stop is None:
                self.held_up[fence] = self.held_up.get(fence, 0.0) + min(seconds, time.monotonic() - running.started)

    async def close(self) -> None:
        """End all slots. A handler that will not be cancelled is left behind: nothing in Python can stop it."""
        self._closing = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        await self.children.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _in_thread(invoke: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return invoke(*arguments)
    except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
        # No future can carry the first, and the others would end the event loop; none of them means here what it means there.
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
