"""taskforge queues …"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.text import Text

from taskforge.cli import shapes
from taskforge.cli.selection import setting
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, status, table
from taskforge.domain.durations import span
from taskforge.domain.forecast import Outlook, Range
from taskforge.domain.name_pages import NamePage
from taskforge.domain.query import QueueStats
from taskforge.domain.queue import CreateQueue, Queue, QueueSettings, UpdateQueue
from taskforge.operations import directory
from taskforge.operations.forecasts import forecast_queue
from taskforge.operations.naming import find_queue
from taskforge.wiring import metrics_of

app = App(name="queues", help="List, create, pause, resume and measure queues.")
_COUNTS = ("pending", "scheduled", "processing", "succeeded", "failed", "cancelled")
Names = Annotated[tuple[str, ...], Parameter(help="Names or ids of queues.")]


@app.command(name="list")
async def list_(
    *,
    name: Annotated[
        str | None,
        Parameter(help="Only this one, or those whose names fit: mail* begin so, *mail* have it."),
    ] = None,
    limit: Annotated[
        int | None, Parameter(help="At most so many, with where to go on; else all of them.")
    ] = None,
    cursor: Annotated[str | None, Parameter(help="What the page before named as next.")] = None,
    store: Store = STORE,
) -> None:
    """List the queues with their settings, by name."""
    async with opened(store) as engine:
        if limit is None and cursor is None:
            queues = [one async for one in directory.every_queue(engine, [engine.home], name)]
            following = None
        else:
            page = NamePage(name=name, limit=100 if limit is None else limit, cursor=cursor)
            found = await directory.list_queues(engine, [engine.home], page)
            queues, following = found.items, found.cursor
    if store.json:
        shown = {"queues": [shapes.queue(queue) for queue in queues]}
        emit(shown if limit is None and cursor is None else {**shown, "next": following})
        return
    if not queues and name is None and cursor is None:
        console().print(
            "no queue yet; make one with `taskforge queues create NAME`", style="yellow"
        )
        return
    names = {queue.id: queue.name for queue in queues}
    rows = table(
        "queue",
        "state",
        "priority",
        "settings",
        "description",
        right=("priority",),
        flexible=("description", "settings"),
    )
    for queue in queues:
        rows.add_row(
            queue.name,
            _state(queue.is_active),
            str(queue.priority),
            _told(queue, names),
            queue.description,
        )
    console().print(rows)
    if following is not None:
        console().print(f"more: --cursor {following}", style="bright_black")


@app.command
async def stats(names: Names = (), /, *, store: Store = STORE) -> None:
    """Count the jobs of all queues, or of those named, by status."""
    async with opened(store) as engine:
        wanted = {(await find_queue(engine, name)).id for name in names}
        found = [
            one for one in await engine.stats([engine.home]) if not wanted or one.queue_id in wanted
        ]
    if store.json:
        emit(
            {
                "queues": [shapes.stats(one) for one in found],
                "total": {name: _sum(found, name) for name in (*_COUNTS, "total")},
            }
        )
        return
    columns = (*_COUNTS, "total", "oldest pending")
    rows = table(
        "queue",
        "state",
        *columns,
        right=columns,
        spare=("oldest pending", "cancelled", "total", "state"),
    )
    for one in found:
        rows.add_row(
            one.queue,
            _state(one.is_active),
            *_counted(one),
            f"{one.total:,}",
            span(one.oldest_pending_seconds),
        )
    if len(found) > 1:
        rows.add_section()
        rows.add_row(
            "total",
            "",
            *(f"{_sum(found, name):,}" for name in (*_COUNTS, "total")),
            "",
            style="bold",
        )
    console().print(rows)


@app.command
async def forecast(name: str, /, *, store: Store = STORE) -> None:
    """Tell how long a job that comes now would wait in a queue, and when nothing waits any more, if
    the next minutes are like the last 15."""
    async with opened(store) as engine:
        queue = await find_queue(engine, name)
        told = await forecast_queue(engine, metrics_of(engine), queue.id)
    if store.json:
        emit({"queue": queue.name, **msgspec.to_builtins(told)})
        return
    rows = table("queue", "outlook", *_FORETOLD, right=_FORETOLD)
    rows.add_row(
        queue.name,
        Text(told.outlook, style=_OUTLOOK_STYLES.get(told.outlook, "")),
        f"{told.pending:,}",
        f"{told.arrived_per_minute:,.1f}",
        f"{told.ended_per_minute:,.1f}",
        _between(told.wait),
        _between(told.drain),
    )
    console().print(rows)


_FORETOLD = ("pending", "arrive a minute", "end a minute", "wait", "drained in")
_OUTLOOK_STYLES = {Outlook.GROWING: "red", Outlook.PAUSED: "yellow", Outlook.DRAINING: "green"}


def _between(time: Range | None) -> str:
    if time is None:
        return ""
    high = "for ever" if time.high is None else span(time.high)
    return f"{span(time.likely)} ({span(time.low)} to {high})"


@app.command
async def create(
    name: str,
    /,
    *,
    priority: Annotated[int, Parameter(help="0 to 9; higher runs first.")] = 0,
    description: str = "",
    dead_letter_queue: Annotated[
        str | None, Parameter(help="Where exhausted jobs go: a queue's name or id.")
    ] = None,
    set_: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            help="A setting as NAME=VALUE, such as max_concurrent_jobs=5 or rate_limit=60 (per "
            "minute). Repeatable.",
        ),
    ] = (),
    store: Store = STORE,
) -> None:
    """Create a queue."""
    settings = dict(setting(text) for text in set_)
    async with opened(store) as engine:
        if dead_letter_queue is not None:
            settings["dead_letter_queue_id"] = (await find_queue(engine, dead_letter_queue)).id
        wanted = CreateQueue(
            name=name,
            description=description,
            priority=priority,
            settings=QueueSettings.parse(settings),
        )
        made = await engine.change_queue(engine.home, wanted)
    if store.json:
        emit({"queue": shapes.queue(made)})
    else:
        console().print(styled("created [green]{name}[/] ({id})", name=made.name, id=made.id))


@app.command
async def pause(
    names: Annotated[tuple[str, ...], Parameter(help="Names or ids of queues.", required=True)],
    /,
    *,
    store: Store = STORE,
) -> None:
    """Start no more jobs of these queues. What runs goes on."""
    await _switch(names, store, active=False)


@app.command
async def resume(
    names: Annotated[tuple[str, ...], Parameter(help="Names or ids of queues.", required=True)],
    /,
    *,
    store: Store = STORE,
) -> None:
    """Start jobs of these queues again."""
    await _switch(names, store, active=True)


async def _switch(names: Sequence[str], store: Store, *, active: bool) -> None:
    async with opened(store) as engine:
        # All are looked up before any is changed: a mistyped name changes nothing.
        found = [await find_queue(engine, name) for name in names]
        changed = [
            await engine.change_queue(engine.home, UpdateQueue(queue=queue.id, is_active=active))
            for queue in found
        ]
    if store.json:
        emit({"queues": [shapes.queue(queue) for queue in changed]})
        return
    for queue in changed:
        console().print(Text(queue.name, style="bold"), "is", _state(queue.is_active))


def _state(is_active: bool) -> Text:
    return status("active" if is_active else "paused")


def _told(queue: Queue, names: dict[Any, str]) -> str:
    """Only what differs from the defaults."""
    settings = msgspec.to_builtins(queue.settings)
    dead = queue.settings.dead_letter_queue_id
    if dead is not None:
        settings.pop("dead_letter_queue_id", None)
        settings["dead_letter_queue"] = names.get(dead, str(dead))
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _counted(one: QueueStats) -> list[Text]:
    counts = [(name, getattr(one, name)) for name in _COUNTS]
    return [
        Text(f"{count:,}", style=status(name).style if count else "bright_black")
        for name, count in counts
    ]


def _sum(found: Sequence[QueueStats], name: str) -> int:
    return sum(getattr(one, name) for one in found)
