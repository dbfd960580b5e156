"""taskforge schedules …"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from taskforge.cli import moments
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import clock, emit, status, table
from taskforge.domain.errors import Invalid
from taskforge.domain.schedule import Schedule, Slot
from taskforge.operations import schedules as operations
from taskforge.ports.engine import AnyEngine
from taskforge.sdk.schedules import build, edit_of
from taskforge.wiring import schedules_of

app = App(name="schedules", help="Make, list, change, pause, run and delete schedules.")
Name = Annotated[str, Parameter(help="Its name or id.")]
Names = Annotated[tuple[str, ...], Parameter(help="Names or ids.", required=True)]
Cron = Annotated[
    str | None, Parameter(help="5 fields, 6 with seconds first, or a name such as @daily.")
]
Every = Annotated[str | None, Parameter(help="An interval instead, such as 90s, 15m or 2h.")]
At = Annotated[str | None, Parameter(help="Once instead, at this date and time.")]
Zone = Annotated[str | None, Parameter(name="--tz", help="The time zone, such as Asia/Jakarta.")]
Set = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        help="An option as NAME=VALUE: catch_up=all, overlap=skip, jitter_seconds=30, priority=5, "
        "max_attempts=2, … Repeatable.",
    ),
]
Payload = Annotated[str | None, Parameter(help="The job's payload as JSON.")]


@app.command(name="list")
async def list_(*, store: Store = STORE) -> None:
    """List the schedules, with their next runs."""
    async with opened(store) as engine:
        found = await operations.list_schedules(schedules_of(engine), [engine.home], limit=100_000)
    if store.json:
        emit({"schedules": [_shape(one) for one in found]})
        return
    if not found:
        told = "no schedule yet; make one with `taskforge schedules create NAME JOB_TYPE`"
        console().print(told, style="yellow")
        return
    rows = table(
        *("schedule", "state", "when", "next", "last", "queue", "job type"),
        flexible=("job type", "schedule"),
        spare=("queue", "last"),
    )
    for one in found:
        rows.add_row(
            one.name,
            status("paused" if one.is_paused else "active" if one.next_at else "over"),
            _when(one),
            clock(one.next_at),
            clock(one.last_slot),
            one.job.queue,
            one.job.job_type,
        )
    console().print(rows)


@app.command
async def show(name: Name, /, *, store: Store = STORE) -> None:
    """Show a schedule, its next runs, and what its last slots did."""
    async with opened(store) as engine:
        found = await _find(engine, name)
        slots = await operations.list_slots(schedules_of(engine), found, limit=20)
        following = operations.preview_schedule(found.timing, await engine.now(), 5)
    if store.json:
        emit({"schedule": _shape(found), "next": following, "slots": slots})
        return
    out = console()
    out.print(styled("[bold]{name}[/] {when}", name=found.name, when=_when(found)))
    state = "paused" if found.is_paused else "active" if found.next_at else "over"
    out.print(
        styled(
            "{state}; makes {job} in {queue}",
            state=state,
            job=found.job.job_type,
            queue=found.job.queue,
        )
    )
    for moment in [] if found.is_paused else following:
        out.print(f"  next {clock(moment)}")
    _show_slots(slots)


@app.command
async def create(
    name: str,
    job_type: str,
    /,
    *,
    queue: str = "default",
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    tz: Zone = None,
    payload: Payload = None,
    description: str = "",
    set_: Set = (),
    store: Store = STORE,
) -> None:
    """Create a schedule: jobs that are made by the clock."""
    options = _options(cron, every, at, tz, payload, set_) | {"queue": queue}
    new = build(
        name,
        job_type,
        options.pop("payload", msgspec.UNSET),
        options | {"description": description},
    )
    async with opened(store) as engine:
        made = await operations.create_schedule(engine, schedules_of(engine), engine.home, new)
    if store.json:
        emit({"schedule": _shape(made)})
    else:
        text = "created [green]{name}[/], which runs next at {at}"
        console().print(
            styled(text, name=made.name, at=clock(made.next_at) or "no time: it is paused")
        )


@app.command
async def edit(
    name: Name,
    /,
    *,
    rename: str | None = None,
    queue: str | None = None,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    tz: Zone = None,
    payload: Payload = None,
    description: str | None = None,
    set_: Set = (),
    store: Store = STORE,
) -> None:
    """Change a schedule; what is not named stays."""
    options = _options(cron, every, at, tz, payload, set_)
    given = {"name": rename, "queue": queue, "description": description}
    options |= {key: value for key, value in given.items() if value is not None}
    if not options:
        raise Invalid("edit", "names nothing to change", "give an option such as --cron")
    async with opened(store) as engine:
        old = await _find(engine, name)
        changed = await operations.update_schedule(
            engine, schedules_of(engine), old, edit_of(old, options)
        )
    _tell(store, [changed], "is changed")


@app.command
async def pause(names: Names, /, *, store: Store = STORE) -> None:
    """Make no more jobs until resumed."""
    await _switch(names, store, paused=True)


@app.command
async def resume(names: Names, /, *, store: Store = STORE) -> None:
    """Go on with the next run behind now."""
    await _switch(names, store, paused=False)


@app.command
async def run(name: Name, /, *, store: Store = STORE) -> None:
    """Make its job now, beside its times."""
    async with opened(store) as engine:
        found = await _find(engine, name)
        slot = await operations.run_schedule(schedules_of(engine), found)
    if store.json:
        emit({"job": slot.job, "at": slot.at})
    else:
        console().print(
            styled("[bold]{name}[/] made job {job}", name=found.name, job=str(slot.job))
        )


@app.command
async def delete(names: Names, /, *, store: Store = STORE) -> None:
    """Delete schedules. Jobs that they have made stay."""
    async with opened(store) as engine:
        # All are looked up before any is deleted: a mistyped name changes nothing.
        found = [await _find(engine, name) for name in names]
        for one in found:
            await operations.delete_schedule(schedules_of(engine), one)
    _tell(store, found, "is deleted")


@app.command
async def preview(
    name: Annotated[str | None, Parameter(help="Its name or id; or give a timing.")] = None,
    /,
    *,
    cron: Cron = None,
    every: Every = None,
    tz: Zone = None,
    count: Annotated[int, Parameter(help="How many runs.")] = 10,
    store: Store = STORE,
) -> None:
    """Tell the next runs of a schedule, or of one that could be made."""
    async with opened(store) as engine:
        now = await engine.now()
        if name is not None:
            timing = (await _find(engine, name)).timing
        else:
            timing = build(
                "preview", "any", {}, _options(cron, every, None, tz, None, ()) | {"queue": "any"}
            ).timing
    moments_ = operations.preview_schedule(timing, now, count)
    if store.json:
        emit({"next": moments_})
        return
    for moment in moments_:
        console().print(clock(moment))


@app.command
async def slots(
    name: Name,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many, the newest first.")] = 50,
    store: Store = STORE,
) -> None:
    """Tell what the slots of a schedule did."""
    async with opened(store) as engine:
        found = await operations.list_slots(
            schedules_of(engine), await _find(engine, name), limit=limit
        )
    if store.json:
        emit({"slots": found})
    else:
        _show_slots(found)


async def _find(engine: AnyEngine, name: str) -> Schedule:
    return await operations.find_schedule(schedules_of(engine), [engine.home], name)


async def _switch(names: Sequence[str], store: Store, *, paused: bool) -> None:
    async with opened(store) as engine:
        found = [await _find(engine, name) for name in names]
        changed = [
            await operations.update_schedule(
                engine, schedules_of(engine), one, edit_of(one, {"is_paused": paused})
            )
            for one in found
        ]
    _tell(store, changed, "is paused" if paused else "goes on")


def _options(
    cron: str | None,
    every: str | None,
    at: str | None,
    tz: str | None,
    payload: str | None,
    set_: Sequence[str],
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "cron": cron,
        "every_seconds": None if every is None else moments.seconds("--every", every),
        "at": None if at is None else moments.instant("--at", at),
        "zone": tz,
    }
    options = {name: value for name, value in given.items() if value is not None}
    for text in set_:
        name, sign, value = text.partition("=")
        if not sign:
            raise Invalid("--set", f"is {text!r}", "use NAME=VALUE, such as catch_up=all")
        options[name.strip()] = _value(value)
    if payload is not None:
        try:
            options["payload"] = msgspec.json.decode(payload)
        except msgspec.DecodeError as error:
            raise Invalid("--payload", f"is not JSON ({error})", "use JSON, such as '{}'") from None
    return options


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _when(schedule: Schedule) -> str:
    timing = schedule.timing
    if timing.cron is not None:
        return timing.cron if timing.zone == "UTC" else f"{timing.cron} {timing.zone}"
    if timing.every_seconds is not None:
        return f"every {timing.every_seconds:g} s"
    return f"once {clock(timing.at)}"


def _shape(schedule: Schedule) -> dict[str, Any]:
    """Without the store's own numbers."""
    own = [
        name
        for name in schedule.__struct_fields__
        if name not in ("number", "project", "due_at", "timing", "job")
    ]
    return {name: getattr(schedule, name) for name in own} | {
        "timing": msgspec.structs.asdict(schedule.timing),
        "job": msgspec.structs.asdict(schedule.job),
    }


def _tell(store: Store, changed: Sequence[Schedule], what: str) -> None:
    if store.json:
        emit({"schedules": [_shape(one) for one in changed]})
        return
    for one in changed:
        console().print(styled("[bold]{name}[/] {what}", name=one.name, what=what))


def _show_slots(found: Sequence[Slot]) -> None:
    if not found:
        console().print("no slot yet", style="bright_black")
        return
    rows = table("slot", "outcome", "fired", "job", "detail", flexible=("detail",))
    for slot in found:
        rows.add_row(
            clock(slot.at) + (" by hand" if slot.manual else ""),
            status(slot.outcome),
            clock(slot.fired_at),
            "" if slot.job is None else str(slot.job),
            slot.detail or "",
        )
    console().print(rows)
