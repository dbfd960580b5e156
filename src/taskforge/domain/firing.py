"""What to do about a schedule that is due: which slots fire, which are left out and why, and when
it is looked at next. Pure, so that every leader comes to the same."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from taskforge.domain.job import NewJob
from taskforge.domain.schedule import CatchUp, Overlap, Schedule, SlotOutcome, Timing, next_slot

# A slot that is later than this was missed, and `catch_up` decides. A change of leaders is over
# sooner: it loses no slot, whatever the policy.
MISSED_SECONDS = 60.0
# How soon a slot that waits for the job before it is looked at again.
RECHECK_SECONDS = 2.0
# In one round of one schedule; the rest of them comes in the next.
MOST_AT_ONCE = 100
MOST_NAMED = 20  # schedules in one event
REPLACED = "replaced by the next run of its schedule"
_FIRST_WINDOW = timedelta(minutes=1)
_WINDOW_GROWTH = 4


class PlannedSlot(msgspec.Struct, frozen=True):
    at: datetime
    outcome: SlotOutcome
    detail: str | None = None


class Plan(msgspec.Struct, frozen=True):
    slots: list[PlannedSlot]  # in order
    next_at: datetime | None
    due_at: datetime | None
    replaces: bool = False  # the job before is cancelled

    @property
    def fires(self) -> list[datetime]:
        return [slot.at for slot in self.slots if slot.outcome is SlotOutcome.FIRED]


def due_time(schedule: UUID, timing: Timing, slot: datetime) -> datetime:
    """The slot and its jitter: the same whoever computes it, and another for each schedule."""
    if not timing.jitter_seconds:
        return slot
    seed = schedule.bytes + int(slot.timestamp()).to_bytes(8, signed=True)
    chance = int.from_bytes(hashlib.blake2b(seed, digest_size=6).digest()) / (1 << 48)
    return slot + timedelta(seconds=chance * timing.jitter_seconds)


def plan(schedule: Schedule, now: datetime, *, runs: bool) -> Plan:
    """`runs`: the job of the slot before has not ended."""
    timing, first = schedule.timing, schedule.next_at
    if first is None:
        return Plan([], None, None)
    missed, fresh, following = _late_slots(schedule, first, now)
    planned = (
        [
            PlannedSlot(
                missed[-1],
                SlotOutcome.MISSED,
                None
                if missed[-1] == first
                else f"and those before it, from {first.isoformat()} on",
            )
        ]
        if missed
        else []
    )
    replaces = False
    match timing.overlap:
        case Overlap.ALLOW:
            planned += [PlannedSlot(slot, SlotOutcome.FIRED) for slot in fresh]
        case Overlap.SKIP:
            fires, rest = (fresh[:0], fresh) if runs else (fresh[:1], fresh[1:])
            planned += [PlannedSlot(slot, SlotOutcome.FIRED) for slot in fires]
            planned += [
                PlannedSlot(slot, SlotOutcome.SKIPPED, "the job before had not ended")
                for slot in rest
            ]
        case Overlap.REPLACE:
            planned += [
                PlannedSlot(slot, SlotOutcome.SKIPPED, "replaced by the slot behind it")
                for slot in fresh[:-1]
            ]
            planned += [PlannedSlot(slot, SlotOutcome.FIRED) for slot in fresh[-1:]]
            replaces = runs and bool(fresh)
        case Overlap.QUEUE:
            fires, waits = (fresh[:0], fresh) if runs else (fresh[:1], fresh[1:])
            planned += [PlannedSlot(slot, SlotOutcome.FIRED) for slot in fires]
            if waits:
                again = now + timedelta(seconds=RECHECK_SECONDS)
                return Plan(planned, waits[0], again)
    due = None if following is None else due_time(schedule.id, timing, following)
    return Plan(planned, following, due, replaces)


def _late_slots(
    schedule: Schedule, first: datetime, now: datetime
) -> tuple[list[datetime], list[datetime], datetime | None]:
    """Slots up to now: those that are left out (the last of them), those to fire, and the first
    slot that is neither."""
    timing = schedule.timing
    border = now - timedelta(seconds=MISSED_SECONDS + timing.jitter_seconds)
    old = _last_slots(timing, first, border, _most_kept(timing) + 1)
    kept: Sequence[datetime] = old[len(old) - min(len(old), _most_kept(timing)) :]
    missed = list(old[: len(old) - len(kept)])
    begin = old[-1] if old else first - timedelta(microseconds=1)
    fresh = list(kept[:MOST_AT_ONCE])
    if len(kept) > MOST_AT_ONCE:
        return missed, fresh, kept[MOST_AT_ONCE]
    slot = next_slot(timing, begin) if old else first
    while slot is not None and due_time(schedule.id, timing, slot) <= now:
        if len(fresh) >= MOST_AT_ONCE:
            break
        fresh.append(slot)
        slot = next_slot(timing, slot)
    return missed, fresh, slot


def _most_kept(timing: Timing) -> int:
    match timing.catch_up:
        case CatchUp.SKIP:
            return 0
        case CatchUp.ONCE:
            return 1
        case CatchUp.ALL:
            return timing.catch_up_limit


def _last_slots(timing: Timing, first: datetime, upto: datetime, count: int) -> list[datetime]:
    """The last so many slots from `first` up to `upto`, found from windows that grow: what an
    outage of a week left out is never counted through."""
    if upto < first:
        return []
    window = _FIRST_WINDOW
    while True:
        begin = max(first, upto - window) - timedelta(microseconds=1)
        slots = []
        slot = next_slot(timing, begin)
        while slot is not None and slot <= upto:
            slots.append(slot)
            slot = next_slot(timing, slot)
        if len(slots) >= count or begin < first:
            return slots[-count:]
        window *= _WINDOW_GROWTH


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is asked to do for one schedule, all of it or nothing: nothing if the schedule
    was changed, or fired, since it was read."""

    schedule: int
    name: str
    project: int
    version: int
    expected_next: datetime | None
    plan: Plan
    jobs: tuple[NewJob, ...]  # one for each slot that fires, in their order
    cancels: UUID | None = None
    manual: bool = False

    @property
    def last_slot(self) -> datetime | None:
        return self.plan.slots[-1].at if self.plan.slots and not self.manual else None

    @property
    def last_job(self) -> UUID | None:
        return self.jobs[-1].id if self.jobs else None

    def written(self) -> list[tuple[PlannedSlot, NewJob | None]]:
        """Each slot with the job that it makes, if it makes one."""
        jobs = iter(self.jobs)
        return [
            (slot, next(jobs) if slot.outcome is SlotOutcome.FIRED else None)
            for slot in self.plan.slots
        ]


def refused_firing(firing: Firing, why: str) -> Firing:
    """The same, with its slots refused: it moves on, and makes nothing."""
    slots = [
        msgspec.structs.replace(slot, outcome=SlotOutcome.REFUSED, detail=why)
        if slot.outcome is SlotOutcome.FIRED
        else slot
        for slot in firing.plan.slots
    ]
    changed = msgspec.structs.replace(firing.plan, slots=slots, replaces=False)
    return msgspec.structs.replace(firing, plan=changed, jobs=(), cancels=None)


class Fired(msgspec.Struct, frozen=True):
    """What came of one: whether it still stood as it was read, and how many jobs were made."""

    schedule: int
    stood: bool
    jobs: int = 0


class SlotEvent(msgspec.Struct, frozen=True):
    """What readers of the event stream hear of a project's schedules, summed up."""

    project: int
    topic: str
    jobs: tuple[UUID, ...]
    details: str


class _Told(msgspec.Struct):
    schedules: dict[str, None]
    slots: int
    jobs: list[UUID]


def slot_events(slots: Iterable[tuple[Firing, SlotOutcome, UUID | None]]) -> list[SlotEvent]:
    """One for each project and outcome, of the slots that were written."""
    told: dict[tuple[int, SlotOutcome], _Told] = {}
    for firing, outcome, job in slots:
        key = (firing.project, outcome)
        entry = told.get(key)
        if entry is None:
            entry = told[key] = _Told({}, 0, [])
        entry.slots += 1
        entry.schedules[firing.name] = None
        if job is not None:
            entry.jobs.append(job)
    events = []
    for (project, outcome), entry in told.items():
        named = list(entry.schedules)[:MOST_NAMED]
        details = {"schedules": named, "slots": entry.slots}
        text = msgspec.json.encode(details).decode()
        events.append(SlotEvent(project, f"schedule.{outcome}", tuple(entry.jobs), text))
    return events
