"""Events for applications: those of their project, of nodes and of who leads."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.query import CLUSTER, Event
from taskforge.ports.engine import AnyEngine, Engine, is_store
from taskforge.wiring import event_stream

POLL_SECONDS = 0.25
PAGE = 500


class AppEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened: jobs of one queue that reached one status together, or a change of a
    queue, a worker, a schedule, a node or who leads."""

    cursor: str  # where to go on behind it
    topic: str
    at: datetime
    queue: str | None = None
    jobs: tuple[UUID, ...] = ()
    worker: UUID | None = None
    details: dict[str, Any] = {}


async def follow(engine: AnyEngine, after: str | None) -> AsyncIterator[AppEvent]:
    if is_store(engine):
        async for event in _of_store(engine, after):
            yield event
    else:
        async for cursor, data in event_stream(engine, after):
            yield msgspec.structs.replace(_decode(data), cursor=cursor)


async def _of_store(engine: Engine, after: str | None) -> AsyncIterator[AppEvent]:
    cursor = after
    names: dict[int, str] = {}
    while True:
        try:
            if cursor is None:
                cursor = (await engine.events(None, 1)).cursor
            page = await engine.events(cursor, PAGE)
            numbers = {
                event.queue
                for event in page.items
                if event.queue is not None and event.project == engine.home
            }
            names = await engine.directory.name_queues(numbers) if numbers else {}
        except StoreUnavailable as error:
            await asyncio.sleep(error.retry_after)
            continue
        for event in page.items:
            if event.project in (engine.home, CLUSTER):
                yield _shown(event, names)
        cursor = page.cursor
        if not page.items:
            await asyncio.sleep(POLL_SECONDS)


def _shown(event: Event, names: dict[int, str]) -> AppEvent:
    return AppEvent(
        cursor=event.cursor,
        topic=event.topic,
        at=event.at,
        queue=None if event.queue is None else names.get(event.queue),
        jobs=event.jobs,
        worker=event.worker,
        details={} if event.details is None else msgspec.json.decode(event.details),
    )


class _Data(msgspec.Struct, kw_only=True):
    topic: str
    at: datetime
    queue: str | None = None
    jobs: tuple[UUID, ...] = ()
    worker: UUID | None = None
    details: dict[str, Any] = {}


_data = msgspec.json.Decoder(_Data)


def _decode(data: str) -> AppEvent:
    found = _data.decode(data)
    return AppEvent(cursor="", **msgspec.structs.asdict(found))
