"""Workers, and which queues they are assigned to."""

from typing import Any
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody

from taskforge.api.caller import Caller
from taskforge.api.etags import IfMatch, mark_in, tagged
from taskforge.api.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName, QueueList, QueueName
from taskforge.api.views import AssignmentView, QueueView, Time, WorkerView, assignment_view, queue_view, worker_view
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.assignment import Assign, Assignment, Reassign, Unassign
from taskforge.domain.eligibility import hindrance_to_serve
from taskforge.domain.errors import Conflict, Invalid, NotFound
from taskforge.domain.queue import Queue
from taskforge.domain.worker import WORKER_TYPES, RegisterWorker, UpdateWorker, Worker, check_worker


class WorkerList(msgspec.Struct, frozen=True):
    items: list[WorkerView]


class WorkerBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Slots that are left out are those that the worker's process is started with."""

    name: str
    worker_type: str = "general"
    role: str | None = None
    capabilities: dict[str, Any] = {}
    max_concurrent_jobs: int | None = None


class WorkerEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Fields left out stay as they are. Slots of null are those that the worker's process was started with."""

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


class AssignmentList(msgspec.Struct, frozen=True):
    items: list[AssignmentView]


class AssignmentBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    weight: int = 1
    is_active: bool = True


class AssignmentEdit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    weight: int | None = None
    is_active: bool | None = None


class LoadView(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: UUID
    name: str
    active: int
    max: int
    load_percent: float
    weight: int


class LoadList(msgspec.Struct, frozen=True):
    items: list[LoadView]


class Matrix(msgspec.Struct, frozen=True):
    """Every queue, every worker, and the assignments between them. A queue without an active one is served by all who subscribe."""

    queues: list[QueueView]
    workers: list[WorkerView]
    assignments: list[AssignmentView]


@get("/workers", permission=Permission.WORKER_READ, tags=["Workers"], responses=responses(404))
async def list_workers(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    worker_type: FromQuery[str | None] = None,
    healthy: FromQuery[bool] = False,
    heartbeat_timeout_seconds: FromQuery[float | None] = None,
) -> WorkerList:
    """List workers, of a project or of the organization. `healthy` leaves out those that are offline, unwell by their own word, or
    silent for longer than `heartbeat_timeout_seconds`, else the server's own bound; those that drain are healthy."""
    if worker_type is not None:
        rules.choice("worker_type", worker_type, WORKER_TYPES)
    if heartbeat_timeout_seconds is not None:
        rules.number("heartbeat_timeout_seconds", heartbeat_timeout_seconds, 0, rules.MAX_SECONDS)
        if not healthy:
            raise Invalid("heartbeat_timeout_seconds", "is given without healthy=true", "ask for healthy workers, or leave it out")
    engine = caller.backend.engine
    found = await engine.workers(await caller.projects(project))
    if healthy:
        now = await engine.now()
        found = [one for one in found if one.is_healthy(now, heartbeat_timeout_seconds)]
    names = await caller.project_names()
    return WorkerList([worker_view(one, names) for one in found if worker_type in (None, one.worker_type)])


@post("/workers", permission=Permission.WORKER_WRITE, tags=["Workers"], responses=responses(404, 409))
async def register_worker(
    caller: NamedDependency[Caller], data: JSONBody[WorkerBody], project: NewIn = None
) -> Response[WorkerView]:
    """Make a worker known before its process is there, to assign it to queues or set its slots: it is offline until one is started
    under its name. Processes register themselves (`POST /worker/register`). 409: a worker of this name is there already."""
    owner = await caller.project(project)
    change = RegisterWorker(**msgspec.structs.asdict(data))
    made = await caller.backend.engine.update_worker(owner.number, change, note=caller.note("worker.register"))
    return await _rendered(caller, made, 201)


@get("/workers/{worker_id:uuid}", permission=Permission.WORKER_READ, tags=["Workers"], responses=responses(404))
async def get_worker(caller: NamedDependency[Caller], worker_id: FromPath[UUID]) -> Response[WorkerView]:
    """Read a worker."""
    return await _rendered(caller, await caller.worker(worker_id))


@patch("/workers/{worker_id:uuid}", permission=Permission.WORKER_WRITE, tags=["Workers"], responses=responses(404, 409, 412))
async def update_worker(
    caller: NamedDependency[Caller], worker_id: FromPath[UUID], data: JSONBody[WorkerEdit], if_match: IfMatch = None
) -> Response[WorkerView]:
    """Change a worker's name, slots or capabilities. Its process hears of it with its next heartbeat; name and slots outlast it."""
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


@delete("/workers/{worker_id:uuid}", permission=Permission.WORKER_WRITE, tags=["Workers"], responses=responses(404, 409, 412))
async def deregister_worker(caller: NamedDependency[Caller], worker_id: FromPath[UUID], if_match: IfMatch = None) -> None:
    """End a worker: its process hears of it with its next heartbeat, stops, and comes back only when someone starts it again.
    Refused while it runs jobs: drain it first."""
    worker = await caller.worker(worker_id)
    if worker.active_jobs:
        raise Conflict(f"worker {worker.name!r} runs {worker.active_jobs} jobs; drain it first")
    note = caller.note("worker.deregister")
    await caller.backend.engine.deregister(worker.incarnation, note=note, expected_mark=mark_in(if_match))


@get("/workers/{worker_id:uuid}/stats", permission=Permission.WORKER_READ, tags=["Workers"], responses=responses(404))
async def worker_stats(caller: NamedDependency[Caller], worker_id: FromPath[UUID]) -> WorkerStatsView:
    """What a worker runs and has done."""
    worker = await caller.worker(worker_id)
    totals = await caller.backend.engine.worker_totals([worker.project])
    total = next((one for one in totals if one.worker == worker_id), None)
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


# --- Assignments ---


@get("/assignments", permission=Permission.WORKER_READ, tags=["Assignments"], responses=responses(404))
async def list_assignments(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queue_id: FromQuery[UUID | None] = None,
    worker_id: FromQuery[UUID | None] = None,
) -> AssignmentList:
    """List assignments, of a queue, of a worker, or all."""
    if queue_id is not None:
        await caller.queue(queue_id)
    if worker_id is not None:
        await caller.worker(worker_id)
    found = await caller.backend.engine.assignments(await caller.projects(project))
    wanted = [one for one in found if queue_id in (None, one.queue) and worker_id in (None, one.worker)]
    return AssignmentList([assignment_view(one) for one in wanted])


@get("/assignments/matrix", permission=Permission.WORKER_READ, tags=["Assignments"], responses=responses(404))
async def assignment_matrix(caller: NamedDependency[Caller], project: ProjectName = None) -> Matrix:
    """Queues, workers and assignments of a project in one answer."""
    projects, names, engine = await caller.projects(project), await caller.project_names(), caller.backend.engine
    return Matrix(
        [queue_view(one, names) for one in await engine.queues(projects)],
        [worker_view(one, names) for one in await engine.workers(projects)],
        [assignment_view(one) for one in await engine.assignments(projects)],
    )


_PAIR = "/queues/{queue:str}/assignments/{worker_id:uuid}"


@get(_PAIR, permission=Permission.WORKER_READ, tags=["Assignments"], responses=responses(404))
async def get_assignment(caller: NamedDependency[Caller], queue: QueueName, worker_id: FromPath[UUID]) -> Response[AssignmentView]:
    """Read an assignment."""
    _, found = await _pair(caller, queue, worker_id)
    return tagged(assignment_view(found), found.mark)


@put(_PAIR, permission=Permission.WORKER_WRITE, status_code=201, tags=["Assignments"], responses=responses(404, 409))
async def create_assignment(
    caller: NamedDependency[Caller], queue: QueueName, worker_id: FromPath[UUID], data: JSONBody[AssignmentBody]
) -> Response[AssignmentView]:
    """Assign a worker to a queue, which from then on is served by its assigned workers alone."""
    meant = await caller.queue(queue)
    await caller.worker(worker_id)
    change = Assign(queue=meant.id, worker=worker_id, weight=data.weight, is_active=data.is_active)
    made = await caller.backend.engine.change_assignment(meant.project, change, note=caller.note("assignment.create"))
    return tagged(assignment_view(made), made.mark, 201)


@patch(_PAIR, permission=Permission.WORKER_WRITE, tags=["Assignments"], responses=responses(404, 409, 412))
async def update_assignment(
    caller: NamedDependency[Caller],
    queue: QueueName,
    worker_id: FromPath[UUID],
    data: JSONBody[AssignmentEdit],
    if_match: IfMatch = None,
) -> Response[AssignmentView]:
    """Change an assignment's weight, or switch it on and off."""
    meant, _ = await _pair(caller, queue, worker_id)
    change = Reassign(
        queue=meant.id, worker=worker_id, weight=data.weight, is_active=data.is_active, expected_mark=mark_in(if_match)
    )
    made = await caller.backend.engine.change_assignment(meant.project, change, note=caller.note("assignment.update"))
    return tagged(assignment_view(made), made.mark)


@delete(_PAIR, permission=Permission.WORKER_WRITE, tags=["Assignments"], responses=responses(404, 412))
async def delete_assignment(
    caller: NamedDependency[Caller], queue: QueueName, worker_id: FromPath[UUID], if_match: IfMatch = None
) -> None:
    """Remove an assignment."""
    meant, _ = await _pair(caller, queue, worker_id)
    change = Unassign(queue=meant.id, worker=worker_id, expected_mark=mark_in(if_match))
    await caller.backend.engine.change_assignment(meant.project, change, note=caller.note("assignment.delete"))


@get("/queues/{queue:str}/workers", permission=Permission.WORKER_READ, tags=["Assignments"], responses=responses(404))
async def eligible_workers(caller: NamedDependency[Caller], queue: QueueName) -> LoadList:
    """The workers that may take a queue's jobs now, lowest load first."""
    meant = await caller.queue(queue)
    engine = caller.backend.engine
    weights = _weights(await engine.assignments([meant.project]), meant)
    dead_letters = {one.settings.dead_letter_queue_id for one in await engine.queues([meant.project])}
    eligible = [
        one
        for one in await engine.workers([meant.project])
        if one.accepts_jobs and hindrance_to_serve(one.id, one.queues, meant, weights, dead_letters) is None
    ]
    loads = [
        LoadView(
            worker_id=one.id,
            name=one.name,
            active=one.active_jobs,
            max=one.max_concurrent_jobs,
            load_percent=round(100 * one.active_jobs / one.max_concurrent_jobs, 1),
            weight=weights.get(one.id, 1),
        )
        for one in eligible
    ]
    return LoadList(sorted(loads, key=lambda load: (load.load_percent, load.name)))


@get("/workers/{worker_id:uuid}/queues", permission=Permission.WORKER_READ, tags=["Assignments"], responses=responses(404))
async def eligible_queues(caller: NamedDependency[Caller], worker_id: FromPath[UUID]) -> QueueList:
    """The queues whose jobs a worker may take."""
    worker = await caller.worker(worker_id)
    engine, names = caller.backend.engine, await caller.project_names()
    assignments, queues = await engine.assignments([worker.project]), await engine.queues([worker.project])
    dead_letters = {one.settings.dead_letter_queue_id for one in queues}
    served = [
        one for one in queues if hindrance_to_serve(worker.id, worker.queues, one, _weights(assignments, one), dead_letters) is None
    ]
    return QueueList([queue_view(one, names) for one in served])


def _weights(assignments: list[Assignment], queue: Queue) -> dict[UUID, int]:
    return {one.worker: one.weight for one in assignments if one.queue == queue.id and one.is_active}


async def _pair(caller: Caller, queue: str, worker_id: UUID) -> tuple[Queue, Assignment]:
    meant = await caller.queue(queue)
    for one in await caller.backend.engine.assignments([meant.project]):
        if one.queue == meant.id and one.worker == worker_id:
            return meant, one
    raise NotFound("assignment", f"of {worker_id} to {queue}")


async def _update(caller: Caller, change: UpdateWorker, action: str) -> Response[WorkerView]:
    check_worker(change)
    old = await caller.worker(change.worker)
    made = await caller.backend.engine.update_worker(old.project, change, note=caller.note(action))
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
    list_assignments,
    assignment_matrix,
    get_assignment,
    create_assignment,
    update_assignment,
    delete_assignment,
    eligible_workers,
    eligible_queues,
]
