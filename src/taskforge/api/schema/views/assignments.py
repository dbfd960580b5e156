"""Assignments of workers to queues, as callers see them."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.assignment import Assignment


class AssignmentView(msgspec.Struct, frozen=True, kw_only=True):
    queue_id: UUID
    worker_id: UUID
    weight: int
    is_active: bool
    created_at: Time
    updated_at: Time


def assignment_view(assignment: Assignment) -> AssignmentView:
    return AssignmentView(
        queue_id=assignment.queue,
        worker_id=assignment.worker,
        weight=assignment.weight,
        is_active=assignment.is_active,
        created_at=assignment.created_at,
        updated_at=assignment.updated_at,
    )
