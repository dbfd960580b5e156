"""A handle on an enqueued job: how it stands, what came of it."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from taskforge.domain.errors import Invalid, NotFound, StoreUnavailable, TaskForgeError
from taskforge.domain.execution import Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Job, JobStatus
from taskforge.domain.log import Line

R = TypeVar("R")
FIRST_LOOK_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 0.25


class JobFailed(TaskForgeError):
    """The job ended without a result, or was moved to its dead letter queue; `job` tells all that is known."""

    def __init__(self, job: Job) -> None:
        error = f"{job.error.type}: {job.error.message}" if job.error is not None else job.reason or job.status
        what = f"is in dead letter queue {job.queue!r}" if job.is_dead_letter else job.status
        super().__init__(f"job {job.id} ({job.job_type}) {what}: {error}")
        self.job = job


def has_ended(job: Job) -> bool:
    """Whether whoever waits for its result need wait no longer. A dead letter has failed; it may be redriven another day."""
    return job.status.is_final or job.is_dead_letter


class Waiter:
    """Waits for many jobs with one read: all who wait share the looks of a single task, slower the longer nothing ends."""

    def __init__(self, look: Callable[[Sequence[UUID]], Awaitable[list[Job]]]) -> None:
        self._look = look
        self._waiting: dict[UUID, asyncio.Future[Job]] = {}
        self._interest: Counter[UUID] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._pace = FIRST_LOOK_SECONDS

    async def wait(self, job: UUID) -> Job:
        future = self._waiting.get(job)
        if future is None:
            future = self._waiting[job] = asyncio.get_running_loop().create_future()
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

    async def _run(self) -> None:
        while self._waiting:
            asked = set(self._waiting)
            try:
                found = {job.id: job for job in await self._look(list(asked))}
            except Exception as error:  # noqa: BLE001 - whoever waits hears of it
                for future in self._waiting.values():
                    if not future.done():
                        future.set_exception(error)
                self._waiting.clear()
                return
            for identifier in asked & self._waiting.keys():
                job = found.get(identifier)
                if job is None or has_ended(job):
                    future = self._waiting.pop(identifier)
                    self._pace = FIRST_LOOK_SECONDS
                    if job is None:
                        future.set_exception(NotFound("job", str(identifier)))
                    else:
                        future.set_result(job)
            await asyncio.sleep(self._pace)
            self._pace = min(LONGEST_WAIT_SECONDS, self._pace * 1.3)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(StoreUnavailable("the app was closed while the job was waited for"))


def id_of(job: UUID | str) -> UUID:
    if isinstance(job, UUID):
        return job
    try:
        return UUID(job)
    except (ValueError, TypeError, AttributeError):
        raise Invalid("job", f"is {job!r}, not the id of a job", "use a handle's id, or its text") from None


class JobHandle(Generic[R]):
    """An enqueued job."""

    __slots__ = ("_forge", "_result_type", "existed", "id")

    # Not by keyword alone: a thousand of them are one call's answer, and keywords take as long as all the rest.
    def __init__(self, forge: Any, identifier: UUID, existed: bool = False, result_type: Any = Any) -> None:
        self._forge = forge
        self.id = identifier
        self.existed = existed  # whether a job with the same unique or idempotency key was there already
        self._result_type = result_type

    def __repr__(self) -> str:
        return f"JobHandle({self.id})"

    async def job(self) -> Job:
        """The job as it stands now."""
        return await self._forge.get(self.id)  # type: ignore[no-any-return]

    async def status(self) -> JobStatus:
        return (await self.job()).status

    async def explain(self) -> Explanation:
        """Why the job is not running."""
        return await self._forge.explain(self.id)  # type: ignore[no-any-return]

    async def executions(self) -> list[Execution]:
        """Every try of the job, the first one first."""
        return await self._forge.executions(self.id)  # type: ignore[no-any-return]

    async def logs(self, level: str = "trace", *, after: int = 0, limit: int = 1_000) -> list[Line]:
        """What its handlers logged, from this level on, and how its executions ended, oldest first."""
        return await self._forge.logs(self.id, level=level, after=after, limit=limit)  # type: ignore[no-any-return]

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the job to end and return what its handler returned. Raises `JobFailed`, also once it is in its dead letter
        queue, or TimeoutError, and `Invalid` for a result that is not of the type that the handler declares."""
        job = await self._ended(timeout)
        if job.status is not JobStatus.SUCCEEDED:
            raise JobFailed(job)
        if job.result is None:
            return None  # type: ignore[return-value]
        try:
            return msgspec.json.decode(job.result, type=self._result_type)  # type: ignore[no-any-return]
        except msgspec.ValidationError as error:
            wanted = self._result_type.__name__ if isinstance(self._result_type, type) else self._result_type
            problem = f"of job {self.id} ({job.job_type}) is not the {wanted} that its handler declares ({error})"
            raise Invalid("result", problem, "correct the handler's return annotation; job() has the result as it is") from None

    async def _ended(self, timeout: float | None) -> Job:
        started = time.monotonic()
        if timeout is not None and timeout <= 0:  # one look, for which a timeout would leave no time
            job = await self.job()
            if has_ended(job):
                return job
            raise TimeoutError(f"job {self.id} has not ended")
        try:
            async with asyncio.timeout(timeout):
                return await self._forge.wait(self.id)  # type: ignore[no-any-return]
        except TimeoutError:
            raise TimeoutError(f"job {self.id} has not ended after {time.monotonic() - started:.1f} s") from None

    async def redrive(self) -> None:
        """Send the job back from its dead letter queue to where it came from, with a fresh budget."""
        await self._forge.redrive(self.id)

    async def cancel(self, reason: str = "cancelled by request") -> None:
        await self._forge.cancel(self.id, reason)
