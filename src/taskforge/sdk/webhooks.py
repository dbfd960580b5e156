"""Webhooks from Python: `forge.webhooks`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from taskforge.domain.signature import TOLERANCE_SECONDS, verify
from taskforge.domain.webhook import (
    OVERLAP_SECONDS,
    Delivery,
    MadeWebhook,
    NewWebhook,
    Webhook,
    WebhookEdit,
)
from taskforge.operations import webhooks as operations
from taskforge.ports.engine import AnyEngine
from taskforge.ports.webhooks import WebhookDoor
from taskforge.wiring import webhooks_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


def verify_webhook(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> bool:
    """Whether a request came from whoever has this secret, and not long ago. For receivers: `body`
    is the bytes as they came, names of headers are in any case."""
    now = datetime.now(UTC)
    return verify(secret, headers, body, now, tolerance_seconds=tolerance_seconds)


class AppWebhooks:
    """`forge.webhooks`: what the REST API has of them too."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def create(
        self, name: str, url: str, kinds: Sequence[str], **options: Any
    ) -> MadeWebhook:
        """Send events of these kinds to an address: `job`, `job.failed`, `alert`, `report` and the
        like. What comes back tells the secret, this once. `options`: description, queues,
        report_seconds, is_active."""
        engine, webhooks = await self._open()
        new = NewWebhook(name=name, url=url, kinds=kinds, **options)
        return await operations.create_webhook(engine, webhooks, engine.home, new)

    async def all(self) -> list[Webhook]:
        """With how each fares."""
        engine, webhooks = await self._open()
        return await operations.list_webhooks(webhooks, [engine.home])

    async def get(self, name: UUID | str) -> Webhook:
        engine, webhooks = await self._open()
        return await operations.find_webhook(webhooks, [engine.home], name)

    async def edit(self, name: UUID | str, /, **options: Any) -> Webhook:
        """What is not named stays. `options`: as in `create`, and name, url, kinds."""
        engine, webhooks = await self._open()
        edit = WebhookEdit(**options)
        return await operations.update_webhook(engine, webhooks, await self.get(name), edit)

    async def rotate(
        self, name: UUID | str, *, overlap_seconds: float = OVERLAP_SECONDS
    ) -> MadeWebhook:
        """A new secret; the one before signs too for so long."""
        _, webhooks = await self._open()
        return await operations.rotate_secret(webhooks, await self.get(name), overlap_seconds)

    async def delete(self, name: UUID | str) -> None:
        _, webhooks = await self._open()
        await operations.delete_webhook(webhooks, await self.get(name))

    async def ping(self, name: UUID | str) -> UUID:
        """Send something that says nothing; the id of its delivery."""
        _, webhooks = await self._open()
        return await operations.ping_webhook(webhooks, await self.get(name))

    async def deliveries(
        self, name: UUID | str, *, status: str | None = None, limit: int = 50
    ) -> list[Delivery]:
        """What was and is to be sent, the newest first. `status`: pending, delivered, failed."""
        _, webhooks = await self._open()
        found = await self.get(name)
        return await operations.list_deliveries(webhooks, found, status=status, limit=limit)

    async def retry(self, name: UUID | str, delivery: UUID) -> Delivery:
        """Send a delivery again, whatever came of it."""
        _, webhooks = await self._open()
        return await operations.retry_delivery(webhooks, await self.get(name), delivery)

    async def _open(self) -> tuple[AnyEngine, WebhookDoor]:
        engine = await self._app.engine()
        return engine, webhooks_of(engine, self._app.settings)
