"""Keeps a worker's lease in a small process of its own, so that neither a blocked event loop nor a held GIL can lose it.

The keeper renews, samples the worker's cpu and memory, and passes on what the store answers: a wish to drain, jobs to cancel, a
lease that is lost. It stops renewing when the worker is gone or stands still (SIGSTOP): a worker that cannot run must not keep
others from its jobs.
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec
import psutil

from taskforge.domain.errors import LeaseLost, StoreFault, StoreUnavailable, StoreUnsuitable
from taskforge.domain.worker import Sample
from taskforge.settings import Settings
from taskforge.storage.engine import Engine
from taskforge.worker.parent import die_with_parent, has_left, is_standing_still

logger = logging.getLogger("taskforge.worker")
LOST = 3  # the keeper's exit status when the lease is lost
WORD_FENCES = 64  # so many in one word that it fits into a pipe in one piece
WORD_BYTES = 1 << 16


class Charge(msgspec.Struct, frozen=True):
    """What the keeper is told when it starts."""

    settings: Settings
    incarnation: UUID
    lease_seconds: float
    interval: float


class Word(msgspec.Struct, frozen=True):
    """What the keeper says, one line of JSON each."""

    drain: bool = False
    cancelled: tuple[UUID, ...] = ()
    lost: str | None = None


class Health(msgspec.Struct, frozen=True):
    """What the worker says."""

    healthy: bool = True
    stopping: bool = False


async def open_when_there(engine: Engine, charge: Charge) -> None:
    """A store that is away just now is tried again for as long as the lease could hold."""
    give_up = time.monotonic() + charge.lease_seconds
    while True:
        try:
            return await engine.open(migrate=False)
        except (StoreUnavailable, StoreUnsuitable):  # a login or a database that is refused now is mostly so for a while
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(min(0.2, charge.interval))


async def keep(engine: Engine, charge: Charge) -> bool:
    """The keeper's life; false when the lease was lost. Standard input brings the worker's health, and its end when it is gone."""
    die_with_parent()
    os.set_blocking(sys.stdout.fileno(), False)
    worker = os.getppid()
    watched = psutil.Process(worker)
    state = {"worker": Health()}
    listening = asyncio.create_task(_listen(state))
    renewed = time.monotonic()
    while not listening.done() and not has_left(worker):
        started = time.monotonic()
        try:
            if not is_standing_still(worker):
                answer = await engine.renew(charge.incarnation, charge.lease_seconds, _sample(watched, state["worker"]))
                renewed = started
                _say(Word(answer.drain, answer.cancelled))
        except LeaseLost as error:
            _say(Word(lost=str(error)))
            return False
        except (StoreUnavailable, StoreUnsuitable, StoreFault) as error:
            # By the store's clock the lease ends this long after the last renewal was sent; the handlers stop before.
            if time.monotonic() - renewed > 0.9 * charge.lease_seconds:
                _say(Word(lost=f"the store could not be reached for {charge.lease_seconds:g} s: {error}"))
                return False
        await asyncio.wait([listening], timeout=max(0.05, charge.interval - (time.monotonic() - started)))
    return True


async def _listen(state: dict[str, Health]) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        state["worker"] = msgspec.json.decode(line, type=Health)


def _say(word: Word) -> None:
    """Never waits: a worker whose event loop is blocked does not read, and its lease must be renewed all the same. What it
    misses is said again with the next renewal, and a lost lease by the exit status."""
    for start in range(0, max(1, len(word.cancelled)), WORD_FENCES):
        part = msgspec.structs.replace(word, cancelled=word.cancelled[start : start + WORD_FENCES])
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(sys.stdout.fileno(), msgspec.json.encode(part) + b"\n")


def _sample(process: psutil.Process, health: Health) -> Sample:
    try:
        with process.oneshot():
            return Sample(process.cpu_percent(), process.memory_info().rss, health.healthy, health.stopping)
    except psutil.Error:
        return Sample(healthy=health.healthy, stopping=health.stopping)


class Keeper:
    """The worker's side: starts the process, listens to it, starts it again should it die."""

    def __init__(self, command: Sequence[str], charge: Charge, hear: Callable[[Word], None]) -> None:
        self._command = command
        self._charge = charge
        self._hear = hear
        self._process: asyncio.subprocess.Process | None = None
        self._health = Health()

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
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=WORD_BYTES
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self._charge) + b"\n" + msgspec.json.encode(self._health) + b"\n")
        while line := await process.stdout.readline():
            word = msgspec.json.decode(line, type=Word)
            self._hear(word)
            if word.lost is not None:
                return True
        if await process.wait() != LOST:
            return False
        self._hear(Word(lost="the lease keeper said so"))
        return True

    def tell(self, health: Health) -> None:
        """Also for a process that has yet to start."""
        self._health = health
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(msgspec.json.encode(health) + b"\n")

    async def _end(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
