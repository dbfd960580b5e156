"""taskforge up"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from taskforge.cli.application import load
from taskforge.cli.commands.worker import MOST_SLOTS
from taskforge.cli.failure import CommandError
from taskforge.cli.logs import LogFormat, log_as_set
from taskforge.cli.moments import seconds as parse_seconds
from taskforge.cli.reload import folder_of, reload_on_change
from taskforge.cli.selection import listed
from taskforge.cli.serving import beside as serve_beside
from taskforge.cli.session import WorkSession, connected, run
from taskforge.cli.store import STORE, Store, masked
from taskforge.cli.ui.live import Pane, show_live
from taskforge.cli.ui.screen import console, error_console
from taskforge.cli.ui.snapshot import Observer, Snapshot
from taskforge.cli.ui.terminal import emit
from taskforge.domain import rules
from taskforge.sdk.app import TaskForge
from taskforge.services import Errand
from taskforge.telemetry.trace_export import export_traces

logger = logging.getLogger("taskforge.cli")
PLAIN_SECONDS = 2.0
_COUNTS = ("pending", "scheduled", "processing", "succeeded", "failed", "cancelled")


def up(
    app: Annotated[
        str | None,
        Parameter(
            help="Where the TaskForge object is, such as app:forge; without it the demo runs."
        ),
    ] = None,
    /,
    *,
    slots: Annotated[int, Parameter(help="How many jobs run at once.")] = 10,
    queues: Annotated[str | None, Parameter(help="Only these queues: a list with commas.")] = None,
    reload: Annotated[
        bool, Parameter(help="Start anew when a Python file of the app changes.")
    ] = False,
    seconds: Annotated[str | None, Parameter(help="Stop by itself after this long.")] = None,
    port: Annotated[
        int | None,
        Parameter(help="Serve the REST API on this port; another is taken if it is in use."),
    ] = None,
    no_api: Annotated[bool, Parameter(help="Serve no REST API.")] = False,
    log_format: LogFormat = None,
    store: Store = STORE,
) -> int:
    """Run an app, or the demo, in one process: upkeep, a worker, the REST API, and a live view on a
    terminal. Ctrl-C stops it."""
    limit = None if seconds is None else parse_seconds("--seconds", seconds)
    rules.integer("--slots", slots, 1, MOST_SLOTS)
    wanted = listed("--queues", queues, "emails,default")
    if reload:
        return _reload(app, limit, store)
    forge = _demo(store) if app is None else load(app, store)
    if log_format is not None:
        forge.settings = forge.settings.changed(log_format=log_format)
    if port is not None:
        forge.settings = forge.settings.changed(port=port)
    if forge.settings.tracing:
        export_traces("taskforge")
    return run(_up(forge, app, limit, store, api=not no_api, slots=slots, queues=wanted))


def _reload(app: str | None, limit: float | None, store: Store) -> int:
    if app is None:
        raise CommandError(
            "--reload has no app to watch", "name one: `taskforge up app:forge --reload`"
        )
    if store.json:
        raise CommandError(
            "--reload is given together with --json",
            "leave one out: each start would end in a document of its own",
        )
    # In every form, --reload=true as well: a child that reloads would start a child that reloads.
    arguments = [
        word for word in sys.argv[1:] if word.partition("=")[0] not in ("--reload", "--no-reload")
    ]
    command = [sys.executable, "-m", "taskforge.cli", *arguments]
    return reload_on_change(
        command, folder_of(app), seconds=limit, grace=store.settings.grace_seconds
    )


def _demo(store: Store) -> TaskForge:
    """The demo keeps to a file of its own unless a store is named: its jobs have no business in one
    that is in use."""
    from taskforge.cli.demo import forge  # noqa: PLC0415 - only the demo needs the demo

    url = store.url
    if url is None:
        folder = Path(
            ".taskforge", f"demo-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.getpid()}"
        )
        folder.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{folder / 'taskforge.db'}"
    forge.settings = forge.settings.changed(url=url, schema=store.schema)
    return forge


async def _up(
    forge: TaskForge,
    app: str | None,
    limit: float | None,
    store: Store,
    *,
    api: bool,
    **options: Any,
) -> int:
    live = sys.stdout.isatty() and not store.json
    with Pane.opened() if live else contextlib.nullcontext() as pane:
        if pane is None:
            log_as_set(forge, None)
        async with connected(forge, **options) as session:
            observer = Observer(session.engine)
            beside = [Errand("demo", lambda: _feed(session))] if app is None else []
            if limit is not None:
                beside.append(Errand("time limit", lambda: _stop_after(session, limit)))
            place = masked(forge.settings.url)
            # On a terminal the credentials go to the screen that the live view leaves alone.
            tell = _teller(pane, quiet=store.json)
            serving = await serve_beside(session.engine, forge.settings, tell) if api else None
            if serving is not None:
                place = f"{serving.address} · {place}"
            if pane is not None:
                ways_in = () if serving is None else serving.ways_in
                showing = show_live(session, observer, pane, app or "demo", place, ways_in)
            else:
                showing = _plainly(observer, f"{app or 'demo'} on {place}", quiet=store.json)
            async with showing:
                await session.run(*beside, server=None if serving is None else serving.made)
            last = await observer.look(jobs=False)
    _tell_end(session, last, store)
    return session.leave(0)


def _teller(pane: Pane | None, *, quiet: bool) -> Callable[[str], None]:
    out = pane.screen if pane is not None else error_console() if quiet else console()
    return lambda line: out.print(line, soft_wrap=True, markup=False)


async def _feed(session: WorkSession) -> None:
    from taskforge.cli.demo import feed  # noqa: PLC0415 - only the demo needs the demo

    await session.worker.ready.wait()
    feeding, stopping = (
        asyncio.create_task(feed()),
        asyncio.create_task(session.told_to_stop.wait()),
    )
    try:
        await asyncio.wait([feeding, stopping], return_when=asyncio.FIRST_COMPLETED)
        if feeding.done():
            feeding.result()
    finally:
        feeding.cancel()
        stopping.cancel()
        await asyncio.gather(feeding, stopping, return_exceptions=True)


async def _stop_after(session: WorkSession, seconds: float) -> None:
    await asyncio.sleep(seconds)
    session.stop(f"{seconds:g} s are over")


@contextlib.asynccontextmanager
async def _plainly(observer: Observer, title: str, *, quiet: bool) -> AsyncIterator[None]:
    """Where nobody watches: a line of numbers every two seconds."""
    out = error_console(soft_wrap=True) if quiet else console()
    out.print(f"taskforge up: {title}")

    async def go_on() -> None:
        await observer.look(jobs=False)  # what the first rate is measured against
        while True:
            await asyncio.sleep(PLAIN_SECONDS)
            seen = await observer.look(jobs=False)
            counts = "  ".join(f"{name} {seen.count(name):,}" for name in _COUNTS)
            out.print(f"{datetime.now().astimezone():%H:%M:%S}  {counts}  {seen.rate:.1f} jobs/s")

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _tell_end(session: WorkSession, last: Snapshot, store: Store) -> None:
    took, done = session.stop_took, session.worker.executor.done
    if session.stops > 1:
        how = "stopped at once"
    elif session.stops and took > session.forge.settings.grace_seconds:
        how = "stopped when the grace time was over"
    else:
        how = "stopped cleanly"
    if store.json:
        emit(
            {
                "how": how,
                "seconds": round(time.monotonic() - session.started, 3),
                "stop_seconds": round(took, 3),
                "attempts": done,
                "jobs": {name: last.count(name) for name in _COUNTS},
                "url": masked(session.forge.settings.url),
            }
        )
        return
    waiting = last.count("pending") + last.count("scheduled")
    out = console()
    out.print(
        Text(how, style="green"),
        f"in {took:.1f} s: {last.count('succeeded'):,} succeeded, "
        f"{last.count('failed'):,} failed, {waiting:,} wait",
    )
    out.print(
        f"look at them: taskforge jobs list --url {masked(session.forge.settings.url)}",
        style="bright_black",
        soft_wrap=True,
    )
