"""What the live view shows: a look at the store twice a second, and how fast jobs end between
looks."""

from collections import deque
from datetime import datetime
from uuid import UUID

import msgspec

from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.query import JobFilter, Page, QueueStats
from taskforge.domain.worker import Worker, WorkerStatus
from taskforge.ports.engine import AnyEngine

RATE_SECONDS = 5.0
RECENT = 60


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    queues: list[QueueStats]
    rates: dict[UUID, float]  # jobs that ended per second, by queue
    workers: list[Worker]
    jobs: list[StoredJob]  # the running, the failed and the newest ones, in no particular order
    dead_letter_queues: frozenset[UUID] = frozenset()

    @property
    def rate(self) -> float:
        return sum(self.rates.values())

    def count(self, status: str) -> int:
        return sum(getattr(one, status) for one in self.queues)


class Observer:
    def __init__(self, engine: AnyEngine) -> None:
        self._engine = engine
        self._counts: deque[tuple[datetime, dict[UUID, int]]] = deque()

    async def look(self, *, jobs: bool = True) -> Snapshot:
        engine = self._engine
        at = await engine.now()
        queues = await engine.stats([engine.home])
        workers = [
            one
            for one in await engine.workers([engine.home])
            if one.status is not WorkerStatus.OFFLINE
        ]
        return Snapshot(
            at=at,
            queues=queues,
            rates=self._rates(
                at, {one.queue_id: one.succeeded + one.failed + one.cancelled for one in queues}
            ),
            workers=workers,
            jobs=await self._jobs() if jobs else [],
            dead_letter_queues=await self._dead_letter_queues() if jobs else frozenset(),
        )

    async def _dead_letter_queues(self) -> frozenset[UUID]:
        queues = await self._engine.queues([self._engine.home])
        named = {queue.settings.dead_letter_queue_id for queue in queues}
        return frozenset(name for name in named if name is not None)

    async def _jobs(self) -> list[StoredJob]:
        """A long one that began early would drop off a list of the newest, and is the one that one
        looks for."""
        found: list[StoredJob] = []
        for statuses, limit in (
            ((JobStatus.PROCESSING,), RECENT // 2),
            ((JobStatus.FAILED,), RECENT // 3),
            ((), RECENT),
        ):
            wanted, page = JobFilter(statuses=statuses), Page(limit=limit)
            found += (await self._engine.list_jobs([self._engine.home], wanted, page)).jobs
        return list({job.id: job for job in found}.values())

    def _rates(self, at: datetime, counts: dict[UUID, int]) -> dict[UUID, float]:
        self._counts.append((at, counts))
        while len(self._counts) > 2 and (at - self._counts[1][0]).total_seconds() >= RATE_SECONDS:
            self._counts.popleft()
        first, before = self._counts[0]
        passed = (at - first).total_seconds()
        if passed <= 0:
            return {}
        # Retention and deletion take jobs away again: a negative difference is no rate.
        return {
            queue: max(0, count - before.get(queue, count)) / passed
            for queue, count in counts.items()
        }
