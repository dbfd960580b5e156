"""A handle on an enqueued job: how it stands, what came of it."""

import asyncio
import time
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from taskforge.domain.changes import (
    Changed,
    DeleteJob,
    EditJob,
    ErasePayload,
    JobChange,
    RetryJob,
    check_change,
)
from taskforge.domain.decoded import DecodedExecution, DecodedJob, DecodedLine, decode_job
from taskforge.domain.errors import Invalid, NotFound, TaskForgeError
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import JobStatus, StoredJob, When
from taskforge.sdk.waiter import has_ended

R = TypeVar("R")
EXPLAIN_SECONDS = 2.0


class JobFailed(TaskForgeError):
    """The job ended without a result; `job` tells all that is known."""

    def __init__(self, job: DecodedJob) -> None:
        error = (
            f"{job.error.type}: {job.error.message}"
            if job.error is not None
            else job.reason or job.status
        )
        what = f"is in dead letter queue {job.queue!r}" if job.is_dead_letter else job.status
        super().__init__(f"job {job.id} ({job.job_type}) {what}: {error}")
        self.job = job


class JobCancelled(JobFailed):
    """Somebody, or the job's handler, cancelled it."""


class JobDeadLettered(JobFailed):
    """It ran out of attempts and waits in its dead letter queue; `handle.redrive()` sends it
    back."""


def failure_of(stored: StoredJob) -> JobFailed:
    job = decode_job(stored)
    if job.is_dead_letter:
        return JobDeadLettered(job)
    return (JobCancelled if job.status is JobStatus.CANCELLED else JobFailed)(job)


def id_of(job: UUID | str) -> UUID:
    if isinstance(job, UUID):
        return job
    try:
        return UUID(job)
    except (ValueError, TypeError, AttributeError):
        raise Invalid(
            "job", f"is {job!r}, not the id of a job", "use a handle's id, or its text"
        ) from None


class JobHandle(Generic[R]):
    """An enqueued job."""

    __slots__ = ("_forge", "_result_type", "existed", "id")

    # Not by keyword alone: a thousand of them are one call's answer, and keywords take as long as
    # all the rest.
    def __init__(
        self, forge: Any, identifier: UUID, existed: bool = False, result_type: Any = Any
    ) -> None:
        self._forge = forge
        self.id = identifier
        # whether a job with the same unique or idempotency key was there already
        self.existed = existed
        self._result_type = result_type

    def __repr__(self) -> str:
        return f"JobHandle({self.id})"

    async def job(self) -> DecodedJob:
        """The job as it stands now."""
        return await self._forge.get(self.id)  # type: ignore[no-any-return]

    async def status(self) -> JobStatus:
        return (await self.job()).status

    async def explain(self) -> Explanation:
        """Why the job is not running."""
        return await self._forge.explain(self.id)  # type: ignore[no-any-return]

    async def executions(self) -> list[DecodedExecution]:
        """Every try of the job, the first one first."""
        return await self._forge.executions(self.id)  # type: ignore[no-any-return]

    async def logs(
        self, level: str = "trace", *, after: int = 0, limit: int = 1_000
    ) -> list[DecodedLine]:
        """What its handlers logged, from this level on, and how its executions ended, oldest
        first."""
        return await self._forge.logs(self.id, level=level, after=after, limit=limit)  # type: ignore[no-any-return]

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the job to end and return what its handler returned. Raises `JobFailed`
        (`JobCancelled` when it was cancelled, `JobDeadLettered` as soon as it is in its dead letter
        queue), TimeoutError with why it has not ended, and `Invalid` for a result that is not of
        the type that the handler declares."""
        return self.read_result(await self._ended(timeout))

    def read_result(self, job: StoredJob) -> R:
        """What the handler of a job that ended returned."""
        if job.status is not JobStatus.SUCCEEDED:
            raise failure_of(job)
        if job.result is None:
            return None  # type: ignore[return-value]
        try:
            return msgspec.json.decode(job.result, type=self._result_type)  # type: ignore[no-any-return]
        except msgspec.ValidationError as error:
            wanted = (
                self._result_type.__name__
                if isinstance(self._result_type, type)
                else self._result_type
            )
            problem = (
                f"of job {self.id} ({job.job_type}) is not the {wanted} that its handler "
                f"declares ({error})"
            )
            raise Invalid(
                "result",
                problem,
                "correct the handler's return annotation; job() has the result as it is",
            ) from None

    async def _ended(self, timeout: float | None) -> StoredJob:
        started = time.monotonic()
        # one look, for which a timeout would leave no time
        if timeout is not None and timeout <= 0:
            job: StoredJob = await self._forge.get_stored(self.id)
            if has_ended(job):
                return job
            raise TimeoutError(f"job {self.id} has not ended; {await self._why()}")
        try:
            async with asyncio.timeout(timeout):
                return await self._forge.wait_stored(self.id)  # type: ignore[no-any-return]
        except TimeoutError:
            waited = time.monotonic() - started
            raise TimeoutError(
                f"job {self.id} has not ended after {waited:.1f} s; {await self._why()}"
            ) from None

    async def _why(self) -> str:
        """Explain's first reason, for whoever forgot to start a worker. Whoever gave up need not
        wait long for it."""
        hint = f"ask `taskforge jobs explain {self.id}`"
        try:
            async with asyncio.timeout(EXPLAIN_SECONDS):
                explanation = await self.explain()
        except (TimeoutError, TaskForgeError):
            return hint
        return explanation.reasons[0].text if explanation.reasons else hint

    async def latest_execution(self) -> DecodedExecution:
        """The last try of the job; `NotFound` where there was none yet."""
        executions = await self.executions()
        if not executions:
            raise NotFound("execution of job", str(self.id))
        return executions[-1]

    async def retry(self, attempts: int | None = None) -> Changed:
        """Run a failed or cancelled job again; `attempts` grants that many more, otherwise those
        left, or one."""
        return await self._change(RetryJob(attempts))

    async def edit(
        self,
        *,
        priority: int | None = None,
        at: When | None = None,
        queue: str | None = None,
        payload: Any = UNSET,
    ) -> Changed:
        """Of a job that has not started; what is not named stays. `at`: a time with its zone, or
        seconds from now."""
        document = None if payload is UNSET else msgspec.json.encode(payload)
        return await self._change(EditJob(priority=priority, at=at, queue=queue, payload=document))

    async def erase(self) -> Changed:
        """Erase the payload of a finished job for good."""
        return await self._change(ErasePayload())

    async def delete(self) -> Changed:
        """Delete a finished job with its history."""
        return await self._change(DeleteJob())

    async def _change(self, change: JobChange) -> Changed:
        check_change(change)
        return await self._forge.change(self.id, change)  # type: ignore[no-any-return]

    async def redrive(self) -> None:
        """Send the job back from its dead letter queue to where it came from, with a fresh
        budget."""
        await self._forge.redrive(self.id)

    async def cancel(self, reason: str = "cancelled by request") -> None:
        await self._forge.cancel(self.id, reason)
