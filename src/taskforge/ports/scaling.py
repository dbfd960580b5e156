"""Scaling policies: what their owners ask of a store, or of a server in front of one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.queue import Queue
from taskforge.domain.queue_scaling import (
    AdvisedScaling,
    QueueScaling,
    ScalingEntry,
    ScalingPoint,
)


class Scaling(Protocol):
    # In the order in which their queues were made, behind the number of one.
    async def policies(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[QueueScaling]: ...
    async def find(self, queue: Queue) -> QueueScaling | None: ...
    # Made, or replaced by this: what `fields` leaves out is as it is by itself.
    async def put(
        self, queue: Queue, fields: Mapping[str, Any], note: Note | None, expected: str | None
    ) -> QueueScaling: ...
    # What `fields` leaves out stays.
    async def edit(
        self, old: QueueScaling, fields: Mapping[str, Any], note: Note | None, expected: str | None
    ) -> QueueScaling: ...
    async def delete(self, old: QueueScaling, note: Note | None, expected: str | None) -> None: ...
    # The newest first; of one queue, or of all.
    async def history(
        self, projects: Sequence[int], queue: UUID | None = None, *, limit: int = 50
    ) -> list[ScalingEntry]: ...
    # At most so many points.
    async def series(
        self, scaling: QueueScaling, since: datetime, until: datetime, points: int
    ) -> list[ScalingPoint]: ...
    # What the policy says now. Nothing is done about it.
    async def advise(self, scaling: QueueScaling) -> AdvisedScaling: ...
