"""taskforge webhooks …"""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from cyclopts import App, Parameter

from taskforge.cli import moments
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import clock, emit, status, table
from taskforge.domain.errors import Invalid
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
from taskforge.wiring import webhooks_of

app = App(name="webhooks", help="Make, list, change, try and delete webhooks.")
Name = Annotated[str, Parameter(help="Its name or id.")]
Names = Annotated[tuple[str, ...], Parameter(help="Names or ids.", required=True)]
Kinds = Annotated[
    tuple[str, ...],
    Parameter(name="--kind", help="Which events, such as job.failed, alert or report; several."),
]
Queues = Annotated[
    tuple[str, ...], Parameter(name="--queue", help="Of events of queues these alone; several.")
]
Every = Annotated[
    str | None, Parameter(help="How often a report is sent, such as 60s (which it is).")
]


@app.command(name="list")
async def list_(*, store: Store = STORE) -> None:
    """List the webhooks, with how each fares."""
    async with opened(store) as engine:
        found = await operations.list_webhooks(_door(engine, store), [engine.home])
    if store.json:
        emit({"webhooks": [_shape(one) for one in found]})
        return
    if not found:
        told = "no webhook yet; make one with `taskforge webhooks create NAME URL --kind KIND`"
        console().print(told, style="yellow")
        return
    rows = table(
        *("webhook", "state", "kinds", "address", "waiting", "delivered", "why"),
        flexible=("kinds", "address", "why", "webhook"),
        spare=("delivered",),
    )
    for one in found:
        rows.add_row(
            one.name,
            status(_state(one)),
            " ".join(sorted(one.kinds)),
            one.origin,
            str(one.waiting),
            clock(one.delivered_at),
            one.disabled_reason or "",
        )
    console().print(rows)


@app.command
async def create(
    name: str,
    url: Annotated[str, Parameter(help="An https address on the public internet.")],
    /,
    *,
    kind: Kinds,
    queue: Queues = (),
    description: str = "",
    report_every: Every = None,
    store: Store = STORE,
) -> None:
    """Create a webhook, and tell its secret this once."""
    new = NewWebhook(
        name=name,
        url=url,
        kinds=kind,
        queues=queue,
        description=description,
        **_times(report_every),
    )
    async with opened(store) as engine:
        made = await operations.create_webhook(engine, _door(engine, store), engine.home, new)
    _tell_secret(store, made, "is made")


@app.command
async def edit(
    name: Name,
    /,
    *,
    rename: Annotated[str | None, Parameter(help="Its name from now on.")] = None,
    address: Annotated[
        str | None, Parameter(help="Where to send from now on: an https address.")
    ] = None,
    kind: Kinds = (),
    queue: Queues = (),
    description: str | None = None,
    report_every: Every = None,
    store: Store = STORE,
) -> None:
    """Change a webhook; what is not named stays."""
    given: dict[str, Any] = {
        "name": rename,
        "url": address,
        "kinds": kind or None,
        "queues": queue or None,
        "description": description,
    }
    options = {key: value for key, value in given.items() if value is not None}
    options |= _times(report_every)
    if not options:
        raise Invalid("edit", "names nothing to change", "give an option such as --kind")
    await _change((name,), store, WebhookEdit(**options), "is changed")


@app.command
async def off(names: Names, /, *, store: Store = STORE) -> None:
    """Send nothing there; what happens meanwhile is not sent later."""
    await _change(names, store, WebhookEdit(is_active=False), "is off")


@app.command
async def on(names: Names, /, *, store: Store = STORE) -> None:
    """Send there again: what happens from now on, and what still waits."""
    await _change(names, store, WebhookEdit(is_active=True), "is on")


@app.command
async def rotate(
    name: Name,
    /,
    *,
    overlap: Annotated[
        str | None,
        Parameter(help="How long the secret before signs too, such as 1d (which it is)."),
    ] = None,
    store: Store = STORE,
) -> None:
    """Make a new secret, and tell it this once."""
    seconds = OVERLAP_SECONDS if overlap is None else moments.seconds("--overlap", overlap)
    async with opened(store) as engine:
        found = await _find(engine, store, name)
        made = await operations.rotate_secret(_door(engine, store), found, seconds)
    _tell_secret(store, made, "has a new secret")


@app.command
async def ping(name: Name, /, *, store: Store = STORE) -> None:
    """Send something that says nothing, to see whether it arrives."""
    async with opened(store) as engine:
        found = await _find(engine, store, name)
        delivery = await operations.ping_webhook(_door(engine, store), found)
    if store.json:
        emit({"delivery_id": delivery})
        return
    told = "is pinged; `taskforge webhooks deliveries {name}` tells what came of it"
    console().print(styled("[bold]{name}[/] " + told, name=found.name))


@app.command
async def deliveries(
    name: Name,
    /,
    *,
    status_: Annotated[
        str | None, Parameter(name="--status", help="pending, delivered or failed; else all.")
    ] = None,
    limit: Annotated[int, Parameter(help="How many, the newest first.")] = 50,
    store: Store = STORE,
) -> None:
    """Tell what was and is to be sent, and what came of it."""
    async with opened(store) as engine:
        webhook = await _find(engine, store, name)
        found = await operations.list_deliveries(
            _door(engine, store), webhook, status=status_, limit=limit
        )
    if store.json:
        emit({"deliveries": [_delivery(one) for one in found]})
        return
    if not found:
        told = "nothing was sent yet" if status_ is None else f"no delivery is {status_}"
        console().print(told, style="bright_black")
        return
    rows = table("made", "kind", "status", "tries", "last answer", "id", flexible=("last answer",))
    for one in found:
        rows.add_row(
            clock(one.created_at),
            one.kind,
            status(str(one.status)),
            str(one.attempts),
            _last_answer(one),
            str(one.id),
        )
    console().print(rows)


@app.command
async def retry(name: Name, delivery: UUID, /, *, store: Store = STORE) -> None:
    """Send a delivery again, whatever came of it."""
    async with opened(store) as engine:
        webhook = await _find(engine, store, name)
        found = await operations.retry_delivery(_door(engine, store), webhook, delivery)
    if store.json:
        emit({"deliveries": [_delivery(found)]})
        return
    console().print(styled("[bold]{id}[/] is sent again", id=str(found.id)))


@app.command
async def delete(names: Names, /, *, store: Store = STORE) -> None:
    """Delete webhooks, with what waits for them."""
    async with opened(store) as engine:
        # All are looked up before any is deleted: a mistyped name changes nothing.
        found = [await _find(engine, store, name) for name in names]
        for one in found:
            await operations.delete_webhook(_door(engine, store), one)
    _tell(store, found, "is deleted")


def _door(engine: AnyEngine, store: Store) -> Any:
    return webhooks_of(engine, store.settings)


async def _find(engine: AnyEngine, store: Store, name: str) -> Webhook:
    return await operations.find_webhook(_door(engine, store), [engine.home], name)


async def _change(names: tuple[str, ...], store: Store, edit: WebhookEdit, what: str) -> None:
    async with opened(store) as engine:
        door = _door(engine, store)
        found = [await _find(engine, store, name) for name in names]
        changed = [await operations.update_webhook(engine, door, one, edit) for one in found]
    _tell(store, changed, what)


def _times(report_every: str | None) -> dict[str, Any]:
    if report_every is None:
        return {}
    return {"report_seconds": moments.seconds("--report-every", report_every)}


def _state(webhook: Webhook) -> str:
    if not webhook.is_active:
        return "off"
    return "failing" if webhook.failures else "on"


def _last_answer(delivery: Delivery) -> str:
    tries = delivery.read_tries()
    if not tries:
        return ""
    last = tries[-1]
    return last.error or f"{last.status} {last.answer}"


def _shape(webhook: Webhook) -> dict[str, Any]:
    """Without the store's own numbers."""
    values = msgspec.structs.asdict(webhook)
    for name in ("number", "project", "organization", "since"):
        del values[name]
    return values | {"kinds": sorted(webhook.kinds), "queues": sorted(webhook.queues)}


def _delivery(delivery: Delivery) -> dict[str, Any]:
    values = msgspec.structs.asdict(delivery)
    for name in ("number", "webhook", "project"):
        del values[name]
    return values


def _tell(store: Store, changed: list[Webhook], what: str) -> None:
    if store.json:
        emit({"webhooks": [_shape(one) for one in changed]})
        return
    for one in changed:
        console().print(styled("[bold]{name}[/] {what}", name=one.name, what=what))


def _tell_secret(store: Store, made: MadeWebhook, what: str) -> None:
    if store.json:
        emit({"webhook": _shape(made.webhook), "secret": made.secret})
        return
    console().print(styled("[bold]{name}[/] {what}", name=made.webhook.name, what=what))
    console().print("its secret, which is told this once:")
    console().print(styled("{secret}", secret=made.secret), soft_wrap=True)
