"""An app's worker and upkeep in this process, and the signals that stop them."""

import asyncio
import contextlib
import gc
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
from taskforge.domain.errors import NotFound, nearest
from taskforge.sdk.app import TaskForge
from taskforge.storage.engine import Engine
from taskforge.worker.parent import has_left, heard
from taskforge.worker.worker import Worker

T = TypeVar("T")
logger = logging.getLogger("taskforge.cli")
MEMORY_LOOK_SECONDS = SUPERVISOR_LOOK_SECONDS = 1.0
NEW_OBJECTS = 10_000
_THRESHOLDS = gc.get_threshold()  # as they were before the app was loaded


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on uvloop where it is installed; but what a job's own task raises to end the process does not."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] | None = importlib.import_module("uvloop").new_event_loop
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
                # No signal's: those are heard in our own way by now. asyncio passes it on from whichever task it comes, and goes on
                # when asked to; that task has failed, and the handler that waits for it with it.
                logger.warning("a task that a handler started raised %s", type(error).__name__)


async def _until_done(task: asyncio.Task[T]) -> None:
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:  # Ctrl-C, before signals are heard in our own way
        task.cancel()
        await asyncio.wait([task])
        raise


class Service:
    def __init__(self, forge: TaskForge, worker: Worker, engine: Engine) -> None:
        self.forge = forge
        self.worker = worker
        self.engine = engine
        self.started = time.monotonic()
        self.stopping_since: float | None = None
        self.stops = 0
        self.told_to_stop = asyncio.Event()

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
            logger.info("%s: %s %.0f s to finish; once more stops at once", why, have(running), self.grace_left)
        elif self.stops == 1:
            logger.info("%s: nothing runs, stopping", why)
        else:
            logger.warning("%s again: stopping at once, what runs is handed back", why)
        self.worker.stop()

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Until the worker has stopped. Whatever runs beside it ends with it; should it fail, all stop and that is raised."""
        working = asyncio.create_task(self.worker.run())
        helping = [asyncio.create_task(one) for one in (self.forge.upkeep(self.engine).run(), *beside)]
        try:
            await asyncio.wait([working, *helping], return_when=asyncio.FIRST_COMPLETED)
            while not working.done():
                failed = [task for task in helping if task.done() and not task.cancelled() and task.exception() is not None]
                if failed and self.stopping_since is None:
                    self.stop(f"{failed[0].exception()!r}")
                waited = [working, *(task for task in helping if not task.done())]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            working.result()
        finally:
            for task in helping:
                if not task.done():
                    task.cancel()
            ends = await asyncio.gather(*helping, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Plain handlers rather than the loop's: they run even while a job blocks the loop, so a third signal always ends us."""
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

    async def watch_memory(self, most_megabytes: int) -> None:
        """Stops a process that has grown too large, so that its supervisor starts a fresh one."""
        process = psutil.Process()
        while True:
            await asyncio.sleep(MEMORY_LOOK_SECONDS)
            taken = process.memory_info().rss / 1e6
            if taken > most_megabytes and self.stopping_since is None:
                self.stop(f"memory is at {taken:.0f} MB, more than {most_megabytes} MB")

    async def watch_supervisor(self, pid: int) -> None:
        """Stops with it, also when it was killed: nobody else would restart this process, or stop it."""
        while True:
            if has_left(pid) and self.stopping_since is None:
                self.stop("the supervisor is gone")
            await asyncio.sleep(SUPERVISOR_LOOK_SECONDS)

    def leave(self, status: int) -> int:
        """The exit status; but what cannot be stopped, a thread or a handler, would hold the interpreter for as long as it runs."""
        if self.worker.executor.has_stuck:
            logger.warning("a handler did not stop when told to; leaving it behind")
            logging.shutdown()
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
        return status


@asynccontextmanager
async def connected(forge: TaskForge, **options: Any) -> AsyncIterator[Service]:
    """The service of an app whose store is open and whose queues are there. It hears signals from the moment it is there."""
    with explained(forge.settings.url):
        engine = await forge.engine()
    try:
        if options.get("queues"):
            with contextlib.suppress(Forbidden):  # a worker's key does not see queues; the server knows them all the same
                known = [queue.name for queue in await engine.queues([engine.home])]
                for name in options["queues"]:
                    if name not in known:
                        raise NotFound("queue", name, nearest=nearest(name, known))
        _collect_less_often()
        worker = await forge.worker(**{name: value for name, value in options.items() if value is not None})
        service = Service(forge, worker, engine)
        with service.signals():
            yield service
    finally:
        await forge.close()


def _collect_less_often() -> None:
    """Jobs come and go by the thousand, and all that was loaded before them stays: looking for garbage after every 700 new objects,
    through all of it now and then, takes a tenth of a busy worker's time. An app that has set its own figure keeps it."""
    if gc.get_threshold() == _THRESHOLDS:
        gc.collect()
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, *_THRESHOLDS[1:])


def have(running: int) -> str:
    return "1 running job has" if running == 1 else f"{running} running jobs have"
