"""The command line. One file for each group of commands; this one puts them together."""

import sys

from cyclopts import App
from rich.console import Console

from taskforge import __version__
from taskforge.cli.migrate import migrate
from taskforge.domain.errors import TaskForgeError

app = App(name="taskforge", help="A durable job platform on SQLite or PostgreSQL.", version=__version__)
app.command(migrate)


def main() -> None:
    """Errors are part of the product: what went wrong, in one line, and a status that scripts can test."""
    try:
        app()
    except TaskForgeError as error:
        Console(stderr=True).print(f"[bold red]error[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)


__all__ = ["app", "main"]
