"""The live view on a terminal: draws a few times a second, and keeps what is logged and printed in
its log pane."""

import asyncio
import contextlib
import io
import logging
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from rich.layout import Layout
from rich.live import Live

from taskforge.cli.session import WorkSession, have
from taskforge.cli.ui.screen import Screen
from taskforge.cli.ui.snapshot import Observer, Snapshot
from taskforge.cli.ui.view import Heading, ViewLine, draw
from taskforge.domain.errors import StoreUnavailable

DRAW_SECONDS = 0.25
LOOK_SECONDS = 0.5
LINES_KEPT = 500
_LEVELS = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "error",
}


class Pane(logging.Handler):
    """The log pane's memory. Standard output and error lead here too: a stray print would tear the
    screen."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.INFO)
        self.screen = screen
        self.lines: deque[ViewLine] = deque(maxlen=LINES_KEPT)

    @classmethod
    @contextlib.contextmanager
    def opened(cls) -> Iterator["Pane"]:
        pane = cls(Screen(file=sys.stdout, highlight=False, markup=False))
        root = logging.getLogger()
        level = root.level
        root.addHandler(pane)
        root.setLevel(logging.INFO)
        try:
            with (
                contextlib.redirect_stdout(Printed(pane, "stdout")),
                contextlib.redirect_stderr(Printed(pane, "stderr")),
            ):
                yield pane
        finally:
            root.removeHandler(pane)
            root.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self.add(
            _LEVELS.get(record.levelno, "info"), record.name.removeprefix("taskforge."), message
        )

    def add(self, level: str, source: str, message: str) -> None:
        at = f"{datetime.now().astimezone():%H:%M:%S}"
        # Control characters would move the cursor, and tabs are wider than they look.
        for text in message.expandtabs(4).splitlines():
            self.lines.append(
                ViewLine(
                    at, level, source, "".join(one if one.isprintable() else "·" for one in text)
                )
            )


class Printed(io.TextIOBase):
    def __init__(self, pane: Pane, source: str) -> None:
        self._pane = pane
        self._source = source
        self._rest = ""

    def write(self, text: str) -> int:
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._pane.add("info", self._source, line)
        return len(text)


@contextlib.asynccontextmanager
async def show_live(
    session: WorkSession,
    observer: Observer,
    pane: Pane,
    title: str,
    place: str,
    ways_in: tuple[tuple[str, str], ...] = (),
) -> AsyncIterator[None]:
    """On the terminal's other screen, so that what was there before comes back unharmed."""
    seen = await observer.look()

    async def look() -> None:
        nonlocal seen
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(StoreUnavailable):  # the worker says so in the log
                seen = await observer.look()

    async def redraw(live: Live) -> None:
        while True:
            live.update(_frame(session, seen, pane, title, place, ways_in), refresh=True)
            await asyncio.sleep(DRAW_SECONDS)

    live = Live(
        console=pane.screen,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with live:
        tasks = [asyncio.create_task(look()), asyncio.create_task(redraw(live))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _frame(
    session: WorkSession,
    seen: Snapshot,
    pane: Pane,
    title: str,
    place: str,
    ways_in: tuple[tuple[str, str], ...],
) -> Layout:
    stopping = None
    if session.stopping_since is not None:
        running = len(session.worker.executor.running)
        left = f"{have(running)} {session.grace_left:.0f} s" if running else "nothing runs any more"
        stopping = f"stopping: {left}" + (
            "; Ctrl-C again stops at once" if session.stops == 1 and running else ""
        )
    up_seconds = time.monotonic() - session.started
    heading = Heading(f"TaskForge {title}", place, up_seconds, stopping, ways_in)
    width, height = pane.screen.size
    return draw(seen, list(pane.lines), heading, width, height)
