"""Queues: create, read, change, pause, measure, delete."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, PathParameter, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.etags import IfMatch, tagged, version_in
from taskforge.api.entry.problems import responses
from taskforge.api.schema.views.queues import QueueStatsView, QueueView, queue_view, stats_view
from taskforge.domain.access import Permission
from taskforge.domain.errors import Conflict, Invalid, NotFound, Stale
from taskforge.domain.forecast import Forecast
from taskforge.domain.metrics import Subject
from taskforge.domain.name_pages import NamePage
from taskforge.domain.query import MOST_IDS, QueueStats
from taskforge.domain.queue import CreateQueue, DeleteQueue, Queue, QueueSettings, UpdateQueue
from taskforge.operations import directory
from taskforge.operations.forecasts import forecast_from, period_before
from taskforge.operations.metrics import read_metrics
from taskforge.operations.scaling_signal import ScalingSignal

ProjectName = Annotated[
    str | None,
    QueryParameter(name="project", description="A project's name or id; else all that you may see"),
]
NewIn = Annotated[
    str | None,
    QueryParameter(
        name="project", description="A project's name or id; else the key's own, or the only one"
    ),
]
QueueName = Annotated[
    str,
    PathParameter(description="A queue's id, or its name where only one of your projects has it"),
]


Limit = Annotated[int, QueryParameter(ge=1, le=1_000, description="At most so many")]
NameFilter = Annotated[
    str | None,
    QueryParameter(
        name="name",
        description="A name or an id, or part of a name: `*` stands for any letters, as in "
        "`mail*` and `*mail*`",
    ),
]


StatsOf = Annotated[
    list[UUID] | None,
    QueryParameter(name="queue_id", description="Only these queues, at most 100 of them"),
]


class NewQueue(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    description: str = ""
    priority: int = 0
    settings: dict[str, Any] = {}
    is_active: bool = True


class QueueEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Fields left out stay as they are. Settings are merged; a setting of null goes back to its
    default."""

    name: str | None = None
    description: str | None = None
    priority: int | None = None
    settings: dict[str, Any] | None = None
    is_active: bool | None = None


class QueueList(msgspec.Struct, frozen=True):
    items: list[QueueView]
    next_cursor: str | None = None
    """Pass it as `cursor` for the page behind. A page may be short, or empty, and only null says
    that it was the last"""


class Totals(msgspec.Struct, frozen=True):
    """The sum over all queues of the answer: of a project, or of the organization."""

    total: int
    pending: int
    scheduled: int
    processing: int
    succeeded: int
    failed: int
    cancelled: int


class StatsList(msgspec.Struct, frozen=True):
    items: list[QueueStatsView]
    totals: Totals


@get("/queues", permission=Permission.QUEUE_READ, tags=["Queues"], responses=responses(404))
async def list_queues(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    name: NameFilter = None,
    limit: Limit = 100,
    cursor: FromQuery[str | None] = None,
) -> QueueList:
    """List queues by name, of one project or of the whole organization, project by project."""
    page = NamePage(name=name, limit=limit, cursor=cursor)
    found = await directory.list_queues(
        caller.platform.engine, await caller.projects(project), page
    )
    names = await caller.project_names()
    return QueueList([queue_view(one, names) for one in found.items], found.cursor)


@post("/queues", permission=Permission.QUEUE_WRITE, tags=["Queues"], responses=responses(404, 409))
async def create_queue(
    caller: NamedDependency[Caller], data: JSONBody[NewQueue], project: NewIn = None
) -> Response[QueueView]:
    """Create a queue. Its name is unique in its project."""
    owner = await caller.project(project)
    change = CreateQueue(
        name=data.name,
        description=data.description,
        priority=data.priority,
        settings=_settings(data.settings),
        is_active=data.is_active,
    )
    made = await caller.platform.queue_ceilings.create(owner, change, caller.note("queue.create"))
    return await _rendered(caller, made, 201)


@get(
    "/queues/{queue:str}",
    permission=Permission.QUEUE_READ,
    tags=["Queues"],
    responses=responses(404),
)
async def get_queue(caller: NamedDependency[Caller], queue: QueueName) -> Response[QueueView]:
    """Read a queue; its ETag makes a later change safe."""
    return await _rendered(caller, await caller.queue(queue))


@patch(
    "/queues/{queue:str}",
    permission=Permission.QUEUE_WRITE,
    tags=["Queues"],
    responses=responses(404, 409, 412),
)
async def update_queue(
    caller: NamedDependency[Caller],
    queue: QueueName,
    data: JSONBody[QueueEdit],
    if_match: IfMatch = None,
) -> Response[QueueView]:
    """Change a queue. With If-Match the change is made only to the version that you read."""
    old = await caller.queue(queue)
    settings = None
    if data.settings is not None:
        settings = _settings({**msgspec.to_builtins(old.settings), **data.settings})
    expected = version_in(if_match)
    change = UpdateQueue(
        queue=old.id,
        name=data.name,
        description=data.description,
        priority=data.priority,
        settings=settings,
        is_active=data.is_active,
        # Settings were merged with what was read: if that changed meanwhile, merging again is for
        # the caller to decide.
        expected_version=expected if expected is not None or settings is None else old.version,
    )
    try:
        made = await caller.platform.engine.change_queue(
            old.project, change, note=caller.note("queue.update")
        )
    except Stale as error:
        if expected is None:
            raise Conflict(str(error)) from None
        raise
    return await _rendered(caller, made)


@post(
    "/queues/{queue:str}/pause",
    permission=Permission.QUEUE_WRITE,
    status_code=200,
    tags=["Queues"],
    responses=responses(404, 409, 412),
)
async def pause_queue(
    caller: NamedDependency[Caller], queue: QueueName, if_match: IfMatch = None
) -> Response[QueueView]:
    """Start no more of its jobs, and take no new ones unless its settings say otherwise."""
    return await _set_active(caller, queue, if_match, active=False)


@post(
    "/queues/{queue:str}/resume",
    permission=Permission.QUEUE_WRITE,
    status_code=200,
    tags=["Queues"],
    responses=responses(404, 409, 412),
)
async def resume_queue(
    caller: NamedDependency[Caller], queue: QueueName, if_match: IfMatch = None
) -> Response[QueueView]:
    """Go on with a paused queue."""
    return await _set_active(caller, queue, if_match, active=True)


@delete(
    "/queues/{queue:str}",
    permission=Permission.QUEUE_WRITE,
    tags=["Queues"],
    responses=responses(404, 409, 412),
)
async def delete_queue(
    caller: NamedDependency[Caller], queue: QueueName, if_match: IfMatch = None
) -> None:
    """Delete a queue: what waits in it is cancelled, its history stays. Refused while its jobs
    run."""
    old = await caller.queue(queue)
    change = DeleteQueue(queue=old.id, expected_version=version_in(if_match))
    await caller.platform.engine.change_queue(old.project, change, note=caller.note("queue.delete"))


@get(
    "/queues/{queue:str}/stats",
    permission=Permission.QUEUE_READ,
    tags=["Queues"],
    responses=responses(404),
)
async def queue_stats(caller: NamedDependency[Caller], queue: QueueName) -> QueueStatsView:
    """How many of its jobs are in each status, and how long the oldest one waits."""
    meant = await caller.queue(queue)
    found = await caller.platform.engine.stats([meant.project], of=[meant.id])
    if not found:  # deleted meanwhile
        raise NotFound("queue", str(meant.id))
    return stats_view(found[0])


@get(
    "/queues/{queue:str}/forecast",
    permission=Permission.QUEUE_READ,
    tags=["Queues"],
    responses=responses(404),
)
async def get_queue_forecast(caller: NamedDependency[Caller], queue: QueueName) -> Forecast:
    """How long a job that comes now would wait, and when nothing waits any more, if the next
    minutes are like the last 15; or that the queue only grows. Ranges in seconds."""
    meant, engine = await caller.queue(queue), caller.platform.engine
    found = await engine.stats([meant.project], of=[meant.id])
    if not found:  # deleted meanwhile
        raise NotFound("queue", str(meant.id))
    period = period_before(await engine.now())
    metrics = await read_metrics(engine, [meant.project], Subject(queue=meant.id), period)
    return forecast_from(found[0], metrics)


@get(
    "/queues/{queue:str}/scaling-signal",
    permission=Permission.QUEUE_READ,
    tags=["Queues"],
    responses=responses(404),
)
async def get_scaling_signal(caller: NamedDependency[Caller], queue: QueueName) -> ScalingSignal:
    """How many jobs need workers, and how many workers the queue's policy wants: for an autoscaler
    that asks every few seconds, such as KEDA's metrics-api scaler. It is up to a second old."""
    signals, projects = caller.platform.signals, caller.principal.projects
    if len(projects) == 1:  # no list of its queues, which may be many, only to find this one
        [project] = projects
        signal = await signals.find(project, queue)
        if signal is not None:
            return signal
    return await signals.read(await caller.queue(queue))


@get("/stats", permission=Permission.QUEUE_READ, tags=["Queues"], responses=responses(404))
async def list_stats(
    caller: NamedDependency[Caller], project: ProjectName = None, queue_ids: StatsOf = None
) -> StatsList:
    """The same for some queues, or for every queue of a project or of the organization, and their
    sum."""
    if queue_ids is not None and len(queue_ids) > MOST_IDS:
        raise Invalid(
            "queue_id", f"is given {len(queue_ids):,} times", f"ask for at most {MOST_IDS} at once"
        )
    return summed(await caller.platform.engine.stats(await caller.projects(project), of=queue_ids))


def summed(found: Sequence[QueueStats]) -> StatsList:
    totals = Totals(
        *(sum(getattr(one, name) for one in found) for name in Totals.__struct_fields__)
    )
    return StatsList([stats_view(one) for one in found], totals)


def _settings(values: dict[str, Any]) -> QueueSettings:
    return QueueSettings.parse({name: value for name, value in values.items() if value is not None})


async def _set_active(
    caller: Caller, queue: str, if_match: str | None, *, active: bool
) -> Response[QueueView]:
    old = await caller.queue(queue)
    note = caller.note("queue.resume" if active else "queue.pause")
    change = UpdateQueue(queue=old.id, is_active=active, expected_version=version_in(if_match))
    made = await caller.platform.engine.change_queue(old.project, change, note=note)
    return await _rendered(caller, made)


async def _rendered(caller: Caller, queue: Queue, status: int = 200) -> Response[QueueView]:
    view = queue_view(queue, await caller.project_names())
    return tagged(view, queue.version, status)


HANDLERS = [
    list_queues,
    create_queue,
    get_queue,
    update_queue,
    pause_queue,
    resume_queue,
    delete_queue,
    queue_stats,
    get_queue_forecast,
    get_scaling_signal,
    list_stats,
]
