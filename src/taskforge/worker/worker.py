"""A worker's life: register, claim and run, lose the lease and begin anew, stop."""

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import msgspec

from taskforge.domain.errors import Deregistered, LeaseLost, StoreUnavailable, TaskForgeError
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import HELD_UP, HandBackOutcome
from taskforge.domain.retry import Patience
from taskforge.domain.worker import Earlier, NewWorker, Registered
from taskforge.version import __version__
from taskforge.worker.executor import Executor, FailureHook, Middleware
from taskforge.worker.fetcher import Fetcher
from taskforge.worker.finisher import Finisher
from taskforge.worker.lease import Health, Keeper, Word
from taskforge.worker.outcomes import AWAY
from taskforge.worker.processes import ProcessId, has_ended, this_machine, this_process
from taskforge.worker.pulse import Pulse
from taskforge.worker.registry import Registry
from taskforge.worker.reporter import Reporter, job_logging
from taskforge.worker.source import Completion, WorkSource
from taskforge.worker.supervisor import REPLACE
from taskforge.worker.waiting_fetcher import WaitingFetcher
from taskforge.worker.watchdog import GRACE_SECONDS, Held, Watchdog

logger = logging.getLogger("taskforge.worker")
SWEEP_SECONDS = 0.1
TELL_AGAIN = 10  # sweeps
WORD_FENCES = 64  # so many in one word that it fits into a pipe in one piece
FORGIVE_SECONDS = 2.0  # after the event loop was held, until the others that it kept from running have been handed back
TURNS = 5  # of the event loop, which a thread's end needs to arrive
STOP_SECONDS = 2.0  # for handlers to end after they were told to
LEAVE_SECONDS = 2.0  # to say why, for a process that ends at once
KEEPER_SECONDS = 10.0  # for the lease keeper to start; from its first renewal on the lease is what the options say

KeeperMaker = Callable[[UUID, Callable[[Word], None]], Keeper]
HealthCheck = Callable[[], Awaitable[bool] | bool]


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    queues: tuple[str, ...] | None = None
    slots: int = 10
    worker_type: str = "general"
    role: str | None = None
    capabilities: dict[str, Any] = {}
    lease_seconds: float = 15.0
    poll_seconds: float = 1.0
    grace_seconds: float = 25.0
    health_check_seconds: float = 5.0
    max_jobs: int | None = None  # stop after this many; a supervisor starts a fresh process
    supervised: bool = False  # whether someone starts a fresh process when this one ends: it may, when its handlers hang


class Worker:
    def __init__(
        self,
        source: WorkSource,
        registry: Registry,
        options: WorkerOptions,
        make_keeper: KeeperMaker,
        *,
        middleware: Sequence[Middleware] = (),
        failure_hooks: Sequence[FailureHook] = (),
        health_check: HealthCheck | None = None,
    ) -> None:
        self._source = source
        self._registry = registry
        self._options = options
        self._make_keeper = make_keeper
        self._health_check = health_check
        self.name = options.name or f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid4().hex[:6]}"
        self.reporter = Reporter(source, self._lost)
        self.finisher = Finisher(source, self.reporter.flush, self._lost, self._sent)
        self.executor = Executor(
            registry,
            self.reporter,
            self.finisher.put,
            slots=options.slots,
            most=options.max_jobs,
            middleware=middleware,
            failure_hooks=failure_hooks,
            settled=self.finisher.drained,
            unsettled=self.finisher.__len__,
        )
        self.registered: Registered | None = None
        self.ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._told = False  # from outside; enough jobs done stops it too
        self._draining = False
        self._healthy = True
        self._held: Held | None = None
        self._is_blocked = self._was_held = False
        self._forgive_until = 0.0
        self._unstarted: list[Claimed] = []
        self._stuck = 0
        self.hangs = False  # it stops because too many handlers do not end
        self.watchdog = Watchdog(
            self.executor.running,
            on_held=self._loop_is_held,
            on_back=self._loop_is_back,
            give_up=self._leave_at_once if options.supervised else None,
            on_pulse=self._send_pulse,
        )
        self.executor.held_for = self.watchdog.held_for
        self.executor.foresee = self._send_pulse
        self._pulse_lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._kept = asyncio.Event()
        self._lost_lease: asyncio.Future[str]
        self._lives: set[UUID] = set()  # of this worker, that have not left
        self._stopped = 0  # handlers that this life has lost
        self.was_deregistered = False

    # --- From outside ---

    def stop(self) -> None:
        """Stop claiming and finish what runs within the grace time. A second call stops at once."""
        if self._told:
            self._stop_now.set()
        self._told = True
        self._stop.set()

    async def run(self) -> None:
        """Until stopped, or deregistered by somebody. A lost lease ends this incarnation and begins the next."""
        self.watchdog.start()
        try:
            with job_logging():
                await self._relive()
        finally:
            self.watchdog.stop()
            await self.executor.close()

    async def _relive(self) -> None:
        # Over all its lives: what was reached, or stopped, in one of them is told as soon as the store can hear it.
        finishing = asyncio.create_task(self.finisher.run())
        try:
            while not self._stop.is_set():
                self.registered = await self._register()
                if self.registered is None:
                    await self._tell_the_rest()
                    break
                self._lost_lease, self._stopped = asyncio.get_running_loop().create_future(), 0
                try:
                    await self._live(self.registered.incarnation, finishing)
                except LeaseLost as error:
                    self._end_if_deregistered(isinstance(error, Deregistered))
                    self._let_go(str(error), "lease")
        finally:
            await _end(finishing)

    def _let_go(self, reason: str, why: str) -> None:
        """The lease is over, or will be before the store can be asked: others may run the jobs then, and nobody beside them. What
        the store still thinks is ours is handed back to it; what it does not is refused by its fence."""
        for job in self.executor.take_back():
            self.finisher.put(Completion(job, HandBackOutcome(AWAY)))
        stopped = self.executor.interrupt_all(why)
        if self.was_deregistered and not self._lost_lease.done():
            logger.warning("stopped: %s", reason)
        elif stopped or not self._lost_lease.done():
            logger.warning("lost the lease, %d handlers are stopped: %s", self._stopped + stopped, reason)
        self._stopped += stopped
        if not self._lost_lease.done():
            self._lost_lease.set_result(reason)

    def _end_if_deregistered(self, is_so: bool) -> None:
        """Whoever was taken out does not come back by itself. Who stops anyway may hear of its own leave."""
        if is_so and not self._stop.is_set():
            self.was_deregistered = True
            self._stop.set()

    async def _tell_the_rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.finisher.drained(), STOP_SECONDS + 3)

    # --- One incarnation ---

    async def _register(self) -> Registered | None:
        options = self._options
        worker = NewWorker(
            name=self.name,
            worker_type=options.worker_type,
            role=options.role,
            capabilities=options.capabilities,
            queues=options.queues,
            types=self._registry.types(),
            max_concurrent_jobs=options.slots,
            version=__version__,
            host=socket.gethostname()[:255],
            pid=os.getpid(),
            machine=this_machine(),
            pid_started=this_process().started,
        )
        patience = Patience()
        while not self._stop.is_set():
            try:
                registered = await self._source.register(worker, options.lease_seconds + KEEPER_SECONDS)
                await self._tell_of_the_dead(registered.earlier)
                self._lives.add(registered.incarnation)
            except StoreUnavailable as error:
                logger.debug("cannot register, trying again: %s", error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), patience.wait(error.asked_for))
            else:
                return registered
        return None

    async def _tell_of_the_dead(self, earlier: Sequence[Earlier]) -> None:
        """Processes of this machine that were killed together with their lease keepers: nobody else can tell before their leases
        are over, and after that nobody would know that they died."""
        for one in earlier:
            if one.incarnation in self._lives:  # which lost its lease; as long as jobs of it run on, that is refused
                with contextlib.suppress(TaskForgeError):
                    await self._source.deregister(one.incarnation)
                    self._lives.discard(one.incarnation)
            elif has_ended(ProcessId(one.pid, one.pid_started)):
                logger.warning("worker process %d of this machine is gone without having left: its jobs go to others", one.pid)
                with contextlib.suppress(TaskForgeError):
                    await self._source.deregister(one.incarnation, died=True)

    async def _live(self, incarnation: UUID, finishing: asyncio.Task[None]) -> None:
        options, executor = self._options, self.executor
        kind = WaitingFetcher if self._source.wait_seconds > 0 else Fetcher
        fetcher = kind(self._source, executor, poll_seconds=options.poll_seconds, may_claim=self._may_claim)
        self._kept.clear()
        self._keeper = keeper = self._make_keeper(incarnation, self._hear)
        self._tell_keeper()
        self._send_pulse()
        await keeper.tell_started(*executor.children.known.values())
        executor.children.tell_started, executor.children.tell_ended = keeper.tell_started, keeper.tell_ended
        is_in_order = False
        keeping = asyncio.create_task(keeper.run())
        working: list[asyncio.Task[Any]] = [
            asyncio.create_task(self.reporter.run(executor.running)),
            asyncio.create_task(self._sweep()),
            asyncio.create_task(self._watch_health()),
        ]
        fetching = asyncio.create_task(self._fetch(fetcher, incarnation))
        stopping: asyncio.Task[Any] = asyncio.create_task(self._stop.wait())
        watched: list[asyncio.Future[Any]] = [fetching, stopping, self._lost_lease, keeping, finishing, *working]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            await _end(fetching)
            if self._lost_lease.done():
                raise LeaseLost(self._lost_lease.result())  # noqa: TRY301 - one end among several
            for task in (fetching, keeping, finishing, *working):
                if task.done() and not task.cancelled():
                    task.result()  # a part of the worker failed: that is a fault, unless it is how a lost lease was noticed
            await self._wind_down(fetcher.leftover)
            with contextlib.suppress(TaskForgeError):
                await self._source.deregister(incarnation)
            is_in_order = True
        except LeaseLost:
            is_in_order = True
            for job in fetcher.leftover:
                self.finisher.put(Completion(job, HandBackOutcome(AWAY)))
            raise
        finally:
            if not is_in_order:
                keeper.let_go()  # this process most likely ends, with jobs in its hands
            await _end(stopping, fetching, keeping, *working)
            self._keeper = None

    async def _fetch(self, fetcher: Fetcher, incarnation: UUID) -> None:
        """Only when the keeper renews: the first handler may block everything here for longer than the lease."""
        await self._kept.wait()
        self.ready.set()
        await fetcher.run(incarnation)

    def _may_claim(self) -> bool:
        return self._healthy and not self._draining

    def _tell_keeper(self, unstarted: tuple[UUID, ...] = ()) -> None:
        """Also from the watchdog's thread."""
        keeper, held = self._keeper, self._held
        if keeper is None:
            return
        fence = None if held is None else held.fence
        if self._is_blocked:
            keeper.tell(Health(False, self._stop.is_set(), self.executor.slots, fence, unstarted))
        else:
            keeper.tell(Health(self._healthy, self._stop.is_set(), self.executor.stuck.slots, fence))

    def _hear(self, word: Word) -> None:
        if word.lost is not None:
            # At once, whatever claims and reports are under way: their answers can take longer than the lease has left.
            self._end_if_deregistered(word.deregistered)
            self._let_go(word.lost, "away" if word.away else "lease")
            return
        self._kept.set()
        if word.drain != self._draining and not self._stop.is_set():
            logger.info(
                "%s", "drained by an operator: no new jobs are taken" if word.drain else "no longer drained: takes jobs again"
            )
        self._draining = word.drain
        if word.slots is not None and word.slots != self.executor.slots:
            logger.info("%d slots from now on, after %d: an operator wants it so", word.slots, self.executor.slots)
            self.executor.resize(word.slots)
        for fence in word.cancelled:
            self.executor.interrupt(fence, "cancel", word.cancel_reasons.get(fence))

    def _sent(self) -> None:
        self.executor.freed.set()

    def _lost(self, fences: Sequence[UUID]) -> None:
        """The store refused what we said of these jobs: they are someone else's now."""
        self._stopped += sum(self.executor.interrupt(fence, "lost") for fence in fences)

    async def _sweep(self) -> None:
        for number in itertools.count():
            if number % TELL_AGAIN == 0:
                self._tell_keeper()  # what was said from two threads at once, or to a full pipe, must not stay wrong
            await asyncio.sleep(SWEEP_SECONDS)
            if self._was_held:
                self._was_held = False
                for _ in range(TURNS):  # what has ended meanwhile must be seen to have, before it is told to stop
                    await asyncio.sleep(0)
            self._forgive()
            self.executor.sweep()
            self._look_at_stuck()
            if self._options.max_jobs is not None and self.executor.done >= self._options.max_jobs:
                self._stop.set()

    # --- Handlers that hang ---

    def _loop_is_back(self, held: Held, seconds: float) -> None:
        """Whom it held up is remembered in the store a little longer than that: until they are handed back."""
        unstarted, self._unstarted = self._unstarted, []
        for job in unstarted:  # once more: should the keeper have done it, nothing changes
            self.finisher.put(Completion(job, HandBackOutcome(HELD_UP)))
        if held.by is not None:
            self.executor.excuse(seconds, held.by)
        self._is_blocked, self._was_held, self._forgive_until = False, True, time.monotonic() + FORGIVE_SECONDS
        self._tell_keeper()

    def _forgive(self) -> None:
        if self._held is not None and not self._is_blocked and time.monotonic() > self._forgive_until:
            self._held = None
            self._tell_keeper()

    def _loop_is_held(self, held: Held) -> None:
        """In the watchdog's thread. The keeper, which runs on, says so, and hands back what has not started."""
        self._held, self._is_blocked = held, True
        self._unstarted = self.executor.take_unstarted()
        fences = [job.fence for job in self._unstarted]
        for start in range(0, max(1, len(fences)), WORD_FENCES):
            self._tell_keeper(tuple(fences[start : start + WORD_FENCES]))

    def _send_pulse(self) -> None:
        """From the watchdog's thread, and before a job begins that may take longer than those of which the keeper knows: should it
        hold the interpreter's lock, nobody here could say so any more."""
        keeper, executor = self._keeper, self.executor
        if keeper is None:
            return
        if not self._options.supervised:
            keeper.send_pulse(Pulse(executor.slots))
            return
        with self._pulse_lock:
            executor.foreseen_seconds = 0.0  # before the look at what runs: whoever begins after it waits for this, and looks again
            patience = self.watchdog.longest_allowed()
            if keeper.send_pulse(Pulse(executor.slots, patience)):
                executor.foreseen_seconds = patience - GRACE_SECONDS

    def _leave_at_once(self, held: Held) -> None:
        """In the watchdog's thread: nothing else can end this process in order. What ran beside it goes back unspent."""
        in_any_case = threading.Timer(LEAVE_SECONDS, os._exit, (REPLACE,))  # the loop may be held inside a logging handler
        in_any_case.daemon = True
        with contextlib.suppress(RuntimeError):  # no more threads can be started
            in_any_case.start()
        logger.error("%s does not let go of the event loop: this process ends and is replaced", held)
        with contextlib.suppress(Exception):
            logging.shutdown()
        os._exit(REPLACE)

    def _look_at_stuck(self) -> None:
        slots, stuck = self.executor.slots, self.executor.stuck.slots
        if stuck == self._stuck:
            return
        self._stuck = stuck
        self._tell_keeper()
        if 2 * stuck < slots or self._stop.is_set():
            return
        held = f"{stuck} of {slots} slots are held by handlers that did not end"
        if self._options.supervised:
            logger.error("%s: the worker finishes what it can and is replaced", held)
            self.hangs = True
            self._stop.set()
        else:
            logger.error("%s; nobody replaces this worker: restart its process, and see why they hang", held)

    async def _watch_health(self) -> None:
        """A failing check stops the claiming and says so; what runs goes on."""
        while self._health_check is not None:
            try:
                answer = self._health_check()
                healthy = bool(await answer if isinstance(answer, Awaitable) else answer)
            except Exception:
                logger.exception("the health check failed")
                healthy = False
            if healthy != self._healthy:
                logger.warning("the worker is %s", "healthy again" if healthy else "unhealthy and claims nothing")
                self._healthy = healthy
                self._tell_keeper()
            await asyncio.sleep(self._options.health_check_seconds)
        await asyncio.Event().wait()

    # --- Stopping ---

    async def _wind_down(self, leftover: Sequence[Claimed]) -> None:
        """Hand back what has not started, let the rest finish within the grace time, then hand that back too."""
        self._tell_keeper()
        for job in (*leftover, *self.executor.take_back()):
            self.finisher.put(Completion(job, HandBackOutcome("worker stopped")))
        await self._until_idle(self._options.grace_seconds, give_up=self._stop_now)
        self.executor.interrupt_all("shutdown")
        await self._until_idle(STOP_SECONDS, give_up=None)
        self.executor.give_up()
        await self._tell_the_rest()

    async def _until_idle(self, seconds: float, give_up: asyncio.Event | None) -> None:
        until = time.monotonic() + seconds
        while self.executor.can_end and (left := until - time.monotonic()) > 0 and not (give_up is not None and give_up.is_set()):
            self.executor.freed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.executor.freed.wait(), min(left, 0.1))


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
