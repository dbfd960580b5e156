"""Queues and their figures, as callers see them."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import Queue


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project: str
    name: str
    description: str
    priority: int
    settings: dict[str, Json]
    is_active: bool
    version: int
    created_at: Time
    updated_at: Time


class QueueStatsView(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    queue_id: UUID
    is_active: bool
    total: int
    pending: int
    scheduled: int
    processing: int
    succeeded: int
    failed: int
    cancelled: int
    oldest_pending_seconds: float | None
    counted_at: Time | None
    """When unfinished jobs were counted, where they are too many to be counted for each answer;
    null: just now"""


def queue_view(queue: Queue, projects: dict[int, str]) -> QueueView:
    return QueueView(
        id=queue.id,
        project=projects[queue.project],
        name=queue.name,
        description=queue.description,
        priority=queue.priority,
        settings=msgspec.to_builtins(queue.settings),
        is_active=queue.is_active,
        version=queue.version,
        created_at=queue.created_at,
        updated_at=queue.updated_at,
    )


def stats_view(stats: QueueStats) -> QueueStatsView:
    return QueueStatsView(
        queue=stats.queue,
        queue_id=stats.queue_id,
        is_active=stats.is_active,
        total=stats.total,
        pending=stats.pending,
        scheduled=stats.scheduled,
        processing=stats.processing,
        succeeded=stats.succeeded,
        failed=stats.failed,
        cancelled=stats.cancelled,
        oldest_pending_seconds=stats.oldest_pending_seconds,
        counted_at=stats.counted_at,
    )
