"""What a conformance test works with: an engine with a clock it can move, and short words for the
common steps.

Nothing here knows which engine it is; that is in `stores.py`.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from msgspec import UNSET

from taskforge.domain.changes import Changed, JobChange
from taskforge.domain.claim import Claim, Lapsed
from taskforge.domain.ids import job_of
from taskforge.domain.job import (
    Claimed,
    Inserted,
    JobStatus,
    NewJob,
    Refused,
    StoredJob,
    error_info,
    new_job,
)
from taskforge.domain.outcome import (
    Finish,
    Lost,
    ToCancelled,
    ToFailed,
    ToSucceeded,
    Transition,
    decide,
)
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import CreateQueue, Queue, QueueSettings, UpdateQueue
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Registered, Sample
from taskforge.ports.engine import Engine
from tests.support.stores import Probe, Store

ERROR = error_info("ValueError", "boom", "Traceback …")
E = TypeVar("E", bound=Exception)


class Clock:
    """A clock that stands still until told; far from today, so that a statement that asks another
    clock is found out."""

    def __init__(self) -> None:
        self._now = datetime(2030, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._now

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> datetime:
        self._now += timedelta(seconds=seconds)
        return self._now

    def after(self, seconds: float) -> datetime:
        return self._now + timedelta(seconds=seconds)


class World:
    def __init__(self, store: Store, engine: Engine, clock: Clock) -> None:
        self.store = store
        self.engine = engine
        self.clock = clock
        self.probe: Probe = store.probe
        self._numbers = itertools.count()

    async def another(self) -> Engine:
        """A second engine on the same store: what another process would have."""
        return await self.store.open(self.clock)

    # --- Queues ---

    async def queue(
        self,
        name: str,
        *,
        priority: int = 0,
        project: int = FIRST_PROJECT,
        is_active: bool = True,
        **settings: Any,
    ) -> Queue:
        wanted = CreateQueue(
            name=name,
            priority=priority,
            is_active=is_active,
            settings=QueueSettings.parse(settings),
        )
        return await self.engine.change_queue(project, wanted)

    async def update(self, queue: Queue, **changes: Any) -> Queue:
        return await self.engine.change_queue(queue.project, UpdateQueue(queue=queue.id, **changes))

    async def pause(self, queue: Queue) -> Queue:
        return await self.update(queue, is_active=False)

    async def resume(self, queue: Queue) -> Queue:
        return await self.update(queue, is_active=True)

    async def stats(self, queue: str = "default", project: int = FIRST_PROJECT) -> QueueStats:
        [found] = [one for one in await self.engine.stats([project]) if one.queue == queue]
        return found

    # --- Jobs ---

    async def insert(self, *jobs: NewJob, project: int = FIRST_PROJECT) -> list[Inserted | Refused]:
        return await self.engine.insert(project, jobs)

    async def enqueue(
        self,
        queue: str = "default",
        job_type: str = "work",
        payload: Any = UNSET,
        project: int = FIRST_PROJECT,
        **options: Any,
    ) -> UUID:
        [answer] = await self.insert(new_job(queue, job_type, payload, **options), project=project)
        assert isinstance(answer, Inserted), answer
        assert not answer.existed
        return answer.job

    async def enqueue_many(self, count: int, queue: str = "default", **options: Any) -> list[UUID]:
        answers = await self.insert(
            *(new_job(queue, "work", number, **options) for number in range(count))
        )
        assert all(isinstance(answer, Inserted) for answer in answers)
        return [answer.job for answer in answers if isinstance(answer, Inserted)]

    async def job(self, job: UUID, project: int = FIRST_PROJECT) -> StoredJob:
        [found] = await self.engine.get([project], [job])
        return found

    async def status(self, job: UUID) -> JobStatus:
        return (await self.job(job)).status

    async def change(
        self, job: UUID, change: JobChange, project: int = FIRST_PROJECT
    ) -> Changed | Refused:
        [answer] = await self.engine.change([project], [job], change)
        return answer

    async def place_of(self, job: UUID) -> str | None:
        """The one place the job is in; None when the store has no trace of it."""
        await self.probe.check_places()
        return (await self.probe.places()).get(job)

    # --- Workers ---

    async def worker(
        self,
        name: str | None = None,
        *,
        project: int = FIRST_PROJECT,
        lease: float = 1e6,
        **options: Any,
    ) -> Registered:
        """With as many slots as there can be, where a test does not say how many: claims keep
        them."""
        worker = NewWorker(
            name=name or f"worker-{next(self._numbers)}",
            **{"max_concurrent_jobs": 1_000, **options},
        )
        return await self.engine.register(project, worker, lease)

    async def online_worker(
        self, name: str | None = None, *, lease: float = 1e6, **options: Any
    ) -> Registered:
        """One that has been heard of."""
        registered = await self.worker(name, lease=lease, **options)
        await self.engine.renew(registered.incarnation, lease, Sample())
        return registered

    async def claim(self, worker: Registered, limit: int = 10) -> list[Claimed]:
        return await self.engine.claim(Claim(worker.incarnation, limit))

    async def claim_one(self, worker: Registered) -> Claimed:
        [claimed] = await self.claim(worker, 1)
        return claimed

    async def claim_jobs(self, worker: Registered, limit: int = 10) -> list[UUID]:
        return [job_of(claimed.fence) for claimed in await self.claim(worker, limit)]

    async def finish(
        self, fence: UUID, transition: Transition, *, ran: float | None = None, lapsed: bool = False
    ) -> list[Lost]:
        return await self.engine.finish([Finish(fence, transition, ran)], lapsed=lapsed)

    async def running(self, **options: Any) -> tuple[UUID, UUID]:
        """A job of its own type in the hands of a worker of its own: (job, fence)."""
        job_type = f"only-{next(self._numbers)}"
        job = await self.enqueue(job_type=job_type, **options)
        worker = await self.worker(types=(job_type,), queues=(options.get("queue", "default"),))
        claimed = await self.claim_one(worker)
        assert job_of(claimed.fence) == job
        return job, claimed.fence

    async def bring(self, status: JobStatus, **options: Any) -> UUID:
        """A new job brought to this status by the shortest way."""
        match status:
            case JobStatus.PENDING:
                return await self.enqueue(**options)
            case JobStatus.SCHEDULED:
                return await self.enqueue(at=600, **options)
        job, fence = await self.running(**options)
        ending: dict[JobStatus, Transition] = {
            JobStatus.SUCCEEDED: ToSucceeded(b"42"),
            JobStatus.FAILED: ToFailed(ERROR, "no luck"),
            JobStatus.CANCELLED: ToCancelled("not wanted"),
        }
        if status in ending:
            assert await self.finish(fence, ending[status]) == []
        return job

    # --- Upkeep ---

    async def rescue(self) -> list[Lapsed]:
        """What any process does with jobs whose workers are lost."""
        lapsed = await self.engine.lapsed(100)
        finishes = [
            Finish(one.fence, decide(one.attempt, one.outcome, one.policy, 0.5)) for one in lapsed
        ]
        assert await self.engine.finish(finishes, lapsed=True) == []
        return lapsed


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Bounded polling, for races and hints only."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def refusal(answer: object, kind: type[E]) -> E:
    assert isinstance(answer, Refused), answer
    assert isinstance(answer.error, kind), answer.error
    return answer.error


def ids(jobs: Sequence[StoredJob]) -> list[UUID]:
    return [job.id for job in jobs]
