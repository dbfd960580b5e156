"""Circuits: which job types and dependencies are held back because they failed too often; opened
and closed by hand; what job types depend on."""

from typing import Annotated, Any

import msgspec
from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, PathParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.cursors import Cursor, cursor_behind, position_of
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName
from taskforge.api.schema.views.circuits import CircuitView, circuit_view
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.breaker import Mode
from taskforge.domain.circuit import CircuitName, check_circuit_name
from taskforge.operations import circuits

MOST_LISTED = 1_000
MODES = tuple(Mode)
DependencyName = Annotated[str, PathParameter(description="What job types depend on")]


class CircuitBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A queue (its name or id) and a job type, or a dependency."""

    queue: str | None = None
    job_type: str | None = None
    dependency: str | None = None


class DependencyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Thresholds that are left out have their defaults."""

    name: str
    circuit_breaker: dict[str, Any] = {}


class CircuitList(msgspec.Struct, frozen=True):
    items: list[CircuitView]
    next_cursor: str | None
    """Null: this is the last page"""


@get("/circuits", permission=Permission.QUEUE_READ, tags=["Circuits"], responses=responses(404))
async def list_circuits(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    mode: FromQuery[str | None] = None,
    limit: FromQuery[int] = 100,
    cursor: Cursor = None,
) -> CircuitList:
    """List circuits: of each job type that ran in a queue with a breaker, and of each
    dependency."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    wanted = None if mode is None else Mode(rules.choice("mode", mode, MODES))
    found = await circuits.list_circuits(
        caller.platform.records.circuits,
        await caller.projects(project),
        mode=wanted,
        after=position_of(cursor),
        limit=limit,
    )
    names = await caller.project_names()
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return CircuitList([circuit_view(one, names) for one in found], more)


@post(
    "/circuits/open",
    permission=Permission.QUEUE_WRITE,
    status_code=200,
    tags=["Circuits"],
    responses=responses(404, 409),
)
async def open_circuit(
    caller: NamedDependency[Caller], data: JSONBody[CircuitBody], project: NewIn = None
) -> CircuitView:
    """Start no more jobs behind a circuit until somebody closes it. What runs goes on."""
    return await _move(caller, data, project, Mode.OPEN, "circuit.open")


@post(
    "/circuits/close",
    permission=Permission.QUEUE_WRITE,
    status_code=200,
    tags=["Circuits"],
    responses=responses(404, 409),
)
async def close_circuit(
    caller: NamedDependency[Caller], data: JSONBody[CircuitBody], project: NewIn = None
) -> CircuitView:
    """Start jobs behind a circuit again, with nothing counted."""
    return await _move(caller, data, project, Mode.CLOSED, "circuit.close")


@post(
    "/dependencies",
    permission=Permission.QUEUE_WRITE,
    status_code=200,
    tags=["Circuits"],
    responses=responses(404, 409),
)
async def set_dependency(
    caller: NamedDependency[Caller], data: JSONBody[DependencyBody], project: NewIn = None
) -> CircuitView:
    """Set the thresholds of what job types depend on; it is made known if it is not."""
    owner = await caller.project(project)
    made = await circuits.set_dependency(
        caller.platform.records.circuits,
        owner.number,
        data.name,
        data.circuit_breaker,
        caller.note("dependency.set"),
    )
    return circuit_view(made, await caller.project_names(owner.number))


@delete(
    "/dependencies/{dependency:str}",
    permission=Permission.QUEUE_WRITE,
    tags=["Circuits"],
    responses=responses(404),
)
async def delete_dependency(
    caller: NamedDependency[Caller], dependency: DependencyName, project: NewIn = None
) -> None:
    """Forget a dependency and its circuit. A worker whose types depend on it makes it anew."""
    owner = await caller.project(project)
    await circuits.remove_dependency(
        caller.platform.records.circuits,
        owner.number,
        dependency,
        caller.note("dependency.delete"),
    )


async def _move(
    caller: Caller, data: CircuitBody, project: str | None, mode: Mode, action: str
) -> CircuitView:
    name = CircuitName(data.queue, data.job_type, data.dependency)
    check_circuit_name(name)
    if name.queue is None:
        number = (await caller.project(project)).number
    else:
        queue = await caller.queue(name.queue)
        number, name = queue.project, msgspec.structs.replace(name, queue=queue.name)
    made = await circuits.move_circuit(
        caller.platform.engine,
        caller.platform.records.circuits,
        number,
        name,
        mode,
        caller.note(action),
    )
    return circuit_view(made, await caller.project_names(number))


HANDLERS = [list_circuits, open_circuit, close_circuit, set_dependency, delete_dependency]
