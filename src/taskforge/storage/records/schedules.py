"""Schedules and what their slots did. Every change leaves its audit entry and its event."""

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Stale
from taskforge.domain.firing import Firing, Plan, PlannedSlot, due_time
from taskforge.domain.ids import IdMint
from taskforge.domain.rules import LAST_YEAR
from taskforge.domain.schedule import (
    JobTemplate,
    NewSchedule,
    Schedule,
    ScheduleEdit,
    Slot,
    SlotOutcome,
    Timing,
    check_new,
    edited,
    first_slot,
)
from taskforge.domain.versions import check_same
from taskforge.ports.records import Records, Step
from taskforge.ports.schedules import SlotFiring
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.cluster import held

_timing = msgspec.json.Decoder(Timing)
_job = msgspec.json.Decoder(JobTemplate)
_encode = msgspec.json.Encoder().encode
UNLIMITED = 2**62
LOOKS_FORESEEN = 5


class _Row(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    project: int
    name: str
    description: str
    timing: msgspec.Raw
    job: msgspec.Raw
    is_paused: bool
    declared_by: str | None
    next_at: datetime | None
    due_at: datetime | None
    last_slot: datetime | None
    last_job: UUID | None
    version: int
    created_at: datetime
    updated_at: datetime

    def schedule(self) -> Schedule:
        values = msgspec.structs.asdict(self)
        values["timing"] = _timing.decode(self.timing)
        values["job"] = _job.decode(self.job)
        return Schedule(**values)


class _SlotRow(msgspec.Struct, frozen=True):
    at: datetime
    fired_at: datetime
    outcome: SlotOutcome
    job: UUID | None
    detail: str | None
    manual: bool


class ScheduleStore(Records, SlotFiring, Protocol):
    """What schedules are kept in."""


class ScheduleRecords:
    def __init__(self, records: ScheduleStore) -> None:
        self._records = records
        self._mint = IdMint()
        self._turns: deque[int] = deque()  # numbers of schedules that were due, in their order

    # --- Reading ---

    async def schedules(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[Schedule]:
        """In the order in which they were made, behind the number `after`."""
        found: list[Schedule] = []
        for project in projects:
            rows = await self._records.look(_Row, "schedules", project, after, limit)
            found += [row.schedule() for row in rows]
        return sorted(found, key=lambda one: one.number)[:limit]

    async def find(self, projects: Sequence[int], name: UUID | str) -> list[Schedule]:
        """By id, or by name in any of these projects."""
        if isinstance(name, UUID):
            rows = await self._records.look(_Row, "schedule", name)
            return [row.schedule() for row in rows if row.project in projects]
        found: list[Schedule] = []
        for project in projects:
            rows = await self._records.look(_Row, "schedule_named", project, name)
            found += [row.schedule() for row in rows]
        return found

    async def slots(
        self, schedule: Schedule, *, before: datetime | None = None, limit: int = 50
    ) -> list[Slot]:
        """The newest first, before a slot's time."""
        upto = before or datetime(LAST_YEAR, 1, 1, tzinfo=UTC)
        rows = await self._records.look(_SlotRow, "slots", schedule.number, upto, limit)
        return [Slot(**msgspec.structs.asdict(row)) for row in rows]

    # --- Changing ---

    async def create(
        self, project: int, new: NewSchedule, note: Note | None, most: int | None = None
    ) -> Schedule:
        """`most`: how many the project may have."""
        now = await self._records.now()
        new = check_new(new, now)
        identifier, next_at = self._mint(), first_slot(new, now)
        made = Schedule(
            number=0,
            id=identifier,
            project=project,
            **{name: getattr(new, name) for name in NewSchedule.__struct_fields__},
            next_at=next_at,
            due_at=None if next_at is None else due_time(identifier, new.timing, next_at),
            last_slot=None,
            last_job=None,
            version=1,
            created_at=now,
            updated_at=now,
        )
        room = UNLIMITED if most is None else most
        steps = [
            Step(
                "room_for_schedule",
                (project, room),
                partial(Conflict, f"the project's quota schedules of {room:,} is used up"),
            ),
            Step(
                "add_schedule",
                (identifier, project, *_columns(made), now),
                partial(Conflict, f"schedule {new.name!r} already exists"),
            ),
            *_told(made, "schedule.created", note, now, None, made),
        ]
        answers = await self._records.write(steps if most is not None else steps[1:])
        [(number,)] = answers[0 if most is None else 1]
        return msgspec.structs.replace(made, number=number)

    async def update(
        self,
        old: Schedule,
        edit: ScheduleEdit,
        note: Note | None,
        expected: str | None = None,
    ) -> Schedule:
        """`expected`: the mark of the version that is meant, else whatever is there."""
        check_same(f"schedule {old.name!r}", expected, old.mark)
        now = await self._records.now()
        new = edited(old, edit, now)
        # Where the edit does not touch it, the leader may move it on meanwhile.
        moved = new.timing != old.timing or new.is_paused != old.is_paused
        if moved:
            due = None if new.next_at is None else due_time(new.id, new.timing, new.next_at)
            new = msgspec.structs.replace(new, due_at=due)
        steps = [
            Step(
                "update_schedule",
                (old.number, old.version, *_columns(new), now, moved),
                partial(_stale, old),
            ),
            *_told(new, _topic(old, new), note, now, old, new),
        ]
        if new.name != old.name:
            taken = partial(Conflict, f"schedule {new.name!r} already exists")
            steps.insert(0, Step("free_schedule_name", (old.project, new.name), taken))
        await self._records.write(steps)
        return new

    async def delete(self, old: Schedule, note: Note | None, expected: str | None = None) -> None:
        check_same(f"schedule {old.name!r}", expected, old.mark)
        now = await self._records.now()
        version = 0 if expected is None else old.version
        steps = [
            Step("remove_schedule", (old.number, version), partial(_stale, old)),
            *_told(old, "schedule.deleted", note, now, old, None),
        ]
        await self._records.write(steps)

    async def run(self, schedule: Schedule, note: Note | None) -> Slot:
        now = await self._records.now()
        if not now.microsecond:
            now += timedelta(microseconds=1)  # no slot of the schedule's own stands there
        mint = IdMint(lambda: int(now.timestamp() * 1000))
        job = msgspec.structs.replace(schedule.job.job(mint()), note=note)
        firing = Firing(
            schedule=schedule.number,
            name=schedule.name,
            project=schedule.project,
            version=schedule.version,
            expected_next=None,
            plan=Plan([PlannedSlot(now, SlotOutcome.FIRED, "by hand")], None, None),
            jobs=(job,),
            manual=True,
        )
        [fired] = await self._records.fire([firing], None)
        if not fired.stood:
            raise _stale(schedule)
        [slot] = await self.slots(schedule, before=now + timedelta(microseconds=1), limit=1)
        if slot.outcome is SlotOutcome.REFUSED:
            raise Conflict(slot.detail or "its queue did not take the job")
        return slot

    # --- Firing ---

    async def due(self, now: datetime, limit: int) -> list[Schedule]:
        """Those that are due, the longest first. Where they are more than `limit`, each project
        has its share of them: one with many does not hold up the others. Whose turn it is, is
        found for several looks at once, for that reads all that is due."""
        while self._turns:
            count = min(limit, len(self._turns))
            numbers = [self._turns.popleft() for _ in range(count)]
            rows = await self._records.look(_Row, "due_schedules_numbered", numbers, now)
            if rows:
                return [row.schedule() for row in rows]
        rows = await self._records.look(_Row, "due_schedules", now, limit)
        if len(rows) < limit:
            return [row.schedule() for row in rows]
        turns = await self._records.look(
            _Turn, "turns_of_due_schedules", now, LOOKS_FORESEEN * limit
        )
        self._turns.extend(turn.number for turn in turns)
        return await self.due(now, limit)

    async def next_due(self) -> datetime | None:
        found = await self._records.look(_Due, "next_due")
        return found[0].due_at if found else None

    async def prune_slots(self, term: int, before: datetime, limit: int) -> int:
        """Of what slots did long ago. What they fired does not come again: schedules only move
        on."""
        steps = [held(term), Step("remove_old_slots", (before, limit))]
        _, rows = await self._records.write(steps)
        return len(rows)


class _Due(msgspec.Struct, frozen=True):
    due_at: datetime


class _Turn(msgspec.Struct, frozen=True):
    number: int


def _stale(schedule: Schedule) -> Stale:
    return Stale(f"schedule {schedule.name!r} was changed since it was read; read it again")


def _columns(schedule: Schedule) -> tuple[Any, ...]:
    return (
        schedule.name,
        schedule.description,
        _encode(schedule.timing).decode(),
        _encode(schedule.job).decode(),
        schedule.is_paused,
        schedule.declared_by,
        schedule.next_at,
        schedule.due_at,
    )


def _topic(old: Schedule, new: Schedule) -> str:
    if old.is_paused != new.is_paused:
        return "schedule.paused" if new.is_paused else "schedule.resumed"
    return "schedule.updated"


def _told(
    schedule: Schedule,
    topic: str,
    note: Note | None,
    now: datetime,
    before: Schedule | None,
    after: Schedule | None,
) -> list[Step]:
    """The event, and the audit entry where there is a note. Payloads never appear in either."""
    details = _encode({"schedule": schedule.id, "name": schedule.name}).decode()
    steps = [Step("add_event", (schedule.project, topic, details, now))]
    if note is not None:
        old, new = (None if one is None else _shown(one) for one in (before, after))
        if old is not None and new is not None:
            different = {name for name in old if old[name] != new[name]}
            old = {name: value for name, value in old.items() if name in different}
            new = {name: value for name, value in new.items() if name in different}
        target = f"schedule {schedule.name} ({schedule.id})"
        steps.append(audit_step(note, now, target, project=schedule.project, before=old, after=new))
    return steps


def _shown(schedule: Schedule) -> dict[str, Any]:
    job = msgspec.structs.asdict(schedule.job)
    del job["payload"]
    return {
        "name": schedule.name,
        "description": schedule.description,
        "is_paused": schedule.is_paused,
        "timing": schedule.timing,
        "job": job,
    }
