"""Scaling policies: make, read, change; what each says now, what became of it, and its series."""

from typing import Annotated

import msgspec
from litestar import Response, delete, get, patch, put
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.cursors import Cursor, cursor_behind, position_of
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName, QueueName
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.scaling import (
    AdviceView,
    ScalingBody,
    ScalingEditBody,
    ScalingEntryView,
    ScalingPointView,
    ScalingView,
    advice_view,
    entry_view,
    given_fields,
    point_view,
    scaling_view,
)
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.queue_scaling import QueueScaling
from taskforge.operations import scaling as operations

MOST_LISTED = 1_000
MOST_ADVISED = 200
_OF_QUEUE = "/queues/{queue:str}/scaling"
Since = Annotated[Time | None, QueryParameter(description="Else an hour before the end")]
Until = Annotated[Time | None, QueryParameter(description="Else now")]


class ScalingList(msgspec.Struct, frozen=True):
    items: list[ScalingView]
    next_cursor: str | None
    """Null: this is the last page"""


class ScalingHistory(msgspec.Struct, frozen=True):
    items: list[ScalingEntryView]
    next_cursor: str | None
    """Null: this is the last page"""


class AdviceList(msgspec.Struct, frozen=True):
    items: list[AdviceView]
    next_cursor: str | None
    """Null: this is the last page"""


class ScalingSeries(msgspec.Struct, frozen=True):
    items: list[ScalingPointView]
    """Each holds until the next"""


class ProviderView(msgspec.Struct, frozen=True):
    name: str
    kind: str
    """none, local, kubernetes, aws or webhook"""


class ProviderList(msgspec.Struct, frozen=True):
    items: list[ProviderView]


@get("/scaling", permission=Permission.QUEUE_READ, tags=["Scaling"], responses=responses(404))
async def list_scaling(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    limit: FromQuery[int] = 100,
    cursor: Cursor = None,
) -> ScalingList:
    """List scaling policies with what each said last, of one project or of the whole
    organization."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await caller.platform.scaling.policies(
        await caller.projects(project), after=position_of(cursor), limit=limit
    )
    names = await caller.project_names()
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return ScalingList([scaling_view(one, names) for one in found], more)


@get(
    "/scaling/advice", permission=Permission.QUEUE_READ, tags=["Scaling"], responses=responses(404)
)
async def list_scaling_advice(
    caller: NamedDependency[Caller],
    project: NewIn = None,
    limit: FromQuery[int] = 50,
    cursor: Cursor = None,
) -> AdviceList:
    """What the scaling policies of a project say now, with the figures that they go by. Nothing is
    done about it."""
    rules.integer("limit", limit, 1, MOST_ADVISED)
    owner = await caller.project(project)
    scaling = caller.platform.scaling
    found = await scaling.policies([owner.number], after=position_of(cursor), limit=limit)
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return AdviceList([advice_view(one) for one in await scaling.advise_all(found)], more)


@get(
    "/scaling/history", permission=Permission.QUEUE_READ, tags=["Scaling"], responses=responses(404)
)
async def list_scaling_history(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    limit: FromQuery[int] = 50,
    cursor: Cursor = None,
) -> ScalingHistory:
    """What scaling policies decided and met, the newest first, also those that are gone."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await caller.platform.scaling.history(
        await caller.projects(project), before=position_of(cursor, 2**62) or None, limit=limit
    )
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return ScalingHistory([entry_view(one) for one in found], more)


@get(
    "/scaling/providers",
    permission=Permission.QUEUE_READ,
    tags=["Scaling"],
    responses=responses(404),
)
async def list_scaling_providers(
    caller: NamedDependency[Caller], project: NewIn = None
) -> ProviderList:
    """Where policies of a project may get workers from. The platform's owner declares them."""
    owner = await caller.project(project)
    found = await caller.platform.scaling.list_providers(owner.number)
    return ProviderList([ProviderView(name, kind) for name, kind in found.items()])


@get(_OF_QUEUE, permission=Permission.QUEUE_READ, tags=["Scaling"], responses=responses(404))
async def get_scaling(caller: NamedDependency[Caller], queue: QueueName) -> Response[ScalingView]:
    """Read the scaling policy of a queue; its ETag makes a later change safe."""
    return await _rendered(caller, await _policy(caller, queue))


@put(
    _OF_QUEUE,
    permission=Permission.QUEUE_WRITE,
    tags=["Scaling"],
    responses=responses(404, 409, 412),
)
async def put_scaling(
    caller: NamedDependency[Caller],
    queue: QueueName,
    data: JSONBody[ScalingBody],
    if_match: IfMatch = None,
) -> Response[ScalingView]:
    """Give a queue a scaling policy, or replace the one it has. The leader looks at it every few
    seconds."""
    made = await caller.platform.scaling.put(
        await caller.queue(queue),
        given_fields(data),
        caller.note("scaling_policy.put"),
        mark_in(if_match),
    )
    return await _rendered(caller, made)


@patch(
    _OF_QUEUE,
    permission=Permission.QUEUE_WRITE,
    tags=["Scaling"],
    responses=responses(404, 409, 412),
)
async def update_scaling(
    caller: NamedDependency[Caller],
    queue: QueueName,
    data: JSONBody[ScalingEditBody],
    if_match: IfMatch = None,
) -> Response[ScalingView]:
    """Change, pause or resume a scaling policy. One that is paused starts and stops nothing."""
    changed = await caller.platform.scaling.edit(
        await _policy(caller, queue),
        given_fields(data),
        caller.note("scaling_policy.update"),
        mark_in(if_match),
    )
    return await _rendered(caller, changed)


@delete(
    _OF_QUEUE, permission=Permission.QUEUE_WRITE, tags=["Scaling"], responses=responses(404, 412)
)
async def delete_scaling(
    caller: NamedDependency[Caller], queue: QueueName, if_match: IfMatch = None
) -> None:
    """Take a queue's scaling policy away. Processes of a local provider end in order; other
    workers, and its history, stay."""
    old = await _policy(caller, queue)
    note = caller.note("scaling_policy.delete")
    await caller.platform.scaling.delete(old, note, mark_in(if_match))


@get(
    f"{_OF_QUEUE}/advice",
    permission=Permission.QUEUE_READ,
    tags=["Scaling"],
    responses=responses(404),
)
async def get_scaling_advice(caller: NamedDependency[Caller], queue: QueueName) -> AdviceView:
    """What the policy of a queue says now, with the figures that it goes by. Nothing is done about
    it."""
    return advice_view(await caller.platform.scaling.advise(await _policy(caller, queue)))


@get(
    f"{_OF_QUEUE}/history",
    permission=Permission.QUEUE_READ,
    tags=["Scaling"],
    responses=responses(404),
)
async def get_scaling_history(
    caller: NamedDependency[Caller],
    queue: QueueName,
    limit: FromQuery[int] = 50,
    cursor: Cursor = None,
) -> ScalingHistory:
    """What the policy of a queue decided and met, the newest first."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    meant = await caller.queue(queue)
    found = await caller.platform.scaling.history(
        [meant.project], meant.id, before=position_of(cursor, 2**62) or None, limit=limit
    )
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return ScalingHistory([entry_view(one) for one in found], more)


@get(
    f"{_OF_QUEUE}/series",
    permission=Permission.QUEUE_READ,
    tags=["Scaling"],
    responses=responses(404),
)
async def get_scaling_series(
    caller: NamedDependency[Caller],
    queue: QueueName,
    since: Since = None,
    until: Until = None,
    points: FromQuery[int] = 300,
) -> ScalingSeries:
    """Workers that were wanted, there, on their way and draining, the queue's length and the share
    of busy slots, over time; kept for three days."""
    policy = await _policy(caller, queue)
    found = await operations.read_series(
        caller.platform.scaling,
        policy,
        await caller.platform.engine.now(),
        since=since,
        until=until,
        points=points,
    )
    return ScalingSeries([point_view(one) for one in found])


async def _policy(caller: Caller, queue: str) -> QueueScaling:
    return await operations.find_policy(caller.platform.scaling, await caller.queue(queue))


async def _rendered(caller: Caller, scaling: QueueScaling) -> Response[ScalingView]:
    names = await caller.project_names(scaling.project)
    return tagged(scaling_view(scaling, names), scaling.mark)


HANDLERS = [
    list_scaling,
    list_scaling_advice,
    list_scaling_history,
    list_scaling_providers,
    get_scaling,
    put_scaling,
    update_scaling,
    delete_scaling,
    get_scaling_advice,
    get_scaling_history,
    get_scaling_series,
]
