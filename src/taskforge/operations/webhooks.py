"""Webhooks as their owners make, see and steer them."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, NotFound, nearest
from taskforge.domain.webhook import (
    MOST_OVERLAP_SECONDS,
    Delivery,
    DeliveryStatus,
    MadeWebhook,
    NewWebhook,
    Webhook,
    WebhookEdit,
    check_queues,
)
from taskforge.operations.naming import find_queue
from taskforge.ports.engine import AnyEngine
from taskforge.ports.webhooks import WebhookLog, Webhooks

NEAREST_AMONG = 1_000


async def list_webhooks(
    webhooks: Webhooks, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
) -> list[Webhook]:
    return await webhooks.webhooks(projects, after=after, limit=limit)


async def find_webhook(webhooks: Webhooks, projects: Sequence[int], name: UUID | str) -> Webhook:
    """By id, or by name where one project alone has it."""
    found = await webhooks.find(projects, name)
    if len(found) > 1:
        problem = f"{name!r} is in {len(found)} of your projects"
        raise Invalid("webhook", problem, "name it by its id")
    if found:
        return found[0]
    known = await webhooks.webhooks(projects, limit=NEAREST_AMONG)
    raise NotFound("webhook", str(name), nearest=nearest(str(name), [one.name for one in known]))


async def create_webhook(
    engine: AnyEngine, webhooks: Webhooks, project: int, new: NewWebhook, note: Note | None = None
) -> MadeWebhook:
    queues = await _ids_of(engine, project, check_queues(new.queues))
    return await webhooks.create(project, msgspec.structs.replace(new, queues=queues), note)


async def update_webhook(
    engine: AnyEngine,
    webhooks: Webhooks,
    old: Webhook,
    edit: WebhookEdit,
    note: Note | None = None,
    expected_mark: str | None = None,
) -> Webhook:
    if edit.queues is not msgspec.UNSET:
        queues = await _ids_of(engine, old.project, check_queues(edit.queues))
        edit = msgspec.structs.replace(edit, queues=queues)
    return await webhooks.update(old, edit, note, expected_mark)


async def rotate_secret(
    webhooks: Webhooks, old: Webhook, overlap_seconds: float, note: Note | None = None
) -> MadeWebhook:
    """A new secret; for a while requests are signed with both."""
    rules.number("overlap_seconds", overlap_seconds, 0, MOST_OVERLAP_SECONDS)
    return await webhooks.rotate(old, overlap_seconds, note)


async def delete_webhook(
    webhooks: Webhooks, old: Webhook, note: Note | None = None, expected_mark: str | None = None
) -> None:
    await webhooks.delete(old, note, expected_mark)


async def ping_webhook(log: WebhookLog, webhook: Webhook, note: Note | None = None) -> UUID:
    """Send something that says nothing; the id of the delivery, whose tries its log tells."""
    return await log.ping(webhook, note)


async def list_deliveries(
    log: WebhookLog,
    webhook: Webhook,
    *,
    status: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Delivery]:
    """The newest first."""
    wanted = None
    if status is not None:
        wanted = DeliveryStatus(rules.choice("status", status, tuple(DeliveryStatus)))
    return await log.deliveries(webhook, status=wanted, before=before, limit=limit)


async def retry_delivery(
    log: WebhookLog, webhook: Webhook, delivery: UUID, note: Note | None = None
) -> Delivery:
    """Send a delivery again, whatever came of it, under the same id."""
    return await log.retry(webhook, delivery, note)


async def _ids_of(engine: AnyEngine, project: int, queues: Sequence[str]) -> list[str]:
    return [str((await find_queue(engine, queue, project)).id) for queue in queues]
