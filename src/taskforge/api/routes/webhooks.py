"""Webhooks: make, read, change, rotate their secrets, try them; what was sent, and sending it
again. An address is often a secret itself, so only who may change webhooks sees them."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, PathParameter, QueryParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.cursors import Cursor, cursor_behind, position_of
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName
from taskforge.api.schema.views.webhooks import (
    DeliveryView,
    MadeWebhookView,
    NewWebhookBody,
    PingView,
    RotationBody,
    WebhookEditBody,
    WebhookView,
    delivery_view,
    webhook_view,
)
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.webhook import Webhook
from taskforge.operations import webhooks

MOST_LISTED = 1_000
MOST_DELIVERIES = 200
WebhookName = Annotated[
    str,
    PathParameter(description="A webhook's id, or its name where one of your projects has it"),
]
StatusOnly = Annotated[
    str | None, QueryParameter(description="pending, delivered or failed; else all")
]


class WebhookList(msgspec.Struct, frozen=True):
    items: list[WebhookView]
    next_cursor: str | None
    """Null: this is the last page"""


class DeliveryList(msgspec.Struct, frozen=True):
    items: list[DeliveryView]
    next_cursor: str | None
    """Null: this is the last page"""


@get("/webhooks", permission=Permission.PROJECT_WRITE, tags=["Webhooks"], responses=responses(404))
async def list_webhooks(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    limit: FromQuery[int] = 100,
    cursor: Cursor = None,
) -> WebhookList:
    """List webhooks with how each fares, of one project or of the whole organization."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await webhooks.list_webhooks(
        caller.platform.records.webhooks,
        await caller.projects(project),
        after=position_of(cursor),
        limit=limit,
    )
    names = await caller.project_names()
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return WebhookList([webhook_view(one, names) for one in found], more)


@post(
    "/webhooks",
    permission=Permission.PROJECT_WRITE,
    tags=["Webhooks"],
    responses=responses(404, 409),
)
async def create_webhook(
    caller: NamedDependency[Caller], data: JSONBody[NewWebhookBody], project: NewIn = None
) -> MadeWebhookView:
    """Create a webhook: from now on events are sent to its address, signed as Standard Webhooks
    describes it. The answer alone tells the secret."""
    owner = await caller.project(project)
    made = await webhooks.create_webhook(
        caller.platform.engine,
        caller.platform.records.webhooks,
        owner.number,
        data.new(),
        caller.note("webhook.create"),
    )
    names = await caller.project_names(made.webhook.project)
    return MadeWebhookView(webhook_view(made.webhook, names), made.secret)


@get(
    "/webhooks/{webhook:str}",
    permission=Permission.PROJECT_WRITE,
    tags=["Webhooks"],
    responses=responses(404),
)
async def get_webhook(
    caller: NamedDependency[Caller], webhook: WebhookName
) -> Response[WebhookView]:
    """Read a webhook, without its secret; its ETag makes a later change safe."""
    return await _rendered(caller, await caller.webhook(webhook))


@patch(
    "/webhooks/{webhook:str}",
    permission=Permission.PROJECT_WRITE,
    tags=["Webhooks"],
    responses=responses(404, 409, 412),
)
async def update_webhook(
    caller: NamedDependency[Caller],
    webhook: WebhookName,
    data: JSONBody[WebhookEditBody],
    if_match: IfMatch = None,
) -> Response[WebhookView]:
    """Change a webhook, switch it off or on. One that is off is sent nothing that happens
    meanwhile; what waits is sent once it is on again."""
    changed = await webhooks.update_webhook(
        caller.platform.engine,
        caller.platform.records.webhooks,
        await caller.webhook(webhook),
        data.edit(),
        caller.note("webhook.update"),
        mark_in(if_match),
    )
    return await _rendered(caller, changed)


@delete(
    "/webhooks/{webhook:str}",
    permission=Permission.PROJECT_WRITE,
    tags=["Webhooks"],
    responses=responses(404, 412),
)
async def delete_webhook(
    caller: NamedDependency[Caller], webhook: WebhookName, if_match: IfMatch = None
) -> None:
    """Delete a webhook, with what waits for it and what was sent."""
    old = await caller.webhook(webhook)
    note = caller.note("webhook.delete")
    await webhooks.delete_webhook(caller.platform.records.webhooks, old, note, mark_in(if_match))


@post(
    "/webhooks/{webhook:str}/rotate",
    permission=Permission.PROJECT_WRITE,
    status_code=200,
    tags=["Webhooks"],
    responses=responses(404, 409, 412),
)
async def rotate_webhook_secret(
    caller: NamedDependency[Caller],
    webhook: WebhookName,
    data: JSONBody[RotationBody | None] = None,
) -> MadeWebhookView:
    """Make a new secret, which the answer alone tells. For a while requests carry the signatures of
    both."""
    made = await webhooks.rotate_secret(
        caller.platform.records.webhooks,
        await caller.webhook(webhook),
        (data or RotationBody()).overlap_seconds,
        caller.note("webhook.rotate"),
    )
    names = await caller.project_names(made.webhook.project)
    return MadeWebhookView(webhook_view(made.webhook, names), made.secret)


@post(
    "/webhooks/{webhook:str}/ping",
    permission=Permission.PROJECT_WRITE,
    status_code=202,
    tags=["Webhooks"],
    responses=responses(404, 409),
)
async def ping_webhook(caller: NamedDependency[Caller], webhook: WebhookName) -> PingView:
    """Send an event of kind `ping`, which says nothing. Its delivery tells whether it arrived."""
    found = await caller.webhook(webhook)
    note = caller.note("webhook.ping")
    return PingView(await webhooks.ping_webhook(caller.platform.records.webhooks, found, note))


@get(
    "/webhooks/{webhook:str}/deliveries",
    permission=Permission.PROJECT_WRITE,
    tags=["Webhooks"],
    responses=responses(404),
)
async def list_webhook_deliveries(
    caller: NamedDependency[Caller],
    webhook: WebhookName,
    status: StatusOnly = None,
    limit: FromQuery[int] = 50,
    cursor: Cursor = None,
) -> DeliveryList:
    """What was and is to be sent to a webhook, with what came of it, the newest first."""
    rules.integer("limit", limit, 1, MOST_DELIVERIES)
    found = await webhooks.list_deliveries(
        caller.platform.records.webhooks,
        await caller.webhook(webhook),
        status=status,
        before=position_of(cursor, 2**62) or None,
        limit=limit,
    )
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return DeliveryList([delivery_view(one) for one in found], more)


@post(
    "/webhooks/{webhook:str}/deliveries/{delivery_id:uuid}/retry",
    permission=Permission.PROJECT_WRITE,
    status_code=200,
    tags=["Webhooks"],
    responses=responses(404, 409),
)
async def retry_webhook_delivery(
    caller: NamedDependency[Caller], webhook: WebhookName, delivery_id: FromPath[UUID]
) -> DeliveryView:
    """Send a delivery again, whatever came of it, under the same webhook-id."""
    found = await webhooks.retry_delivery(
        caller.platform.records.webhooks,
        await caller.webhook(webhook),
        delivery_id,
        caller.note("webhook.retry"),
    )
    return delivery_view(found)


async def _rendered(caller: Caller, webhook: Webhook) -> Response[WebhookView]:
    names = await caller.project_names(webhook.project)
    return tagged(webhook_view(webhook, names), webhook.mark, 200)


HANDLERS = [
    list_webhooks,
    create_webhook,
    get_webhook,
    update_webhook,
    delete_webhook,
    rotate_webhook_secret,
    ping_webhook,
    list_webhook_deliveries,
    retry_webhook_delivery,
]
