"""Workers as operators see and steer them."""

from collections.abc import Sequence

from taskforge.domain import rules
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Invalid
from taskforge.domain.query import WorkerTotals
from taskforge.domain.words import counted
from taskforge.domain.worker import WORKER_TYPES, Worker, WorkerChange
from taskforge.operations import directory
from taskforge.ports.engine import AnyEngine, Engine


async def list_workers(engine: AnyEngine, projects: Sequence[int]) -> list[Worker]:
    return await engine.workers(projects)


def check_selection(
    worker_type: str | None, healthy: bool, heartbeat_timeout_seconds: float | None
) -> None:
    """Whether `select_workers` can be asked for this."""
    if worker_type is not None:
        rules.choice("worker_type", worker_type, WORKER_TYPES)
    if heartbeat_timeout_seconds is not None:
        rules.number("heartbeat_timeout_seconds", heartbeat_timeout_seconds, 0, rules.MAX_SECONDS)
        if not healthy:
            raise Invalid(
                "heartbeat_timeout_seconds",
                "is given without healthy=true",
                "ask for healthy workers, or leave it out",
            )


async def select_workers(
    engine: AnyEngine,
    projects: Sequence[int],
    worker_type: str | None,
    healthy: bool,
    heartbeat_timeout_seconds: float | None,
    name: str | None = None,
) -> list[Worker]:
    """Whose name fits, of a type, and `healthy` ones alone: heard of within the given seconds,
    else within the store's own bound."""
    workers = [worker async for worker in directory.every_worker(engine, projects, name)]
    return await select_among(engine, workers, worker_type, healthy, heartbeat_timeout_seconds)


async def select_among(
    engine: AnyEngine,
    workers: Sequence[Worker],
    worker_type: str | None,
    healthy: bool,
    heartbeat_timeout_seconds: float | None,
) -> list[Worker]:
    """The same of these."""
    if healthy:
        now = await engine.now()
        workers = [
            worker for worker in workers if worker.is_healthy(now, heartbeat_timeout_seconds)
        ]
    return [worker for worker in workers if worker_type in (None, worker.worker_type)]


async def change_worker(
    engine: AnyEngine, project: int, change: WorkerChange, note: Note | None = None
) -> Worker:
    return await engine.change_worker(project, change, note=note)


async def end_worker(engine: Engine, worker: Worker, note: Note, expected_mark: str | None) -> None:
    """Refused while it runs jobs."""
    if worker.active_jobs:
        jobs = counted(worker.active_jobs, "job", "jobs")
        raise Conflict(f"worker {worker.name!r} runs {jobs}; drain it first")
    await engine.deregister(worker.incarnation, note=note, expected_mark=expected_mark)


async def count_work(engine: AnyEngine, worker: Worker) -> WorkerTotals | None:
    """What a worker has done, if anything."""
    totals = await engine.worker_totals([worker.project])
    return next((total for total in totals if total.worker == worker.id), None)
