"""taskforge alerts …"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from taskforge.cli import moments
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import clock, emit, status, table
from taskforge.domain.alert import (
    KINDS,
    AlertEntry,
    AlertKind,
    AlertRule,
    AlertRuleEdit,
    NewAlertRule,
)
from taskforge.domain.errors import Invalid
from taskforge.operations import alerts as operations
from taskforge.ports.engine import AnyEngine
from taskforge.wiring import alerts_of

app = App(name="alerts", help="Make, list, change, silence and delete alert rules.")
Name = Annotated[str, Parameter(help="Its name or id.")]
Names = Annotated[tuple[str, ...], Parameter(help="Names or ids.", required=True)]
Kind = Annotated[AlertKind, Parameter(help="What it looks at: `taskforge alerts kinds`.")]
Queue = Annotated[str | None, Parameter(help="One queue alone; else every queue of the project.")]
Threshold = Annotated[float | None, Parameter(help="It fires when what it looks at is as much.")]
Window = Annotated[
    str | None, Parameter(help="Over how long failures are counted, such as 5m (which it is).")
]
Repeat = Annotated[
    str | None,
    Parameter(
        help="How often it is told again while it fires, such as 1h (which it is); 0: never."
    ),
]


@app.command(name="list")
async def list_(*, store: Store = STORE) -> None:
    """List the alert rules, with what each says now."""
    async with opened(store) as engine:
        found = await operations.list_rules(alerts_of(engine), [engine.home])
    if store.json:
        emit({"alerts": [_shape(one) for one in found]})
        return
    if not found:
        told = "no alert rule yet; make one with `taskforge alerts create NAME KIND`"
        console().print(told, style="yellow")
        return
    rows = table(
        *("rule", "state", "since", "kind", "queue", "says"),
        flexible=("says", "rule"),
        spare=("queue", "since"),
    )
    for one in found:
        rows.add_row(
            one.name,
            status(_state(one)),
            clock(one.since),
            str(one.kind),
            one.queue or "",
            one.detail or "not looked at yet",
        )
    console().print(rows)


@app.command
def kinds(*, store: Store = STORE) -> None:
    """List what rules can look at, with the usual thresholds."""
    if store.json:
        emit(
            {
                "kinds": [
                    {"kind": kind, "threshold": one.threshold, "what": one.what}
                    for kind, one in KINDS.items()
                ]
            }
        )
        return
    rows = table("kind", "fires at", "what it counts", flexible=("what it counts",))
    for kind, one in KINDS.items():
        rows.add_row(str(kind), f"{one.threshold:g}", one.what)
    console().print(rows)


@app.command
async def create(
    name: str,
    kind: Kind,
    /,
    *,
    queue: Queue = None,
    threshold: Threshold = None,
    window: Window = None,
    repeat: Repeat = None,
    store: Store = STORE,
) -> None:
    """Create an alert rule. It is looked at every 15 seconds by the leader."""
    new = NewAlertRule(
        name=name, kind=kind, queue=queue, threshold=threshold, **_times(window, repeat)
    )
    async with opened(store) as engine:
        made = await operations.create_rule(engine, alerts_of(engine), engine.home, new)
    _tell(store, [made], "is made")


@app.command
async def edit(
    name: Name,
    /,
    *,
    rename: str | None = None,
    queue: Queue = None,
    threshold: Threshold = None,
    window: Window = None,
    repeat: Repeat = None,
    store: Store = STORE,
) -> None:
    """Change an alert rule; what is not named stays."""
    given: dict[str, Any] = {"name": rename, "queue": queue, "threshold": threshold}
    options = {key: value for key, value in given.items() if value is not None}
    options |= _times(window, repeat)
    if not options:
        raise Invalid("edit", "names nothing to change", "give an option such as --threshold")
    await _change([name], store, AlertRuleEdit(**options), "is changed")


@app.command
async def pause(names: Names, /, *, store: Store = STORE) -> None:
    """Do not look at these until they are resumed."""
    await _change(names, store, AlertRuleEdit(is_paused=True), "is paused")


@app.command
async def resume(names: Names, /, *, store: Store = STORE) -> None:
    """Look at these again."""
    await _change(names, store, AlertRuleEdit(is_paused=False), "goes on")


@app.command
async def silence(
    names: Names,
    /,
    *,
    for_: Annotated[
        str, Parameter(name="--for", help="For how long, such as 2h; 0: end it.")
    ] = "1h",
    store: Store = STORE,
) -> None:
    """Tell nobody of these for a while; their history goes on."""
    seconds = moments.seconds("--for", for_)
    async with opened(store) as engine:
        found = [await _find(engine, name) for name in names]
        changed = [await operations.silence_rule(alerts_of(engine), one, seconds) for one in found]
    _tell(store, changed, "is silenced" if seconds else "is told of again")


@app.command
async def delete(names: Names, /, *, store: Store = STORE) -> None:
    """Delete alert rules. Their history stays."""
    async with opened(store) as engine:
        # All are looked up before any is deleted: a mistyped name changes nothing.
        found = [await _find(engine, name) for name in names]
        for one in found:
            await operations.delete_rule(alerts_of(engine), one)
    _tell(store, found, "is deleted")


@app.command
async def history(
    name: Annotated[str | None, Parameter(help="A rule's name or id; else of all.")] = None,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many, the newest first.")] = 50,
    store: Store = STORE,
) -> None:
    """Tell what became of alerts."""
    async with opened(store) as engine:
        rule = None if name is None else (await _find(engine, name)).id
        found = await operations.list_history(alerts_of(engine), [engine.home], rule, limit=limit)
    if store.json:
        emit({"history": [_entry(one) for one in found]})
        return
    if not found:
        console().print("no alert has fired yet", style="bright_black")
        return
    rows = table("at", "rule", "news", "says", flexible=("says", "rule"))
    for one in found:
        news = f"{one.news} in silence" if one.is_silent else str(one.news)
        rows.add_row(clock(one.at), one.name, status(news), one.detail)
    console().print(rows)


async def _find(engine: AnyEngine, name: str) -> AlertRule:
    return await operations.find_rule(alerts_of(engine), [engine.home], name)


async def _change(names: Sequence[str], store: Store, edit: AlertRuleEdit, what: str) -> None:
    async with opened(store) as engine:
        found = [await _find(engine, name) for name in names]
        changed = [
            await operations.update_rule(engine, alerts_of(engine), one, edit) for one in found
        ]
    _tell(store, changed, what)


def _times(window: str | None, repeat: str | None) -> dict[str, Any]:
    given = {"window_seconds": ("--window", window), "repeat_seconds": ("--repeat", repeat)}
    return {
        name: moments.seconds(option, text)
        for name, (option, text) in given.items()
        if text is not None
    }


def _state(rule: AlertRule) -> str:
    if rule.is_paused:
        return "paused"
    return "firing" if rule.is_firing else "quiet"


def _shape(rule: AlertRule) -> dict[str, Any]:
    """Without the store's own numbers."""
    values = msgspec.structs.asdict(rule)
    for name in ("number", "project", "queue_id", "told_at"):
        del values[name]
    return values


def _entry(entry: AlertEntry) -> dict[str, Any]:
    values = msgspec.structs.asdict(entry)
    del values["number"]
    return values


def _tell(store: Store, changed: Sequence[AlertRule], what: str) -> None:
    if store.json:
        emit({"alerts": [_shape(one) for one in changed]})
        return
    for one in changed:
        console().print(styled("[bold]{name}[/] {what}", name=one.name, what=what))
