"""Circuits on a server elsewhere."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from taskforge.client.requests import Request, get, nothing, post, reader
from taskforge.client.transport import Transport
from taskforge.domain.audit import Note
from taskforge.domain.breaker import Breaker, Mode
from taskforge.domain.circuit import Circuit, CircuitName

T = TypeVar("T")
PAGE = 1_000


class _Circuit(msgspec.Struct, kw_only=True):
    queue: str | None
    queue_id: UUID | None
    job_type: str | None
    dependency: str | None
    job_types: tuple[str, ...]
    mode: Mode
    is_forced: bool
    since: datetime | None
    due_at: datetime | None
    succeeded: int
    failed: int
    probes_asked: int
    probes_passed: int
    circuit_breaker: Breaker | None

    def value(self, number: int = 0) -> Circuit:
        return Circuit(number=number, project=0, **msgspec.structs.asdict(self))


class _Circuits(msgspec.Struct):
    items: list[_Circuit]
    next_cursor: str | None


_read, _read_all = reader(_Circuit), reader(_Circuits)


class RemoteCircuits:
    """Implements `ports.circuits.Circuits`. Which project, the key decides."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def circuits(
        self,
        projects: Sequence[int],
        *,
        mode: Mode | None = None,
        after: int = 0,
        limit: int = PAGE,
    ) -> list[Circuit]:
        """Numbers are places in this list."""
        found: list[Circuit] = []
        cursor: str | None = None
        while len(found) < after + limit:
            wanted = None if mode is None else mode.value
            request = get("/circuits", _read_all, limit=PAGE, cursor=cursor, mode=wanted)
            page = await self._send(request)
            start = len(found) + 1
            found += [one.value(start + place) for place, one in enumerate(page.items)]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[after : after + limit]

    async def move(
        self, project: int, name: CircuitName, mode: Mode, note: Note | None = None
    ) -> Circuit:
        verb = "open" if mode is Mode.OPEN else "close"
        body = {key: value for key, value in msgspec.structs.asdict(name).items() if value}
        return (await self._send(post(f"/circuits/{verb}", _read, body, repeatable=True))).value()

    async def set_dependency(
        self, project: int, name: str, breaker: Breaker, note: Note | None = None
    ) -> Circuit:
        body = {"name": name, "circuit_breaker": msgspec.structs.asdict(breaker)}
        return (await self._send(post("/dependencies", _read, body, repeatable=True))).value()

    async def remove_dependency(self, project: int, name: str, note: Note | None = None) -> None:
        path = f"/dependencies/{quote(name, safe='')}"
        await self._send(Request("DELETE", path, nothing))

    async def _send(self, request: Request[T]) -> T:
        return await self._transport.send(request)
