"""taskforge version"""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from rich.text import Text

from taskforge.cli.store import Json
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import emit
from taskforge.version import __version__

_LIBRARIES = ("asyncpg", "uvloop", "cyclopts", "msgspec", "rich")


def version(*, json: Json = False) -> None:
    """Tell the versions of TaskForge and what it runs on."""
    libraries = {name: _installed(name) for name in _LIBRARIES}
    if json:
        emit(
            {
                "taskforge": __version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
                **libraries,
            }
        )
        return
    out = console()
    out.print(
        Text(f"taskforge {__version__}", style="bold"),
        f"on Python {platform.python_version()}, {platform.platform()}",
    )
    out.print(
        ", ".join(f"{name} {found or 'not installed'}" for name, found in libraries.items()),
        style="bright_black",
    )


def _installed(name: str) -> str | None:
    try:
        return installed(name)
    except PackageNotFoundError:
        return None
