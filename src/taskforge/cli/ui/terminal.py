"""How commands talk to people: consoles, tables, colours, questions, and a sign of life when
something takes long."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.prompt import Confirm
from rich.table import Table
from rich.text import Text

from taskforge.cli.failure import CommandError, Interrupted
from taskforge.cli.ui.screen import error_console, print_json

PATIENCE_SECONDS = 2.0
NARROWEST = 8  # a flexible column that has less says nothing
CUT_AT_MOST_TO = 3
GAP = 2  # between two columns
STYLES = {
    "pending": "cyan",
    "scheduled": "blue",
    "processing": "yellow",
    "queued": "yellow",
    "started": "yellow",
    "running": "yellow",
    "succeeded": "green",
    "failed": "red",
    "dead_letter": "red",
    "retry_scheduled": "magenta",
    "cancelled": "bright_black",
    "firing": "red",
    "fired": "red",
    "repeated": "red",
    "resolved": "green",
    "quiet": "green",
    "online": "green",
    "draining": "yellow",
    "unhealthy": "red",
    "offline": "bright_black",
    "active": "green",
    "paused": "yellow",
    "trace": "bright_black",
    "debug": "bright_black",
    "info": "green",
    "warn": "yellow",
    "error": "red",
}


def emit(document: Any) -> None:
    """One JSON document on standard output: indented for eyes, compact for pipes."""
    encoded = msgspec.json.encode(document)
    print_json(
        (msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode()
    )


def status(name: str) -> Text:
    return Text(name, style=STYLES.get(name, ""))


def slots(taken: int, stuck: int, most: int) -> str:
    """How many slots are taken, and how many are held by handlers that did not end."""
    return f"{taken}/{most}, {stuck} stuck" if stuck else f"{taken}/{most}"


def clock(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


class FittingTable(Table):
    """Decides itself what gives way where there is too little room; rich would take a little from
    every column, ids as well."""

    def __init__(self, flexible: Sequence[str], spare: Sequence[str], whole: Sequence[str]) -> None:
        super().__init__(
            box=SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
            header_style="bold",
            caption_justify="left",
        )
        self._flexible = flexible
        self._spare = spare
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self._fit(console, options.max_width)
        yield from super().__rich_console__(console, options)

    def _fit(self, console: Console, room: int) -> None:
        widths = {
            str(column.header): max(
                console.measure(cell).maximum for cell in (column.header, *column.cells)
            )
            for column in self.columns
        }
        left_out = []
        for name in (*self._flexible, *self._spare):
            excess = _total(widths) - room
            if excess <= 0:
                break
            if name in self._flexible and widths[name] - excess >= NARROWEST:
                widths[name] -= excess
            else:
                del widths[name]
                left_out.append(name)
        while _total(widths) > room:
            widest = max(
                (name for name in widths if name not in self._whole),
                key=lambda name: widths[name],
                default=None,
            )
            if widest is None or widths[widest] <= CUT_AT_MOST_TO:
                break
            widths[widest] -= 1
        self.columns = [column for column in self.columns if column.header in widths]
        for column in self.columns:
            column.width = widths[str(column.header)]
        if left_out:
            self.caption = f"no room for: {', '.join(left_out)}"


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1) + 1


def table(
    *columns: str,
    right: Sequence[str] = (),
    flexible: Sequence[str] = (),
    spare: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Table:
    """A plain table: one line for each row, numbers to the right. Where there is too little room
    the flexible columns give way first, then the spare ones are left out in their order, then the
    widest are cut; those that must stay whole never are."""
    made = FittingTable(flexible, spare, whole)
    for column in columns:
        made.add_column(
            column,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column in right else "left",
        )
    return made


def confirm(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CommandError(
            f"there is no terminal to ask on: {question}",
            "pass --yes to go ahead without being asked",
        )
    # The handler that asyncio sets only cancels the task, which a blocking read does not notice.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return Confirm.ask(question, console=error_console(), default=False)
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)
        raise Interrupted("nothing was changed") from None
    finally:
        signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def patience(doing: str) -> AsyncIterator[None]:
    """Says what is being waited for once it has taken two seconds: a spinner on a terminal, else
    one line on standard error."""
    screen = error_console()
    spinner = screen.status(doing)
    begin = spinner.start if screen.is_terminal else lambda: screen.print(f"{doing} …")
    timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, begin)
    try:
        yield
    finally:
        timer.cancel()
        spinner.stop()
