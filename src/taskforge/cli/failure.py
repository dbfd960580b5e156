"""How a command fails: one line on standard error that ends with a next step, status 2, and under
--json a document that says the same."""

import errno
import json
import os
import sys

from cyclopts import CycloptsError

from taskforge.cli.ui.screen import error_console, print_json
from taskforge.domain.errors import (
    Conflict,
    Gone,
    Invalid,
    KeyTaken,
    NotFound,
    QueuePaused,
    StoreFault,
    StoreUnavailable,
    StoreUnsuitable,
    TaskForgeError,
)

FAILED = 2
INTERRUPTED = 130
OUTPUT_FAILED = 1
JOB_FAILED = 1  # the command did what it should; the job it waited for did not
_WRITING_FAILED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
_LISTS = {
    "queue": "taskforge queues list",
    "worker": "taskforge workers list",
    "job": "taskforge jobs list",
    "schedule": "taskforge schedules list",
    "assignment": "taskforge assignments list",
    "webhook": "taskforge webhooks list",
    "delivery": "taskforge webhooks deliveries NAME",
    "alert rule": "taskforge alerts list",
    "dependency": "taskforge circuits list",
    "failure group": "taskforge failures list",
    "scaling policy of queue": "taskforge scaling list",
    "key": "taskforge keys list",
}


class CommandError(TaskForgeError):
    """Something about the command itself, with the next step that its author knows best."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.next_step = next_step


class Interrupted(TaskForgeError):
    """The user ended it, at a question; it says what that means for the store."""


def report(error: Exception) -> int:
    """Tell the user and return the exit status. What no one foresaw is raised again: its traceback
    is the best report."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has gone (`| head`); Python would complain when it closes the
        # pipe.
        _forget_output()
        return 0
    if isinstance(error, OSError) and error.filename is None and error.errno in _WRITING_FAILED:
        _forget_output()
        _tell(f"the output cannot be written: {error.strerror}", "make room, or send it elsewhere")
        return OUTPUT_FAILED
    if not isinstance(error, TaskForgeError | CycloptsError):
        raise error
    message = _first_words(error)
    next_step = next_step_of(error)
    if "--json" in sys.argv:
        told = {"kind": type(error).__name__, "message": message, "next_step": next_step}
        print_json(json.dumps({"error": told}))
    if isinstance(error, Interrupted):
        error_console().print(message, style="yellow")
        return INTERRUPTED
    _tell(message, next_step)
    return FAILED


def _tell(message: str, next_step: str) -> None:
    console = error_console(soft_wrap=True)
    console.print("error", style="bold red", end=" ")
    console.print(message)
    if next_step:
        console.print("next ", style="cyan", end=" ")
        console.print(next_step)


def _forget_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _first_words(error: Exception) -> str:
    if isinstance(error, CycloptsError):
        return " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if isinstance(error, Invalid):
        return f"{error.field}: {error.problem}"
    return str(error)


def _lists_of(message: str) -> str:
    """What shows the thing that a message begins with."""
    for kind, command in _LISTS.items():
        if kind != "job" and message.startswith(f"{kind} "):
            return f"`{command}`"
    return "`taskforge jobs show`, `taskforge queues list`"


def next_step_of(error: Exception) -> str:
    """One table from what went wrong to what to do about it."""
    from taskforge.domain.access import Forbidden, Unauthenticated  # noqa: PLC0415 - 25 ms that --help need not wait

    match error:
        case CommandError():
            return error.next_step
        case NotFound():
            if error.nearest:
                return (
                    f"use {error.nearest!r}, or see `{_LISTS.get(error.kind, 'taskforge --help')}`"
                )
            if error.kind == "queue":
                return (
                    f"create it with `taskforge queues create {error.name}`, or see `taskforge "
                    f"queues list`"
                )
            return f"see `{_LISTS.get(error.kind, 'taskforge --help')}`"
        case QueuePaused():
            return f"run `taskforge queues resume {error.queue}`"
        case KeyTaken():
            return f"use another key, or see `taskforge jobs show {error.job}`"
        case Gone():
            return "see what is kept with `taskforge jobs list`"
        case StoreUnsuitable() if error.next_step:
            return error.next_step
        case StoreFault():
            return "report it, with what the log says above"
        case StoreUnsuitable():
            step = (
                "do that and try again"
                if "run `" in str(error)
                else "install the release that fits it, or name another with --url"
            )
            return f"{step}; `taskforge config check` shows which store is meant"
        case Unauthenticated():
            return "set TASKFORGE_TOKEN to an API key of the server"
        case Forbidden():
            return "use a key that has this permission (TASKFORGE_TOKEN)"
        case StoreUnavailable():
            return (
                "check that the store is up and its URL right (`taskforge config check "
                "--connect`), then try again"
            )
        case Invalid():
            return error.expected
        case Conflict():
            return f"look at how it stands now ({_lists_of(str(error))}) and try again"
        case CycloptsError():
            command = " ".join(word for word in (error.command_chain or ()) if word)
            return f"see `taskforge {command + ' ' if command else ''}--help`"
        case _:
            return ""
