"""The results of a map: an async iterator, or awaited for a list."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from taskforge.pool.handle import Handle

if TYPE_CHECKING:
    from taskforge.pool.pool import WorkerPool

T = TypeVar("T")


class Results(Generic[T]):
    """`async for value in results`, or `values = await results`. Nothing is submitted before one of
    the two begins.

    Items are read only as fast as results are taken: at most the pool's size and buffer are under
    way, so an endless source needs no more memory than a short one. The first failure cancels what
    is left of this map and is raised, unless exceptions are to be returned. Leaving the loop early
    cancels what is left too.
    """

    def __init__(
        self,
        pool: "WorkerPool",
        function: Callable[..., Any],
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool,
        return_exceptions: bool,
        priority: int,
        timeout: float | None,
        key: Callable[[Any], str] | None,
    ) -> None:
        self._pool = pool
        self._function = function
        self._items = items
        self._ordered = ordered
        self._return_exceptions = return_exceptions
        self._priority = priority
        self._timeout = timeout
        self._key = key
        self._most = pool.size + pool.buffer
        # in the order they are to be given out: submitted, or completed
        self._ready: deque[Handle[T]] = deque()
        self._sink = self._settled
        self._out = 0  # submitted, not settled
        self._given = 0  # submitted, not given out
        self._began = self._fed = False
        self._error: BaseException | None = None
        self._wakes: list[asyncio.Future[None]] = []

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._list().__await__()

    async def _list(self) -> list[T]:
        return [value async for value in self]

    async def __aiter__(self) -> AsyncIterator[T]:
        if self._began:
            raise RuntimeError("results are taken once; ask for a new map")
        self._began = True
        feeder = asyncio.get_running_loop().create_task(self._feed())
        try:
            while True:
                while not self._ready or not self._ready[0].done():
                    if self._fed and not self._ready and not self._out:
                        if self._error is not None:
                            raise self._error
                        return
                    await self._news()
                handle = self._ready.popleft()
                self._given -= 1
                if self._wakes:
                    self._wake()
                if not self._return_exceptions:
                    yield handle.result()
                elif handle.cancelled():
                    yield asyncio.CancelledError()  # type: ignore[misc]
                else:
                    yield handle.exception() or handle.result()  # type: ignore[misc]
        finally:
            feeder.cancel()
            self._pool.crew.cancel(self._sink)
            for handle in self._ready:
                if handle.done() and not handle.cancelled():
                    handle.exception()  # seen, though not raised

    async def _feed(self) -> None:
        try:
            if isinstance(self._items, AsyncIterable):
                async for item in self._items:
                    while self._given >= self._most:
                        await self._news()
                    await self._hand_in(item)
            else:
                for item in self._items:
                    while self._given >= self._most:
                        await self._news()
                    await self._hand_in(item)
        except Exception as error:  # noqa: BLE001 - the source's failure, or the pool's, is raised to whoever takes the results
            self._error = error
        finally:
            self._fed = True
            self._wake()

    async def _hand_in(self, item: Any) -> None:
        key = None if self._key is None else self._key(item)
        handle: Handle[T] = self._pool.handle(
            self._function, (item,), self._priority, self._timeout, key, self._sink
        )
        self._given += 1
        self._out += 1
        if self._ordered:
            self._ready.append(handle)
        try:
            if not handle._crew.offer(handle):
                await handle._crew.enter(handle)
        except BaseException:
            self._out -= 1
            self._given -= 1
            if self._ordered:
                self._ready.remove(handle)
            raise

    def _settled(self, handle: Handle[T]) -> None:
        self._out -= 1
        if not self._ordered:
            self._ready.append(handle)
        if self._wakes:
            self._wake()

    async def _news(self) -> None:
        news = asyncio.get_running_loop().create_future()
        self._wakes.append(news)
        await news

    def _wake(self) -> None:
        for news in self._wakes:
            if not news.done():
                news.set_result(None)
        self._wakes.clear()
