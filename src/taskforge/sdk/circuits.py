"""Circuits from Python: `forge.circuits`."""

from typing import TYPE_CHECKING, Any

from taskforge.domain.breaker import Mode
from taskforge.domain.circuit import Circuit, CircuitName
from taskforge.operations import circuits as operations
from taskforge.wiring import circuits_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppCircuits:
    """`forge.circuits`: what the REST API has of them too. A circuit is named by `queue` and
    `job_type`, or by its `dependency`."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def all(self, mode: str | None = None) -> list[Circuit]:
        """Those of job types that ran in a queue with a breaker, and those of dependencies; of one
        mode (closed, open, half_open), or all."""
        engine = await self._app.engine()
        wanted = None if mode is None else Mode(mode)
        return await operations.list_circuits(
            circuits_of(engine), [engine.home], mode=wanted, limit=100_000
        )

    async def open(
        self, queue: str | None = None, job_type: str | None = None, dependency: str | None = None
    ) -> Circuit:
        """Start no more jobs behind it until somebody closes it."""
        return await self._move(CircuitName(queue, job_type, dependency), Mode.OPEN)

    async def close(
        self, queue: str | None = None, job_type: str | None = None, dependency: str | None = None
    ) -> Circuit:
        """Start jobs behind it again, with nothing counted."""
        return await self._move(CircuitName(queue, job_type, dependency), Mode.CLOSED)

    async def set_dependency(self, name: str, **circuit_breaker: Any) -> Circuit:
        """The thresholds of what job types depend on: failure_share, least_calls, window_seconds,
        open_seconds, probes."""
        engine = await self._app.engine()
        return await operations.set_dependency(
            circuits_of(engine), engine.home, name, circuit_breaker
        )

    async def remove_dependency(self, name: str) -> None:
        """A worker whose job types depend on it makes it anew when it registers."""
        engine = await self._app.engine()
        await operations.remove_dependency(circuits_of(engine), engine.home, name)

    async def _move(self, name: CircuitName, mode: Mode) -> Circuit:
        engine = await self._app.engine()
        return await operations.move_circuit(engine, circuits_of(engine), engine.home, name, mode)
