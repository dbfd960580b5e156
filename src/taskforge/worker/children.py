"""Handlers in processes of their own, which can be killed. One process runs one job at a time and is used again."""

import asyncio
import contextlib
import importlib
import logging
import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.worker.context import Running, context_of, current
from taskforge.worker.frames import frames_of, text_of
from taskforge.worker.parent import die_with_parent, outlive_signals
from taskforge.worker.registry import Handler
from taskforge.worker.reporter import JobLogHandler
from taskforge.worker.verdicts import Verdict

MAX_RESULT_BYTES = 1 << 20
Reference = tuple[str, str]


class ChildDied(Exception):
    """The process ended under the job: killed, out of memory, a crash in native code."""


class Child:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        self.process.kill()
        self.process.join(2)
        self.connection.close()


class Children:
    """The idle and the busy ones. They are started when first needed: most workers need none."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._closed = False

    async def run(self, running: Running, handler: Handler) -> Any:
        loop = asyncio.get_running_loop()
        child = self._idle.pop() if self._idle else await self._start()
        self._busy.add(child)
        answer: asyncio.Future[Any] = loop.create_future()
        running.stop = child.kill
        loop.add_reader(child.connection.fileno(), self._read, child, running, answer)
        try:
            if running.why is not None:
                child.kill()
            child.connection.send((_reference(handler.call), running.claimed))
            return await answer
        except (BrokenPipeError, ConnectionResetError):
            raise ChildDied(f"process {child.process.pid}") from None
        finally:
            running.stop = None
            loop.remove_reader(child.connection.fileno())
            self._busy.discard(child)
            if answer.done() and not answer.cancelled() and not isinstance(answer.exception(), ChildDied) and running.why is None:
                self._idle.append(child)
            else:
                await loop.run_in_executor(None, child.close)

    async def _start(self) -> Child:
        """A new process. A caller that is cancelled meanwhile leaves it to the next one."""
        starting = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, Child))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda done: None if done.cancelled() or done.exception() else self._spare(done.result()))
            raise

    def _spare(self, child: Child) -> None:
        if self._closed:
            child.close()
        else:
            self._idle.append(child)

    @staticmethod
    def _read(child: Child, running: Running, answer: asyncio.Future[Any]) -> None:
        try:
            while child.connection.poll():
                kind, *values = child.connection.recv()
                if kind in ("progress", "line", "metric"):
                    getattr(running.channel, kind)(*values)
                elif not answer.done():
                    if kind == "value":
                        answer.set_result(msgspec.json.decode(values[0]))
                    elif kind == "verdict":
                        answer.set_result(values[0])
                    else:
                        answer.set_exception(values[0])
        except (EOFError, ConnectionResetError, OSError):
            asyncio.get_running_loop().remove_reader(child.connection.fileno())
            if not answer.done():
                answer.set_exception(ChildDied(f"process {child.process.pid}"))

    async def close(self) -> None:
        self._closed = True
        for child in [*self._idle, *self._busy]:
            await asyncio.get_running_loop().run_in_executor(None, child.close)
        self._idle.clear()


def _reference(call: Callable[..., Any]) -> Reference:
    return call.__module__, call.__qualname__


# --- In the child ---


class PipeChannel:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def progress(self, fence: UUID, fraction: float | None, message: str | None) -> None:
        self._connection.send(("progress", fence, fraction, message))

    def line(self, line: NewLine) -> None:
        self._connection.send(("line", line))

    def metric(self, job: Claimed, name: str, value: float) -> None:
        self._connection.send(("metric", job, name, value))

    async def beat(self, beat: Beat) -> bool:
        self._connection.send(("progress", beat.fence, None, None))
        return True


def serve(connection: Connection) -> None:
    """Run one job after the other until the worker closes the pipe."""
    die_with_parent()
    outlive_signals()
    logging.getLogger().addHandler(JobLogHandler())
    logging.getLogger().setLevel(logging.INFO)
    channel = PipeChannel(connection)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            reference, claimed = connection.recv()
            connection.send(_answer(reference, claimed, channel))


def _answer(reference: Reference, claimed: Claimed, channel: PipeChannel) -> tuple[str, Any]:
    running = Running(claimed, channel)
    token = current.set(running)
    try:
        handler = _resolve(reference, claimed.job_type)
        arguments = handler.decode(claimed.payload)
        if handler.takes_context:
            arguments = (context_of(running), *arguments)
        value = handler.invoke(*arguments)
        if isinstance(value, Verdict):
            return "verdict", value
        # Written here, because a value that JSON can carry need not be one that a pipe can.
        return "value", rules.json_bytes("result", value, most=MAX_RESULT_BYTES)
    except Verdict as verdict:
        return "verdict", verdict
    except Exception as error:  # noqa: BLE001 - whatever a handler raises goes back to the worker
        frames = frames_of(error)
        return "raised", RemoteError(type(error).__name__, text_of(error), frames)
    finally:
        current.reset(token)


class RemoteError(Exception):
    """What a handler raised in its process, with its traceback there."""

    def __init__(self, name: str, message: str, frames: str) -> None:
        super().__init__(name, message, frames)
        self.name, self.message, self.frames = name, message, frames


def _resolve(reference: Reference, job_type: str) -> Handler:
    """The handler by the place of its function in the code; names come from the worker's code, never from stored data."""
    module_name, path = reference
    module = sys.modules["__main__"] if module_name in ("__main__", "__mp_main__") else importlib.import_module(module_name)
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    handler = getattr(found, "handler", None)
    if isinstance(handler, Handler):
        return handler
    return Handler(found, job_type=job_type, queue="default", kind="process")
