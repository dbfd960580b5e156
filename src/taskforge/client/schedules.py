"""Schedules on a server elsewhere, and the cluster that it belongs to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from taskforge.client.requests import Request, get, nothing, post, reader
from taskforge.client.transport import Transport
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.schedule import (
    CatchUp,
    JobTemplate,
    NewSchedule,
    Overlap,
    Schedule,
    ScheduleEdit,
    Slot,
    SlotOutcome,
    Timing,
)

T = TypeVar("T")
NULL = msgspec.Raw(b"null")
PAGE = 1_000
_TIMING = Timing.__struct_fields__
_JOB = JobTemplate.__struct_fields__


class _Schedule(msgspec.Struct, kw_only=True):
    id: UUID
    name: str
    description: str
    cron: str | None
    zone: str
    every_seconds: float | None
    at: datetime | None
    starts_at: datetime | None
    ends_at: datetime | None
    jitter_seconds: float
    catch_up: CatchUp
    catch_up_limit: int
    overlap: Overlap
    queue: str
    job_type: str
    payload: msgspec.Raw = NULL
    priority: int
    max_attempts: int | None
    timeout_seconds: float | None
    deadline_seconds: float | None
    expires_seconds: float | None
    tags: tuple[str, ...]
    requires: msgspec.Raw = NULL
    fairness_key: str | None
    is_paused: bool
    declared_by: str | None
    next_at: datetime | None
    last_slot: datetime | None
    last_job: UUID | None
    version: int
    created_at: datetime
    updated_at: datetime

    def value(self, number: int = 0) -> Schedule:
        own = set(self.__struct_fields__) - {*_TIMING, *_JOB}
        job = {name: getattr(self, name) for name in _JOB}
        job["requires"] = "" if bytes(self.requires) == b"null" else bytes(self.requires).decode()
        job["payload"] = self.payload.copy()
        return Schedule(
            **{name: getattr(self, name) for name in own},
            number=number,
            project=0,
            due_at=self.next_at,
            timing=Timing(**{name: getattr(self, name) for name in _TIMING}),
            job=JobTemplate(**job),
        )


class _Schedules(msgspec.Struct):
    items: list[_Schedule]
    next_cursor: str | None


class _Slot(msgspec.Struct, kw_only=True):
    at: datetime
    fired_at: datetime
    outcome: SlotOutcome
    job: UUID | None
    detail: str | None
    manual: bool


class _Slots(msgspec.Struct):
    items: list[_Slot]


class _Run(msgspec.Struct):
    job: UUID | None
    at: datetime


_read, _read_all = reader(_Schedule), reader(_Schedules)
_read_slots, _read_run = reader(_Slots), reader(_Run)


class RemoteSchedules:
    """Implements `ports.schedules.Schedules`. Which project, the key decides."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def schedules(
        self, projects: Sequence[int], *, after: int = 0, limit: int = PAGE
    ) -> list[Schedule]:
        """Numbers are places in this list."""
        found: list[Schedule] = []
        cursor: str | None = None
        while len(found) < after + limit:
            page = await self._send(get("/schedules", _read_all, limit=PAGE, cursor=cursor))
            start = len(found) + 1
            found += [one.value(start + place) for place, one in enumerate(page.items)]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[after : after + limit]

    async def find(self, projects: Sequence[int], name: UUID | str) -> list[Schedule]:
        try:
            return [(await self._send(get(_path(name), _read))).value()]
        except NotFound:
            return []

    async def slots(
        self, schedule: Schedule, *, before: datetime | None = None, limit: int = 50
    ) -> list[Slot]:
        path = f"{_path(schedule.id)}/slots"
        page = await self._send(get(path, _read_slots, limit=limit, before_slot=before))
        return [Slot(**msgspec.structs.asdict(one)) for one in page.items]

    async def create(
        self, project: int, new: NewSchedule, note: Note | None, most: int | None = None
    ) -> Schedule:
        body = _timing(new.timing) | _job(new.job)
        body |= {
            name: getattr(new, name) for name in ("name", "description", "is_paused", "declared_by")
        }
        return (await self._send(post("/schedules", _read, body))).value()

    async def update(
        self, old: Schedule, edit: ScheduleEdit, note: Note | None, expected: str | None = None
    ) -> Schedule:
        headers = {} if expected is None else {"If-Match": f'"{expected}"'}
        path, made = _path(old.id), old
        fields = _edit(old, edit)
        if fields:
            encoded = msgspec.json.encode(fields)
            request = Request("PATCH", path, _read, body=encoded, headers=headers)
            made, headers = (await self._send(request)).value(old.number), {}
        if edit.is_paused is not None:
            verb = "pause" if edit.is_paused else "resume"
            request = post(f"{path}/{verb}", _read, headers=headers)
            made = (await self._send(request)).value(old.number)
        return made

    async def delete(self, old: Schedule, note: Note | None, expected: str | None = None) -> None:
        headers = {} if expected is None else {"If-Match": f'"{expected}"'}
        await self._send(Request("DELETE", _path(old.id), nothing, headers=headers))

    async def run(self, schedule: Schedule, note: Note | None) -> Slot:
        run = await self._send(post(f"{_path(schedule.id)}/run", _read_run))
        [slot] = await self.slots(schedule, limit=1)
        return msgspec.structs.replace(slot, at=run.at, job=run.job)

    async def _send(self, request: Request[T]) -> T:
        return await self._transport.send(request)


def _path(name: UUID | str) -> str:
    return f"/schedules/{quote(str(name), safe='')}"


def _timing(timing: Timing) -> dict[str, Any]:
    return {name: getattr(timing, name) for name in _TIMING}


def _job(job: JobTemplate) -> dict[str, Any]:
    fields = {name: getattr(job, name) for name in _JOB}
    return fields | {"requires": msgspec.json.decode(job.requires) if job.requires else None}


def _edit(old: Schedule, edit: ScheduleEdit) -> dict[str, Any]:
    """What differs; the kind of timing is always named with it."""
    fields: dict[str, Any] = {
        name: getattr(edit, name)
        for name in ("name", "description", "declared_by")
        if getattr(edit, name) is not None
    }
    pairs = []
    if edit.timing is not None:
        pairs.append((_timing(old.timing), _timing(edit.timing)))
    if edit.job is not None:
        pairs.append((_job(old.job), _job(edit.job)))
    for before, after in pairs:
        fields |= {name: value for name, value in after.items() if value != before[name]}
    for kind in ("cron", "every_seconds", "at"):
        if fields.get(kind, kind) is None:
            del fields[kind]  # another takes its place
    return fields
