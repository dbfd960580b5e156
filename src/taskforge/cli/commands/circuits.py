"""taskforge circuits …"""

from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from taskforge.cli.selection import setting
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import clock, emit, status, table
from taskforge.domain import rules
from taskforge.domain.breaker import Mode
from taskforge.domain.circuit import Circuit, CircuitName
from taskforge.operations import circuits as operations
from taskforge.wiring import circuits_of

app = App(name="circuits", help="List, open and close circuits, and set what opens them.")
QueueOf = Annotated[str | None, Parameter(name="--queue", help="A queue's name or id.")]
TypeOf = Annotated[str | None, Parameter(name="--type", help="A job type of that queue.")]
DependencyOf = Annotated[
    str | None, Parameter(name="--dependency", help="What job types depend on, instead.")
]


@app.command(name="list")
async def list_(
    *,
    mode: Annotated[str | None, Parameter(help="Only those: closed, open or half_open.")] = None,
    store: Store = STORE,
) -> None:
    """List circuits: of job types that ran in queues with a breaker, and of dependencies."""
    wanted = None if mode is None else Mode(rules.choice("--mode", mode, tuple(Mode)))
    async with opened(store) as engine:
        found = await operations.list_circuits(
            circuits_of(engine), [engine.home], mode=wanted, limit=100_000
        )
    if store.json:
        emit({"circuits": [_shape(one) for one in found]})
        return
    if not found:
        console().print("no circuit yet; queues with circuit_breaker have them", style="yellow")
        return
    rows = table(
        *("circuit", "state", "since", "tries at", "succeeded", "failed", "job types"),
        right=("succeeded", "failed"),
        flexible=("circuit", "job types"),
        spare=("succeeded", "failed", "since"),
    )
    for one in found:
        rows.add_row(
            one.dependency or f"{one.queue}/{one.job_type}",
            status("open by hand" if one.is_forced else one.mode.value.replace("_", "-")),
            clock(one.since),
            clock(one.due_at),
            f"{one.succeeded:,}",
            f"{one.failed:,}",
            ", ".join(one.job_types),
        )
    console().print(rows)


@app.command(name="open")
async def open_(
    *,
    queue: QueueOf = None,
    job_type: TypeOf = None,
    dependency: DependencyOf = None,
    store: Store = STORE,
) -> None:
    """Start no more jobs behind a circuit until somebody closes it. What runs goes on."""
    await _move(CircuitName(queue, job_type, dependency), Mode.OPEN, store)


@app.command
async def close(
    *,
    queue: QueueOf = None,
    job_type: TypeOf = None,
    dependency: DependencyOf = None,
    store: Store = STORE,
) -> None:
    """Start jobs behind a circuit again, with nothing counted."""
    await _move(CircuitName(queue, job_type, dependency), Mode.CLOSED, store)


@app.command
async def configure(
    dependency: Annotated[str, Parameter(help="What job types depend on.")],
    /,
    *,
    set_: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            help="A threshold as NAME=VALUE: failure_share=0.5, least_calls=20, "
            "window_seconds=60, open_seconds=30, probes=3. Repeatable; others get their default.",
        ),
    ] = (),
    store: Store = STORE,
) -> None:
    """Set the thresholds of a dependency. Those of a queue are among its settings."""
    thresholds = dict(setting(text) for text in set_)
    async with opened(store) as engine:
        made = await operations.set_dependency(
            circuits_of(engine), engine.home, dependency, thresholds
        )
    if store.json or made.circuit_breaker is None:
        _say(made, store)
        return
    told = ", ".join(
        f"{name}={value:,g}" for name, value in msgspec.structs.asdict(made.circuit_breaker).items()
    )
    console().print(styled("[bold]{name}[/] has {told}", name=dependency, told=told))


@app.command
async def forget(
    dependency: Annotated[str, Parameter(help="What job types depend on.")],
    /,
    *,
    store: Store = STORE,
) -> None:
    """Forget a dependency and its circuit; a worker whose types depend on it makes it anew."""
    async with opened(store) as engine:
        await operations.remove_dependency(circuits_of(engine), engine.home, dependency)
    if store.json:
        emit({"forgotten": dependency})
    else:
        console().print(styled("[yellow]{name}[/] is forgotten", name=dependency))


async def _move(name: CircuitName, mode: Mode, store: Store) -> None:
    async with opened(store) as engine:
        made = await operations.move_circuit(engine, circuits_of(engine), engine.home, name, mode)
    _say(made, store)


def _say(circuit: Circuit, store: Store) -> None:
    if store.json:
        emit({"circuit": _shape(circuit)})
        return
    name = circuit.dependency or f"{circuit.queue}/{circuit.job_type}"
    console().print(
        styled("[bold]{name}[/] is {mode}", name=name, mode=circuit.mode.value.replace("_", "-"))
    )


def _shape(circuit: Circuit) -> dict[str, Any]:
    shape = msgspec.structs.asdict(circuit)
    del shape["number"]  # the store's own short name
    if circuit.circuit_breaker is not None:
        shape["circuit_breaker"] = msgspec.structs.asdict(circuit.circuit_breaker)
    return shape
