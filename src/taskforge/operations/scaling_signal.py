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
        self.stats: dict[object, QueueStats] = {}


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

    async def read(self, queue: Queue) -> ScalingSignal:
        look = self._looks.pop(queue.project, None) or _Look()
        self._looks[queue.project] = look  # the one that was asked for last is the last to go
        while len(self._looks) > _REMEMBERED:
            del self._looks[next(iter(self._looks))]
        async with look.lock:
            is_old = self._clock() - look.began > FRESH_SECONDS
            if is_old or queue.id not in look.stats:
                began = self._clock()
                found = await self._engine.stats([queue.project])
                look.began, look.stats = began, {one.queue_id: one for one in found}
        stats = look.stats.get(queue.id)
        if stats is None:
            raise NotFound("queue", queue.name)
        policy = await self._policies.find(queue.id)
        is_known = policy is not None and policy.state.looked_at is not None
        return ScalingSignal(
            queue=queue.name,
            is_active=queue.is_active,
            pending=stats.pending,
            processing=stats.processing,
            length=(stats.pending if queue.is_active else 0) + stats.processing,
            desired_workers=policy.state.desired if policy is not None and is_known else None,
        )
