"""Schedules from Python: `forge.schedules`, and those that the code declares."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from taskforge.domain.access import Forbidden
from taskforge.domain.decoded import DecodedSchedule, decode_schedule
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.schedule import (
    NewSchedule,
    Schedule,
    ScheduleEdit,
    Slot,
    Timing,
    check_timing,
    job_template,
)
from taskforge.operations import schedules as operations
from taskforge.ports.engine import AnyEngine
from taskforge.wiring import schedules_of
from taskforge.worker.registry import Handler

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge

logger = logging.getLogger("taskforge.sdk")
TRIES = 5  # another process may be declaring the same at this moment
_TIMING = Timing.__struct_fields__
_OWN = ("description", "is_paused")


class AppSchedules:
    """`forge.schedules`: what the REST API has of them too."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def create(
        self, name: str, job: Any, payload: Any = msgspec.UNSET, **options: Any
    ) -> DecodedSchedule:
        """`job` is a handler of this app, or a job type (then `queue` is needed). `options`: those
        of the timing (cron, zone or tz, every_seconds, at, starts_at, ends_at, jitter_seconds,
        catch_up, catch_up_limit, overlap), of the job (priority, tags, …), description,
        is_paused."""
        new = build(name, job, payload, options)
        engine = await self._app.engine()
        made = await operations.create_schedule(engine, schedules_of(engine), engine.home, new)
        return decode_schedule(made)

    async def all(self) -> list[DecodedSchedule]:
        engine = await self._app.engine()
        schedules = schedules_of(engine)
        found = await operations.list_schedules(schedules, [engine.home], limit=100_000)
        return [decode_schedule(schedule) for schedule in found]

    async def get(self, name: UUID | str) -> DecodedSchedule:
        return decode_schedule(await self._find(name))

    async def _find(self, name: UUID | str) -> Schedule:
        engine = await self._app.engine()
        return await operations.find_schedule(schedules_of(engine), [engine.home], name)

    async def edit(self, name: UUID | str, /, **options: Any) -> DecodedSchedule:
        """What is not named stays. `options`: as in `create`, and payload, queue and job_type."""
        old = await self._find(name)
        engine = await self._app.engine()
        edit = edit_of(old, options)
        changed = await operations.update_schedule(engine, schedules_of(engine), old, edit)
        return decode_schedule(changed)

    async def pause(self, name: UUID | str) -> DecodedSchedule:
        return await self.edit(name, is_paused=True)

    async def resume(self, name: UUID | str) -> DecodedSchedule:
        """It goes on with its next slot behind now."""
        return await self.edit(name, is_paused=False)

    async def run(self, name: UUID | str) -> Slot:
        """Make its job now, beside its times."""
        schedule = await self._find(name)
        engine = await self._app.engine()
        return await operations.run_schedule(schedules_of(engine), schedule)

    async def delete(self, name: UUID | str) -> None:
        schedule = await self._find(name)
        engine = await self._app.engine()
        await operations.delete_schedule(schedules_of(engine), schedule)

    async def slots(
        self, name: UUID | str, *, before: datetime | None = None, limit: int = 50
    ) -> list[Slot]:
        """What its slots did, the newest first."""
        schedule = await self._find(name)
        engine = await self._app.engine()
        return await operations.list_slots(
            schedules_of(engine), schedule, before=before, limit=limit
        )

    async def preview(self, name: UUID | str, count: int = 10) -> list[datetime]:
        """When it runs next."""
        schedule = await self._find(name)
        engine = await self._app.engine()
        return operations.preview_schedule(schedule.timing, await engine.now(), count)


def build(name: str, job: Any, payload: Any, options: dict[str, Any]) -> NewSchedule:
    handler = getattr(job, "handler", None)
    if isinstance(handler, Handler):
        of_handler = {
            "queue": handler.queue,
            "priority": handler.priority,
            "max_attempts": handler.max_attempts,
            "timeout_seconds": handler.timeout,
        }
        job = handler.job_type
        given = {key: value for key, value in of_handler.items() if value is not None}
        options = given | options
    if not isinstance(job, str):
        raise Invalid("job", f"is a {type(job).__name__}", "use a handler or a job type")
    timing, own, rest = _apart(options)
    if "queue" not in rest:
        raise Invalid("queue", "is missing", "name the queue of the job")
    return NewSchedule(
        name=name,
        timing=check_timing(Timing(**timing)),
        job=job_template(job_type=job, payload=payload, **rest),
        **own,
    )


def edit_of(old: Schedule, options: dict[str, Any]) -> ScheduleEdit:
    timing, own, rest = _apart({key: value for key, value in options.items() if key != "name"})
    changed: dict[str, Any] = dict(own)
    if "name" in options:
        changed["name"] = options["name"]
    if timing:
        kept = {name: getattr(old.timing, name) for name in _TIMING if name not in timing}
        if kinds := {"cron", "every_seconds", "at"} & timing.keys():
            kept |= {name: None for name in ("cron", "every_seconds", "at") if name not in kinds}
            if old.timing.every_seconds is not None and "starts_at" not in timing:
                kept["starts_at"] = None
        changed["timing"] = Timing(**(kept | timing))
    if rest:
        kept = {
            name: getattr(old.job, name) for name in old.job.__struct_fields__ if name not in rest
        }
        if "requires" in kept:
            kept["requires"] = msgspec.json.decode(old.job.requires) if old.job.requires else None
        changed["job"] = job_template(**(kept | rest))
    return ScheduleEdit(**changed)


def _apart(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What is the timing's, the schedule's own, and the job's."""
    options = dict(options)
    if "tz" in options:
        options["zone"] = options.pop("tz")
    timing = {name: options.pop(name) for name in _TIMING if name in options}
    own = {name: options.pop(name) for name in _OWN if name in options}
    return timing, own, options


class DeclaredSchedules:
    """Schedules that the code has: made, or brought to what it says, when the app connects."""

    def __init__(self) -> None:
        self._schedules: dict[str, NewSchedule] = {}
        self.owner: str | None = None  # whose schedules go when they are gone from the code
        self.count = 0

    def add(self, new: NewSchedule) -> None:
        if new.name in self._schedules:
            raise Invalid("name", f"{new.name!r} is declared twice", "give each a name of its own")
        self._schedules[new.name] = new
        self.count += 1

    async def bring_about(self, engine: AnyEngine, project: int) -> int:
        count = self.count
        if not count and self.owner is None:
            return count
        try:
            for new in list(self._schedules.values()):
                await self._patiently(lambda new=new: self._bring_about(engine, project, new))  # type: ignore[misc]
            if self.owner is not None:
                await self._remove_gone(engine, project)
        except Forbidden as error:
            logger.info("the declared schedules are left as they are: %s", error)
        return count

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        for attempt in range(TRIES):
            if attempt + 1 == TRIES:
                await act()
                return
            with suppress(Conflict):
                await act()
                return

    async def _bring_about(self, engine: AnyEngine, project: int, new: NewSchedule) -> None:
        schedules = schedules_of(engine)
        new = msgspec.structs.replace(new, declared_by=self.owner)
        found = await schedules.find([project], new.name)
        if not found:
            await operations.create_schedule(engine, schedules, project, new)
            return
        [old] = found
        timing = new.timing
        if timing.every_seconds is not None and timing.starts_at is None:
            timing = msgspec.structs.replace(timing, starts_at=old.timing.starts_at)
        edit = ScheduleEdit(
            timing=None if timing == old.timing else new.timing,
            job=None if new.job == old.job else new.job,
            description=None if new.description == old.description else new.description,
            declared_by=None if new.declared_by == old.declared_by else new.declared_by,
        )
        if edit != ScheduleEdit():
            await operations.update_schedule(engine, schedules, old, edit)

    async def _remove_gone(self, engine: AnyEngine, project: int) -> None:
        schedules = schedules_of(engine)
        for old in await schedules.schedules([project], limit=100_000):
            if old.declared_by == self.owner and old.name not in self._schedules:
                logger.info("schedule %r is gone from the code and is removed", old.name)
                await operations.delete_schedule(schedules, old)
