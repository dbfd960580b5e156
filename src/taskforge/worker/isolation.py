"""Which jobs must run alone, and that they do: a job whose next crash would be its last has nothing
beside it that could be the one that kills."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from uuid import UUID

from taskforge.domain.errors import StoreFault
from taskforge.domain.execution import Beat
from taskforge.domain.job import Claimed
from taskforge.worker.context import Channel, Running

ISOLATION_SECONDS = 2.0


class Isolation:
    def __init__(self, channel: Channel, settled: Callable[[], Awaitable[None]]) -> None:
        """`settled` waits until the store has taken all outcomes."""
        self._channel = channel
        self._settled = settled
        self.suspects: deque[Claimed] = deque()
        self.alone: UUID | None = None  # the fence of what runs alone just now
        self.is_wary = False  # the last claim brought a suspect: there may be more
        self._since: float | None = None

    def keep_first(self) -> list[Claimed]:
        """One suspect stays; the others cannot run before it has ended."""
        others = list(self.suspects)[1:]
        while len(self.suspects) > 1:
            self.suspects.pop()
        return others

    def take_suspect(self, *, is_idle: bool) -> Claimed | None:
        """A suspect starts when nothing else runs, or its patience is over."""
        now = time.monotonic()
        self._since = self._since or now
        if not is_idle and now - self._since <= ISOLATION_SECONDS:
            return None
        self._since = None
        job = self.suspects.popleft()
        self.alone = job.fence
        return job

    async def begin(self, running: Running) -> None:
        """Before a job that runs alone: what has ended must be known before a crash can make it
        look unfinished, and that this one has begun, for what had not is not taken for the
        killer."""
        await self._settled()
        began = time.monotonic() - running.started
        with contextlib.suppress(StoreFault):
            if not await self._channel.beat(
                Beat(fence=running.claimed.fence, started_seconds_ago=began, alive=False)
            ):
                # The job is someone else's: it was told to stop, and must hear so before it begins.
                await asyncio.sleep(0)

    async def end(self) -> None:
        """The outcome of a job that ran alone is stored before the next job begins: a crash of that
        one would make it look unfinished, and be its last."""
        try:
            await self._settled()
        finally:
            self.alone = None
