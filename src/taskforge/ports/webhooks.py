"""Webhooks: what their owners ask of a store, or of a server in front of one."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from taskforge.domain.audit import Note
from taskforge.domain.webhook import (
    Delivery,
    DeliveryStatus,
    MadeWebhook,
    NewWebhook,
    Webhook,
    WebhookEdit,
)


class Webhooks(Protocol):
    # In the order in which they were made, behind this number.
    async def webhooks(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[Webhook]: ...
    # By id, or by name in any of these projects.
    async def find(self, projects: Sequence[int], name: UUID | str) -> list[Webhook]: ...
    async def create(self, project: int, new: NewWebhook, note: Note | None) -> MadeWebhook: ...
    # `expected`: the mark of the version that is meant; None: whatever is there.
    async def update(
        self, old: Webhook, edit: WebhookEdit, note: Note | None, expected: str | None = None
    ) -> Webhook: ...
    # The secret before signs too, for so many seconds.
    async def rotate(
        self, old: Webhook, overlap_seconds: float, note: Note | None
    ) -> MadeWebhook: ...
    async def delete(
        self, old: Webhook, note: Note | None, expected: str | None = None
    ) -> None: ...


class WebhookLog(Protocol):
    # The newest first, before this number.
    async def deliveries(
        self,
        webhook: Webhook,
        *,
        status: DeliveryStatus | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Delivery]: ...
    # Send something that says nothing, to see whether it arrives.
    async def ping(self, webhook: Webhook, note: Note | None) -> UUID: ...
    # Send a delivery again, whatever came of it.
    async def retry(self, webhook: Webhook, delivery: UUID, note: Note | None) -> Delivery: ...


class WebhookDoor(Webhooks, WebhookLog, Protocol):
    """Both."""
