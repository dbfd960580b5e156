"""Waits for jobs to end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from taskforge.domain.errors import NotFound, StoreUnavailable
from taskforge.domain.job import JobFacts, StoredJob

FIRST_LOOK_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 0.25


def has_ended(job: JobFacts) -> bool:
    """Whether whoever waits for its result need wait no longer. A dead letter has failed; it may be
    redriven another day."""
    return job.status.is_final or job.is_dead_letter


class Waiter:
    """Waits for many jobs with one read: all who wait share the looks of a single task, slower the
    longer nothing ends. Newcomers are looked at at once, because most results are asked for when
    they are there; one who comes alone looks without the task, for no more than a look costs."""

    def __init__(self, look: Callable[[Sequence[UUID]], Awaitable[list[StoredJob]]]) -> None:
        self._look = look
        self._waiting: dict[UUID, asyncio.Future[StoredJob]] = {}
        self._newcomers: set[UUID] = set()
        self._came = asyncio.Event()
        self._interest: Counter[UUID] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._pace = FIRST_LOOK_SECONDS
        self._all_at = 0.0  # when all are looked at again
        self._is_looking = False  # somebody who came alone

    async def wait(self, job: UUID) -> StoredJob:
        is_new = job not in self._waiting
        if is_new and not self._is_looking:
            found = await self._look_alone(job)
            if has_ended(found):
                return found
            is_new = False
        future = self._waiting.get(job)
        if future is None:
            future = self._waiting[job] = asyncio.get_running_loop().create_future()
            if is_new:
                self._newcomers.add(job)
            self._came.set()
            self._pace = FIRST_LOOK_SECONDS
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._interest[job] += 1
        try:
            return await asyncio.shield(future)
        finally:
            self._interest[job] -= 1
            if not self._interest[job]:
                del self._interest[job]
                self._waiting.pop(job, None)  # whoever gave up needs no more looks

    async def _look_alone(self, job: UUID) -> StoredJob:
        self._is_looking = True
        try:
            found = await self._look([job])
        finally:
            self._is_looking = False
        if not found:
            raise NotFound("job", str(job))
        return found[0]

    async def _run(self) -> None:
        while self._waiting:
            asked = self._next_to_ask()
            try:
                found = {job.id: job for job in await self._look(list(asked))}
            except Exception as error:  # noqa: BLE001 - whoever waits hears of it
                for future in self._waiting.values():
                    if not future.done():
                        future.set_exception(error)
                self._waiting.clear()
                return
            self._answer(asked, found)
            await self._pause()

    def _next_to_ask(self) -> set[UUID]:
        """The newcomers, unless it is time for all: a stream of newcomers holds up nobody."""
        now = asyncio.get_running_loop().time()
        newcomers, self._newcomers = self._newcomers & self._waiting.keys(), set()
        self._came.clear()
        if newcomers and now < self._all_at:
            return newcomers
        self._all_at = now + self._pace
        return set(self._waiting)

    def _answer(self, asked: set[UUID], found: dict[UUID, StoredJob]) -> None:
        for identifier in asked & self._waiting.keys():
            job = found.get(identifier)
            if job is None or has_ended(job):
                future = self._waiting.pop(identifier)
                self._pace = FIRST_LOOK_SECONDS
                if future.done():
                    continue
                if job is None:
                    future.set_exception(NotFound("job", str(identifier)))
                else:
                    future.set_result(job)

    async def _pause(self) -> None:
        """Until somebody new waits, or it is time to look at all of them again."""
        try:
            async with asyncio.timeout(self._pace):
                await self._came.wait()
        except TimeoutError:
            self._pace = min(LONGEST_WAIT_SECONDS, self._pace * 1.3)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    StoreUnavailable("the app was closed while the job was waited for")
                )
