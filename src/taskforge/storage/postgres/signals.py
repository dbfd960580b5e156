"""Wake-ups: NOTIFY sent debounced after commits, LISTEN on a connection of its own. A hint only; polling is the correctness path.

NOTIFY inside each insert would serialise the commits of the whole cluster, so a process sends at most one every few
milliseconds, however many jobs it enqueues. The first single job after a pause carries its NOTIFY itself, which spares an idle
worker the wait for one sent separately (0.2 ms); once that takes long, as it does when many processes do the same, nobody here
does so for a second.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import asyncpg

from taskforge.domain.retry import Patience

if TYPE_CHECKING:
    from taskforge.storage.postgres.store import Store

DEBOUNCE_SECONDS = 0.005
# Room under a limit is mostly used by whoever made it; under load, telling the others each time cost a busy worker a fourteenth.
ROOM_SECONDS = 0.025
SOONEST_SECONDS = 0.001
SLOW_RIDE_SECONDS = 0.005
NO_RIDE_SECONDS = 1.0


# A wake-up need not survive a crash, so its commit does not wait for the disk.
_NOTIFY = "select set_config('synchronous_commit', 'off', true), pg_notify($1, '')"


class Signals:
    def __init__(self, store: "Store") -> None:
        self._store = store
        self._listeners: set[Callable[[], None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._wanted = False
        self._rides_from = 0.0  # when an insert may carry the next NOTIFY
        self._alarm: asyncio.TimerHandle | None = None
        self._room: asyncio.TimerHandle | None = None
        self.hears = False  # whether LISTEN works just now

    @property
    def channel(self) -> str:
        return f"{self._store.schema}_work"

    def on_work(self, wake: Callable[[], None]) -> Callable[[], None]:
        self._listeners.add(wake)
        if self._listening is None and not self._store.poll_only:
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        return lambda: self._listeners.discard(wake)

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._room is not None:
            self._tell()  # it would be lost with this process
            if self._sending is not None:
                await asyncio.wait([self._sending], timeout=0.5)
        for task in (self._listening, self._sending):
            # In Python 3.11 the driver's `connect` can forget that it was cancelled in the moment it succeeds: say it again.
            while task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=0.5)
            if task is not None and not task.cancelled():
                task.exception()  # whatever it met while it was being stopped
        self._listening = self._sending = None

    def send(self) -> None:
        """Tell everyone, this process included, that there may be work. Returns at once."""
        self._wake()
        self._tell()

    def send_room(self) -> None:
        """The same after jobs that count under a limit have ended: this process hears at once, the others a little later."""
        self._wake()
        if self._room is None:
            self._room = asyncio.get_running_loop().call_later(ROOM_SECONDS, self._tell)

    def _tell(self) -> None:
        if self._room is not None:
            self._room.cancel()
            self._room = None
        if self._store.poll_only:
            return
        self._wanted = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def may_ride(self) -> bool:
        """Whether an insert should carry its NOTIFY itself: nothing was sent just before."""
        sending = self._sending is not None and not self._sending.done()
        return not sending and not self._store.poll_only and time.monotonic() >= self._rides_from

    @contextlib.contextmanager
    def riding(self) -> Iterator[None]:
        """Around an insert that does."""
        started = time.monotonic()
        self._rides_from = started + NO_RIDE_SECONDS  # until it is known how long this takes
        yield
        now = time.monotonic()
        self._rides_from = now + (DEBOUNCE_SECONDS if now - started < SLOW_RIDE_SECONDS else NO_RIDE_SECONDS)
        self._wake()

    def wake_in(self, seconds: float) -> None:
        """A rate limit lets the next job through then: this process looks again, without waiting for its poll."""
        if not self._listeners:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(SOONEST_SECONDS, seconds)
        if self._alarm is None or self._alarm.when() > at or self._alarm.when() <= loop.time():
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_at(at, self._wake)

    async def _send(self) -> None:
        while self._wanted:
            self._wanted = False
            with contextlib.suppress(Exception):  # the wake-up is lost, the poll finds the job
                await self._store.value(_NOTIFY, self.channel)
            await asyncio.sleep(DEBOUNCE_SECONDS)

    async def _listen(self) -> None:
        patience = Patience()
        while True:
            gone = asyncio.Event()
            try:
                connection = await asyncpg.connect(
                    self._store.url, timeout=10, server_settings={"application_name": "taskforge listen"}
                )
            except Exception:  # noqa: BLE001 - whatever keeps us from listening, polling goes on and we try again
                await asyncio.sleep(patience.wait())
                continue
            try:
                connection.add_termination_listener(lambda _, gone=gone: gone.set())
                await connection.add_listener(self.channel, self._heard)
                self.hears = True
                patience.forget()
                self._wake()  # whatever was signalled while nobody listened
                await gone.wait()
            except Exception:  # noqa: BLE001 - the same
                await asyncio.sleep(patience.wait())
            finally:
                self.hears = False
                connection.terminate()

    def _heard(self, *_: Any) -> None:
        self._wake()

    def _wake(self) -> None:
        for listener in tuple(self._listeners):
            listener()
