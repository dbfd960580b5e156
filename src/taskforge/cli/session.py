"""A worker that a command runs in this process: the signals that stop it, and what is said of
that."""

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import psutil

from taskforge.cli.store import explained
from taskforge.domain.access import Forbidden
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.retry import Patience
from taskforge.node import Node, make_node
from taskforge.operations.directory import no_queue
from taskforge.ports.engine import AnyEngine
from taskforge.sdk.app import TaskForge
from taskforge.services import Errand, Service
from taskforge.telemetry.outage import Outage
from taskforge.wiring import Made, sqlite_path
from taskforge.worker.processes.process_watch import has_left, heard
from taskforge.worker.processes.supervision import FINISHED, READY, Supervision
from taskforge.worker.worker import LiveWorker

T = TypeVar("T")
logger = logging.getLogger("taskforge.cli")
MEMORY_LOOK_SECONDS = SUPERVISOR_LOOK_SECONDS = 1.0
FINISHED_LOOK_SECONDS = 0.05


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on uvloop where it is installed; but what a job's own task raises to end
    the process does not."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] | None = importlib.import_module(
            "uvloop"
        ).new_event_loop
    except ModuleNotFoundError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        working = runner.get_loop().create_task(main)
        while True:
            try:
                runner.run(_until_done(working))
                return working.result()
            except (KeyboardInterrupt, SystemExit) as error:
                if working.done() or signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                    raise
                # No signal's: those are heard in our own way by now. asyncio passes it on from
                # whichever task it comes, and goes on when asked to; that task has failed, and the
                # handler that waits for it with it.
                logger.warning("a task that a handler started raised %s", type(error).__name__)


async def _until_done(task: asyncio.Task[T]) -> None:
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:  # Ctrl-C, before signals are heard in our own way
        task.cancel()
        await asyncio.wait([task])
        raise


class WorkSession:
    """From the connected store to the exit status."""

    def __init__(self, forge: TaskForge, worker: LiveWorker, engine: AnyEngine) -> None:
        self.forge = forge
        self.worker = worker
        self.engine = engine
        self.started = time.monotonic()
        self.stopping_since: float | None = None
        self.stops = 0
        self.told_to_stop = asyncio.Event()
        self._node: Node | None = None

    @property
    def grace_left(self) -> float:
        since = self.stopping_since or time.monotonic()
        return max(0.0, self.forge.settings.grace_seconds - (time.monotonic() - since))

    @property
    def stop_took(self) -> float:
        return 0.0 if self.stopping_since is None else time.monotonic() - self.stopping_since

    def stop(self, why: str) -> None:
        """The first call lets running jobs finish, the second does not wait for them."""
        self.stops += 1
        self.told_to_stop.set()
        self.stopping_since = self.stopping_since or time.monotonic()
        running = len(self.worker.executor.running)
        if self.stops == 1 and running:
            logger.info(
                "%s: %s %.0f s to finish; once more stops at once",
                why,
                have(running),
                self.grace_left,
            )
        elif self.stops == 1:
            logger.info("%s: nothing runs, stopping", why)
        else:
            logger.warning("%s again: stopping at once, what runs is handed back", why)
        if self._node is not None:
            self._node.stop()
        else:
            self.worker.stop()

    async def run(self, *beside: Service, server: Made | None = None) -> None:
        """Until the worker has stopped. What runs beside it ends with it; should that fail, all
        stop and that is raised."""
        self._node = make_node(
            self.engine,
            self.forge.settings,
            workers=[self.worker],
            server=server,
            beside=beside,
            on_failure=lambda _, error: self._stop_once(f"{error!r}"),
        )
        await self._node.run()

    def _stop_once(self, why: str) -> None:
        if self.stopping_since is None:
            self.stop(why)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Plain handlers rather than the loop's: they run even while a job blocks the loop, so a
        third signal always ends us."""
        loop = asyncio.get_running_loop()
        seen = 0

        def hear(number: int, _: object) -> None:
            nonlocal seen
            seen += 1
            if seen > 2:
                os._exit(1)
            loop.call_soon_threadsafe(self.stop, signal.Signals(number).name)

        before = {number: signal.signal(number, hear) for number in heard()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def memory_watch(self, most_megabytes: int) -> Service:
        """Stops a process that has grown too large, so that its supervisor starts a fresh one."""
        process = psutil.Process()

        async def watch() -> None:
            while True:
                await asyncio.sleep(MEMORY_LOOK_SECONDS)
                taken = process.memory_info().rss / 1e6
                if taken > most_megabytes:
                    self._stop_once(f"memory is at {taken:.0f} MB, more than {most_megabytes} MB")

        return Errand("watch over memory", watch)

    def supervisor_watch(self, supervision: Supervision) -> Service:
        """Stops with the supervisor, also when it was killed: nobody else would restart this
        process, or stop it."""

        async def watch() -> None:
            while True:
                if has_left(supervision.supervisor):
                    self._stop_once("the supervisor is gone")
                await asyncio.sleep(SUPERVISOR_LOOK_SECONDS)

        return Errand("watch over the supervisor", watch)

    def supervisor_news(self, supervision: Supervision) -> Service:
        """Tells the supervisor that jobs can be taken, and that one was finished."""

        async def tell() -> None:
            await self.worker.ready.wait()
            supervision.tell(READY)
            while self.worker.executor.done == 0:  # noqa: ASYNC110 - nobody else waits for the first job
                await asyncio.sleep(FINISHED_LOOK_SECONDS)
            supervision.tell(FINISHED)

        return Errand("news for the supervisor", tell)

    def leave(self, status: int) -> int:
        """The exit status; but what cannot be stopped, a thread or a handler, would hold the
        interpreter for as long as it runs."""
        if self.worker.executor.has_stuck:
            logger.warning("a handler did not stop when told to; leaving it behind")
            logging.shutdown()
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
        return status


@asynccontextmanager
async def connected(
    forge: TaskForge, supervision: Supervision | None = None, **options: Any
) -> AsyncIterator[WorkSession]:
    """The session of an app whose store is open and whose queues are there. It hears signals from
    the moment it is there."""
    if supervision is not None and supervision.was_ready:
        engine = await _engine_when_there(forge, supervision)
    else:
        with explained(forge.settings.url):
            engine = await forge.engine()
    try:
        if options.get("queues"):
            # a worker's key does not see queues; the server knows them all the same
            with contextlib.suppress(Forbidden):
                for name in options["queues"]:
                    found = await engine.directory.find_queues([engine.home], name)
                    if not any(queue.name == name for queue in found):
                        raise await no_queue(engine, [engine.home], name)
        worker = await forge.worker(
            **{name: value for name, value in options.items() if value is not None}
        )
        session = WorkSession(forge, worker, engine)
        with session.signals():
            yield session
    finally:
        await forge.close()


async def _engine_when_there(forge: TaskForge, supervision: Supervision) -> AnyEngine:
    """For a process that takes the place of another: a store that is away just now is tried again
    until it is back, as a running worker does. A file that is gone is not made anew."""
    url, patience, outage = forge.settings.url, Patience(), Outage()
    outage.is_watching = True
    while True:
        try:
            if url.startswith("sqlite:") and not sqlite_path(url).exists():
                raise StoreUnavailable(f"there is no store at {sqlite_path(url)} any more")  # noqa: TRY301 - as if it had said so itself
            engine = await forge.engine()
        except StoreUnavailable as error:
            if has_left(supervision.supervisor):
                raise
            outage.meet(error, unreachable=True)
            await asyncio.sleep(patience.wait(error.asked_for))
        else:
            outage.serve()
            return engine


def have(running: int) -> str:
    return "1 running job has" if running == 1 else f"{running} running jobs have"
