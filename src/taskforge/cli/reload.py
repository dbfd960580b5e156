"""Development: runs a command in a child process and starts it anew whenever a Python file of the
app changes."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from taskforge.cli.application import check_module
from taskforge.cli.failure import CommandError
from taskforge.cli.ui.screen import error_console, styled
from taskforge.worker.processes.process_watch import heard

LOOK_SECONDS = 0.4
_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGHUP)
_PASSED_OVER = {"__pycache__", "node_modules", "site-packages", "venv"}


def folder_of(reference: str) -> Path:
    """Where the app's code is: its package, or the folder of its module."""
    check_module(reference.partition(":")[0], reference)
    top = reference.partition(":")[0].removesuffix(".py").replace("/", ".").partition(".")[0]
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found = importlib.util.find_spec(top)
    if found is None:
        raise CommandError(
            f"there is no module {top!r} ({reference})",
            f"run the command in the folder that holds {top}.py",
        )
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    return Path(found.origin or ".").parent


def reload_on_change(
    command: Sequence[str], folder: Path, *, seconds: float | None, grace: float
) -> int:
    """Until interrupted. Signals are passed on, so the child ignores what a terminal sends to
    both."""
    told: list[int] = []
    for number in heard():
        signal.signal(number, lambda number, _: told.append(number))
    until = None if seconds is None else time.monotonic() + seconds
    say = error_console().print
    while True:
        seen = times(folder)
        child = subprocess.Popen(command, preexec_fn=_ignore_the_terminal)  # noqa: PLW1509 - there is one thread
        changed = _watch(child, folder, seen, told, until)
        if changed is None:
            return _end(child, told, grace)
        say(styled("[cyan]{file} changed[/], starting anew", file=changed.relative_to(folder)))
        _end(child, [signal.SIGTERM], grace)


def _ignore_the_terminal() -> None:
    for number in _OF_THE_TERMINAL:
        signal.signal(number, signal.SIG_IGN)


def _watch(
    child: subprocess.Popen[bytes],
    folder: Path,
    seen: dict[Path, int],
    told: list[int],
    until: float | None,
) -> Path | None:
    """The file that changed; None when it is time to stop."""
    crashed = False
    while not told and (until is None or time.monotonic() < until):
        time.sleep(LOOK_SECONDS)
        status = child.poll()
        if status == 0:
            return None
        if status is not None and not crashed:
            crashed = True
            error_console().print(
                styled(
                    "[red]ended with status {status}[/]; waiting for a change in {folder}",
                    status=status,
                    folder=folder,
                )
            )
        now = times(folder)
        for path in now.keys() | seen.keys():
            if now.get(path) != seen.get(path):
                return path
    return None


def _end(child: subprocess.Popen[bytes], told: list[int], grace: float) -> int:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    until = time.monotonic() + grace + 6
    passed = len(told)
    while child.poll() is None:
        time.sleep(0.05)
        if told[passed:]:
            child.send_signal(signal.SIGTERM)
            passed = len(told)
        if time.monotonic() > until:
            child.kill()
    return max(0, child.returncode or 0)


def times(folder: Path) -> dict[Path, int]:
    """When each Python file was last written."""
    return dict(_times(folder))


def _times(folder: Path) -> Iterator[tuple[Path, int]]:
    for place, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in _PASSED_OVER
        ]
        for name in files:
            if name.endswith(".py"):
                path = Path(place, name)
                try:
                    yield path, path.stat().st_mtime_ns
                except FileNotFoundError:  # an editor that replaces files
                    continue
