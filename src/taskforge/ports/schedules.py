"""Schedules: what their owners ask of a store or of a server in front of one, and what a store does
for the leader that fires them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.firing import Fired, Firing
from taskforge.domain.schedule import NewSchedule, Schedule, ScheduleEdit, Slot


class SlotFiring(Protocol):
    # For each schedule all of it or nothing, all of them in one transaction: the slots that were
    # not fired before, their jobs, and the next slot. `Deposed` once the term is over; without a
    # term somebody asks by hand.
    async def fire(self, firings: Sequence[Firing], term: int | None) -> list[Fired]: ...


class Schedules(Protocol):
    # In the order in which they were made, behind this number.
    async def schedules(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[Schedule]: ...
    # By id, or by name in any of these projects.
    async def find(self, projects: Sequence[int], name: UUID | str) -> list[Schedule]: ...
    # The newest first, before a slot's time.
    async def slots(
        self, schedule: Schedule, *, before: datetime | None = None, limit: int = 50
    ) -> list[Slot]: ...
    # `most`: how many the project may have.
    async def create(
        self, project: int, new: NewSchedule, note: Note | None, most: int | None = None
    ) -> Schedule: ...
    # `expected`: the mark of the version that is meant; None: whatever is there.
    async def update(
        self, old: Schedule, edit: ScheduleEdit, note: Note | None, expected: str | None = None
    ) -> Schedule: ...
    async def delete(
        self, old: Schedule, note: Note | None, expected: str | None = None
    ) -> None: ...
    # A run by hand, beside its times.
    async def run(self, schedule: Schedule, note: Note | None) -> Slot: ...
