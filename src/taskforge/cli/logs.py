"""How a command that works writes its log."""

import contextlib
from typing import Annotated

from cyclopts import Parameter

from taskforge.domain.errors import Invalid
from taskforge.sdk.app import TaskForge
from taskforge.sdk.logs import configure_logging
from taskforge.settings import Settings

LogFormat = Annotated[
    str | None, Parameter(help="How the log is written: text, or json with one object a line.")
]


def begin_log(log_format: str | None) -> None:
    """Before the app is there, which may log while it is imported and may have settings of its own.
    What is wrong with the settings is told by whoever loads them for it."""
    chosen = "text"
    with contextlib.suppress(Invalid):
        chosen = Settings.load({"log_format": log_format}).log_format
    configure_logging(chosen)


def log_as_set(forge: TaskForge, log_format: str | None) -> None:
    """As the app's settings or the flag say. Behind a server the key decides the project."""
    forge.settings = settings = forge.settings.changed(log_format=log_format)
    is_remote = settings.url.startswith(("http://", "https://"))
    configure_logging(settings.log_format, project=None if is_remote else settings.project)
