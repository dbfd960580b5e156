"""An event loop whose clock jumps to the next thing that is to happen: an hour of sleeping takes no
time, and always goes alike.

For pictures and tests of code that waits. Whatever reaches outside (threads, sockets) still takes
its real time, in which this clock stands still.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Leaper(self))

    def time(self) -> float:
        return self.now


class _Leaper(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        events = super().select(0)
        if not events:
            self._loop.now += max(0.0, timeout)
        return events


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
