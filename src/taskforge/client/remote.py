"""An engine on a server elsewhere. Which project it is for, the token decides; the upkeep is the
server's own."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from taskforge.client import jobs as about_jobs
from taskforge.client import queues, requests, worker_protocol
from taskforge.client.directory import RemoteDirectory
from taskforge.client.requests import Request
from taskforge.client.transport import Transport, options_for
from taskforge.domain.access import Forbidden, Throttled
from taskforge.domain.assignment import Assignment, AssignmentChange, Unassign
from taskforge.domain.audit import Note
from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.errors import Conflict, Gone, Invalid, NotFound, StoreUnavailable
from taskforge.domain.execution import Execution
from taskforge.domain.explanation import Explanation
from taskforge.domain.job import Inserted, NewJob, Refused, StoredJob
from taskforge.domain.job_page import Counted, JobPage
from taskforge.domain.job_parts import WHOLE, Parts
from taskforge.domain.log import Level, Line
from taskforge.domain.query import MOST_IDS, JobFilter, Page, QueueStats, WorkerTotals
from taskforge.domain.queue import DeleteQueue, Queue, QueueChange
from taskforge.domain.tenancy import QuotaExceeded
from taskforge.domain.worker import NewWorker, Registered, Renewed, Sample, Worker, WorkerChange

S = TypeVar("S")
T = TypeVar("T")
AT_ONCE = 10  # requests beside each other where the server has none for many


class RemoteEngine:
    """Implements `AnyEngine`: what a server answers. Work goes through the HTTP work source."""

    side_by_side = True
    home = 0  # the key decides

    def __init__(self, url: str, token: str) -> None:
        self._options = options_for(url, token)
        self._transport: Transport | None = None
        self.directory = RemoteDirectory(lambda: self.transport)

    @property
    def transport(self) -> Transport:
        if self._transport is None:
            raise RuntimeError("the engine is not open")
        return self._transport

    async def open(self, *, migrate: bool = True) -> None:
        """The server is there and its store answers; its schema is its own to migrate."""
        self._transport = Transport(self._options)
        try:
            await self.now()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    async def now(self) -> datetime:
        return await self._send(requests.now())

    async def _send(self, request: Request[T]) -> T:
        return await self.transport.send(request)

    async def _send_patiently(self, request: Request[T]) -> T:
        """For a lease keeper: to come back later is all that it can do about a server, or a proxy,
        that has had enough."""
        try:
            return await self._send(request)
        except (QuotaExceeded, Throttled) as error:
            raise StoreUnavailable(str(error), retry_after=error.retry_after) from None

    # --- Enqueueing ---

    async def insert(self, project: int, jobs: Sequence[NewJob]) -> list[Inserted | Refused]:
        """Every enqueue has an idempotency key, its own or one made here: a try after a lost answer
        cannot make a second job."""
        if len(jobs) == 1:
            return [await self._insert_one(jobs[0])]
        answers: list[Inserted | Refused | None] = [None] * len(jobs)
        own = [index for index, job in enumerate(jobs) if job.idempotency_key is not None]
        rest = [index for index, job in enumerate(jobs) if job.idempotency_key is None]
        for group in (own, rest):
            bodies = [about_jobs.body_of(jobs[index]) for index in group]
            for start, end in about_jobs.slices(bodies):
                part = group[start:end]
                request = about_jobs.insert_many(
                    [jobs[index] for index in part], bodies[start:end], _fresh_key()
                )
                made = await self._send(request)
                for index, answer in zip(part, made, strict=True):
                    answers[index] = answer
        return [answer for answer in answers if answer is not None]

    async def _insert_one(self, job: NewJob) -> Inserted | Refused:
        try:
            return await self._send(about_jobs.insert_one(job, _fresh_key()))
        except (Invalid, NotFound, Conflict) as error:
            return Refused(error)

    # --- Steering and reading jobs ---

    async def change(
        self,
        projects: Sequence[int],
        jobs: Sequence[UUID],
        change: JobChange,
        note: Note | None = None,
    ) -> list[Changed | Refused]:

        async def one(job: UUID) -> Changed | Refused:
            try:
                return await self._send(about_jobs.change(job, change))
            except (Invalid, NotFound, Conflict, Gone) as error:
                return Refused(error)

        return await _side_by_side(one, jobs)

    async def get(
        self, projects: Sequence[int], jobs: Sequence[UUID], parts: Parts = WHOLE
    ) -> list[StoredJob]:
        wanted = list(dict.fromkeys(jobs))
        if len(wanted) == 1:
            with contextlib.suppress(NotFound):
                return [
                    await self._send(about_jobs.get_job(wanted[0]))
                ]  # which also tells one that is gone from one that never was
            return []
        slices = [wanted[start : start + MOST_IDS] for start in range(0, len(wanted), MOST_IDS)]
        answers = await _side_by_side(self._get_some, slices)
        asked = set(wanted)
        return [job for found in answers for job in found if job.id in asked]

    async def _get_some(self, jobs: Sequence[UUID]) -> list[StoredJob]:
        """A page ends at some bytes: those behind its last job are asked for again."""
        found, more = await self._send(about_jobs.get_jobs(jobs))
        while more and found:
            jobs = jobs[jobs.index(found[-1].id) + 1 :]
            behind, more = await self._send(about_jobs.get_jobs(jobs))
            found += behind
        return found

    async def list_jobs(self, projects: Sequence[int], wanted: JobFilter, page: Page) -> JobPage:
        return await self._send(about_jobs.list_jobs(wanted, page))

    async def count_jobs(self, projects: Sequence[int], wanted: JobFilter) -> Counted:
        return await self._send(about_jobs.count_jobs(wanted))

    async def explain(self, projects: Sequence[int], job: UUID) -> Explanation:
        return await self._send(about_jobs.explain(job))

    async def executions(self, projects: Sequence[int], job: UUID) -> list[Execution]:
        return await self._send(about_jobs.executions(job))

    async def active_executions(
        self, projects: Sequence[int], *, timed_out: bool, limit: int
    ) -> list[Execution]:
        return await self._send(about_jobs.active_executions(timed_out=timed_out, limit=limit))

    async def logs(
        self,
        projects: Sequence[int],
        job: UUID,
        *,
        least: Level,
        after: int,
        limit: int,
        offset: int,
        execution: UUID | None = None,
    ) -> list[Line]:
        path = f"/jobs/{job}/logs" if execution is None else f"/executions/{execution}/logs"
        return await self._send(
            about_jobs.logs(path, least=least, after=after, limit=limit, offset=offset)
        )

    # --- Queues, workers, assignments ---

    async def change_queue(
        self, project: int, change: QueueChange, note: Note | None = None
    ) -> Queue:
        if not isinstance(change, DeleteQueue):
            return await self._send(queues.change_queue(change))
        queue = await self._send(queues.get_queue(change.queue))
        await self._send(queues.delete_queue(change))
        return msgspec.structs.replace(queue, deleted_at=await self.now())

    async def queues(self, projects: Sequence[int]) -> list[Queue]:
        return await self.directory.every_queue()

    async def stats(
        self, projects: Sequence[int], *, exact: bool = False, of: Sequence[UUID] | None = None
    ) -> list[QueueStats]:
        try:
            if of is None:
                return await self._send(queues.stats())
            parts = [of[start : start + MOST_IDS] for start in range(0, len(of), MOST_IDS)]
            found = [await self._send(queues.stats(queue_ids=part)) for part in parts]
            return [stats for part in found for stats in part]
        except Forbidden:
            # for those who may see jobs, and no queues
            every = await self._send(queues.stats("/jobs/stats"))
            return [stats for stats in every if of is None or stats.queue_id in of]

    async def change_worker(
        self, project: int, change: WorkerChange, note: Note | None = None
    ) -> Worker:
        *before, last = queues.change_worker(change)
        for request in before:
            await self._send(request)
        return await self._send(last)

    async def workers(self, projects: Sequence[int]) -> list[Worker]:
        return await self.directory.every_worker()

    async def worker_totals(self, projects: Sequence[int]) -> list[WorkerTotals]:
        workers = dict.fromkeys(worker.id for worker in await self.workers(projects))
        return await _side_by_side(lambda worker: self._send(queues.worker_totals(worker)), workers)

    async def change_assignment(
        self, project: int, change: AssignmentChange, note: Note | None = None
    ) -> Assignment:
        if not isinstance(change, Unassign):
            return await self._send(queues.change_assignment(change))
        assignment = await self._send(queues.get_assignment(change.queue, change.worker))
        await self._send(queues.delete_assignment(change))
        return assignment

    async def assignments(self, projects: Sequence[int]) -> list[Assignment]:
        return await self.directory.every_assignment()

    # --- A worker's life ---

    async def register(self, project: int, worker: NewWorker, lease_seconds: float) -> Registered:
        return await self._send(worker_protocol.register(worker, lease_seconds))

    async def renew(self, incarnation: UUID, lease_seconds: float, sample: Sample) -> Renewed:
        return await self._send_patiently(
            worker_protocol.heartbeat(incarnation, lease_seconds, sample)
        )

    async def deregister(self, incarnation: UUID, *, died: bool = False) -> None:
        await self._send_patiently(worker_protocol.deregister(incarnation, died=died))


def _fresh_key() -> str:
    return f"auto-{secrets.token_hex(16)}"


async def _side_by_side(one: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(item: S) -> T:
        async with turns:
            return await one(item)

    return await asyncio.gather(*(in_turn(item) for item in items))
