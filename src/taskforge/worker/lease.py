"""Keeps a worker's lease in a small process of its own, so that neither a blocked event loop nor a held GIL can lose it.

The keeper renews, samples the worker's cpu and memory, and passes on what the store answers: a wish to drain, jobs to cancel, a
lease that is lost. It stops renewing when the worker stands still (SIGSTOP): a worker that cannot run must not keep others from
its jobs. It outlives its worker: once that process has surely ended without leaving, it ends the lease, so that others need not
wait for it (`survivor.py`).
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import psutil

from taskforge.domain.access import Throttled
from taskforge.domain.errors import Deregistered, LeaseLost, StoreFault, StoreUnavailable, StoreUnsuitable
from taskforge.domain.tenancy import QuotaExceeded
from taskforge.domain.worker import Sample
from taskforge.settings import Settings
from taskforge.storage.engine import Engine
from taskforge.worker.parent import is_standing_still
from taskforge.worker.processes import ProcessId, end_of
from taskforge.worker.pulse import Pulse, PulseWatch
from taskforge.worker.survivor import end_children, tell_death

T = TypeVar("T")
logger = logging.getLogger("taskforge.worker")
LOST = 3  # the keeper's exit status when the lease is lost
WORD_ROOM = 3_900  # so long a word goes through a pipe in one piece
REASON_CHARACTERS = 500  # of which none takes more than four bytes
WORD_BYTES = 1 << 16
LAST_WORDS_SECONDS = 0.5  # to read what a dead worker had said
RETRY_SECONDS = 0.05
STOP_AT = 0.9  # of a lease without an answer: the handlers stop, before others may begin
ANSWER_PART = 0.05  # of a lease, for an answer to a question that was asked at the last moment
HandBack = Callable[[Engine, UUID, Sequence[UUID]], Awaitable[object]]


class Charge(msgspec.Struct, frozen=True):
    """What the keeper is told when it starts."""

    settings: Settings
    incarnation: UUID
    lease_seconds: float
    interval: float
    worker: ProcessId


class Word(msgspec.Struct, frozen=True):
    """What the keeper says, one line of JSON each."""

    drain: bool = False
    cancelled: tuple[UUID, ...] = ()
    cancel_reasons: dict[UUID, str] = {}
    lost: str | None = None
    away: bool = False  # lost because the store could not be asked
    deregistered: bool = False  # whoever lost its lease so does not come back by itself
    slots: int | None = None


class Health(msgspec.Struct, frozen=True, tag="health", omit_defaults=True):
    """What the worker says, or its watchdog while the event loop is held."""

    healthy: bool = True
    stopping: bool = False
    stuck_slots: int = 0
    blocking: UUID | None = None
    unstarted: tuple[UUID, ...] = ()  # jobs that go back to their queue: the worker cannot say so itself just now


class ChildNews(msgspec.Struct, frozen=True, tag="child"):
    """What else it says: a process of a process handler has started, or ended. Told before it gets a job."""

    child: ProcessId
    ended: bool = False


class Vigil:
    """What the keeper knows of its worker: what it said, and whether it lives. A pipe that is closed is no death: the process may
    have become another program, and a process that it forked may hold the pipe open long after it died."""

    def __init__(self, worker: ProcessId) -> None:
        self.health = Health()
        self.news = asyncio.Event()  # it feels otherwise than it did
        self.children: dict[int, ProcessId] = {}
        self._unstarted: set[UUID] = set()
        self.hurry = asyncio.Event()  # somebody wants us to stop; while the worker lives, that is its own business
        self.pulse = PulseWatch(worker, self.news)
        self._watching = asyncio.create_task(self.pulse.run())
        self.listening = asyncio.create_task(self._listen())
        self.death = asyncio.create_task(end_of(worker))
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.hurry.set)

    @property
    def is_over(self) -> bool:
        return self.listening.done() or self.death.done()

    async def while_on(self, call: Coroutine[Any, Any, T], seconds: float | None = None) -> T | None:
        """What the call returns; nothing, and its end, once there is nobody left to make it for, or this time is over."""
        calling = asyncio.create_task(call)
        watched = [calling, self.listening, self.death]
        await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            calling.cancel()
            # A connection that leads nowhere can take long to give up, and there is no time for that.
            calling.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([calling], timeout=None if seconds is None else RETRY_SECONDS)
        if calling.cancelled() or not calling.done():
            return None
        return calling.result()

    @property
    def seen_health(self) -> Health:
        """What it said of itself, unless it cannot say anything."""
        stuck = self.pulse.stuck_slots
        return msgspec.structs.replace(self.health, healthy=False, stuck_slots=stuck) if stuck else self.health

    async def end(self) -> None:
        tasks = [self.listening, self.death, self._watching]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def rest(self, seconds: float) -> None:
        """Until the next renewal is due, or there is something new to say with it."""
        hearing = asyncio.create_task(self.news.wait())
        try:
            await asyncio.wait([self.listening, self.death, hearing], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hearing.cancel()

    async def hand_back_unstarted(self, hand_back: Callable[[Sequence[UUID]], Awaitable[object]]) -> None:
        """What the worker asked for; kept for the next try when the store is away."""
        if self._unstarted:
            fences = tuple(self._unstarted)
            await hand_back(fences)
            self._unstarted.difference_update(fences)

    async def _listen(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        try:
            while line := await reader.readline():
                self._hear(msgspec.json.decode(line, type=Health | ChildNews | Pulse))
        finally:
            transport.close()
            self._watching.cancel()  # whoever has closed its pipe says nothing more, and may live on as another program

    def _hear(self, said: Health | ChildNews | Pulse) -> None:
        if isinstance(said, Pulse):
            self.pulse.hear(said)
        elif isinstance(said, Health):
            if said != self.health:
                self.news.set()
            self.health = said
            self._unstarted.update(said.unstarted)
        elif said.ended:
            self.children.pop(said.child.pid, None)
        else:
            self.children[said.child.pid] = said.child


async def _open(engine: Engine) -> None:
    try:
        await engine.open(migrate=False)
    except (QuotaExceeded, Throttled) as error:  # a server's, or a proxy's before it
        raise StoreUnavailable(str(error), retry_after=error.retry_after) from None


async def open_when_there(engine: Engine, charge: Charge, began: float) -> Engine:
    """A store that is away just now is tried again for as long as the lease could hold, counted from when the keeper began."""
    give_up = began + STOP_AT * charge.lease_seconds
    while True:
        try:
            await _open(engine)
        except (StoreUnavailable, StoreUnsuitable, StoreFault):  # a login or a database that is refused is mostly so for a while
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(min(0.2, charge.interval))
        else:
            return engine


async def keep(make_engine: Callable[[], Engine], charge: Charge, hand_back: HandBack) -> bool:
    """The keeper's life; false when the lease was lost."""
    began = time.monotonic()
    os.set_blocking(sys.stdout.fileno(), False)
    vigil, engine = Vigil(charge.worker), make_engine()
    is_open = False
    try:
        try:
            is_open = await vigil.while_on(open_when_there(engine, charge, began)) is not None
        except (StoreUnavailable, StoreUnsuitable, StoreFault) as error:
            if not vigil.is_over:
                _say(Word(lost=f"the store could not be reached: {error}", away=True))
                return False
        if is_open and not await _renew(engine, charge, vigil, hand_back):
            return False
        # Nobody is there any more to keep it for. Should the process live on, the lease ends by itself.
        await asyncio.wait([vigil.death], timeout=charge.lease_seconds)
        if vigil.death.done():
            await asyncio.wait([vigil.listening], timeout=LAST_WORDS_SECONDS)
            await end_children(vigil.children.values())

            async def opened() -> Engine:
                nonlocal engine, is_open
                if not is_open:
                    engine = make_engine()
                    await _open(engine)
                    is_open = True
                return engine

            await tell_death(opened, charge.incarnation, charge.worker, vigil.hurry, overran=vigil.pulse.has_killed)
    finally:
        await vigil.end()
        if is_open:
            await engine.close()
    return True


async def _renew(engine: Engine, charge: Charge, vigil: Vigil, hand_back: HandBack) -> bool:
    """For as long as the worker is there; false when the lease was lost."""
    try:
        watched = psutil.Process(charge.worker.pid)
    except psutil.Error:
        return True
    limit = time.monotonic() + STOP_AT * charge.lease_seconds
    while not vigil.is_over:
        started = time.monotonic()
        vigil.news.clear()
        try:
            if not is_standing_still(charge.worker.pid):
                sample = _sample(watched, vigil.seen_health)
                patience = charge.interval if started > limit else max(limit - started, ANSWER_PART * charge.lease_seconds)
                renewal = engine.renew(charge.incarnation, charge.lease_seconds, sample)
                answer = await vigil.while_on(renewal, patience)
                if answer is not None:
                    limit = started + STOP_AT * charge.lease_seconds
                    _say(Word(answer.drain, answer.cancelled, answer.cancel_reasons, slots=answer.slots))
                elif not vigil.is_over:
                    raise StoreUnavailable("it does not answer")  # noqa: TRY301 - as if it had said so itself
            giving_back = vigil.hand_back_unstarted(partial(hand_back, engine, charge.incarnation))
            await vigil.while_on(giving_back, charge.interval)
        except LeaseLost as error:
            if vigil.death.done():
                return True
            _say(Word(lost=str(error), deregistered=isinstance(error, Deregistered)))
            return False
        except (StoreUnavailable, StoreUnsuitable, StoreFault) as error:
            # By the store's clock the lease ends a lease after the last renewal was sent; the handlers stop before. Who stood still
            # itself, as on a machine that was frozen, asks once more: everybody may have.
            late = time.monotonic() - limit
            if late >= 0 and (started >= limit or late < charge.interval + 2 * ANSWER_PART * charge.lease_seconds):
                _say(Word(lost=f"the store could not be reached for {charge.lease_seconds:g} s: {error}", away=True))
                return False
        pause, left = max(RETRY_SECONDS, charge.interval - (time.monotonic() - started)), limit - time.monotonic()
        await vigil.rest(min(pause, left) if left > 0 else pause)
    return True


def _say(word: Word) -> None:
    """Never waits: a worker whose event loop is blocked does not read, and its lease must be renewed all the same. What it
    misses is said again with the next renewal, and a lost lease by the exit status."""
    for part in _parts(word):
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(sys.stdout.fileno(), msgspec.json.encode(part) + b"\n")


def _parts(word: Word) -> Iterator[Word]:
    """The same in words that go through a pipe in one piece each."""
    part: dict[UUID, str] = {}
    room = WORD_ROOM
    for fence in word.cancelled:
        reason = word.cancel_reasons.get(fence, "")[:REASON_CHARACTERS]
        takes = 90 + len(msgspec.json.encode(reason))  # its id stands in both lists
        if part and takes > room:
            yield msgspec.structs.replace(
                word, cancelled=tuple(part), cancel_reasons={key: one for key, one in part.items() if one}
            )
            part, room = {}, WORD_ROOM
        part[fence], room = reason, room - takes
    yield msgspec.structs.replace(word, cancelled=tuple(part), cancel_reasons={key: one for key, one in part.items() if one})


def _sample(process: psutil.Process, health: Health) -> Sample:
    cpu: float | None = None
    memory: int | None = None
    with contextlib.suppress(psutil.Error), process.oneshot():
        cpu, memory = process.cpu_percent(), process.memory_info().rss
    return Sample(cpu, memory, health.healthy, health.stopping, health.stuck_slots, health.blocking)


class Keeper:
    """The worker's side: starts the process, listens to it, starts it again should it die."""

    def __init__(self, command: Sequence[str], charge: Charge, hear: Callable[[Word], None]) -> None:
        self._command = command
        self._charge = charge
        self._hear = hear
        # Not asyncio's: that would kill it when this process ends, which it is there to outlive.
        self._process: subprocess.Popen[bytes] | None = None
        self._health = Health()
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
        # A session of its own: what is sent to this process's group, be it a SIGKILL, is not meant for who reports its death.
        process = subprocess.Popen(  # noqa: ASYNC220 - a few milliseconds, and nothing waits for it
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        # Before anyone else writes to it: the charge comes first.
        first = [self._charge, self._health] if self._pulse is None else [self._charge, self._health, self._pulse]
        os.write(process.stdin.fileno(), b"".join(msgspec.json.encode(one) + b"\n" for one in first))
        self._process = process
        reader = asyncio.StreamReader(WORD_BYTES)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        try:
            for child in list(self._children.values()):
                await self._write_surely(ChildNews(child))
            while line := await reader.readline():
                word = msgspec.json.decode(line, type=Word)
                self._hear(word)
                if word.lost is not None:
                    return True
        finally:
            transport.close()
        if await self._ended(process) != LOST:
            return False
        self._hear(Word(lost="the lease keeper said so"))
        return True

    def tell(self, health: Health) -> None:
        """Also for a process that has yet to start, and from any thread: the watchdog speaks while the event loop cannot."""
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

    def _write(self, message: Health | ChildNews | Pulse) -> bool:
        """Never waits; false when there was no room. One that is not there is told when it starts."""
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
        # In a thread: whoever is cancelled while it waits here leaves no process behind that nobody waits for.
        waiting = threading.Thread(target=process.wait, name="taskforge-keeper", daemon=True)
        waiting.start()
        while not self._let_go and waiting.is_alive():  # noqa: ASYNC110 - a killed process takes milliseconds
            await asyncio.sleep(0.01)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
