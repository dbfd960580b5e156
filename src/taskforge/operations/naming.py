"""Finds the queue and the worker that somebody names."""

from uuid import UUID

from taskforge.domain.errors import NotFound, nearest
from taskforge.domain.metrics import Subject
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
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
        queue=None if queue is None else (await find_queue(engine, str(queue))).id,
        job_type=job_type,
        worker=None if worker is None else (await _newest_worker(engine, str(worker))),
    )


async def find_queue(engine: AnyEngine, name: str, project: int | None = None) -> Queue:
    """By name or id, in the engine's own project or another; a name wins, should one look like an
    id."""
    queues = await engine.queues([engine.home if project is None else project])
    for queue in sorted(queues, key=lambda queue: queue.name != name):
        if name in (queue.name, str(queue.id)):
            return queue
    raise NotFound("queue", name, nearest=nearest(name, (queue.name for queue in queues)))


async def find_worker(engine: AnyEngine, name: str) -> Worker:
    """By name, id or incarnation."""
    workers = await engine.workers([engine.home])
    for worker in sorted(workers, key=lambda worker: worker.name != name):
        if name in (worker.name, str(worker.id), str(worker.incarnation)):
            return worker
    raise NotFound("worker", name, nearest=nearest(name, (worker.name for worker in workers)))


async def _newest_worker(engine: AnyEngine, name: str) -> UUID:
    workers = await engine.workers([engine.home])
    for worker in reversed(workers):
        if name in (worker.name, str(worker.id)):
            return worker.id
    raise NotFound("worker", name, nearest=nearest(name, [worker.name for worker in workers]))
