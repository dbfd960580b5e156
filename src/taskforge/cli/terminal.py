"""How commands talk to people: consoles, tables, colours, questions, and a sign of life when something takes long."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.prompt import Confirm
from rich.table import Table
from rich.text import Text

from taskforge.cli.failure import CommandError

PATIENCE_SECONDS = 2.0
WIDTH_OF_A_PIPE = 200  # rich takes 80 for what is no terminal and would cut what a script or a file could hold
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


def console() -> Console:
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=WIDTH_OF_A_PIPE if piped else None)


def emit(document: Any) -> None:
    """One JSON document on standard output: indented for eyes, compact for pipes."""
    encoded = msgspec.json.encode(document)
    print((msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode(), flush=True)


def status(name: str) -> Text:
    return Text(name, style=STYLES.get(name, ""))


def clock(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def table(*columns: str, right: Iterable[str] = (), flexible: Iterable[str] = ()) -> Table:
    """A plain table: one line for each row, numbers to the right, and only the flexible columns give way."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        if column in flexible:
            made.add_column(column, no_wrap=True, overflow="ellipsis", min_width=6, ratio=1)
        else:
            made.add_column(column, no_wrap=True, justify="right" if column in right else "left")
    return made


def confirm(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CommandError(f"there is no terminal to ask on: {question}", "pass --yes to go ahead without being asked")
    return Confirm.ask(question, console=Console(stderr=True), default=False)


@asynccontextmanager
async def patience(doing: str) -> AsyncIterator[None]:
    """Says what is being waited for once it has taken two seconds: a spinner on a terminal, else one line on standard error."""
    errors = Console(stderr=True, highlight=False)
    spinner = errors.status(doing)
    begin = spinner.start if errors.is_terminal else lambda: errors.print(f"{doing} …")
    timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, begin)
    try:
        yield
    finally:
        timer.cancel()
        spinner.stop()
