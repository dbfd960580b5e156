"""Assignments: which workers serve which queues."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, put
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import Limit, NameFilter, ProjectName, QueueList, QueueName
from taskforge.api.schema.views.assignments import AssignmentView, assignment_view
from taskforge.api.schema.views.queues import QueueView, queue_view
from taskforge.api.schema.views.workers import WorkerView, worker_view
from taskforge.domain.access import Permission
from taskforge.domain.assignment import Assign, Assignment, Reassign, Unassign
from taskforge.domain.name_pages import AssignmentPage, NamePage, check_assignment_page
from taskforge.domain.queue import Queue
from taskforge.operations import assignments

QueueIds = Annotated[
    list[UUID] | None,
    QueryParameter(name="queue_id", description="Of these queues, at most 100"),
]
WorkerIds = Annotated[
    list[UUID] | None,
    QueryParameter(name="worker_id", description="Of these workers, at most 100"),
]
Side = Annotated[int, QueryParameter(ge=1, le=100, description="At most so many")]
WorkerFilter = Annotated[
    str | None,
    QueryParameter(
        name="worker_name",
        description="Workers of this name or id, or whose names fit: `*` stands for any letters",
    ),
]


class AssignmentList(msgspec.Struct, frozen=True):
    items: list[AssignmentView]
    next_cursor: str | None = None
    """Pass it as `cursor` for the page behind. A page may be short, or empty, and only null says
    that it was the last"""


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
    """Some queues, some workers, and the assignments between them. A queue without an active one is
    served by all who subscribe."""

    queues: list[QueueView]
    workers: list[WorkerView]
    assignments: list[AssignmentView]
    next_cursor: str | None = None
    """Pass it as `cursor` for the queues behind these; null says that they were the last"""
    next_worker_cursor: str | None = None
    """Pass it as `worker_cursor` for the workers behind these; null says that they were the last"""


@get(
    "/assignments",
    permission=Permission.WORKER_READ,
    tags=["Assignments"],
    responses=responses(404),
)
async def list_assignments(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    queue_ids: QueueIds = None,
    worker_ids: WorkerIds = None,
    limit: Limit = 100,
    cursor: FromQuery[str | None] = None,
) -> AssignmentList:
    """List assignments, of some queues, of some workers, or all."""
    page = AssignmentPage(
        queues=tuple(queue_ids or ()),
        workers=tuple(worker_ids or ()),
        limit=limit,
        cursor=cursor,
    )
    check_assignment_page(page)
    for queue_id in page.queues:
        await caller.queue(queue_id)
    for worker_id in page.workers:
        await caller.worker(worker_id)
    found = await caller.platform.engine.directory.list_assignments(
        await caller.projects(project), page
    )
    return AssignmentList([assignment_view(one) for one in found.items], found.cursor)


@get(
    "/assignments/matrix",
    permission=Permission.WORKER_READ,
    tags=["Assignments"],
    responses=responses(404),
)
async def assignment_matrix(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    name: NameFilter = None,
    limit: Side = 100,
    cursor: FromQuery[str | None] = None,
    worker: WorkerFilter = None,
    worker_limit: Side = 100,
    worker_cursor: FromQuery[str | None] = None,
) -> Matrix:
    """Some queues by some workers of a project: at most 100 of each, by name."""
    matrix = await assignments.read_matrix_part(
        caller.platform.engine,
        await caller.projects(project),
        NamePage(name=name, limit=limit, cursor=cursor),
        NamePage(name=worker, limit=worker_limit, cursor=worker_cursor),
    )
    names = await caller.project_names()
    return Matrix(
        [queue_view(queue, names) for queue in matrix.queues],
        [worker_view(worker, names) for worker in matrix.workers],
        [assignment_view(assignment) for assignment in matrix.assignments],
        matrix.queue_cursor,
        matrix.worker_cursor,
    )


_PAIR = "/queues/{queue:str}/assignments/{worker_id:uuid}"


@get(_PAIR, permission=Permission.WORKER_READ, tags=["Assignments"], responses=responses(404))
async def get_assignment(
    caller: NamedDependency[Caller], queue: QueueName, worker_id: FromPath[UUID]
) -> Response[AssignmentView]:
    """Read an assignment."""
    _, found = await _pair(caller, queue, worker_id)
    return tagged(assignment_view(found), found.mark)


@put(
    _PAIR,
    permission=Permission.WORKER_WRITE,
    status_code=201,
    tags=["Assignments"],
    responses=responses(404, 409),
)
async def create_assignment(
    caller: NamedDependency[Caller],
    queue: QueueName,
    worker_id: FromPath[UUID],
    data: JSONBody[AssignmentBody],
) -> Response[AssignmentView]:
    """Assign a worker to a queue, which from then on is served by its assigned workers alone."""
    meant = await caller.queue(queue)
    await caller.worker(worker_id)
    change = Assign(queue=meant.id, worker=worker_id, weight=data.weight, is_active=data.is_active)
    made = await assignments.change_assignment(
        caller.platform.engine, meant.project, change, caller.note("assignment.create")
    )
    return tagged(assignment_view(made), made.mark, 201)


@patch(
    _PAIR,
    permission=Permission.WORKER_WRITE,
    tags=["Assignments"],
    responses=responses(404, 409, 412),
)
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
        queue=meant.id,
        worker=worker_id,
        weight=data.weight,
        is_active=data.is_active,
        expected_mark=mark_in(if_match),
    )
    made = await assignments.change_assignment(
        caller.platform.engine, meant.project, change, caller.note("assignment.update")
    )
    return tagged(assignment_view(made), made.mark)


@delete(
    _PAIR, permission=Permission.WORKER_WRITE, tags=["Assignments"], responses=responses(404, 412)
)
async def delete_assignment(
    caller: NamedDependency[Caller],
    queue: QueueName,
    worker_id: FromPath[UUID],
    if_match: IfMatch = None,
) -> None:
    """Remove an assignment."""
    meant, _ = await _pair(caller, queue, worker_id)
    change = Unassign(queue=meant.id, worker=worker_id, expected_mark=mark_in(if_match))
    await assignments.change_assignment(
        caller.platform.engine, meant.project, change, caller.note("assignment.delete")
    )


@get(
    "/queues/{queue:str}/workers",
    permission=Permission.WORKER_READ,
    tags=["Assignments"],
    responses=responses(404),
)
async def eligible_workers(caller: NamedDependency[Caller], queue: QueueName) -> LoadList:
    """The workers that may take a queue's jobs now, lowest load first."""
    meant = await caller.queue(queue)
    return LoadList(
        [
            LoadView(
                worker_id=load.worker.id,
                name=load.worker.name,
                active=load.worker.active_jobs,
                max=load.worker.max_concurrent_jobs,
                load_percent=load.percent,
                weight=load.weight,
            )
            for load in await assignments.rank_workers(caller.platform.engine, meant)
        ]
    )


@get(
    "/workers/{worker_id:uuid}/queues",
    permission=Permission.WORKER_READ,
    tags=["Assignments"],
    responses=responses(404),
)
async def eligible_queues(caller: NamedDependency[Caller], worker_id: FromPath[UUID]) -> QueueList:
    """The queues whose jobs a worker may take."""
    worker = await caller.worker(worker_id)
    served = await assignments.list_served_queues(caller.platform.engine, worker)
    names = await caller.project_names()
    return QueueList([queue_view(queue, names) for queue in served])


async def _pair(caller: Caller, queue: str, worker_id: UUID) -> tuple[Queue, Assignment]:
    meant = await caller.queue(queue)
    engine = caller.platform.engine
    return meant, await assignments.find_assignment(engine, meant, worker_id, queue)


HANDLERS = [
    list_assignments,
    assignment_matrix,
    get_assignment,
    create_assignment,
    update_assignment,
    delete_assignment,
    eligible_workers,
    eligible_queues,
]
