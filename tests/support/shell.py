"""Runs the real command in real processes, in a folder and on a store of its own."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 30.0
# SIGHUP as a login shell leaves it: who runs the tests may ignore it, and that is inherited.
ON_ITS_TERMINAL = (
    "import os, signal, sys; os.login_tty(0); signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
COMMAND = [sys.executable, "-m", "taskforge.cli"]


class Shell:
    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TASKFORGE_")
        }
        self.environment |= {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
        if url is not None:
            self.environment["TASKFORGE_URL"] = url

    def run(
        self, *words: str, status: int = 0, text: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment | environment,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == status, (
            f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def json(self, *words: str, status: int = 0) -> Any:
        """The document, which must be all there is on standard output."""
        return json.loads(self.run(*words, "--json", status=status).stdout)

    def error(self, *words: str) -> str:
        """What a failing command says: one error and one next step, and nothing that looks like a
        result."""
        done = self.run(*words, status=2)
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert lines[0].startswith("error "), lines
        assert lines[-1].startswith("next "), lines
        return done.stderr

    @contextmanager
    def started(self, *words: str) -> Iterator["Process"]:
        output = self.folder / f"output-{time.monotonic_ns()}"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [*COMMAND, *words],
                cwd=self.folder,
                env=self.environment,
                stdout=sink,
                stderr=sink,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - who runs the tests may ignore it
            )
        try:
            yield Process(process, output)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    @contextmanager
    def on_terminal(self, *words: str, columns: int = 100, lines: int = 30) -> Iterator["Terminal"]:
        """The command on a terminal of its own, so that Ctrl-C reaches it as a signal."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {name: value for name, value in self.environment.items() if name != "COLUMNS"}
        process = subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, *COMMAND[1:], *words],
            cwd=self.folder,
            env=environment | {"TERM": "xterm-256color"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
        )
        os.close(follower)
        try:
            yield Terminal(process, leader)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(leader)


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], leader: int) -> None:
        self._process = process
        self._leader = leader
        self._data = b""

    @property
    def raw(self) -> str:
        return self._data.decode(errors="replace")

    @property
    def text(self) -> str:
        """What it has shown, without colours."""
        return plain(self.raw)

    def type(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    def signal_all(self, number: signal.Signals) -> None:
        """As the terminal does: to every process of the foreground."""
        os.killpg(self._process.pid, number)

    def until(self, wanted: str) -> None:
        until(lambda: wanted in self.text or not self._read(), lambda: self.text)
        assert wanted in self.text, self.text

    def ended(self) -> int:
        until(lambda: not self._read(), lambda: self.text)
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        """Whether there may be more."""
        if select.select([self._leader], [], [], 0.05)[0]:
            try:
                self._data += os.read(self._leader, 65_536)
            except OSError:  # the other end is closed
                return False
        return True


class Process:
    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def until(self, wanted: str) -> None:
        """Wait until it has said this."""
        until(lambda: wanted in self.text or self._process.poll() is not None, lambda: self.text)
        assert wanted in self.text, self.text

    def ended(self) -> int:
        return self._process.wait(PATIENCE)


def plain(text: str) -> str:
    """What a terminal shows of it."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


def until(condition: Callable[[], bool], told: Callable[[], str] = lambda: "") -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, told()
        time.sleep(0.02)
