"""Which workers serve which queues: what was assigned, and what follows from it."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.eligibility import hindrance_to_serve
from taskforge.domain.errors import NotFound
from taskforge.domain.name_pages import AssignmentPage, NamePage
from taskforge.domain.query import MAX_PAGE, MOST_IDS
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.operations import directory
from taskforge.ports.engine import AnyEngine


class Load(msgspec.Struct, frozen=True):
    """How much of a worker is taken, and its weight in the queue that was asked about."""

    worker: Worker
    percent: float
    weight: int


class AssignmentMatrix(msgspec.Struct, frozen=True):
    """Queues and workers of some projects, and the assignments between them. The cursors tell
    whether there are more of either; None: these were the last."""

    queues: list[Queue]
    workers: list[Worker]
    assignments: list[Assignment]
    queue_cursor: str | None = None
    worker_cursor: str | None = None


async def list_assignments(
    engine: AnyEngine, projects: Sequence[int], queue: UUID | None, worker: UUID | None
) -> list[Assignment]:
    """Of a queue, of a worker, or all."""
    return await _every(
        engine,
        projects,
        AssignmentPage(
            queues=() if queue is None else (queue,),
            workers=() if worker is None else (worker,),
            limit=MAX_PAGE,
        ),
    )


async def read_matrix_part(
    engine: AnyEngine, projects: Sequence[int], queues: NamePage, workers: NamePage
) -> AssignmentMatrix:
    """Some queues by some workers."""
    rules.integer("limit", queues.limit, 1, MOST_IDS)
    rules.integer("worker_limit", workers.limit, 1, MOST_IDS)
    rows = await directory.list_queues(engine, projects, queues)
    columns = await directory.list_workers(engine, projects, workers)
    assignments: list[Assignment] = []
    if rows.items and columns.items:
        between = AssignmentPage(
            queues=tuple(queue.id for queue in rows.items),
            workers=tuple(dict.fromkeys(worker.id for worker in columns.items)),
            limit=MAX_PAGE,
        )
        assignments = await _every(engine, projects, between)
    return AssignmentMatrix(rows.items, columns.items, assignments, rows.cursor, columns.cursor)


async def _every(
    engine: AnyEngine, projects: Sequence[int], page: AssignmentPage
) -> list[Assignment]:
    assignments: list[Assignment] = []
    while True:
        found = await engine.directory.list_assignments(projects, page)
        assignments += found.items
        if found.cursor is None:
            return assignments
        page = msgspec.structs.replace(page, cursor=found.cursor)


async def read_matrix(engine: AnyEngine, projects: Sequence[int]) -> AssignmentMatrix:
    return AssignmentMatrix(
        await engine.queues(projects),
        await engine.workers(projects),
        await engine.assignments(projects),
    )


async def find_assignment(engine: AnyEngine, queue: Queue, worker: UUID, name: str) -> Assignment:
    """Of a worker to a queue; `name` is what the caller calls the queue."""
    page = AssignmentPage(queues=(queue.id,), workers=(worker,))
    for assignment in (await engine.directory.list_assignments([queue.project], page)).items:
        return assignment
    raise NotFound("assignment", f"of {worker} to {name}")


async def change_assignment(
    engine: AnyEngine, project: int, change: AssignmentChange, note: Note | None = None
) -> Assignment:
    return await engine.change_assignment(project, change, note=note)


async def rank_workers(engine: AnyEngine, queue: Queue) -> list[Load]:
    """The workers that may take a queue's jobs now, lowest load first."""
    weights = _weigh(await list_assignments(engine, [queue.project], queue.id, None), queue)
    dead_letters = _dead_letter_queues(await engine.queues([queue.project]))
    loads = [
        Load(
            worker,
            round(100 * worker.active_jobs / worker.max_concurrent_jobs, 1),
            weights.get(worker.id, 1),
        )
        for worker in await engine.workers([queue.project])
        if worker.accepts_jobs
        and hindrance_to_serve(worker.id, worker.queues, queue, weights, dead_letters) is None
    ]
    return sorted(loads, key=lambda load: (load.percent, load.worker.name))


async def list_served_queues(engine: AnyEngine, worker: Worker) -> list[Queue]:
    """The queues whose jobs a worker may take."""
    weights: dict[UUID, dict[UUID, int]] = {}
    for assignment in await engine.assignments([worker.project]):
        if assignment.is_active:
            weights.setdefault(assignment.queue, {})[assignment.worker] = assignment.weight
    queues = await engine.queues([worker.project])
    dead_letters = _dead_letter_queues(queues)
    return [
        queue
        for queue in queues
        if hindrance_to_serve(
            worker.id, worker.queues, queue, weights.get(queue.id, {}), dead_letters
        )
        is None
    ]


def _weigh(assignments: Sequence[Assignment], queue: Queue) -> dict[UUID, int]:
    """The weight of each worker that is actively assigned to a queue."""
    return {
        assignment.worker: assignment.weight
        for assignment in assignments
        if assignment.queue == queue.id and assignment.is_active
    }


def _dead_letter_queues(queues: Sequence[Queue]) -> set[UUID | None]:
    return {queue.settings.dead_letter_queue_id for queue in queues}
