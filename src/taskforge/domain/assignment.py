"""Assignments: which workers serve a queue. One with active assignments is served by those alone,
one without by everybody."""

from datetime import datetime
from typing import assert_never
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Conflict, Invalid, NotFound
from taskforge.domain.versions import check_same, mark_of


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    queue: UUID
    worker: UUID  # the identity, which survives restarts
    project: int
    weight: int  # 1 to 100: the worker's share where the queue is balanced by weight
    is_active: bool
    created_at: datetime
    updated_at: datetime

    @property
    def mark(self) -> str:
        return mark_of(
            self.queue, self.worker, self.weight, self.is_active, self.created_at, self.updated_at
        )


class Assign(msgspec.Struct, frozen=True):
    queue: UUID
    worker: UUID
    weight: int = 1
    is_active: bool = True


class Reassign(msgspec.Struct, frozen=True):
    """Fields left at None stay as they are. `expected_mark` makes a stale change fail instead of
    overwriting."""

    queue: UUID
    worker: UUID
    weight: int | None = None
    is_active: bool | None = None
    expected_mark: str | None = None


class Unassign(msgspec.Struct, frozen=True):
    queue: UUID
    worker: UUID
    expected_mark: str | None = None


AssignmentChange = Assign | Reassign | Unassign


def check_assignment(change: AssignmentChange) -> None:
    if isinstance(change, Unassign):
        return
    if change.weight is not None:
        rules.integer("weight", change.weight, 1, 100)
    if change.is_active is not None:
        rules.flag("is_active", change.is_active)
    if change.weight is None and change.is_active is None:
        raise Invalid("assignment", "changes nothing", "give weight or is_active")


def plan_assignment(change: AssignmentChange, old: Assignment | None) -> tuple[int, bool] | None:
    """The weight and the activity after the change, None when nothing is left; refused when it does
    not fit what is there."""
    if isinstance(change, Assign):
        if old is not None:
            raise Conflict(
                f"worker {change.worker} is already assigned to queue {change.queue}; change that "
                f"assignment instead"
            )
        return change.weight, change.is_active
    if old is None:
        raise NotFound("assignment", f"{change.queue} to {change.worker}")
    check_same("the assignment", change.expected_mark, old.mark)
    match change:
        case Reassign(weight=weight, is_active=is_active):
            return (
                old.weight if weight is None else weight,
                old.is_active if is_active is None else is_active,
            )
        case Unassign():
            return None
        case _:
            assert_never(change)
