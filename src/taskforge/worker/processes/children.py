"""Handlers in processes of their own, which can be killed. One process runs one job at a time and
is used again."""

import asyncio
import contextlib
import importlib
import logging
import multiprocessing
import os
import pickle
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid, RemoteError, text_of
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.domain.log import NewLine
from taskforge.domain.outcome import MAX_RESULT_BYTES
from taskforge.telemetry import tracing
from taskforge.telemetry.logs import FIELDS
from taskforge.telemetry.trace_export import export_traces, exported_as, send_soon
from taskforge.worker.context import Channel, Running, context_of, current
from taskforge.worker.frames import frames_of
from taskforge.worker.log_fields import fields_of
from taskforge.worker.processes.process_id import ProcessId, kill_group, process_of
from taskforge.worker.processes.process_watch import die_with_parent, lead_a_group, outlive_signals
from taskforge.worker.registry import Handler
from taskforge.worker.reporter import JobLogHandler
from taskforge.worker.verdicts import Verdict, packed, unpacked

MOST_CHILDREN = 1_000
Reference = tuple[str, str]
ChildRequest = tuple[Reference, Claimed, str | None]
"""Of which function, which job, in which trace."""


class ChildDied(Exception):
    """The process ended under the job: killed, out of memory, a crash in native code."""


class ArgumentsUnfit(Exception):
    """They fit the handler here, but not the one that its process has imported since: the code was
    changed in between."""


class HandlerProcess:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=serve, args=(theirs, exported_as()), daemon=True
        )
        self.process.start()
        assert self.process.pid is not None
        self.identity = process_of(self.process.pid)
        theirs.close()

    def kill(self) -> None:
        """With all that it started, unless that has left its group."""
        kill_group(self.identity)
        self.process.kill()
        # Something that it has started may hold its end of the pipe open: whoever listens must hear
        # the end all the same.
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(self.connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.kill()
        self.process.join(2)
        self.connection.close()

    def converse(self, request: ChildRequest, channel: Channel) -> tuple[Any, ...]:
        """Hand it a job and pass on what it says until it answers. Blocks, in a thread: a child
        that is still importing, or was stopped in the middle of a word, must not hold up the event
        loop."""
        # Not `send`: what it makes lives on in the frames of its error, and Python 3.13 complains
        # when that goes.
        pickled = pickle.dumps(request)
        try:
            self.connection.send_bytes(pickled)
        except OSError:
            raise NotTaken from None
        while True:
            word, *values = self.connection.recv()
            if word == "record":
                _log_here(request, *values)
            elif word in ("progress", "line", "metric"):
                getattr(channel, word)(*values)
            else:
                return word, *values


def _log_here(request: ChildRequest, name: str, level: int, text: str) -> None:
    """What a handler logged in its process goes where this one's logging goes, as if it had run
    here. No job is current in this thread, so it is not written to the execution's log again."""
    fields = fields_of(request[1]) | tracing.ids_in(request[2])
    with contextlib.suppress(Exception):
        logging.getLogger(name).log(level, "%s", text, extra={FIELDS: fields})


class NotTaken(Exception):
    """The process had ended before it could take the job."""


class Children:
    """The idle and the busy ones. They are started when first needed: most workers need none."""

    def __init__(self) -> None:
        self._idle: list[HandlerProcess] = []
        self._busy: set[HandlerProcess] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self.known: dict[int, ProcessId] = {}  # those that were told of and have not ended
        self.tell_started: Callable[[ProcessId], Awaitable[None]] | None = None
        self.tell_ended: Callable[[ProcessId], None] | None = None

    async def run(self, running: Running, handler: Handler) -> Any:
        while True:
            was_idle = bool(self._idle)
            child = self._idle.pop() if was_idle else await self._start()
            try:
                return await self._run_in(child, running, handler)
            except NotTaken:
                # One that died while it was idle is not this job's doing.
                if not was_idle or running.why is not None:
                    raise ChildDied(f"process {child.process.pid}") from None

    async def _run_in(self, child: HandlerProcess, running: Running, handler: Handler) -> Any:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_CHILDREN, thread_name_prefix="taskforge-child")
        self._busy.add(child)
        running.stop = child.kill
        answered = False
        try:
            await self._tell(child)
            if running.why is not None:
                child.kill()
            request = (_reference(handler.call), running.claimed, tracing.carried())
            word, *values = await loop.run_in_executor(
                self._threads, child.converse, request, running.channel
            )
            answered = True
        except (EOFError, OSError):
            raise ChildDied(f"process {child.process.pid}") from None
        finally:
            running.stop = None
            self._busy.discard(child)
            if answered and running.why is None:
                self._idle.append(child)
            else:
                await loop.run_in_executor(None, child.close)
                self._forget(child)
        if word == "value":
            return msgspec.json.decode(values[0])
        if word == "verdict":
            return unpacked(*values)
        if word == "unfit":
            raise ArgumentsUnfit(*values)
        raise RemoteError(*values)

    async def _tell(self, child: HandlerProcess) -> None:
        """Whoever outlives this process must know of it before it has a job."""
        if child.identity.pid not in self.known:
            self.known[child.identity.pid] = child.identity
            if self.tell_started is not None:
                await self.tell_started(child.identity)

    def _forget(self, child: HandlerProcess) -> None:
        if self.known.pop(child.identity.pid, None) is not None and self.tell_ended is not None:
            self.tell_ended(child.identity)

    async def _start(self) -> HandlerProcess:
        """A new process. A caller that is cancelled meanwhile leaves it to the next one."""
        starting = asyncio.ensure_future(
            asyncio.get_running_loop().run_in_executor(None, HandlerProcess)
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(
                lambda done: (
                    None if done.cancelled() or done.exception() else self._spare(done.result())
                )
            )
            raise

    def _spare(self, child: HandlerProcess) -> None:
        if self._closed:
            child.close()
        else:
            self._idle.append(child)

    async def close(self) -> None:
        self._closed = True
        for child in [*self._idle, *self._busy]:
            await asyncio.get_running_loop().run_in_executor(None, child.close)
        self._idle.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False)


def _reference(call: Callable[..., Any]) -> Reference:
    return call.__module__, call.__qualname__


# --- In the child ---


class PipeChannel:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # a handler's threads may speak at the same time, and a pipe mixes what they say
        self._guard = threading.Lock()

    def send(self, *word: Any) -> None:
        with self._guard:
            self._connection.send(word)

    def progress(self, fence: UUID, fraction: float | None, message: str | None) -> None:
        self.send("progress", fence, fraction, message)

    def line(self, line: NewLine) -> None:
        self.send("line", line)

    def metric(self, job: Claimed, name: str, value: float) -> None:
        self.send("metric", job, name, value)

    async def beat(self, beat: Beat) -> bool:
        self.send("progress", beat.fence, None, None)
        return True


class ChildLogHandler(JobLogHandler):
    def __init__(self, channel: PipeChannel) -> None:
        super().__init__()
        self._channel = channel

    def _pass_on(self, running: Running, record: logging.LogRecord, text: str) -> None:
        super()._pass_on(running, record, text)
        # an app that has set up logging here as well has said it already
        if logging.getLogger().handlers == [self]:
            self._channel.send("record", record.name, record.levelno, text)


def serve(connection: Connection, exported_as: str | None = None) -> None:
    """Run one job after the other until the worker closes the pipe. `exported_as`: how the worker
    sends its spans, if it does so by itself."""
    lead_a_group()
    die_with_parent()
    outlive_signals()
    os.set_inheritable(connection.fileno(), False)
    channel = PipeChannel(connection)
    logging.getLogger().addHandler(ChildLogHandler(channel))
    logging.getLogger().setLevel(logging.INFO)
    if exported_as is not None:
        export_traces(exported_as)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            reference, claimed, trace = connection.recv()
            with tracing.within(trace):
                answer = _answer(reference, claimed, channel)
            channel.send(*answer)
            if trace is not None:
                send_soon()


def _answer(reference: Reference, claimed: Claimed, channel: PipeChannel) -> tuple[Any, ...]:
    """What came of the job, in words that any pipe can carry."""
    running = Running(claimed, channel)
    token = current.set(running)
    try:
        handler = running.handler = _resolve(reference, claimed.job_type)
        try:
            arguments = handler.decode(claimed.payload)
        except Invalid as error:
            return "unfit", str(error)
        if handler.takes_context:
            arguments = (context_of(running), *arguments)
        try:
            value = handler.invoke(*arguments)
        except Verdict as verdict:
            value = verdict
        if isinstance(value, Verdict):
            return "verdict", *packed(value)
        return "value", rules.json_bytes("result", value, most=MAX_RESULT_BYTES)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises goes back to the worker
        return "raised", type(error).__name__, text_of(error), frames_of(error)
    finally:
        current.reset(token)
        running.context = None


def _resolve(reference: Reference, job_type: str) -> Handler:
    """The handler by the place of its function in the code; names come from the worker's code,
    never from stored data."""
    module_name, path = reference
    module = (
        sys.modules["__main__"]
        if module_name in ("__main__", "__mp_main__")
        else importlib.import_module(module_name)
    )
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    handler = getattr(found, "handler", None)
    if isinstance(handler, Handler):
        return handler
    return Handler(found, job_type=job_type, queue="default", kind="process")
