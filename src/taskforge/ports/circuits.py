"""Circuits: what their owners ask of a store or of a server in front of one."""

from collections.abc import Sequence
from typing import Protocol

from taskforge.domain.audit import Note
from taskforge.domain.breaker import Breaker, Mode
from taskforge.domain.circuit import Circuit, CircuitName


class Circuits(Protocol):
    # In the order in which they were made, behind this number.
    async def circuits(
        self,
        projects: Sequence[int],
        *,
        mode: Mode | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> list[Circuit]: ...
    # By hand: open until somebody closes it, or closed with nothing counted.
    async def move(
        self, project: int, name: CircuitName, mode: Mode, note: Note | None = None
    ) -> Circuit: ...
    async def set_dependency(
        self, project: int, name: str, breaker: Breaker, note: Note | None = None
    ) -> Circuit: ...
    async def remove_dependency(
        self, project: int, name: str, note: Note | None = None
    ) -> None: ...
