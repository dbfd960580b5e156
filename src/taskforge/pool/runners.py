"""Ways to run a job's function: awaited in the event loop, in a thread, or in a process that can be
killed."""

import asyncio
import contextlib
import contextvars
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from types import CoroutineType
from typing import Any, Literal, Protocol, assert_never

from taskforge.domain.errors import RemoteError, text_of
from taskforge.pool.errors import WorkerDied

Kind = Literal["async", "thread", "process"]


class Runner(Protocol):
    """One for each worker: it runs one job at a time."""

    async def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any: ...

    async def idle(self) -> None:
        """Until nothing of the last job runs any more, though it may have been cancelled or timed
        out."""

    def close(self) -> None: ...


def runner(kind: Kind, threads: ThreadPoolExecutor | None) -> Runner | None:
    """None for async jobs: the pool awaits them itself, which spares a call for each."""
    match kind:
        case "async":
            return None
        case "thread":
            assert threads is not None
            return ThreadRunner(threads)
        case "process":
            assert threads is not None
            return ProcessRunner(threads)
        case _:
            assert_never(kind)


def checked(function: Callable[..., Any], answer: Any) -> Awaitable[Any]:
    if isinstance(answer, Awaitable):
        return answer
    raise TypeError(
        f"{function!r} is not async; a pool of plain functions has workers='thread' or "
        f"workers='process'"
    )


class ThreadRunner:
    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._under_way: Future[Any] | None = None

    async def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        context = contextvars.copy_context()
        self._under_way = self._threads.submit(context.run, _plain, function, arguments)
        return await asyncio.wrap_future(self._under_way)

    async def idle(self) -> None:
        # A thread cannot be stopped from outside. Its worker takes no other job before it is done,
        # so there are never more threads than the pool's size.
        await _over(self._under_way)

    def close(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()


async def _over(under_way: Future[Any] | None) -> None:
    """Until it is over; how it ended nobody asks any more."""
    if under_way is not None and not under_way.done():
        ended = asyncio.get_running_loop().create_future()
        under_way.add_done_callback(lambda _: _tell(ended))
        await ended


def _tell(ended: "asyncio.Future[None]") -> None:
    def told() -> None:
        if not ended.done():
            ended.set_result(None)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        ended.get_loop().call_soon_threadsafe(told)


def _plain(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        answer = function(*arguments)
    except StopIteration as error:  # no future can carry it: whoever waits would wait for ever
        raise RuntimeError(f"the job raised {error!r}") from error
    if type(answer) is CoroutineType:
        answer.close()
        raise TypeError(f"{function!r} is async; a pool for it has workers='async'")
    return answer


class ProcessRunner:
    """A process of its own, started with its first job and again after it was killed. A thread
    waits for its answers."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._child: Child | None = None
        self._under_way: Future[Any] | None = None
        self._unwanted = False

    async def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self._unwanted = False
        self._under_way = self._threads.submit(self._call, function, arguments)
        try:
            return await asyncio.wrap_future(self._under_way)
        except asyncio.CancelledError:
            self._kill()
            raise

    def _kill(self) -> None:
        self._unwanted = True
        if self._child is not None:
            self._child.process.kill()

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._child is None:
            self._child = Child()
        if self._unwanted:
            self._child.process.kill()  # cancelled while the process was being started
        try:
            worked, answer = self._child.ask(function, arguments)
        except (EOFError, OSError):
            number = self._child.end()
            self._child = None
            raise WorkerDied(f"its process ended under it with exit code {number}") from None
        if not worked:
            raise answer
        return answer

    async def idle(self) -> None:
        await _over(self._under_way)

    def close(self) -> None:
        self._kill()
        if self._under_way is not None:
            self._under_way.cancel()
        if self._child is not None:
            self._child.end()


class Child:
    def __init__(self) -> None:
        # Forking a process that has threads and an event loop copies locks that nobody will ever
        # release.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        self._connection.send((function, arguments))
        answer: tuple[bool, Any] = self._connection.recv()
        return answer

    def end(self) -> int | None:
        self.process.kill()
        self.process.join(5)
        self._connection.close()
        return self.process.exitcode


def _serve(connection: Connection) -> None:
    # Ctrl-C reaches the whole group; the parent decides what it means
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return  # the parent is gone
        except Exception as error:  # noqa: BLE001 - what was sent cannot be read here: that is the job's failure, not ours
            connection.send((False, _carried(error)))
            continue
        try:
            answer = (True, _plain(function, arguments))
        except Exception as error:  # noqa: BLE001 - what was sent cannot be read here: that is the job's failure, not ours
            answer = (False, _carried(error))
        try:
            connection.send(answer)
        except Exception as error:  # noqa: BLE001 - what was sent cannot be read here: that is the job's failure, not ours
            connection.send(
                (
                    False,
                    TypeError(
                        f"the answer cannot be sent back: {error!r}; it was {answer[1]!r}"[:2_000]
                    ),
                )
            )


def _carried(error: Exception) -> Exception:
    """The error itself; or, where it would not come out of the pipe as what went in, what it
    said."""
    frames = traceback.format_exc()
    try:
        error.add_note("in the worker process:\n" + frames)
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301 - made a moment ago, by us
            return error
    except Exception:  # noqa: BLE001, S110 - one whose class takes other arguments than it passes on, or holds what cannot be sent
        pass
    told = RemoteError(type(error).__name__, text_of(error), frames)
    told.add_note("in the worker process:\n" + frames)
    return told
