"""Workers: make known, read, steer, end."""

from typing import Any
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import Limit, NameFilter, NewIn, ProjectName
from taskforge.api.schema.values import Time
from taskforge.api.schema.views.workers import WorkerView, worker_view
from taskforge.domain.access import Permission
from taskforge.domain.name_pages import NamePage
from taskforge.domain.worker import RegisterWorker, UpdateWorker, Worker, check_worker
from taskforge.operations import directory
from taskforge.operations.workers import (
    change_worker,
    check_selection,
    count_work,
    end_worker,
    select_among,
)


class WorkerList(msgspec.Struct, frozen=True):
    items: list[WorkerView]
    next_cursor: str | None = None
    """Pass it as `cursor` for the page behind. A page may be short, or empty, and only null says
    that it was the last"""


class WorkerBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Slots that are left out are those that the worker's process is started with."""

    name: str
    worker_type: str = "general"
    role: str | None = None
    capabilities: dict[str, Any] = {}
    max_concurrent_jobs: int | None = None


class WorkerEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Fields left out stay as they are. Slots of null are those that the worker's process was
    started with."""

    name: str | None = None
    max_concurrent_jobs: int | msgspec.UnsetType | None = msgspec.UNSET
    capabilities: dict[str, Any] | None = None


class WorkerStatsView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    status: str
    active: int
    stuck: int
    completed: int
    failed: int
    last_heartbeat: Time | None


@get("/workers", permission=Permission.WORKER_READ, tags=["Workers"], responses=responses(404))
async def list_workers(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    worker_type: FromQuery[str | None] = None,
    healthy: FromQuery[bool] = False,
    heartbeat_timeout_seconds: FromQuery[float | None] = None,
    name: NameFilter = None,
    limit: Limit = 100,
    cursor: FromQuery[str | None] = None,
) -> WorkerList:
    """List workers by name, of a project or of the organization, project by project.
    `healthy` leaves out those that are offline, unwell by their own word, or silent for longer than
    `heartbeat_timeout_seconds`, else the server's own bound; those that drain are healthy."""
    check_selection(worker_type, healthy, heartbeat_timeout_seconds)
    engine = caller.platform.engine
    page = NamePage(name=name, limit=limit, cursor=cursor)
    found = await directory.list_workers(engine, await caller.projects(project), page)
    workers = await select_among(
        engine, found.items, worker_type, healthy, heartbeat_timeout_seconds
    )
    names = await caller.project_names()
    return WorkerList([worker_view(worker, names) for worker in workers], found.cursor)


@post(
    "/workers", permission=Permission.WORKER_WRITE, tags=["Workers"], responses=responses(404, 409)
)
async def register_worker(
    caller: NamedDependency[Caller], data: JSONBody[WorkerBody], project: NewIn = None
) -> Response[WorkerView]:
    """Make a worker known before its process is there, to assign it to queues or set its slots: it
    is offline until one is started under its name. Processes register themselves (`POST
    /worker/register`). 409: a worker of this name is there already."""
    owner = await caller.project(project)
    change = RegisterWorker(**msgspec.structs.asdict(data))
    made = await change_worker(
        caller.platform.engine, owner.number, change, caller.note("worker.register")
    )
    return await _rendered(caller, made, 201)


@get(
    "/workers/{worker_id:uuid}",
    permission=Permission.WORKER_READ,
    tags=["Workers"],
    responses=responses(404),
)
async def get_worker(
    caller: NamedDependency[Caller], worker_id: FromPath[UUID]
) -> Response[WorkerView]:
    """Read a worker."""
    return await _rendered(caller, await caller.worker(worker_id))


@patch(
    "/workers/{worker_id:uuid}",
    permission=Permission.WORKER_WRITE,
    tags=["Workers"],
    responses=responses(404, 409, 412),
)
async def update_worker(
    caller: NamedDependency[Caller],
    worker_id: FromPath[UUID],
    data: JSONBody[WorkerEdit],
    if_match: IfMatch = None,
) -> Response[WorkerView]:
    """Change a worker's name, slots or capabilities. Its process hears of it with its next
    heartbeat; name and slots outlast it."""
    slots = data.max_concurrent_jobs
    return await _update(
        caller,
        UpdateWorker(
            worker=worker_id,
            name=data.name,
            max_concurrent_jobs=None if isinstance(slots, msgspec.UnsetType) else slots,
            as_started=slots is None,
            capabilities=data.capabilities,
            expected_mark=mark_in(if_match),
        ),
        "worker.update",
    )


@post(
    "/workers/{worker_id:uuid}/drain",
    permission=Permission.WORKER_WRITE,
    status_code=200,
    tags=["Workers"],
    responses=responses(404, 412),
)
async def drain_worker(
    caller: NamedDependency[Caller], worker_id: FromPath[UUID], if_match: IfMatch = None
) -> Response[WorkerView]:
    """Let a worker finish what it has and take no more."""
    change = UpdateWorker(worker=worker_id, drain_mode=True, expected_mark=mark_in(if_match))
    return await _update(caller, change, "worker.drain")


@post(
    "/workers/{worker_id:uuid}/undrain",
    permission=Permission.WORKER_WRITE,
    status_code=200,
    tags=["Workers"],
    responses=responses(404, 412),
)
async def undrain_worker(
    caller: NamedDependency[Caller], worker_id: FromPath[UUID], if_match: IfMatch = None
) -> Response[WorkerView]:
    """Let a drained worker take jobs again."""
    change = UpdateWorker(worker=worker_id, drain_mode=False, expected_mark=mark_in(if_match))
    return await _update(caller, change, "worker.undrain")


@delete(
    "/workers/{worker_id:uuid}",
    permission=Permission.WORKER_WRITE,
    tags=["Workers"],
    responses=responses(404, 409, 412),
)
async def deregister_worker(
    caller: NamedDependency[Caller], worker_id: FromPath[UUID], if_match: IfMatch = None
) -> None:
    """End a worker: its process hears of it with its next heartbeat, stops, and comes back only
    when someone starts it again. Refused while it runs jobs: drain it first."""
    worker = await caller.worker(worker_id)
    note = caller.note("worker.deregister")
    await end_worker(caller.platform.engine, worker, note, mark_in(if_match))


@get(
    "/workers/{worker_id:uuid}/stats",
    permission=Permission.WORKER_READ,
    tags=["Workers"],
    responses=responses(404),
)
async def worker_stats(
    caller: NamedDependency[Caller], worker_id: FromPath[UUID]
) -> WorkerStatsView:
    """What a worker runs and has done."""
    worker = await caller.worker(worker_id)
    total = await count_work(caller.platform.engine, worker)
    return WorkerStatsView(
        id=worker.id,
        name=worker.name,
        status=worker.status.value,
        active=worker.active_jobs,
        stuck=worker.stuck_slots,
        completed=0 if total is None else total.completed,
        failed=0 if total is None else total.failed,
        last_heartbeat=worker.last_heartbeat,
    )


async def _update(caller: Caller, change: UpdateWorker, action: str) -> Response[WorkerView]:
    check_worker(change)
    old = await caller.worker(change.worker)
    made = await change_worker(caller.platform.engine, old.project, change, caller.note(action))
    return await _rendered(caller, made)


async def _rendered(caller: Caller, worker: Worker, status: int = 200) -> Response[WorkerView]:
    return tagged(worker_view(worker, await caller.project_names()), worker.mark, status)


HANDLERS = [
    list_workers,
    register_worker,
    get_worker,
    update_worker,
    drain_worker,
    undrain_worker,
    deregister_worker,
    worker_stats,
]
