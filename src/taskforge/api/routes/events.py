"""What happens, as it happens: a stream of server-sent events that resumes without a gap."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import ProjectName
from taskforge.domain.access import Permission, Unauthenticated
from taskforge.domain.errors import Invalid, StoreUnavailable
from taskforge.domain.event_flow import EventFlow
from taskforge.domain.query import CLUSTER, MOST_VALUES, Event
from taskforge.operations.cluster import may_see_cluster

QUIET_SECONDS, CHECK_SECONDS = 15.0, 2.0
_NEEDS = {
    "job": Permission.JOB_READ,
    "queue": Permission.QUEUE_READ,
    "worker": Permission.WORKER_READ,
    "node": Permission.WORKER_READ,
    "leader": Permission.WORKER_READ,
}
LastEventId = Annotated[
    str | None, HeaderParameter(name="Last-Event-ID", description="Go on behind this event")
]
# Where a browser has to send a credential, it is not its own EventSource that reconnects; what does
# so can set no such header.
LastEventIdInQuery = Annotated[
    str | None,
    QueryParameter(name="lastEventId", description="The same, for who cannot set the header"),
]
Topic = Annotated[
    str | None, QueryParameter(description="Only topics that begin so, such as job or job.failed")
]


Queues = Annotated[
    list[str] | None,
    QueryParameter(name="queue", description="Only events of these queues, by name or id"),
]


class EventView(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: str
    project: str
    at: str
    queue: str | None = None
    jobs: tuple[str, ...] = ()
    worker: str | None = None
    details: dict[str, Any] | None = None
    """Of schedules, nodes and leaders; of jobs that are only counted `count`, and by type `types`;
    of a sum of events `events`, how many there were"""


@get(
    "/events",
    permission=Permission.JOB_READ,
    tags=["Events"],
    responses={
        200: ResponseSpec(
            str,
            description="Server-sent events",
            media_type="text/event-stream",
            generate_examples=False,
        ),
        **responses(404, 409, 410, 429),
    },
)
async def stream_events(
    caller: NamedDependency[Caller],
    request: Request[Any, Any, Any],
    last_event_id: LastEventId = None,
    project: ProjectName = None,
    topic: Topic = None,
    queues: Queues = None,
    last_event_id_in_query: LastEventIdInQuery = None,
) -> ServerSentEvent:
    """Events of jobs, queues and workers in commit order. Last-Event-ID goes on where a stream
    broke; 410 if that is too old. What is enqueued and started is counted, twice a second for each
    queue. Above 50 events of jobs a second, sums are told instead, for each queue and topic by the
    second."""
    only = None if project is None else (await caller.projects(project))[0]
    if len(queues or ()) > MOST_VALUES:
        raise Invalid("queue", f"is given {len(queues or ()):,} times", f"at most {MOST_VALUES}")
    wanted = None if queues is None else {(await caller.queue(one)).number for one in queues}
    scope: Any = request.scope
    owner = await caller.platform.tenants.organization(caller.principal.organization)
    scope["held"].callback(caller.platform.streams.take(caller.principal, owner.ceiling.streams))
    follower = caller.platform.feed.follow(last_event_id or last_event_id_in_query)
    await follower.begin()
    return ServerSentEvent(_messages(caller, follower, only, topic or "", wanted), status_code=200)


async def _messages(
    begun: Caller, follower: Any, only: int | None, topic: str, wanted: set[int] | None
) -> AsyncIterator[ServerSentEventMessage]:
    loop = asyncio.get_running_loop()
    flow = EventFlow()
    with follower:
        yield ServerSentEventMessage(None, comment="open", retry=1_000)
        sent_at = loop.time()
        while not follower.is_over:
            events = await follower.next(flow.seconds_left(loop.time(), CHECK_SECONDS))
            caller = await _still(begun)
            if caller is None:
                return
            # some are made while it runs
            projects = [one for one in caller.principal.projects if only in (None, one)]
            if only is None and may_see_cluster(caller.principal):
                projects.append(CLUSTER)
            seen = [
                event
                for event in events
                if event.project in projects
                and event.topic.startswith(topic)
                and (wanted is None or event.queue in wanted)
                and caller.may(_needed(event))
            ]
            told = flow.take(seen, loop.time())
            names = await caller.project_names() if told else {}
            numbers = {event.queue for event in told if event.queue is not None}
            queues = await caller.platform.engine.directory.name_queues(numbers) if numbers else {}
            for event in told:
                yield ServerSentEventMessage(
                    id=event.cursor or None, event=event.topic, data=_data(event, names, queues)
                )
                sent_at = loop.time()
            if flow.is_holding:
                continue  # the cursor is ahead of what was told
            if loop.time() - sent_at > QUIET_SECONDS:
                # Also when all of it was others': whoever comes back later need not begin with what
                # they may not see.
                yield ServerSentEventMessage(None, comment="quiet", id=follower.cursor)
                sent_at = loop.time()


def _needed(event: Event) -> Permission:
    return _NEEDS.get(event.topic.partition(".")[0], Permission.JOB_READ)


def _data(event: Event, names: dict[int, str], queues: dict[int, str]) -> str:
    view = EventView(
        event.topic,
        names.get(event.project, ""),
        event.at.isoformat(),
        None if event.queue is None else queues.get(event.queue),
        tuple(map(str, event.jobs)),
        None if event.worker is None else str(event.worker),
        None if event.details is None else msgspec.json.decode(event.details),
    )
    return msgspec.json.encode(view).decode()


async def _still(caller: Caller) -> Caller | None:
    """A stream may outlive the right to read it. Asked before what came is sent; the answer is
    remembered for two seconds."""
    try:
        principal = await caller.platform.gatekeeper.identify(caller.credential)
    except Unauthenticated:
        return None
    except StoreUnavailable:
        return caller
    return (
        msgspec.structs.replace(caller, principal=principal)
        if principal.permissions >= caller.principal.permissions
        else None
    )


HANDLERS = [stream_events]
