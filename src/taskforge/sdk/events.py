"""Events for applications: those of their project, of nodes and of who leads."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.errors import Invalid, StoreUnavailable
from taskforge.domain.event_flow import EventFlow
from taskforge.domain.query import CLUSTER, Event
from taskforge.operations.naming import find_queue
from taskforge.ports.engine import AnyEngine, Engine, is_store
from taskforge.wiring import event_stream

POLL_SECONDS = 0.25
PAGE = 500


class AppEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened: jobs of one queue that reached one status together, or a change of a
    queue, a worker, a schedule, a node or who leads. Jobs that were enqueued or started are counted
    (`count`), not named; above 50 events of jobs a second so are the others, by the second."""

    cursor: str  # where to go on behind it
    topic: str
    at: datetime
    queue: str | None = None
    jobs: tuple[UUID, ...] = ()
    worker: UUID | None = None
    details: dict[str, Any] = {}

    @property
    def count(self) -> int:
        """How many jobs it is about, named or counted."""
        return len(self.jobs) or int(self.details.get("count", 0))


async def follow(
    engine: AnyEngine, after: str | None, topic: str = "", queues: Sequence[UUID | str] = ()
) -> AsyncIterator[AppEvent]:
    if isinstance(queues, str):
        raise Invalid("queues", "is a text", "give a list of names or ids of queues")
    wanted = [str(queue) for queue in queues]
    if is_store(engine):
        found = [(await find_queue(engine, queue)).number for queue in wanted]
        async for event in _of_store(engine, after, topic, frozenset(found)):
            yield event
    else:
        async for cursor, data in event_stream(engine, after, topic, wanted):
            yield msgspec.structs.replace(_decode(data), cursor=cursor)


async def _of_store(
    engine: Engine, after: str | None, topic: str, queues: frozenset[int]
) -> AsyncIterator[AppEvent]:
    cursor, flow, clock = after, EventFlow(), asyncio.get_running_loop().time
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
        seen = [
            event
            for event in page.items
            if event.project in (engine.home, CLUSTER)
            and event.topic.startswith(topic)
            and (not queues or event.queue in queues)
        ]
        for event in flow.take(seen, clock()):
            yield _shown(event, names)
        cursor = page.cursor
        if not page.items:
            await asyncio.sleep(flow.seconds_left(clock(), POLL_SECONDS))


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
