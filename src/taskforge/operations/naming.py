"""Finds the queue and the worker that somebody who asks for metrics names."""

from uuid import UUID

from taskforge.domain.errors import NotFound, nearest
from taskforge.domain.metrics import Subject
from taskforge.ports.engine import AnyEngine


async def subject_named(
    engine: AnyEngine,
    *,
    queue: UUID | str | None = None,
    job_type: str | None = None,
    worker: UUID | str | None = None,
) -> Subject:
    """By name or id, in the engine's own project."""
    return Subject(
        queue=None if queue is None else await _queue(engine, str(queue)),
        job_type=job_type,
        worker=None if worker is None else await _worker(engine, str(worker)),
    )


async def _queue(engine: AnyEngine, name: str) -> UUID:
    queues = await engine.queues([engine.home])
    for queue in queues:
        if name in (queue.name, str(queue.id)):
            return queue.id
    raise NotFound("queue", name, nearest=nearest(name, [queue.name for queue in queues]))


async def _worker(engine: AnyEngine, name: str) -> UUID:
    workers = await engine.workers([engine.home])
    for worker in reversed(workers):
        if name in (worker.name, str(worker.id)):
            return worker.id
    raise NotFound("worker", name, nearest=nearest(name, [worker.name for worker in workers]))
