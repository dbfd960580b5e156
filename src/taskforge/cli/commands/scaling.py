"""taskforge scaling …"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from taskforge.cli.selection import setting
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.scaling_picture import Curve, CurvePoint, write_picture
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import clock, emit, status, table
from taskforge.domain.errors import Invalid
from taskforge.domain.queue_scaling import (
    AdvisedScaling,
    QueueScaling,
    ScalingEntry,
    ScalingPoint,
)
from taskforge.domain.scaling import ScalingSight
from taskforge.operations import scaling as operations
from taskforge.operations.naming import find_queue
from taskforge.wiring import scaling_of

app = App(name="scaling", help="See and set how many workers queues should have.")
QueueName = Annotated[str, Parameter(help="A queue's name or id.")]
QueueNames = Annotated[tuple[str, ...], Parameter(help="Names or ids of queues.", required=True)]
Fields = Annotated[
    tuple[str, ...],
    Parameter(name="--set", help="NAME=VALUE of the policy, such as drain_seconds=30."),
]
Least = Annotated[int | None, Parameter(name="--min", help="Workers, at least.")]
Most = Annotated[int | None, Parameter(name="--max", help="Workers, at most.")]
Provider = Annotated[
    str | None,
    Parameter(help="Where workers come from, as the settings declare it; none: only advice."),
]


@app.command(name="list")
async def list_(*, store: Store = STORE) -> None:
    """List the scaling policies, with what each said last."""
    async with opened(store) as engine:
        found = await scaling_of(engine, store.settings).policies([engine.home])
    _tell(store, found, None)


@app.command
async def show(queue: QueueName, /, *, store: Store = STORE) -> None:
    """Show the scaling policy of a queue, whole."""
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        found = await operations.find_policy_of(engine, scaling, queue)
    if store.json:
        emit({"policies": [_shape(found)]})
        return
    rows = table("field", "value", flexible=("value",))
    for name, value in _shape(found).items():
        if name != "state":
            rows.add_row(name, msgspec.json.encode(value).decode())
    console().print(rows)
    console().print(f"{found.state.action}: {found.state.reason or 'not looked at yet'}")


@app.command
async def put(
    queue: QueueName,
    /,
    *,
    most: Most = None,
    least: Least = None,
    provider: Provider = None,
    fields: Fields = (),
    store: Store = STORE,
) -> None:
    """Give a queue a scaling policy, or replace the one it has. What is not named is as it is by
    itself."""
    given = _given(most, least, provider, fields)
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        made = await operations.put_policy(engine, scaling, queue, given)
    _tell(store, [made], "has a scaling policy")


@app.command
async def edit(
    queue: QueueName,
    /,
    *,
    most: Most = None,
    least: Least = None,
    provider: Provider = None,
    fields: Fields = (),
    store: Store = STORE,
) -> None:
    """Change the scaling policy of a queue; what is not named stays."""
    given = _given(most, least, provider, fields)
    if not given:
        raise Invalid("edit", "names nothing to change", "give an option such as --max")
    await _edit([queue], store, given, "is changed")


@app.command
async def pause(queues: QueueNames, /, *, store: Store = STORE) -> None:
    """Start and stop no workers for these queues until they are resumed."""
    await _edit(queues, store, {"is_paused": True}, "is paused")


@app.command
async def resume(queues: QueueNames, /, *, store: Store = STORE) -> None:
    """Scale these queues again."""
    await _edit(queues, store, {"is_paused": False}, "goes on")


@app.command
async def delete(queues: QueueNames, /, *, store: Store = STORE) -> None:
    """Take the scaling policies of queues away. Processes of a local provider end in order; other
    workers stay as they are."""
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        # All are looked up before any is deleted: a mistyped name changes nothing.
        found = [await operations.find_policy_of(engine, scaling, queue) for queue in queues]
        for one in found:
            await scaling.delete(one, None, None)
    _tell(store, found, "has no scaling policy any more")


@app.command
async def advise(queues: QueueNames, /, *, store: Store = STORE) -> None:
    """Tell what the policies of queues say now. Nothing is done about it."""
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        policies = [await operations.find_policy_of(engine, scaling, queue) for queue in queues]
        found = [await scaling.advise(one) for one in policies]
    if store.json:
        emit({"advice": [_advice(one) for one in found]})
        return
    rows = table("queue", "action", "count", "wanted", "there", "why", flexible=("why", "queue"))
    for one in found:
        advice, figures = one.advice, one.figures
        numbers = (f"{advice.count:,}", f"{advice.desired:,}", f"{figures.workers:,}")
        rows.add_row(one.queue, status(advice.action), *numbers, advice.reason)
    console().print(rows)


@app.command
async def history(
    queue: Annotated[str | None, Parameter(help="A queue's name or id; else of all.")] = None,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many, the newest first.")] = 50,
    store: Store = STORE,
) -> None:
    """Tell what scaling policies decided and met."""
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        meant = None if queue is None else (await find_queue(engine, queue)).id
        found = await scaling.history([engine.home], meant, limit=limit)
    if store.json:
        emit({"history": [_entry(one) for one in found]})
        return
    if not found:
        console().print("nothing was scaled yet", style="bright_black")
        return
    rows = table("at", "queue", "news", "count", "why", flexible=("why", "queue"))
    for one in found:
        rows.add_row(clock(one.at), one.queue, status(one.news), f"{one.count:,}", one.reason)
    console().print(rows)


@app.command
async def series(
    queue: QueueName,
    /,
    *,
    points: Annotated[int, Parameter(help="How many, at most.")] = 60,
    picture: Annotated[
        Path | None, Parameter(help="Also draw workers and queue over time into this SVG file.")
    ] = None,
    store: Store = STORE,
) -> None:
    """Tell how workers and the length of a queue went in the last hour."""
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        policy = await operations.find_policy_of(engine, scaling, queue)
        now = await engine.now()
        found = await operations.read_series(scaling, policy, now, points=points)
    if picture is not None and found:
        began = found[0].at
        write_picture(picture, [Curve(policy.queue, [_place(one, began) for one in found])])
    if store.json:
        emit({"series": [msgspec.structs.asdict(one) for one in found]})
        return
    if not found:
        told = "nothing is known of the last hour" + ("; nothing was drawn" if picture else "")
        console().print(told, style="yellow")
        return
    names = [name for name in ScalingPoint.__struct_fields__ if name != "at"]
    rows = table("at", *(name.replace("_", " ") for name in names))
    for one in found:
        rows.add_row(clock(one.at), *(f"{getattr(one, name):,.10g}" for name in names))
    console().print(rows)


def _place(point: ScalingPoint, began: datetime) -> CurvePoint:
    seconds = (point.at - began).total_seconds()
    return CurvePoint(seconds, point.desired, point.actual + point.draining, point.length)


async def _edit(queues: Sequence[str], store: Store, fields: dict[str, Any], what: str) -> None:
    async with opened(store) as engine:
        scaling = scaling_of(engine, store.settings)
        found = [await operations.find_policy_of(engine, scaling, queue) for queue in queues]
        changed = [await scaling.edit(one, fields, None, None) for one in found]
    _tell(store, changed, what)


def _given(
    most: int | None, least: int | None, provider: str | None, fields: Sequence[str]
) -> dict[str, Any]:
    named = {"max_workers": most, "min_workers": least, "provider": provider}
    given = dict(setting(field) for field in fields)
    return given | {name: value for name, value in named.items() if value is not None}


def _tell(store: Store, found: Sequence[QueueScaling], what: str | None) -> None:
    if store.json:
        emit({"policies": [_shape(one) for one in found]})
        return
    if what is not None:
        for one in found:
            console().print(styled("queue [bold]{name}[/] {what}", name=one.queue, what=what))
        return
    if not found:
        told = "no scaling policy yet; make one with `taskforge scaling put QUEUE --max N`"
        console().print(told, style="yellow")
        return
    rows = table(
        *("queue", "state", "provider", "bounds", "wanted", "there", "says"),
        flexible=("says", "queue"),
        spare=("provider",),
    )
    for one in found:
        state, policy = one.state, one.policy
        rows.add_row(
            one.queue,
            status(_state(one)),
            one.provider,
            f"{policy.min_workers:,}–{policy.max_workers:,}",
            f"{state.desired:,}",
            f"{state.workers:,}",
            state.error or state.reason or "not looked at yet",
        )
    console().print(rows)


def _state(scaling: QueueScaling) -> str:
    if scaling.is_paused:
        return "paused"
    if scaling.state.error is not None:
        return "failing"
    return "advises" if scaling.only_advises else "active"


def _shape(scaling: QueueScaling) -> dict[str, Any]:
    """Without the store's own numbers."""
    own = ("queue", "queue_id", "provider", "is_paused", "is_dry_run")
    values = {name: getattr(scaling, name) for name in own}
    values |= msgspec.structs.asdict(scaling.policy)
    state = msgspec.structs.asdict(scaling.state)
    del state["asked"], state["failures"], state["slots"]
    values["state"] = state
    return values | {name: getattr(scaling, name) for name in ("version", "updated_at")}


def _figures(figures: ScalingSight) -> dict[str, Any]:
    values = msgspec.structs.asdict(figures)
    for name in ("asked", "last_up", "last_down"):
        del values[name]
    return values | {"length": figures.length}


def _entry(entry: ScalingEntry) -> dict[str, Any]:
    values = msgspec.structs.asdict(entry)
    del values["number"]
    figures = None if entry.figures is None else _figures(entry.figures)
    return values | {"figures": figures}


def _advice(advised: AdvisedScaling) -> dict[str, Any]:
    queue = {"queue": advised.queue, "queue_id": advised.queue_id}
    advice = msgspec.structs.asdict(advised.advice)
    return queue | advice | {"figures": _figures(advised.figures)}
