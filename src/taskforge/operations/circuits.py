"""Circuits as their owners see and steer them, and what job types depend on."""

from collections.abc import Sequence
from typing import Any

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.breaker import Mode
from taskforge.domain.circuit import Circuit, CircuitName, check_circuit_name, parse_breaker
from taskforge.operations.naming import find_queue
from taskforge.ports.circuits import Circuits
from taskforge.ports.engine import AnyEngine


async def list_circuits(
    circuits: Circuits,
    projects: Sequence[int],
    *,
    mode: Mode | None = None,
    after: int = 0,
    limit: int = 1_000,
) -> list[Circuit]:
    return await circuits.circuits(projects, mode=mode, after=after, limit=limit)


async def move_circuit(
    engine: AnyEngine,
    circuits: Circuits,
    project: int,
    name: CircuitName,
    mode: Mode,
    note: Note | None = None,
) -> Circuit:
    """Open it until somebody closes it, or close it with nothing counted. The queue may be named by
    its id."""
    check_circuit_name(name)
    if name.queue is not None:
        queue = await find_queue(engine, name.queue, project)
        name = msgspec.structs.replace(name, queue=queue.name)
    return await circuits.move(project, name, mode, note)


async def set_dependency(
    circuits: Circuits, project: int, name: str, breaker: Any, note: Note | None = None
) -> Circuit:
    """The thresholds of a dependency, which is made if it is new."""
    return await circuits.set_dependency(
        project, name, parse_breaker("circuit_breaker", breaker), note
    )


async def remove_dependency(
    circuits: Circuits, project: int, name: str, note: Note | None = None
) -> None:
    await circuits.remove_dependency(project, name, note)
