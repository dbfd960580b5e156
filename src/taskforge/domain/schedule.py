"""Schedules: jobs that are made by the clock. When they come, what is made, and what happens to
slots that were missed or that meet the run before. A slot is the nominal time of one run."""

import enum
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.cron import check_cron, check_zone, next_time
from taskforge.domain.errors import Invalid
from taskforge.domain.job import NewJob, new_job
from taskforge.domain.versions import mark_of

LEAST_SECONDS = 1
MOST_SECONDS = 10 * 366 * 86_400
MOST_CAUGHT_UP = 1_000
MOST_JITTER_SECONDS = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CatchUp(enum.StrEnum):
    """What becomes of slots that nobody could fire in time."""

    SKIP = "skip"
    ONCE = "once"  # the latest of them
    ALL = "all"  # the latest `catch_up_limit` of them


class Overlap(enum.StrEnum):
    """What becomes of a slot while the job of the one before has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    REPLACE = "replace"  # the job before is cancelled
    QUEUE = "queue"  # the slot waits for it


class SlotOutcome(enum.StrEnum):
    FIRED = "fired"
    MISSED = "missed"  # nobody was there in time, and `catch_up` left it out
    SKIPPED = "skipped"  # the job before had not ended
    REFUSED = "refused"  # its queue did not take the job


class JobTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job that a slot makes. Build it with `job_template`, which checks every rule."""

    queue: str
    job_type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    priority: int = 0
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    deadline_seconds: float | None = None  # from the slot's firing on
    expires_seconds: float | None = None
    tags: tuple[str, ...] = ()
    requires: str = ""
    fairness_key: str | None = None

    def job(self, identifier: UUID) -> NewJob:
        return NewJob(
            id=identifier,
            queue=self.queue,
            job_type=self.job_type,
            payload=bytes(self.payload),
            priority=self.priority,
            max_attempts=self.max_attempts,
            timeout_seconds=self.timeout_seconds,
            deadline=self.deadline_seconds,
            expires=self.expires_seconds,
            tags=self.tags,
            requires=self.requires,
            fairness_key=self.fairness_key,
        )


def job_template(
    queue: str,
    job_type: str,
    payload: Any = msgspec.UNSET,
    *,
    deadline_seconds: float | None = None,
    expires_seconds: float | None = None,
    requires: Mapping[str, Any] | None = None,
    **options: Any,
) -> JobTemplate:
    """Checked as a job is that is made now."""
    try:
        job = new_job(
            queue,
            job_type,
            payload,
            deadline=deadline_seconds,
            expires=expires_seconds,
            requires=requires,
            **options,
        )
    except Invalid as error:
        name = {"deadline": "deadline_seconds", "expires": "expires_seconds"}.get(error.field)
        raise error if name is None else Invalid(name, error.problem, error.expected) from None
    return JobTemplate(
        queue=queue,
        job_type=job_type,
        payload=msgspec.Raw(job.payload),
        priority=job.priority,
        max_attempts=job.max_attempts,
        timeout_seconds=job.timeout_seconds,
        deadline_seconds=deadline_seconds,
        expires_seconds=expires_seconds,
        tags=job.tags,
        requires=job.requires,
        fairness_key=job.fairness_key,
    )


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When slots come: by `cron` in a `zone`, `every_seconds` from an anchor, or once, `at`."""

    cron: str | None = None
    zone: str = "UTC"
    every_seconds: float | None = None
    at: datetime | None = None
    starts_at: datetime | None = None  # no slot before it
    ends_at: datetime | None = None  # nor behind it
    jitter_seconds: float = 0.0  # each slot fires up to so much later, by a hash of its own
    catch_up: CatchUp = CatchUp.ONCE
    catch_up_limit: int = 100
    overlap: Overlap = Overlap.ALLOW


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    id: UUID
    project: int
    name: str
    description: str
    timing: Timing
    job: JobTemplate
    is_paused: bool
    declared_by: str | None  # the application whose code has it
    next_at: datetime | None  # the next slot; None: paused, or there is none
    due_at: datetime | None  # when that one is looked at: with its jitter, or again
    last_slot: datetime | None
    last_job: UUID | None
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def mark(self) -> str:
        return mark_of(self.id, self.version)


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What one slot did."""

    at: datetime  # its nominal time
    fired_at: datetime
    outcome: SlotOutcome
    job: UUID | None = None
    detail: str | None = None
    manual: bool = False  # somebody asked for it; no time of the schedule's


# --- Rules ---


def check_timing(timing: Timing) -> Timing:
    """As it is kept; the first rule that is broken is raised."""
    given = [name for name in ("cron", "every_seconds", "at") if getattr(timing, name) is not None]
    if len(given) != 1:
        problem = f"are given together: {', '.join(given)}" if given else "are all missing"
        raise Invalid("cron, every_seconds, at", problem, "use one of them")
    cron, at = timing.cron, timing.at
    if cron is not None:
        cron = check_cron("cron", cron)
    check_zone("zone", timing.zone)
    if timing.every_seconds is not None:
        rules.number("every_seconds", timing.every_seconds, LEAST_SECONDS, MOST_SECONDS)
        if timing.every_seconds * 1000 % 1:
            raise Invalid("every_seconds", f"is {timing.every_seconds}", "use whole milliseconds")
    starts, ends = (
        None if value is None else _moment(name, value)
        for name, value in (("starts_at", timing.starts_at), ("ends_at", timing.ends_at))
    )
    if at is not None:
        at = _moment("at", at)
    if starts is not None and ends is not None and ends <= starts:
        raise Invalid("ends_at", "is not behind starts_at", "use a later end, or none")
    rules.number("jitter_seconds", timing.jitter_seconds, 0, MOST_JITTER_SECONDS)
    rules.integer("catch_up_limit", timing.catch_up_limit, 1, MOST_CAUGHT_UP)
    rules.choice("catch_up", timing.catch_up, tuple(CatchUp))
    rules.choice("overlap", timing.overlap, tuple(Overlap))
    return msgspec.structs.replace(timing, cron=cron, at=at, starts_at=starts, ends_at=ends)


def _moment(name: str, value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise Invalid(name, f"is a {type(value).__name__}", "use a zoned datetime")
    rules.moment(name, value)
    return value.astimezone(UTC)


def anchored(timing: Timing, now: datetime) -> Timing:
    """Every so many seconds from when on: from one interval after now, where no start is given."""
    if timing.every_seconds is None or timing.starts_at is not None:
        return timing
    first = now.replace(microsecond=0) + timedelta(seconds=timing.every_seconds)
    return msgspec.structs.replace(timing, starts_at=first)


def next_slot(timing: Timing, after: datetime) -> datetime | None:
    """The first slot behind a moment; None when there is none any more."""
    starts = timing.starts_at
    if starts is not None and after < starts:
        after = starts - timedelta(microseconds=1)  # a slot at the start itself is one
    if timing.cron is not None:
        slot = next_time(timing.cron, timing.zone, after)
    elif timing.every_seconds is not None:
        slot = _next_step(timing.every_seconds, starts or _EPOCH, after)
    else:
        slot = timing.at if timing.at is not None and timing.at > after else None
    if slot is None or (timing.ends_at is not None and slot > timing.ends_at):
        return None
    return slot


def _next_step(seconds: float, anchor: datetime, after: datetime) -> datetime | None:
    """Counted in whole microseconds from the anchor: sums of fractions would drift apart."""
    step = round(seconds * 1_000_000)
    passed = (after - anchor) // timedelta(microseconds=1)
    steps = passed // step + 1
    try:
        return anchor + timedelta(microseconds=max(0, steps) * step)
    except OverflowError:
        return None


def preview(timing: Timing, after: datetime, count: int) -> list[datetime]:
    slots: list[datetime] = []
    while len(slots) < count and (slot := next_slot(timing, after)) is not None:
        slots.append(slot)
        after = slot
    return slots


# --- What is asked for ---


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    timing: Timing
    job: JobTemplate
    description: str = ""
    is_paused: bool = False
    declared_by: str | None = None


class ScheduleEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is None stays as it is."""

    name: str | None = None
    description: str | None = None
    timing: Timing | None = None
    job: JobTemplate | None = None
    is_paused: bool | None = None
    declared_by: str | None = None


_FIELDS = NewSchedule.__struct_fields__


def check_new(new: NewSchedule, now: datetime) -> NewSchedule:
    """As it is kept. One that would never fire is refused."""
    _check_words(new)
    timing = anchored(check_timing(new.timing), now)
    if next_slot(timing, now) is None:
        field = "at" if timing.at is not None else "ends_at"
        raise Invalid(field, "leaves no run that is still to come", "use a later time")
    return msgspec.structs.replace(new, timing=timing)


def edited(old: Schedule, edit: ScheduleEdit, now: datetime) -> Schedule:
    """The schedule after an edit. Its next slot is found anew where that may have changed: behind
    now, and never one that it has had."""
    given = {
        name: value for name in edit.__struct_fields__ if (value := getattr(edit, name)) is not None
    }
    new = NewSchedule(
        **{name: given.get(name, getattr(old, name)) for name in NewSchedule.__struct_fields__}
    )
    if edit.timing is None:
        _check_words(new)
    else:
        new = check_new(new, now)
    moved = new.timing != old.timing or new.is_paused != old.is_paused
    after = now if old.last_slot is None else max(now, old.last_slot)
    return msgspec.structs.replace(
        old,
        **{name: getattr(new, name) for name in _FIELDS},
        next_at=first_slot(new, after) if moved else old.next_at,
        version=old.version + 1,
        updated_at=now,
    )


def first_slot(new: NewSchedule, after: datetime) -> datetime | None:
    """None while it is paused: what would have come meanwhile never does."""
    return None if new.is_paused else next_slot(new.timing, after)


def _check_words(new: NewSchedule) -> None:
    rules.text("name", new.name, most=100)
    rules.text("description", new.description, least=0, most=1_000)
    rules.flag("is_paused", new.is_paused)
    if new.declared_by is not None:
        rules.text("declared_by", new.declared_by, most=100)
