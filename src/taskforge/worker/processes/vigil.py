"""The lease keeper's watch over its worker."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from taskforge.worker.processes.keeper_words import RETRY_SECONDS, ChildNews, WorkerHealth
from taskforge.worker.processes.process_id import ProcessId, end_of
from taskforge.worker.processes.pulse import Pulse, PulseWatch

T = TypeVar("T")


class Vigil:
    """What the keeper knows of its worker: what it said, and whether it lives. A pipe that is
    closed is no death: the process may have become another program, and a process that it forked
    may hold the pipe open long after it died."""

    def __init__(self, worker: ProcessId) -> None:
        self.health = WorkerHealth()
        self.news = asyncio.Event()  # it feels otherwise than it did
        self.children: dict[int, ProcessId] = {}
        self._unstarted: set[UUID] = set()
        # somebody wants us to stop; while the worker lives, that is its own business
        self.hurry = asyncio.Event()
        self.pulse = PulseWatch(worker, self.news)
        self._watching = asyncio.create_task(self.pulse.run())
        self.listening = asyncio.create_task(self._listen())
        self.death = asyncio.create_task(end_of(worker))
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.hurry.set)

    @property
    def is_over(self) -> bool:
        return self.listening.done() or self.death.done()

    async def while_on(
        self, call: Coroutine[Any, Any, T], seconds: float | None = None
    ) -> T | None:
        """What the call returns; nothing, and its end, once there is nobody left to make it for, or
        this time is over."""
        calling = asyncio.create_task(call)
        watched = [calling, self.listening, self.death]
        await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            calling.cancel()
            # A connection that leads nowhere can take long to give up, and there is no time for
            # that.
            calling.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([calling], timeout=None if seconds is None else RETRY_SECONDS)
        if calling.cancelled() or not calling.done():
            return None
        return calling.result()

    @property
    def seen_health(self) -> WorkerHealth:
        """What it said of itself, unless it cannot say anything."""
        stuck = self.pulse.stuck_slots
        return (
            msgspec.structs.replace(self.health, healthy=False, stuck_slots=stuck)
            if stuck
            else self.health
        )

    async def end(self) -> None:
        tasks = [self.listening, self.death, self._watching]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def rest(self, seconds: float) -> None:
        """Until the next renewal is due, or there is something new to say with it."""
        hearing = asyncio.create_task(self.news.wait())
        try:
            await asyncio.wait(
                [self.listening, self.death, hearing],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            hearing.cancel()

    async def hand_back_unstarted(
        self, hand_back: Callable[[Sequence[UUID]], Awaitable[object]]
    ) -> None:
        """What the worker asked for; kept for the next try when the store is away."""
        if self._unstarted:
            fences = tuple(self._unstarted)
            await hand_back(fences)
            self._unstarted.difference_update(fences)

    async def _listen(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        try:
            while line := await reader.readline():
                self._hear(msgspec.json.decode(line, type=WorkerHealth | ChildNews | Pulse))
        finally:
            transport.close()
            # whoever has closed its pipe says nothing more, and may live on as another program
            self._watching.cancel()

    def _hear(self, said: WorkerHealth | ChildNews | Pulse) -> None:
        if isinstance(said, Pulse):
            self.pulse.hear(said)
        elif isinstance(said, WorkerHealth):
            if said != self.health:
                self.news.set()
            self.health = said
            self._unstarted.update(said.unstarted)
        elif said.ended:
            self.children.pop(said.child.pid, None)
        else:
            self.children[said.child.pid] = said.child
