"""The calls that wait for the writer: what each wants done, which are done together, and how their
callers hear of it."""

import asyncio
import contextlib
import queue
from collections.abc import Callable, Sequence
from typing import Any

from taskforge.domain.alike import LARGE_CALL
from taskforge.storage.sqlite.transaction import Transaction

JOINED_AT_MOST = 2_000


class Call:
    """One caller's wish. Neighbouring calls with the same `work` and a list of `items` become one
    piece of work."""

    __slots__ = ("error", "future", "items", "lazy", "otherwise", "result", "work")

    def __init__(
        self,
        work: Callable[..., Any],
        items: Sequence[Any] | None,
        future: "asyncio.Future[Any]",
        *,
        lazy: bool,
    ) -> None:
        self.work = work
        self.items = items
        self.future = future
        self.lazy = lazy
        # an offer's answer when the transaction that took it up came to nothing
        self.otherwise: Any = None
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():
            return  # its caller was cancelled
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def gather_calls(waiting: "queue.SimpleQueue[Call | None]", first: Call) -> tuple[list[Call], bool]:
    """Everything that waits, and whether it is the last there will be."""
    calls: list[Call | None] = [first]
    try:
        while calls[-1] is not None:
            calls.append(waiting.get_nowait())
    except queue.Empty:
        pass
    # A caller that gave up before its turn wants no work done.
    return [call for call in calls if call is not None and not call.future.cancelled()], calls[
        -1
    ] is None


def join_calls(calls: list[Call], start: int) -> list[Call]:
    """The call at `start`, with the neighbours behind it that ask for the same work on other
    items."""
    first = calls[start]
    joined = [first]
    if first.items is not None and len(first.items) < LARGE_CALL:
        size = len(first.items)
        for call in calls[start + 1 :]:
            if (
                call.work is not first.work
                or call.items is None
                or len(call.items) >= LARGE_CALL
                or size > JOINED_AT_MOST
            ):
                break
            joined.append(call)
            size += len(call.items)
    return joined


def perform_calls(transaction: Transaction, calls: list[Call]) -> None:
    for call in calls:
        call.error = None  # of an attempt before this one
    first = calls[0]
    if first.items is None:
        first.result = first.work(transaction)
    elif len(calls) == 1:
        first.result = first.work(transaction, first.items)
    else:
        results = first.work(
            transaction, [item for call in calls if call.items is not None for item in call.items]
        )
        start = 0
        for call in calls:
            assert call.items is not None
            call.result = results[start : start + len(call.items)]
            start += len(call.items)


def settle_calls(calls: list[Call]) -> None:
    """Let every caller know, with one signal to each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        loops.setdefault(call.future.get_loop(), []).append(call)
    for loop, settled in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle_in_loop, settled)


def _settle_in_loop(calls: list[Call]) -> None:
    for call in calls:
        call.settle()
