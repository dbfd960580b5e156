"""The worker's side of its lease keeper: starts that process, tells it how the worker fares, hears
what the store answered."""

import asyncio
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from taskforge.worker.processes.keeper_words import (
    LOST,
    RETRY_SECONDS,
    WORD_BYTES,
    Charge,
    ChildNews,
    Word,
    WorkerHealth,
)
from taskforge.worker.processes.process_id import ProcessId
from taskforge.worker.processes.process_watch import is_stopped
from taskforge.worker.processes.pulse import Pulse

logger = logging.getLogger("taskforge.worker")
# Of a lease: how often the keeper is looked at, and how long it may stand still. Its successor has
# the rest of the lease to start and to renew.
LOOK_PART, STILL_PART = 0.1, 0.3


class LeaseKeeper:
    """Starts the process, listens to it, starts it again should it die."""

    def __init__(
        self, command: Sequence[str], charge: Charge, hear: Callable[[Word], None]
    ) -> None:
        self._command = command
        self._charge = charge
        self._hear = hear
        # Not asyncio's: that would kill it when this process ends, which it is there to outlive.
        self._process: subprocess.Popen[bytes] | None = None
        self._health = WorkerHealth()
        self._pulse: Pulse | None = None
        self._children: dict[int, ProcessId] = {}
        self._let_go = False

    async def run(self) -> None:
        """Until cancelled, or until the lease is lost."""
        delay = 0.1
        try:
            while True:
                started = time.monotonic()
                if await self._serve():
                    return
                delay = 0.1 if time.monotonic() - started > 5 else min(2.0, delay * 2)
                logger.warning("the lease keeper ended; starting it again")
                await asyncio.sleep(delay)
        finally:
            await self._end()

    async def _serve(self) -> bool:
        """One process's life; true when it reported the lease lost."""
        # A session of its own: what is sent to this process's group, be it a SIGKILL, is not meant
        # for who reports its death.
        process = subprocess.Popen(  # noqa: ASYNC220 - a few milliseconds, and nothing waits for it
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        # Before anyone else writes to it: the charge comes first.
        first = (
            [self._charge, self._health]
            if self._pulse is None
            else [self._charge, self._health, self._pulse]
        )
        os.write(
            process.stdin.fileno(), b"".join(msgspec.json.encode(one) + b"\n" for one in first)
        )
        self._process = process
        reader = asyncio.StreamReader(WORD_BYTES)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stdout
        )
        replacing = asyncio.create_task(self._kill_once_frozen(process))
        try:
            for child in list(self._children.values()):
                await self._write_surely(ChildNews(child))
            while line := await reader.readline():
                word = msgspec.json.decode(line, type=Word)
                self._hear(word)
                if word.lost is not None:
                    return True
        finally:
            replacing.cancel()
            transport.close()
        if await self._ended(process) != LOST:
            return False
        self._hear(Word(lost="the lease keeper said so"))
        return True

    async def _kill_once_frozen(self, process: subprocess.Popen[bytes]) -> None:
        """A keeper that stands still (SIGSTOP, a debugger) renews nothing and says nothing, and the
        handlers would run on beside their successors. It is killed, and so started again."""
        still = 0
        while still * LOOK_PART < STILL_PART:
            await asyncio.sleep(LOOK_PART * self._charge.lease_seconds)
            still = still + 1 if is_stopped(process.pid) else 0
        logger.warning("the lease keeper stands still; it is replaced")
        process.kill()

    def tell(self, health: WorkerHealth) -> None:
        """Also for a process that has yet to start, and from any thread: the watchdog speaks while
        the event loop cannot."""
        self._health = health
        self._write(health)

    def send_pulse(self, pulse: Pulse) -> bool:
        """That this process runs; false when there was no room to say it. From any thread."""
        self._pulse = pulse
        return self._write(pulse)

    async def tell_started(self, *children: ProcessId) -> None:
        """Returns when the keeper cannot but hear of them, also should this process end now."""
        for child in children:
            self._children[child.pid] = child
            await self._write_surely(ChildNews(child))

    def tell_ended(self, child: ProcessId) -> None:
        self._children.pop(child.pid, None)
        self._write(ChildNews(child, ended=True))

    def let_go(self) -> None:
        """Leave the process to itself when this ends: it tells the store when ours has ended."""
        self._let_go = True

    async def _write_surely(self, message: ChildNews) -> None:
        while not self._write(message):  # noqa: ASYNC110 - a full pipe is as good as never
            await asyncio.sleep(RETRY_SECONDS)

    def _write(self, message: WorkerHealth | ChildNews | Pulse) -> bool:
        """Never waits; false when there was no room. One that is not there is told when it
        starts."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return True
        try:
            os.write(self._process.stdin.fileno(), msgspec.json.encode(message) + b"\n")
        except BlockingIOError:
            return False
        except (OSError, ValueError):  # it has just been closed
            return True
        return True

    async def _ended(self, process: subprocess.Popen[bytes]) -> int:
        while (status := process.poll()) is None:  # noqa: ASYNC110 - it has closed its pipe, or was killed
            await asyncio.sleep(0.01)
        self._close(process)
        return status

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        self._close(process)
        if process.poll() is not None:
            return
        if not self._let_go:
            process.kill()
        # In a thread: whoever is cancelled while it waits here leaves no process behind that nobody
        # waits for.
        waiting = threading.Thread(target=process.wait, name="taskforge-keeper", daemon=True)
        waiting.start()
        while not self._let_go and waiting.is_alive():  # noqa: ASYNC110 - a killed process takes milliseconds
            await asyncio.sleep(0.01)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
