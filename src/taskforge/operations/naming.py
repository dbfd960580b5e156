"""Finds the queue and the worker that somebody names."""

from uuid import UUID

from taskforge.domain.metrics import Subject
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.operations.directory import no_queue, no_worker
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
    projects = [engine.home if project is None else project]
    for queue in await engine.directory.find_queues(projects, name):
        return queue
    raise await no_queue(engine, projects, name)


async def find_worker(engine: AnyEngine, name: str) -> Worker:
    """By name, id or incarnation."""
    for worker in await engine.directory.find_workers([engine.home], name):
        return worker
    raise await no_worker(engine, [engine.home], name)


async def _newest_worker(engine: AnyEngine, name: str) -> UUID:
    for worker in reversed(await engine.directory.find_workers([engine.home], name)):
        if name in (worker.name, str(worker.id)):
            return worker.id
    raise await no_worker(engine, [engine.home], name)
