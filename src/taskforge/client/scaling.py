"""Scaling policies on a server elsewhere."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from taskforge.client.requests import Request, get, nothing, reader
from taskforge.client.transport import Transport
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.queue import Queue
from taskforge.domain.queue_scaling import (
    AdvisedScaling,
    Drained,
    QueueScaling,
    ScalingEntry,
    ScalingNews,
    ScalingPoint,
    ScalingState,
    check_names,
)
from taskforge.domain.scaling import (
    ScalingAction,
    ScalingAdvice,
    ScalingPolicy,
    ScalingSight,
)
from taskforge.domain.scaling_windows import ScalingWindow

T = TypeVar("T")
PAGE = 1_000


class _Drained(msgspec.Struct):
    worker_id: UUID
    worker: str
    since: datetime
    stopped_at: datetime | None


class _State(msgspec.Struct, kw_only=True):
    action: ScalingAction
    count: int
    desired: int
    reason: str
    workers: int
    coming: int
    missing: int
    draining: list[_Drained]
    last_up: datetime | None
    last_down: datetime | None
    error: str | None
    retry_at: datetime | None
    looked_at: datetime | None

    def state(self) -> ScalingState:
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "draining"}
        draining = tuple(
            Drained(
                worker=one.worker_id, name=one.worker, since=one.since, stopped_at=one.stopped_at
            )
            for one in self.draining
        )
        return ScalingState(draining=draining, **own)


class _Policy(msgspec.Struct, kw_only=True):
    queue: str
    queue_id: UUID
    provider: str
    is_paused: bool
    is_dry_run: bool
    min_workers: int
    max_workers: int
    target_queue_length: int
    target_utilization_percent: float
    drain_seconds: float
    scale_up_threshold: int
    scale_down_threshold: int
    scale_up_cooldown_seconds: float
    scale_down_cooldown_seconds: float
    missing_after_seconds: float
    drain_grace_seconds: float
    may_stop_any_worker: bool
    windows: tuple[ScalingWindow, ...]
    state: _State
    version: int
    created_at: datetime
    updated_at: datetime

    def scaling(self, number: int = 0) -> QueueScaling:
        own = ("queue", "queue_id", "provider", "is_paused", "is_dry_run", "version")
        figures = {name: getattr(self, name) for name in ScalingPolicy.__struct_fields__}
        return QueueScaling(
            number=number,
            id=self.queue_id,
            project=0,
            is_queue_active=True,
            policy=ScalingPolicy(**figures),
            state=self.state.state(),
            state_version=0,
            **{name: getattr(self, name) for name in (*own, "created_at", "updated_at")},
        )


class _Policies(msgspec.Struct):
    items: list[_Policy]
    next_cursor: str | None


class _Figures(msgspec.Struct, kw_only=True):
    pending: int
    processing: int
    workers: int
    busy_slots: int
    slots: int
    jobs_per_second: float | None
    arrivals_per_second: float

    def sight(self) -> ScalingSight:
        return ScalingSight(**msgspec.structs.asdict(self))


class _Entry(msgspec.Struct, kw_only=True):
    queue: str
    queue_id: UUID
    at: datetime
    news: ScalingNews
    count: int
    desired: int
    reason: str
    term: int
    figures: _Figures | None

    def entry(self, number: int) -> ScalingEntry:
        figures = None if self.figures is None else self.figures.sight()
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "figures"}
        return ScalingEntry(number=number, figures=figures, **own)


class _History(msgspec.Struct):
    items: list[_Entry]
    next_cursor: str | None


class _Series(msgspec.Struct):
    items: list[ScalingPoint]


class _Advice(msgspec.Struct, kw_only=True):
    queue: str
    queue_id: UUID
    action: ScalingAction
    count: int
    reason: str
    desired: int
    coming: int
    missing: int
    figures: _Figures

    def advised(self) -> AdvisedScaling:
        advice = {name: getattr(self, name) for name in ScalingAdvice.__struct_fields__}
        return AdvisedScaling(
            queue=self.queue,
            queue_id=self.queue_id,
            advice=ScalingAdvice(**advice),
            figures=self.figures.sight(),
        )


_read, _read_all, _read_history = reader(_Policy), reader(_Policies), reader(_History)
_read_series, _read_advice = reader(_Series), reader(_Advice)


class RemoteScaling:
    """Implements `ports.scaling.Scaling`. Which project, the key decides."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def policies(
        self, projects: Sequence[int], *, after: int = 0, limit: int = PAGE
    ) -> list[QueueScaling]:
        """Numbers are places in this list."""
        found: list[QueueScaling] = []
        cursor: str | None = None
        while len(found) < after + limit:
            page = await self._send(get("/scaling", _read_all, limit=PAGE, cursor=cursor))
            start = len(found) + 1
            found += [one.scaling(start + place) for place, one in enumerate(page.items)]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[after : after + limit]

    async def find(self, queue: Queue) -> QueueScaling | None:
        try:
            return (await self._send(get(_path(queue.id), _read))).scaling()
        except NotFound:
            return None

    async def put(
        self, queue: Queue, fields: Mapping[str, Any], note: Note | None, expected: str | None
    ) -> QueueScaling:
        return await self._change("PUT", queue.id, fields, expected)

    async def edit(
        self, old: QueueScaling, fields: Mapping[str, Any], note: Note | None, expected: str | None
    ) -> QueueScaling:
        return await self._change("PATCH", old.queue_id, fields, expected)

    async def delete(self, old: QueueScaling, note: Note | None, expected: str | None) -> None:
        await self._send(
            Request("DELETE", _path(old.queue_id), nothing, headers=_if_match(expected))
        )

    async def history(
        self, projects: Sequence[int], queue: UUID | None = None, *, limit: int = 50
    ) -> list[ScalingEntry]:
        """Numbers are places in this list, from its end."""
        path = "/scaling/history" if queue is None else f"{_path(queue)}/history"
        found: list[_Entry] = []
        cursor: str | None = None
        while len(found) < limit:
            most = min(PAGE, limit - len(found))
            page = await self._send(get(path, _read_history, limit=most, cursor=cursor))
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return [one.entry(len(found) - place) for place, one in enumerate(found)]

    async def series(
        self, scaling: QueueScaling, since: datetime, until: datetime, points: int
    ) -> list[ScalingPoint]:
        path = f"{_path(scaling.queue_id)}/series"
        asked = get(path, _read_series, since=since, until=until, points=points)
        return (await self._send(asked)).items

    async def advise(self, scaling: QueueScaling) -> AdvisedScaling:
        asked = get(f"{_path(scaling.queue_id)}/advice", _read_advice)
        return (await self._send(asked)).advised()

    async def _change(
        self, verb: str, queue: UUID, fields: Mapping[str, Any], expected: str | None
    ) -> QueueScaling:
        check_names(fields)
        body = msgspec.json.encode(fields)
        request = Request(verb, _path(queue), _read, body=body, headers=_if_match(expected))
        return (await self._send(request)).scaling()

    async def _send(self, request: Request[T]) -> T:
        return await self._transport.send(request)


def _if_match(expected: str | None) -> dict[str, str]:
    return {} if expected is None else {"If-Match": f'"{expected}"'}


def _path(queue: UUID) -> str:
    return f"/queues/{quote(str(queue), safe='')}/scaling"
