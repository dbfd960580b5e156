"""What autoscalers elsewhere ask of a queue again and again: how many jobs need workers, and how
many workers its policy wants."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from taskforge.domain.errors import NotFound
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import Queue
from taskforge.ports.engine import Engine
from taskforge.storage.records.scaling import ScalingRecords

FRESH_SECONDS = 1.0
_REMEMBERED = 1_000  # projects


class ScalingSignal(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    is_active: bool
    pending: int
    processing: int
    length: int
    """What needs workers: pending, unless the queue is paused, and processing"""
    desired_workers: int | None
    """By its scaling policy; null: it has none, or nobody looked at it yet"""


class _Look:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.began = -FRESH_SECONDS
        self.by_name: dict[str, QueueStats] = {}  # and by id


class ScalingSignals:
    """One look at a project answers for all of its queues: each may have an autoscaler that asks
    every few seconds, and they may be a thousand."""

    def __init__(
        self,
        engine: Engine,
        policies: ScalingRecords,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._policies = policies
        self._clock = clock
        self._looks: dict[int, _Look] = {}

    async def find(self, project: int, name: str) -> ScalingSignal | None:
        """Of a queue by its id or name; None where the last look did not see it."""
        look = await self._look(project)
        stats = look.by_name.get(name)
        return None if stats is None else await self._tell(stats)

    async def read(self, queue: Queue) -> ScalingSignal:
        look = await self._look(queue.project)
        if str(queue.id) not in look.by_name:  # it is younger than the look
            look = await self._look(queue.project, anew=True)
        stats = look.by_name.get(str(queue.id))
        if stats is None:
            raise NotFound("queue", queue.name)
        return await self._tell(stats)

    async def _look(self, project: int, *, anew: bool = False) -> "_Look":
        look = self._looks.pop(project, None) or _Look()
        self._looks[project] = look  # the one that was asked for last is the last to go
        while len(self._looks) > _REMEMBERED:
            del self._looks[next(iter(self._looks))]
        async with look.lock:
            if anew or self._clock() - look.began > FRESH_SECONDS:
                began = self._clock()
                found = await self._engine.stats([project])
                by_id = {str(one.queue_id): one for one in found}
                look.began, look.by_name = began, {one.queue: one for one in found} | by_id
        return look

    async def _tell(self, stats: QueueStats) -> ScalingSignal:
        policy = await self._policies.find(stats.queue_id)
        is_known = policy is not None and policy.state.looked_at is not None
        return ScalingSignal(
            queue=stats.queue,
            is_active=stats.is_active,
            pending=stats.pending,
            processing=stats.processing,
            length=(stats.pending if stats.is_active else 0) + stats.processing,
            desired_workers=policy.state.desired if policy is not None and is_known else None,
        )
