"""Wakes whoever waits for work: callbacks in this process, a datagram to every other process on the
same file.

Each process that listens binds a Unix datagram socket in a folder beside the file; whoever commits
work sends a byte to all of them and never waits. Sockets that nobody reads any more are removed.
Where there are no such sockets, and for what got lost, a look at SQLite's `data_version` every half
second finds that someone else has written.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from taskforge.storage.sqlite.permissions import folder_mode

POLL_SECONDS = 0.5
SOONEST_SECONDS = 0.001
LONGEST_ADDRESS = 100  # bytes; 108 on Linux, 104 on macOS and the BSDs


class Signals:
    def __init__(self, path: Path, look: Callable[[], Awaitable[int]]) -> None:
        """`look` answers with a number that changes whenever another connection has written."""
        self._store = path
        self._folder = path.with_name(path.name + "-wake")
        self._look = look
        self._listeners: dict[object, Callable[[], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: socket.socket | None = None
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._poll: asyncio.Task[None] | None = None
        self._calling = False
        self._alarm: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._sender: socket.socket | None = None
        self._folder_handle: int | None = None

    # --- Listening, in the event loop ---

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        key = object()
        if not self._listeners:
            self._begin()
        self._listeners[key] = wake

        def stop() -> None:
            if self._listeners.pop(key, None) is not None and not self._listeners:
                self._end()

        return stop

    def stop(self) -> None:
        self._listeners.clear()
        self._end()
        with self._lock:
            if self._sender is not None:
                self._sender.close()
                self._sender = None
            if self._folder_handle is not None:
                os.close(self._folder_handle)
                self._folder_handle = None

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calling = False
        if hasattr(socket, "AF_UNIX"):
            with contextlib.suppress(OSError, NotImplementedError):
                self._bind(self._loop)
        self._poll = self._loop.create_task(self._watch(), name="taskforge-sqlite-watch")

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._folder.mkdir(mode=folder_mode(self._store), exist_ok=True)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bound.setblocking(False)
            bound.bind(self._address(self._name))
            loop.add_reader(bound.fileno(), self._received)
        except BaseException:
            bound.close()
            raise
        self._socket = bound

    def _end(self) -> None:
        alive = self._loop is not None and not self._loop.is_closed()
        if self._poll is not None and alive:
            self._poll.cancel()
        self._poll = None
        if self._alarm is not None and alive:
            self._alarm.cancel()
        self._alarm = None
        bound, self._socket = self._socket, None
        if bound is not None:
            if self._loop is not None and alive:
                self._loop.remove_reader(bound.fileno())
            bound.close()
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
            with contextlib.suppress(OSError):
                self._folder.rmdir()  # the last one puts out the light

    def _received(self) -> None:
        with contextlib.suppress(OSError):
            while self._socket is not None and self._socket.recv(64):
                pass
        self._call()

    async def _watch(self) -> None:
        seen: int | None = None
        while True:
            # The store may be away for a while; a hint is all that is lost.
            with contextlib.suppress(Exception):
                now = await self._look()
                if seen is not None and now != seen:
                    self._call()
                seen = now
            await asyncio.sleep(POLL_SECONDS)

    def wake_in(self, seconds: float) -> None:
        """A rate limit lets the next job through then: this process looks again, without waiting
        for its poll."""
        if not self._listeners or self._loop is None:
            return
        at = self._loop.time() + max(SOONEST_SECONDS, seconds)
        if (
            self._alarm is None
            or self._alarm.when() > at
            or self._alarm.when() <= self._loop.time()
        ):
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(at, self._call)

    def _call(self) -> None:
        """Call everyone once, soon; what comes meanwhile is the same news."""
        if not self._calling and self._loop is not None:
            self._calling = True
            self._loop.call_soon(self.call_now)

    def call_now(self) -> None:
        """Wake everyone in this process; from its event loop."""
        self._calling = False
        for wake in list(self._listeners.values()):
            wake()

    # --- Sending, in the writer's thread ---

    def send(self, *, here: bool = True) -> None:
        """Jobs may have become claimable: tell this process and the others, or those alone."""
        if here and self._listeners and self._loop is not None and not self._calling:
            self._calling = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self.call_now)
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - a fifth of the cost, after every commit
        except OSError:
            return
        with self._lock:
            for name in names:
                if name != self._name:
                    self._send_to(name)

    def _send_to(self, name: str) -> None:
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sender.setblocking(False)
        try:
            self._sender.sendto(b"!", self._address(name))
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        except OSError:
            return  # its buffer is full: it has news enough

    def _address(self, name: str) -> str:
        """Where a socket lies. Addresses are short; a longer path is reached through an open handle
        of its folder."""
        address = str(self._folder / name)
        if len(os.fsencode(address)) <= LONGEST_ADDRESS:
            return address
        if self._folder_handle is None:
            self._folder_handle = os.open(self._folder, os.O_RDONLY)
        return f"/proc/self/fd/{self._folder_handle}/{name}"
