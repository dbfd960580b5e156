"""A worker's life: register, claim and run, lose the lease and begin anew, stop."""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from taskforge.domain.errors import Deregistered, LeaseLost
from taskforge.domain.job import Claimed
from taskforge.domain.outcome import HandBackOutcome
from taskforge.domain.worker import NewWorker, Registered
from taskforge.ports.work_source import Completion, WorkSource
from taskforge.services import end_tasks
from taskforge.worker.executor import Executor
from taskforge.worker.fetcher import Fetcher
from taskforge.worker.finisher import Finisher
from taskforge.worker.handler_calls import FailureHook, Middleware
from taskforge.worker.handler_outcomes import AWAY
from taskforge.worker.options import WorkerOptions, describe, name_of_process
from taskforge.worker.processes.keeper_words import Word
from taskforge.worker.processes.lease_keeper import LeaseKeeper
from taskforge.worker.registration import Registration
from taskforge.worker.registry import Registry
from taskforge.worker.reporter import Reporter, job_logging
from taskforge.worker.self_report import HealthCheck, SelfReport
from taskforge.worker.waiting_fetcher import WaitingFetcher
from taskforge.worker.watchdog import Held, Watchdog, leave_at_once

logger = logging.getLogger("taskforge.worker")
SWEEP_SECONDS = 0.1
TELL_AGAIN = 10  # sweeps
TURNS = 5  # of the event loop, which a thread's end needs to arrive
# A task that was cancelled is cancelled again after so long; what the fetcher waits for is shorter.
END_SECONDS = 10.0
STOP_SECONDS = 2.0  # for handlers to end after they were told to
# for the lease keeper to start; from its first renewal on the lease is what the options say
KEEPER_SECONDS = 10.0

KeeperMaker = Callable[[UUID, Callable[[Word], None]], LeaseKeeper]


class LiveWorker:
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
        self.name = options.name or name_of_process()
        self.reporter = Reporter(source, self._lost)
        self.finisher = Finisher(source, self.reporter.flush, self._lost, self._sent)
        self.executor = Executor(
            registry,
            self.reporter,
            self.finisher,
            slots=options.slots,
            most=options.max_jobs,
            middleware=middleware,
            failure_hooks=failure_hooks,
        )
        self.registered: Registered | None = None
        self.ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._told = False  # from outside; enough jobs done stops it too
        self._draining = False
        self._stuck = 0
        self.hangs = False  # it stops because too many handlers do not end
        self.self_report = SelfReport(
            self.executor,
            self.finisher.put,
            self._stop,
        )
        self.watchdog = Watchdog(
            self.executor.running,
            on_held=self.self_report.loop_is_held,
            on_back=self.self_report.loop_is_back,
            give_up=self._leave_at_once if options.supervised else None,
            on_pulse=self.self_report.send_pulse,
        )
        self.executor.jobs.held_for = self.watchdog.held_for
        self.executor.foresee = self.self_report.send_pulse
        if options.supervised:
            self.self_report.longest_allowed = self.watchdog.longest_allowed
        self._kept = asyncio.Event()
        self._lost_lease: asyncio.Future[str]
        self.registration = Registration(
            source, self._describe, options.lease_seconds + KEEPER_SECONDS
        )
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
        """Until stopped, or deregistered by somebody. A lost lease ends this incarnation and begins
        the next."""
        self.watchdog.start()
        try:
            with job_logging(self.name):
                await self._relive()
        finally:
            self.watchdog.stop()
            await self.executor.close()

    async def _relive(self) -> None:
        # Over all its lives: what was reached, or stopped, in one of them is told as soon as the
        # store can hear it.
        finishing = asyncio.create_task(self.finisher.run())
        try:
            while not self._stop.is_set():
                self.registered = await self.registration.register(self._stop)
                if self.registered is None:
                    await self._tell_the_rest()
                    break
                self._lost_lease, self._stopped = asyncio.get_running_loop().create_future(), 0
                try:
                    await self._live(self.registered.incarnation, finishing)
                except LeaseLost as error:
                    self._end_if_deregistered(isinstance(error, Deregistered))
                    self._let_go(str(error), "lease")
            self.registration.note_lives_left(self.finisher.unsent)
        finally:
            await end_tasks(finishing)

    def _let_go(self, reason: str, why: str) -> None:
        """The lease is over, or will be before the store can be asked: others may run the jobs
        then, and nobody beside them. What the store still thinks is ours is handed back to it; what
        it does not is refused by its fence."""
        for job in self.executor.take_back():
            self.finisher.put(Completion(job, HandBackOutcome(AWAY)))
        stopped = self.executor.interrupt_all(why)
        if self.was_deregistered and not self._lost_lease.done():
            logger.warning("stopped: %s", reason)
        elif stopped or not self._lost_lease.done():
            logger.warning(
                "lost the lease, %d handlers are stopped: %s", self._stopped + stopped, reason
            )
        self._stopped += stopped
        if not self._lost_lease.done():
            self._lost_lease.set_result(reason)

    def _end_if_deregistered(self, is_so: bool) -> None:
        """Whoever was taken out does not come back by itself. Who stops anyway may hear of its own
        leave."""
        if is_so and not self._stop.is_set():
            self.was_deregistered = True
            self._stop.set()

    async def _tell_the_rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.finisher.drained(), STOP_SECONDS + 3)

    # --- One incarnation ---

    def _describe(self) -> NewWorker:
        types, depends_on = self._registry.types(), self._registry.dependencies()
        return describe(self._options, self.name, types, depends_on)

    async def _live(self, incarnation: UUID, finishing: asyncio.Task[None]) -> None:
        options, executor = self._options, self.executor
        kind = WaitingFetcher if self._source.wait_seconds > 0 else Fetcher
        fetcher = kind(
            self._source, executor, poll_seconds=options.poll_seconds, may_claim=self._may_claim
        )
        self._kept.clear()
        self.self_report.keeper = keeper = self._make_keeper(incarnation, self._hear)
        self.self_report.tell()
        self.self_report.send_pulse()
        await keeper.tell_started(*executor.children.known.values())
        executor.children.tell_started, executor.children.tell_ended = (
            keeper.tell_started,
            keeper.tell_ended,
        )
        is_in_order = False
        keeping = asyncio.create_task(keeper.run())
        working: list[asyncio.Task[Any]] = [
            asyncio.create_task(self.reporter.run(executor.running)),
            asyncio.create_task(self._sweep()),
            asyncio.create_task(
                self.self_report.watch_health(self._health_check, options.health_check_seconds)
            ),
        ]
        fetching = asyncio.create_task(self._fetch(fetcher, incarnation))
        stopping: asyncio.Task[Any] = asyncio.create_task(self._stop.wait())
        watched: list[asyncio.Future[Any]] = [
            fetching,
            stopping,
            self._lost_lease,
            keeping,
            finishing,
            *working,
        ]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(fetching, again_seconds=END_SECONDS)
            if self._lost_lease.done():
                raise LeaseLost(self._lost_lease.result())  # noqa: TRY301 - one end among several
            for task in (fetching, keeping, finishing, *working):
                if task.done() and not task.cancelled():
                    # a part of the worker failed: that is a fault, unless it is how a lost lease
                    # was noticed
                    task.result()
            await self._wind_down(fetcher.leftover)
            await self.registration.leave(incarnation)
            is_in_order = True
        except LeaseLost:
            is_in_order = True
            for job in fetcher.leftover:
                self.finisher.put(Completion(job, HandBackOutcome(AWAY)))
            raise
        finally:
            if not is_in_order:
                keeper.let_go()  # this process most likely ends, with jobs in its hands
            await end_tasks(stopping, fetching, keeping, *working, again_seconds=END_SECONDS)
            self.self_report.keeper = None

    async def _fetch(self, fetcher: Fetcher, incarnation: UUID) -> None:
        """Only when the keeper renews: the first handler may block everything here for longer than
        the lease."""
        await self._kept.wait()
        self.ready.set()
        await fetcher.run(incarnation)

    def _may_claim(self) -> bool:
        return self.self_report.is_healthy and not self._draining

    def _hear(self, word: Word) -> None:
        if word.deregistered and self._stop.is_set() and not self.executor.running:
            return  # most likely it is our own leave; whoever runs nothing has nothing to stop
        if word.lost is not None:
            # At once, whatever claims and reports are under way: their answers can take longer than
            # the lease has left.
            self._end_if_deregistered(word.deregistered)
            self._let_go(word.lost, "away" if word.away else "lease")
            return
        self._kept.set()
        if word.drain != self._draining and not self._stop.is_set():
            logger.info(
                "%s",
                "drained: no new jobs are taken"
                if word.drain
                else "no longer drained: takes jobs again",
            )
        self._draining = word.drain
        if word.slots is not None and word.slots != self.executor.slots:
            logger.info(
                "%d slots from now on, after %d: an operator wants it so",
                word.slots,
                self.executor.slots,
            )
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
                # what was said from two threads at once, or to a full pipe, must not stay wrong
                self.self_report.tell()
            await asyncio.sleep(SWEEP_SECONDS)
            if self.self_report.was_held:
                self.self_report.was_held = False
                # what has ended meanwhile must be seen to have, before it is told to stop
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            self.self_report.forgive()
            self.executor.sweep()
            self._look_at_stuck()
            if self._options.max_jobs is not None and self.executor.done >= self._options.max_jobs:
                self._stop.set()

    # --- Handlers that hang ---

    def _leave_at_once(self, held: Held) -> None:
        self.self_report.tell_overrun(held)
        leave_at_once(held)

    def _look_at_stuck(self) -> None:
        slots, stuck = self.executor.slots, self.executor.stuck.slots
        if stuck == self._stuck:
            return
        self._stuck = stuck
        self.self_report.tell()
        if 2 * stuck < slots or self._stop.is_set():
            return
        held = f"{stuck} of {slots} slots are held by handlers that did not end"
        if self._options.supervised:
            logger.error("%s: the worker finishes what it can and is replaced", held)
            self.hangs = True
            self._stop.set()
        else:
            logger.error(
                "%s; nobody replaces this worker: restart its process, and see why they hang", held
            )

    # --- Stopping ---

    async def _wind_down(self, leftover: Sequence[Claimed]) -> None:
        """Hand back what has not started, let the rest finish within the grace time, then hand that
        back too."""
        self.self_report.tell()
        for job in (*leftover, *self.executor.take_back()):
            self.finisher.put(Completion(job, HandBackOutcome("worker stopped")))
        await self._until_idle(self._options.grace_seconds, give_up=self._stop_now)
        self.executor.interrupt_all("shutdown")
        await self._until_idle(STOP_SECONDS, give_up=None)
        self.executor.give_up()
        await self._tell_the_rest()
        await self.reporter.flush_counts()

    async def _until_idle(self, seconds: float, give_up: asyncio.Event | None) -> None:
        until = time.monotonic() + seconds
        while (
            self.executor.jobs.can_end
            and (left := until - time.monotonic()) > 0
            and not (give_up is not None and give_up.is_set())
        ):
            self.executor.freed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.executor.freed.wait(), min(left, 0.1))
