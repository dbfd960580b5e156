"""Alert rules on a server elsewhere."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from taskforge.client.requests import Request, get, nothing, post, reader
from taskforge.client.transport import Transport
from taskforge.domain.alert import (
    AlertEntry,
    AlertKind,
    AlertNews,
    AlertRule,
    AlertRuleEdit,
    NewAlertRule,
)
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound

T = TypeVar("T")
PAGE = 1_000
_NEW = ("name", "kind", "queue", "threshold", "window_seconds", "repeat_seconds", "is_paused")


class _Rule(msgspec.Struct, kw_only=True):
    id: UUID
    name: str
    kind: AlertKind
    queue: str | None
    threshold: float
    window_seconds: float
    repeat_seconds: float
    is_paused: bool
    silenced_until: datetime | None
    is_firing: bool
    since: datetime | None
    value: float | None
    detail: str | None
    checked_at: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime

    def rule(self, number: int = 0) -> AlertRule:
        own = {name: getattr(self, name) for name in self.__struct_fields__}
        return AlertRule(**own, number=number, project=0, queue_id=None, told_at=None)


class _Rules(msgspec.Struct):
    items: list[_Rule]
    next_cursor: str | None


class _Entry(msgspec.Struct, kw_only=True):
    rule: UUID
    name: str
    at: datetime
    news: AlertNews
    value: float | None
    detail: str
    is_silent: bool


class _History(msgspec.Struct):
    items: list[_Entry]
    next_cursor: str | None


_read, _read_all, _read_history = reader(_Rule), reader(_Rules), reader(_History)


class RemoteAlerts:
    """Implements `ports.alerts.AlertRules`. Which project, the key decides."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def rules(
        self, projects: Sequence[int], *, after: int = 0, limit: int = PAGE
    ) -> list[AlertRule]:
        """Numbers are places in this list."""
        found: list[AlertRule] = []
        cursor: str | None = None
        while len(found) < after + limit:
            page = await self._send(get("/alerts", _read_all, limit=PAGE, cursor=cursor))
            start = len(found) + 1
            found += [one.rule(start + place) for place, one in enumerate(page.items)]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[after : after + limit]

    async def find(self, projects: Sequence[int], name: UUID | str) -> list[AlertRule]:
        try:
            return [(await self._send(get(_path(name), _read))).rule()]
        except NotFound:
            return []

    async def history(
        self, projects: Sequence[int], rule: UUID | None = None, *, limit: int = 50
    ) -> list[AlertEntry]:
        """Numbers are places in this list, from its end."""
        found: list[_Entry] = []
        cursor: str | None = None
        while len(found) < limit:
            most = min(PAGE, limit - len(found))
            page = await self._send(
                get("/alerts/history", _read_history, rule_id=rule, limit=most, cursor=cursor)
            )
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return [
            AlertEntry(number=len(found) - place, **msgspec.structs.asdict(one))
            for place, one in enumerate(found)
        ]

    async def create(self, project: int, new: NewAlertRule, note: Note | None) -> AlertRule:
        body = {name: getattr(new, name) for name in _NEW}
        return (await self._send(post("/alerts", _read, body))).rule()

    async def update(
        self, old: AlertRule, edit: AlertRuleEdit, note: Note | None, expected: str | None = None
    ) -> AlertRule:
        headers = {} if expected is None else {"If-Match": f'"{expected}"'}
        made = old
        fields: dict[str, Any] = {
            name: value
            for name in _NEW
            if name != "kind" and (value := getattr(edit, name)) is not msgspec.UNSET
        }
        if fields:
            body = msgspec.json.encode(fields)
            request = Request("PATCH", _path(old.id), _read, body=body, headers=headers)
            made = (await self._send(request)).rule(old.number)
        return made

    async def silence(self, old: AlertRule, seconds: float, note: Note | None) -> AlertRule:
        request = post(f"{_path(old.id)}/silence", _read, {"seconds": seconds})
        return (await self._send(request)).rule(old.number)

    async def delete(self, old: AlertRule, note: Note | None, expected: str | None = None) -> None:
        headers = {} if expected is None else {"If-Match": f'"{expected}"'}
        await self._send(Request("DELETE", _path(old.id), nothing, headers=headers))

    async def _send(self, request: Request[T]) -> T:
        return await self._transport.send(request)


def _path(name: UUID | str) -> str:
    return f"/alerts/{quote(str(name), safe='')}"
