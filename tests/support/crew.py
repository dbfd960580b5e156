"""An app with workers in this process: real leases, real keepers, the real clock."""

import asyncio
from collections.abc import Callable
from typing import Any, Self
from uuid import UUID

from taskforge import JobHandle, TaskForge
from taskforge.domain.decoded import DecodedJob
from taskforge.domain.execution import Execution
from taskforge.domain.log import Level, Line
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.node import make_upkeep
from taskforge.sdk.jobs import JobFunction
from taskforge.worker.worker import LiveWorker

PATIENCE = 20.0  # other work shares the machine; nothing waits this long when all is well


class Crew:
    def __init__(self, forge: TaskForge, keep: Callable[[], None] | None = None) -> None:
        """`keep` starts the upkeep where that is not for this process to do."""
        self.forge = forge
        self._keep = keep
        self._workers: list[tuple[LiveWorker, asyncio.Task[None]]] = []
        self._upkeep: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker, _ in self._workers:
            worker.stop()
            worker.stop()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(task for _, task in self._workers))
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        await self.forge.close()

    async def start(self, *, upkeep: bool = True, **options: Any) -> LiveWorker:
        """A worker that claims by the time this returns."""
        worker = await self.forge.worker(**options)
        task = asyncio.create_task(worker.run())
        self._workers.append((worker, task))
        if upkeep:
            await self.keep()
        ready = asyncio.create_task(worker.ready.wait())
        await asyncio.wait([ready, task], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        assert ready.done(), "the worker did not come up"
        return worker

    async def keep(self) -> None:
        if self._keep is not None:
            await asyncio.to_thread(self._keep)
        elif self._upkeep is None:
            upkeep = make_upkeep(await self.forge.engine(), self.forge.settings)
            if upkeep is not None:
                self._upkeep = asyncio.create_task(upkeep.run())

    async def stop(self, worker: LiveWorker) -> None:
        worker.stop()
        await self.ended(worker)

    async def ended(self, worker: LiveWorker) -> None:
        [task] = [task for one, task in self._workers if one is worker]
        async with asyncio.timeout(PATIENCE):
            await task

    async def end(self, handle: JobHandle[Any]) -> DecodedJob:
        """The job when it has ended."""
        async with asyncio.timeout(PATIENCE):
            return await self.forge.wait(handle.id)

    async def executions(self, job: UUID) -> list[Execution]:
        return await (await self.forge.engine()).executions([FIRST_PROJECT], job)

    async def logs(self, job: UUID) -> list[Line]:
        """What its handlers logged, without the lines that the ends of executions leave."""
        engine = await self.forge.engine()
        lines = await engine.logs(
            [FIRST_PROJECT], job, least=Level.TRACE, after=0, limit=1_000, offset=0
        )
        return [line for line in lines if line.ended is None]


def function(crew: Crew, name: str) -> JobFunction[..., Any, ..., Any]:
    """A handler of the crew's app, to be enqueued."""
    handler = crew.forge.registry.get(name)
    assert handler is not None
    return JobFunction(crew.forge, handler)


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
