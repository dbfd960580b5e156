"""taskforge assignments …"""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from cyclopts import App, Parameter

from taskforge.cli import shapes
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, status, table
from taskforge.domain.assignment import Assign, Assignment, AssignmentChange, Reassign, Unassign
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker
from taskforge.operations import assignments as operations
from taskforge.operations.naming import find_queue, find_worker
from taskforge.ports.engine import AnyEngine

app = App(name="assignments", help="See and change which workers serve which queues.")
QueueArgument = Annotated[str, Parameter(help="A queue's name or id.")]
WorkerArgument = Annotated[str, Parameter(help="A worker's name or id.")]
Weight = Annotated[int | None, Parameter(help="Its share where the queue is balanced: 1 to 100.")]


@app.command(name="list")
async def list_(
    *,
    queue: Annotated[str | None, Parameter(help="Only those of this queue.")] = None,
    worker: Annotated[str | None, Parameter(help="Only those of this worker.")] = None,
    store: Store = STORE,
) -> None:
    """List assignments. A queue with an active one is served by those workers alone."""
    async with opened(store) as engine:
        served = None if queue is None else (await find_queue(engine, queue)).id
        serving = None if worker is None else (await find_worker(engine, worker)).id
        found = await operations.list_assignments(engine, [engine.home], served, serving)
        queues, workers = await _names(engine)
    if store.json:
        emit({"assignments": [_shape(one) for one in found]})
        return
    if not found:
        told = "no assignment; every worker serves every queue that it subscribes to"
        console().print(told, style="yellow")
        return
    rows = table("queue", "worker", "weight", "state", right=("weight",))
    for one in found:
        rows.add_row(
            queues.get(one.queue, str(one.queue)),
            workers.get(one.worker, str(one.worker)),
            str(one.weight),
            status("active" if one.is_active else "inactive"),
        )
    console().print(rows)


@app.command
async def add(
    queue: QueueArgument,
    worker: WorkerArgument,
    /,
    *,
    weight: Weight = 1,
    inactive: Annotated[bool, Parameter(help="Keep it switched off for now.")] = False,
    store: Store = STORE,
) -> None:
    """Assign a worker to a queue, which from then on is served by its assigned workers alone."""
    async with opened(store) as engine:
        served, serving = await _pair(engine, queue, worker)
        change = Assign(served.id, serving.id, 1 if weight is None else weight, not inactive)
        made = await operations.change_assignment(engine, engine.home, change)
    _say(made, served, serving, store)


@app.command(name="set")
async def set_(
    queue: QueueArgument,
    worker: WorkerArgument,
    /,
    *,
    weight: Weight = None,
    active: Annotated[
        bool | None, Parameter(negative="--inactive", help="Switch it on, or off.")
    ] = None,
    store: Store = STORE,
) -> None:
    """Change an assignment's weight, or switch it on and off."""
    async with opened(store) as engine:
        served, serving = await _pair(engine, queue, worker)
        change: AssignmentChange = Reassign(served.id, serving.id, weight, active)
        made = await operations.change_assignment(engine, engine.home, change)
    _say(made, served, serving, store)


@app.command
async def remove(queue: QueueArgument, worker: WorkerArgument, /, *, store: Store = STORE) -> None:
    """Remove an assignment. A queue without an active one is served by all who subscribe."""
    async with opened(store) as engine:
        served, serving = await _pair(engine, queue, worker)
        change = Unassign(served.id, serving.id)
        gone = await operations.change_assignment(engine, engine.home, change)
    if store.json:
        emit({"assignment": _shape(gone)})
        return
    console().print(
        styled(
            "[bold]{worker}[/] is no longer assigned to [bold]{queue}[/]",
            worker=serving.name,
            queue=served.name,
        )
    )


@app.command(name="workers")
async def workers_(queue: QueueArgument, /, *, store: Store = STORE) -> None:
    """List the workers that may take a queue's jobs now, lowest load first."""
    async with opened(store) as engine:
        loads = await operations.rank_workers(engine, await find_queue(engine, queue))
    if store.json:
        emit(
            {
                "workers": [
                    {
                        "worker_id": load.worker.id,
                        "name": load.worker.name,
                        "active": load.worker.active_jobs,
                        "max": load.worker.max_concurrent_jobs,
                        "load_percent": load.percent,
                        "weight": load.weight,
                    }
                    for load in loads
                ]
            }
        )
        return
    if not loads:
        console().print("no worker that is online may take its jobs", style="yellow")
        return
    columns = ("active", "max", "load", "weight")
    rows = table("worker", *columns, right=columns)
    for load in loads:
        rows.add_row(
            load.worker.name,
            f"{load.worker.active_jobs:,}",
            f"{load.worker.max_concurrent_jobs:,}",
            f"{load.percent:g} %",
            str(load.weight),
        )
    console().print(rows)


@app.command(name="queues")
async def queues_(worker: WorkerArgument, /, *, store: Store = STORE) -> None:
    """List the queues whose jobs a worker may take."""
    async with opened(store) as engine:
        served = await operations.list_served_queues(engine, await find_worker(engine, worker))
    if store.json:
        emit({"queues": [shapes.queue(queue) for queue in served]})
        return
    for queue in served:
        console().print(queue.name)


@app.command
async def matrix(*, store: Store = STORE) -> None:
    """Show every queue, every worker, and the weights between them; inactive ones in brackets."""
    async with opened(store) as engine:
        found = await operations.read_matrix(engine, [engine.home])
    if store.json:
        emit(
            {
                "queues": [shapes.queue(queue) for queue in found.queues],
                "workers": [shapes.worker(worker) for worker in found.workers],
                "assignments": [_shape(one) for one in found.assignments],
            }
        )
        return
    weights = {
        (one.queue, one.worker): str(one.weight) if one.is_active else f"({one.weight})"
        for one in found.assignments
    }
    # One for each identity: of a worker that was started anew only the name counts here.
    workers = {worker.id: worker.name for worker in found.workers}
    shown = [one for one in workers if any(pair[1] == one for pair in weights)]
    rows = table("queue", *(workers[one] for one in shown), right=[workers[one] for one in shown])
    for queue in found.queues:
        cells = [weights.get((queue.id, one), "") for one in shown]
        rows.add_row(queue.name, *(cells if any(cells) else ["" for _ in shown]))
    console().print(rows)


async def _pair(engine: AnyEngine, queue: str, worker: str) -> tuple[Queue, Worker]:
    return await find_queue(engine, queue), await find_worker(engine, worker)


async def _names(engine: AnyEngine) -> tuple[dict[UUID, str], dict[UUID, str]]:
    queues = {queue.id: queue.name for queue in await engine.queues([engine.home])}
    return queues, {one.id: one.name for one in await engine.workers([engine.home])}


def _say(made: Assignment, queue: Queue, worker: Worker, store: Store) -> None:
    if store.json:
        emit({"assignment": _shape(made)})
        return
    console().print(
        styled(
            "[bold]{worker}[/] serves [bold]{queue}[/] with weight {weight}{off}",
            worker=worker.name,
            queue=queue.name,
            weight=made.weight,
            off="" if made.is_active else ", switched off",
        )
    )


def _shape(assignment: Assignment) -> dict[str, Any]:
    return msgspec.structs.asdict(assignment)
