"""An application's engines. An engine belongs to one event loop: the application's own, and the
hidden one behind `sync`."""

import asyncio
import weakref
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.job import StoredJob
from taskforge.ports.engine import AnyEngine
from taskforge.sdk.declared import DeclaredQueues
from taskforge.sdk.waiter import Waiter


class Connections:
    def __init__(self, make: Callable[[], AnyEngine], declared: DeclaredQueues) -> None:
        """`make` gives an engine that is not open yet; each that was opened gets the queues that
        are declared."""
        self._make = make
        self._declared = declared
        # With the number of declarations that were brought about in each.
        self._engines: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[AnyEngine, int]
        ] = weakref.WeakKeyDictionary()
        self._opening: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )
        self._waiters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waiter] = (
            weakref.WeakKeyDictionary()
        )

    async def engine(self) -> AnyEngine:
        """The engine of this event loop, opened when first asked for; what was declared since then
        is brought about."""
        loop = asyncio.get_running_loop()
        found = self._engines.get(loop)
        if found is not None and found[1] == self._declared.count:
            return found[0]
        async with self._opening.setdefault(loop, asyncio.Lock()):
            found = self._engines.get(loop)
            if found is not None:
                engine, brought_about = found
                self._engines[loop] = (
                    engine,
                    await self._declared.bring_about(engine, engine.home, brought_about),
                )
                return engine
            engine = self._make()
            try:
                await engine.open()
                self._engines[loop] = engine, await self._declared.bring_about(engine, engine.home)
            except BaseException:
                await engine.close()
                raise
            return engine

    async def wait(self, job: UUID) -> StoredJob:
        """The job once it has ended; all who wait in this event loop share one look."""
        engine = await self.engine()
        loop = asyncio.get_running_loop()
        waiter = self._waiters.get(loop)
        if waiter is None:
            waiter = self._waiters[loop] = Waiter(lambda jobs: engine.get([engine.home], jobs))
        return await waiter.wait(job)

    async def close(self) -> None:
        """What this event loop opened."""
        loop = asyncio.get_running_loop()
        waiter = self._waiters.pop(loop, None)
        if waiter is not None:
            await waiter.close()
        engine, _ = self._engines.pop(loop, (None, 0))
        if engine is not None:
            await engine.close()

    async def close_all(self, blocked: asyncio.AbstractEventLoop | None = None) -> None:
        """What any event loop opened. An engine whose loop is over, or waits for this call, is
        closed here."""
        here = asyncio.get_running_loop()
        for loop, (engine, _) in list(self._engines.items()):
            if loop is here:
                await self.close()
            elif loop.is_running() and loop is not blocked:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), loop))
            else:
                self._engines.pop(loop, None)
                with suppress(StoreUnavailable, RuntimeError):
                    await engine.close()
