"""A private PostgreSQL server for tests, benches and use without an installed database.

It trusts every local user and so listens on the loopback address only. PostgreSQL refuses to run as
root: started by root, the server runs as `nobody`, which must be able to reach the data directory.
"""

import atexit
import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Self

from taskforge.testing.postgres_binaries import LocalServerError, copy_binaries, find_binaries

__all__ = ["LocalServer", "LocalServerError", "find_binaries", "make_directory"]

SUPERUSER = "postgres"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
# How long a port, or the memory that a killed server's last backend holds, may stay taken before a
# start gives up.
IN_USE_SECONDS = 10.0
# The kernel allows a socket path 108 bytes on Linux and 104 on macOS; the server appends a name of
# up to 20.
SOCKET_FOLDER_BYTES = 83
PR_SET_PDEATHSIG = 1

Settings = Mapping[str, str | int]
StopMode = Literal["fast", "immediate"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


def make_directory() -> Path:
    """A new temporary folder below parents that the server's user can enter, also where TMPDIR is
    closed to it."""
    account = _server_account()
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - mkdtemp makes it private
        if account is None or _can_enter(parent, account):
            return Path(tempfile.mkdtemp(prefix="taskforge-", dir=parent))
    raise LocalServerError("no temporary folder that user nobody can enter")


class LocalServer:
    """One server on one data directory; `with LocalServer.start(directory) as server:` stops it at
    the end."""

    def __init__(self, directory: Path, binaries: Path, port: int, settings: Settings) -> None:
        self.directory = directory
        self.binaries = binaries
        self.port = port
        self.settings = dict(settings)
        self.log = directory / "server.log"
        self._log_offset = 0
        self._cluster, self._sockets = directory / "cluster", directory / "sockets"
        self._account = _server_account()
        self._owner = os.getpid()
        self._copied: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        data_dir: Path,
        port: int = 0,
        settings: Settings | None = None,
        binaries: Path | None = None,
    ) -> Self:
        """Start on `data_dir`, made and initialised when it is new; port 0 takes a free one."""
        server = cls(data_dir.absolute(), find_binaries(binaries), port, settings or {})
        atexit.register(server._close_at_exit)
        try:
            server._prepare()
            server._launch(any_port=port == 0)
        except BaseException:
            server.close()
            raise
        return server

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was stopped"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{database}"

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop in order (`fast`) or as in a crash (`immediate`: the next start replays the log)."""
        if self._process is None:
            return
        self._process.send_signal(STOP_SIGNALS[mode])
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the server and its backends with SIGKILL."""
        if self._process is None:
            return
        # Each backend leads a session of its own, so no process group holds them all.
        backends = list(_children(self._process.pid))
        self._process.kill()
        for backend in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Start again on the same data and port, also after `stop`, `kill` or a crash."""
        self.stop(mode)
        self._launch(any_port=False)

    def close(self) -> None:
        """Stop for good; the data directory stays."""
        self.stop()
        if self._copied is not None:
            shutil.rmtree(self._copied, ignore_errors=True)
        atexit.unregister(self._close_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_at_exit(self) -> None:
        # A forked child inherits this handler, but the server is not its own to stop.
        if os.getpid() == self._owner:
            self.close()

    def _prepare(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        if self._account is not None:
            if not _can_enter(self.directory.parent, self._account):
                raise LocalServerError(
                    f"the server runs as user nobody, which cannot enter {self.directory.parent}: "
                    "choose a data directory whose parents are open to it, or do not start "
                    "it as root"
                )
            for folder in (self.directory, self._sockets):
                os.chown(folder, self._account.pw_uid, self._account.pw_gid)
            if not _can_enter(self.binaries / "postgres", self._account):
                # Such as in a virtual environment below /root. The copy goes when the data goes,
                # even after a SIGKILL.
                self._copied = Path(tempfile.mkdtemp(prefix="programs-", dir=self.directory))
                self.binaries = copy_binaries(self.binaries, self._copied)
        if not self._cluster.exists():
            # Renamed when whole, so that one left half-made by a crash is never taken for a good
            # one.
            unfinished = self.directory / "cluster.new"
            shutil.rmtree(unfinished, ignore_errors=True)
            options = ("-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync", "-U", SUPERUSER)
            if self._spawn("initdb", "-D", str(unfinished), *options).wait() != 0:
                raise LocalServerError(f"initdb failed: {self._last_output()}")
            unfinished.rename(self._cluster)

    def _launch(self, *, any_port: bool) -> None:
        give_up = time.monotonic() + IN_USE_SECONDS
        while True:
            if any_port:
                with socket.create_server(("127.0.0.1", 0)) as probe:
                    self.port = probe.getsockname()[1]
            if self._accepts_connections():
                return
            # "Address already in use", or a killed server's memory that "is still in use".
            if "in use" not in self._last_output() or time.monotonic() > give_up:
                raise LocalServerError(f"PostgreSQL did not start: {self._last_output()}")
            time.sleep(0.1)

    def _accepts_connections(self) -> bool:
        """Run the server and wait for it to write that it is ready; False when it ends before
        that."""
        sockets = self._sockets if len(os.fsencode(self._sockets)) <= SOCKET_FOLDER_BYTES else ""
        own = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": sockets,
        }
        arguments = [f"--{name}={value}" for name, value in {**self.settings, **own}.items()]
        self._process = self._spawn("postgres", "-D", str(self._cluster), *arguments)
        give_up = time.monotonic() + START_SECONDS
        while self._process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                status = (self._cluster / "postmaster.pid").read_text().split("\n")
                # A file that a killed server left behind says ready too, with another process id.
                if (
                    status[0] == str(self._process.pid)
                    and status[7:8]
                    and status[7].strip() in ("ready", "standby")
                ):
                    return True
            if time.monotonic() > give_up:
                self.kill()
                raise LocalServerError(
                    f"PostgreSQL not ready after {START_SECONDS:.0f} s: {self._last_output()}"
                )
            time.sleep(0.02)
        self._process = None
        return False

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        account = self._account
        with self.log.open("ab") as log:
            self._log_offset = log.tell()
            return subprocess.Popen(
                [self.binaries / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={key: value for key, value in os.environ.items() if not key.startswith("PG")}
                | {"LC_ALL": "C"},
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=account and [],
                # Ctrl-C in the terminal is the application's to handle: it stops the server when it
                # is done with it.
                start_new_session=True,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - it calls one function of C and takes no lock
            )

    def _last_output(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace").strip()


def _server_account() -> pwd.struct_passwd | None:
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _can_enter(path: Path, account: pwd.struct_passwd) -> bool:
    statuses = [part.stat() for part in (path.resolve(), *path.resolve().parents)]
    return all(
        each.st_mode & (0o100 if each.st_uid == account.pw_uid else 0o001) for each in statuses
    )


def _children(parent: int) -> Iterator[int]:
    """Process ids below `parent`; none where there is no /proc, as backends also end by themselves,
    only later."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The command's name, in parentheses, may hold spaces; the state and the parent follow
            # it.
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(path.parent.name)


def _die_with_parent() -> Callable[[], None] | None:
    """What the child runs before the program, so that even a SIGKILL of this process leaves no
    server behind."""
    # The signal follows the death of the thread that forks: only the main one lives as long as the
    # process.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask_the_kernel() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_the_kernel
