"""Webhooks on a server elsewhere."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from taskforge.client.requests import Request, get, nothing, post, reader
from taskforge.client.transport import Transport
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.webhook import (
    Delivery,
    DeliveryStatus,
    MadeWebhook,
    NewWebhook,
    Webhook,
    WebhookEdit,
)

T = TypeVar("T")
PAGE, PAGE_OF_DELIVERIES = 1_000, 200
_NEW = ("name", "url", "kinds", "description", "queues", "report_seconds", "is_active")


class _Webhook(msgspec.Struct, kw_only=True):
    id: UUID
    name: str
    url: str
    description: str
    kinds: frozenset[str]
    queues: frozenset[str]
    report_seconds: float
    is_active: bool
    disabled_reason: str | None
    waiting: int
    failures: int
    failing_since: datetime | None
    delivered_at: datetime | None
    old_secret_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime

    def webhook(self, number: int = 0) -> Webhook:
        own = {name: getattr(self, name) for name in self.__struct_fields__}
        return Webhook(**own, number=number, project=0, organization=0, since=self.created_at)


class _Made(msgspec.Struct):
    webhook: _Webhook
    secret: str

    def made(self) -> MadeWebhook:
        return MadeWebhook(self.webhook.webhook(), self.secret)


class _Webhooks(msgspec.Struct):
    items: list[_Webhook]
    next_cursor: str | None


class _Delivery(msgspec.Struct, kw_only=True):
    id: UUID
    kind: str
    body: msgspec.Raw
    status: DeliveryStatus
    attempts: int
    tries: msgspec.Raw
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None

    def delivery(self, webhook: Webhook, number: int = 0) -> Delivery:
        own = {name: getattr(self, name) for name in self.__struct_fields__}
        return Delivery(**own, number=number, webhook=webhook.number, project=0)


class _Deliveries(msgspec.Struct):
    items: list[_Delivery]
    next_cursor: str | None


class _Ping(msgspec.Struct):
    delivery_id: UUID


_read, _read_all, _read_made = reader(_Webhook), reader(_Webhooks), reader(_Made)
_read_delivery, _read_deliveries, _read_ping = (
    reader(_Delivery),
    reader(_Deliveries),
    reader(_Ping),
)


class RemoteWebhooks:
    """Implements the ports of `ports.webhooks`. Which project, the key decides."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def webhooks(
        self, projects: Sequence[int], *, after: int = 0, limit: int = PAGE
    ) -> list[Webhook]:
        """Numbers are places in this list."""
        found: list[Webhook] = []
        cursor: str | None = None
        while len(found) < after + limit:
            page = await self._send(get("/webhooks", _read_all, limit=PAGE, cursor=cursor))
            start = len(found) + 1
            found += [one.webhook(start + place) for place, one in enumerate(page.items)]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[after : after + limit]

    async def find(self, projects: Sequence[int], name: UUID | str) -> list[Webhook]:
        try:
            return [(await self._send(get(_path(name), _read))).webhook()]
        except NotFound:
            return []

    async def create(self, project: int, new: NewWebhook, note: Note | None) -> MadeWebhook:
        body = {name: getattr(new, name) for name in _NEW}
        return (await self._send(post("/webhooks", _read_made, body))).made()

    async def update(
        self, old: Webhook, edit: WebhookEdit, note: Note | None, expected: str | None = None
    ) -> Webhook:
        fields: dict[str, Any] = {
            name: value for name in _NEW if (value := getattr(edit, name)) is not msgspec.UNSET
        }
        body = msgspec.json.encode(fields)
        request = Request("PATCH", _path(old.id), _read, body=body, headers=_matching(expected))
        return (await self._send(request)).webhook(old.number)

    async def rotate(self, old: Webhook, overlap_seconds: float, note: Note | None) -> MadeWebhook:
        body = {"overlap_seconds": overlap_seconds}
        return (await self._send(post(f"{_path(old.id)}/rotate", _read_made, body))).made()

    async def delete(self, old: Webhook, note: Note | None, expected: str | None = None) -> None:
        await self._send(Request("DELETE", _path(old.id), nothing, headers=_matching(expected)))

    async def deliveries(
        self,
        webhook: Webhook,
        *,
        status: DeliveryStatus | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Delivery]:
        found: list[Delivery] = []
        cursor: str | None = None
        while len(found) < limit:
            most = min(PAGE_OF_DELIVERIES, limit - len(found))
            request = get(
                f"{_path(webhook.id)}/deliveries",
                _read_deliveries,
                status=status,
                limit=most,
                cursor=cursor,
            )
            page = await self._send(request)
            found += [one.delivery(webhook) for one in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def ping(self, webhook: Webhook, note: Note | None) -> UUID:
        return (await self._send(post(f"{_path(webhook.id)}/ping", _read_ping))).delivery_id

    async def retry(self, webhook: Webhook, delivery: UUID, note: Note | None) -> Delivery:
        path = f"{_path(webhook.id)}/deliveries/{delivery}/retry"
        return (await self._send(post(path, _read_delivery))).delivery(webhook)

    async def _send(self, request: Request[T]) -> T:
        return await self._transport.send(request)


def _matching(mark: str | None) -> dict[str, str]:
    return {} if mark is None else {"If-Match": f'"{mark}"'}


def _path(name: UUID | str) -> str:
    return f"/webhooks/{quote(str(name), safe='')}"
