"""Which workers serve which queues: what was assigned, and what follows from it."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.assignment import Assignment, AssignmentChange
from taskforge.domain.audit import Note
from taskforge.domain.eligibility import hindrance_to_serve
from taskforge.domain.errors import NotFound
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.ports.engine import AnyEngine


class Load(msgspec.Struct, frozen=True):
    """How much of a worker is taken, and its weight in the queue that was asked about."""

    worker: Worker
    percent: float
    weight: int


class AssignmentMatrix(msgspec.Struct, frozen=True):
    """Queues and workers of some projects, and the assignments between them."""

    queues: list[Queue]
    workers: list[Worker]
    assignments: list[Assignment]


async def list_assignments(
    engine: AnyEngine, projects: Sequence[int], queue: UUID | None, worker: UUID | None
) -> list[Assignment]:
    """Of a queue, of a worker, or all."""
    return [
        assignment
        for assignment in await engine.assignments(projects)
        if queue in (None, assignment.queue) and worker in (None, assignment.worker)
    ]


async def read_matrix(engine: AnyEngine, projects: Sequence[int]) -> AssignmentMatrix:
    return AssignmentMatrix(
        await engine.queues(projects),
        await engine.workers(projects),
        await engine.assignments(projects),
    )


async def find_assignment(engine: AnyEngine, queue: Queue, worker: UUID, name: str) -> Assignment:
    """Of a worker to a queue; `name` is what the caller calls the queue."""
    for assignment in await engine.assignments([queue.project]):
        if assignment.queue == queue.id and assignment.worker == worker:
            return assignment
    raise NotFound("assignment", f"of {worker} to {name}")


async def change_assignment(
    engine: AnyEngine, project: int, change: AssignmentChange, note: Note | None = None
) -> Assignment:
    return await engine.change_assignment(project, change, note=note)


async def rank_workers(engine: AnyEngine, queue: Queue) -> list[Load]:
    """The workers that may take a queue's jobs now, lowest load first."""
    weights = _weigh(await engine.assignments([queue.project]), queue)
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
    assignments = await engine.assignments([worker.project])
    queues = await engine.queues([worker.project])
    dead_letters = _dead_letter_queues(queues)
    return [
        queue
        for queue in queues
        if hindrance_to_serve(
            worker.id, worker.queues, queue, _weigh(assignments, queue), dead_letters
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
