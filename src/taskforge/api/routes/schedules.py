"""Schedules: make, read, change, pause, run now; what their slots did, and when the next ones
come."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, PathParameter, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.cursors import Cursor, cursor_behind, position_of
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName
from taskforge.api.schema.schedule_views import (
    ClusterView,
    NewScheduleBody,
    ScheduleEditBody,
    ScheduleView,
    SlotView,
    cluster_view,
    schedule_view,
    slot_view,
)
from taskforge.api.schema.values import Time
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.schedule import Schedule, ScheduleEdit, Timing
from taskforge.operations import schedules
from taskforge.operations.cluster import read_cluster

MOST_LISTED = 1_000
ScheduleName = Annotated[
    str,
    PathParameter(description="A schedule's id, or its name where one of your projects has it"),
]
Before = Annotated[Time | None, QueryParameter(description="Only slots before this time")]


class ScheduleList(msgspec.Struct, frozen=True):
    items: list[ScheduleView]
    next_cursor: str | None
    """Null: this is the last page"""


class SlotList(msgspec.Struct, frozen=True):
    items: list[SlotView]


class Preview(msgspec.Struct, frozen=True):
    items: list[Time]


class RunView(msgspec.Struct, frozen=True):
    job: UUID | None
    at: Time


@get("/schedules", permission=Permission.JOB_READ, tags=["Schedules"], responses=responses(404))
async def list_schedules(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    limit: FromQuery[int] = 100,
    cursor: Cursor = None,
) -> ScheduleList:
    """List schedules, of one project or of the whole organization."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await schedules.list_schedules(
        caller.platform.records.schedules,
        await caller.projects(project),
        after=position_of(cursor),
        limit=limit,
    )
    names = await caller.project_names()
    shown = caller.may(Permission.JOB_PAYLOAD)
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return ScheduleList([schedule_view(one, names, open_payload=shown) for one in found], more)


@post(
    "/schedules",
    permission=Permission.JOB_WRITE,
    tags=["Schedules"],
    responses=responses(404, 409),
)
async def create_schedule(
    caller: NamedDependency[Caller], data: JSONBody[NewScheduleBody], project: NewIn = None
) -> Response[ScheduleView]:
    """Create a schedule: jobs that are made by the clock. Its name is unique in its project."""
    owner = await caller.project(project)
    made = await schedules.create_schedule(
        caller.platform.engine,
        caller.platform.records.schedules,
        owner.number,
        data.new(),
        caller.note("schedule.create"),
        owner.quota.schedules,
    )
    return await _rendered(caller, made, 201)


@get("/schedules/preview", permission=Permission.JOB_READ, tags=["Schedules"])
async def preview_timing(
    caller: NamedDependency[Caller],
    cron: FromQuery[str | None] = None,
    zone: FromQuery[str] = "UTC",
    every_seconds: FromQuery[float | None] = None,
    starts_at: Annotated[Time | None, QueryParameter()] = None,
    ends_at: Annotated[Time | None, QueryParameter()] = None,
    count: FromQuery[int] = 10,
) -> Preview:
    """When a schedule with this timing would run. Nothing is made."""
    timing = Timing(
        cron=cron, zone=zone, every_seconds=every_seconds, starts_at=starts_at, ends_at=ends_at
    )
    return Preview(schedules.preview_schedule(timing, await caller.platform.engine.now(), count))


@get(
    "/schedules/{schedule:str}",
    permission=Permission.JOB_READ,
    tags=["Schedules"],
    responses=responses(404),
)
async def get_schedule(
    caller: NamedDependency[Caller], schedule: ScheduleName
) -> Response[ScheduleView]:
    """Read a schedule; its ETag makes a later change safe."""
    return await _rendered(caller, await caller.schedule(schedule))


@patch(
    "/schedules/{schedule:str}",
    permission=Permission.JOB_WRITE,
    tags=["Schedules"],
    responses=responses(404, 409, 412),
)
async def update_schedule(
    caller: NamedDependency[Caller],
    schedule: ScheduleName,
    data: JSONBody[ScheduleEditBody],
    if_match: IfMatch = None,
) -> Response[ScheduleView]:
    """Change a schedule; it goes on with its next slot behind now."""
    old = await caller.schedule(schedule)
    changed = await schedules.update_schedule(
        caller.platform.engine,
        caller.platform.records.schedules,
        old,
        data.edit(old),
        caller.note("schedule.update"),
        mark_in(if_match),
    )
    return await _rendered(caller, changed)


@post(
    "/schedules/{schedule:str}/pause",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Schedules"],
    responses=responses(404, 409, 412),
)
async def pause_schedule(
    caller: NamedDependency[Caller], schedule: ScheduleName, if_match: IfMatch = None
) -> Response[ScheduleView]:
    """Make no more jobs until it is resumed."""
    return await _set_paused(caller, schedule, if_match, paused=True)


@post(
    "/schedules/{schedule:str}/resume",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Schedules"],
    responses=responses(404, 409, 412),
)
async def resume_schedule(
    caller: NamedDependency[Caller], schedule: ScheduleName, if_match: IfMatch = None
) -> Response[ScheduleView]:
    """Go on with the next slot; what would have run meanwhile does not."""
    return await _set_paused(caller, schedule, if_match, paused=False)


@post(
    "/schedules/{schedule:str}/run",
    permission=Permission.JOB_WRITE,
    status_code=200,
    tags=["Schedules"],
    responses=responses(404, 409, 429),
)
async def run_schedule(caller: NamedDependency[Caller], schedule: ScheduleName) -> RunView:
    """Make its job now, beside its times; also while it is paused."""
    found = await caller.schedule(schedule)
    project = await caller.platform.tenants.numbered(found.project)
    async with caller.platform.quotas.room(project, 1, memoryview(found.job.payload).nbytes):
        slot = await schedules.run_schedule(
            caller.platform.records.schedules, found, caller.note("schedule.run")
        )
    return RunView(slot.job, slot.at)


@delete(
    "/schedules/{schedule:str}",
    permission=Permission.JOB_WRITE,
    tags=["Schedules"],
    responses=responses(404, 412),
)
async def delete_schedule(
    caller: NamedDependency[Caller], schedule: ScheduleName, if_match: IfMatch = None
) -> None:
    """Delete a schedule. Jobs that it has made stay."""
    old = await caller.schedule(schedule)
    note = caller.note("schedule.delete")
    await schedules.delete_schedule(caller.platform.records.schedules, old, note, mark_in(if_match))


@get(
    "/schedules/{schedule:str}/slots",
    permission=Permission.JOB_READ,
    tags=["Schedules"],
    responses=responses(404),
)
async def list_slots(
    caller: NamedDependency[Caller],
    schedule: ScheduleName,
    limit: FromQuery[int] = 50,
    before_slot: Before = None,
) -> SlotList:
    """What its slots did, the newest first."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await caller.schedule(schedule)
    slots = await schedules.list_slots(
        caller.platform.records.schedules, found, before=before_slot, limit=limit
    )
    return SlotList([slot_view(slot) for slot in slots])


@get(
    "/schedules/{schedule:str}/preview",
    permission=Permission.JOB_READ,
    tags=["Schedules"],
    responses=responses(404),
)
async def preview_schedule(
    caller: NamedDependency[Caller], schedule: ScheduleName, count: FromQuery[int] = 10
) -> Preview:
    """Its next slots, were it not paused."""
    found = await caller.schedule(schedule)
    now = await caller.platform.engine.now()
    return Preview(schedules.preview_schedule(found.timing, now, count))


@get("/cluster", permission=Permission.WORKER_READ, tags=["Cluster"])
async def get_cluster(caller: NamedDependency[Caller]) -> ClusterView:
    """The processes that share the store, and which of them leads. Nodes are shown to the first
    organization alone."""
    return cluster_view(await read_cluster(caller.platform.engine, caller.principal))


async def _set_paused(
    caller: Caller, schedule: str, if_match: str | None, *, paused: bool
) -> Response[ScheduleView]:
    old = await caller.schedule(schedule)
    note = caller.note("schedule.pause" if paused else "schedule.resume")
    changed = await schedules.update_schedule(
        caller.platform.engine,
        caller.platform.records.schedules,
        old,
        ScheduleEdit(is_paused=paused),
        note,
        mark_in(if_match),
    )
    return await _rendered(caller, changed)


async def _rendered(
    caller: Caller, schedule: Schedule, status: int = 200
) -> Response[ScheduleView]:
    names = await caller.project_names(schedule.project)
    view = schedule_view(schedule, names, open_payload=caller.may(Permission.JOB_PAYLOAD))
    return tagged(view, schedule.mark, status)


HANDLERS = [
    list_schedules,
    create_schedule,
    preview_timing,
    get_schedule,
    update_schedule,
    pause_schedule,
    resume_schedule,
    run_schedule,
    delete_schedule,
    list_slots,
    preview_schedule,
    get_cluster,
]
