"""taskforge workers …"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from taskforge.cli import moments, shapes
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, slots, status, table
from taskforge.domain.durations import span
from taskforge.domain.errors import Invalid
from taskforge.domain.worker import UpdateWorker, Worker, WorkerStatus
from taskforge.operations import directory
from taskforge.operations.naming import find_worker

app = App(name="workers", help="List and drain workers.")


@app.command(name="list")
async def list_(
    *,
    store: Store = STORE,
    name: Annotated[
        str | None,
        Parameter(help="Only this one, or those whose names fit: gpu* begin so, *gpu* have it."),
    ] = None,
    all_: Annotated[bool, Parameter(name="--all", help="Also those that are gone.")] = False,
    healthy: Annotated[
        bool, Parameter(help="Only those that are well and were heard of in time.")
    ] = False,
    healthy_within: Annotated[
        str | None,
        Parameter(help="Only those that are well and were heard of within this time, such as 10s."),
    ] = None,
) -> None:
    """List the workers: what they are, how full, how they feel."""
    bound = None if healthy_within is None else moments.seconds("--healthy-within", healthy_within)
    if all_ and (healthy or bound is not None):
        raise Invalid(
            "--all",
            "is given with --healthy",
            "leave one of them out: those that are gone are not healthy",
        )
    async with opened(store) as engine:
        workers = [one async for one in directory.every_worker(engine, [engine.home], name)]
        now = await engine.now()
    if healthy or bound is not None:
        _show(
            store,
            [worker for worker in workers if worker.is_healthy(now, bound)],
            now,
            "no worker is healthy",
        )
        return
    gone = [worker for worker in workers if worker.status is WorkerStatus.OFFLINE]
    shown = (
        workers
        if all_
        else [worker for worker in workers if worker.status is not WorkerStatus.OFFLINE]
    )
    _show(store, shown, now, "no worker is online; start one with `taskforge worker app:forge`")
    if gone and not all_ and not store.json:
        console().print(f"{len(gone)} that left are not shown (--all)", style="bright_black")


def _show(store: Store, shown: Sequence[Worker], now: datetime, nobody: str) -> None:
    if store.json:
        emit({"workers": [shapes.worker(worker) for worker in shown]})
        return
    out = console()
    if shown:
        rows = table(
            *("worker", "status", "slots", "cpu", "memory", "heard", "type", "queues"),
            right=("slots", "cpu", "memory", "heard"),
            flexible=("queues",),
            spare=("type", "memory", "cpu"),
        )
        for worker in shown:
            heard = (
                None
                if worker.last_heartbeat is None
                else max(0.0, (now - worker.last_heartbeat).total_seconds())
            )
            rows.add_row(
                worker.name,
                status(worker.status),
                slots(worker.active_jobs, worker.stuck_slots, worker.max_concurrent_jobs),
                "" if worker.cpu_percent is None else f"{worker.cpu_percent:.0f} %",
                "" if worker.memory_bytes is None else f"{worker.memory_bytes / 1e6:.0f} MB",
                span(heard) + " ago" if heard is not None else "never",
                worker.worker_type + (f" ({worker.role})" if worker.role else ""),
                "all" if worker.queues is None else ", ".join(worker.queues),
            )
        out.print(rows)
    else:
        out.print(nobody, style="yellow")


@app.command
async def drain(
    worker: Annotated[str, Parameter(help="Its name or id.")],
    /,
    *,
    off: Annotated[bool, Parameter(help="Let it take jobs again.")] = False,
    store: Store = STORE,
) -> None:
    """Let a worker finish what it runs and take nothing new."""
    async with opened(store) as engine:
        found = await find_worker(engine, worker)
        changed = await engine.change_worker(
            engine.home, UpdateWorker(worker=found.id, drain_mode=not off)
        )
    if store.json:
        emit({"worker": shapes.worker(changed)})
        return
    if off:
        console().print(styled("[green]{name}[/] takes jobs again", name=changed.name))
    else:
        console().print(
            styled(
                "[yellow]{name}[/] takes nothing new; {jobs}",
                name=changed.name,
                jobs="1 job still runs"
                if changed.active_jobs == 1
                else f"{changed.active_jobs} jobs still run",
            )
        )
