"""Schedules as their owners make, see and steer them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from taskforge.domain import rules
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, NotFound, nearest
from taskforge.domain.schedule import (
    JobTemplate,
    NewSchedule,
    Schedule,
    ScheduleEdit,
    Slot,
    Timing,
    anchored,
    check_timing,
    preview,
)
from taskforge.operations.directory import no_queue
from taskforge.ports.engine import AnyEngine
from taskforge.ports.schedules import Schedules

MOST_PREVIEWED = 100
NEAREST_AMONG = 1_000


async def list_schedules(
    schedules: Schedules, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
) -> list[Schedule]:
    return await schedules.schedules(projects, after=after, limit=limit)


async def find_schedule(
    schedules: Schedules, projects: Sequence[int], name: UUID | str
) -> Schedule:
    """By id, or by name where one project alone has it."""
    found = await schedules.find(projects, name)
    if len(found) > 1:
        raise Invalid(
            "schedule", f"{name!r} is in {len(found)} of your projects", "name it by its id"
        )
    if found:
        return found[0]
    known = await schedules.schedules(projects, limit=NEAREST_AMONG)
    raise NotFound("schedule", str(name), nearest=nearest(str(name), [one.name for one in known]))


async def create_schedule(
    engine: AnyEngine,
    schedules: Schedules,
    project: int,
    new: NewSchedule,
    note: Note | None = None,
    most: int | None = None,
) -> Schedule:
    check_timing(new.timing)
    await _check_queue(engine, project, new.job)
    return await schedules.create(project, new, note, most)


async def update_schedule(
    engine: AnyEngine,
    schedules: Schedules,
    old: Schedule,
    edit: ScheduleEdit,
    note: Note | None = None,
    expected_mark: str | None = None,
) -> Schedule:
    if edit.job is not None and edit.job.queue != old.job.queue:
        await _check_queue(engine, old.project, edit.job)
    return await schedules.update(old, edit, note, expected_mark)


async def delete_schedule(
    schedules: Schedules, old: Schedule, note: Note | None = None, expected_mark: str | None = None
) -> None:
    await schedules.delete(old, note, expected_mark)


async def run_schedule(schedules: Schedules, schedule: Schedule, note: Note | None = None) -> Slot:
    """Once, now, beside its times; also while it is paused."""
    return await schedules.run(schedule, note)


async def list_slots(
    schedules: Schedules, schedule: Schedule, *, before: datetime | None = None, limit: int = 50
) -> list[Slot]:
    return await schedules.slots(schedule, before=before, limit=limit)


def preview_schedule(timing: Timing, now: datetime, count: int) -> list[datetime]:
    """The next slots of a schedule that there is, or could be."""
    rules.integer("count", count, 1, MOST_PREVIEWED)
    return preview(anchored(check_timing(timing), now), now, count)


async def _check_queue(engine: AnyEngine, project: int, job: JobTemplate) -> None:
    found = await engine.directory.find_queues([project], job.queue)
    if not any(queue.name == job.queue for queue in found):
        raise await no_queue(engine, [project], job.queue)
