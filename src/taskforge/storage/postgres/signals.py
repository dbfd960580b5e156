"""Wake-ups: NOTIFY sent debounced after commits, LISTEN on a connection of its own. A hint only;
polling is the correctness path.

NOTIFY inside each insert would serialise the commits of the whole cluster, so a process sends at
most one every few milliseconds, however many jobs it enqueues. The first single job after a pause
carries its NOTIFY itself, which spares an idle worker the wait for one sent separately (0.2 ms);
once that takes long, as it does when many processes do the same, nobody here does so for a second.

A signal names the lanes that jobs came to, as `project:lane,lane;project:lane`, so that processes
need not look for them; nothing at all when no job came, and `*` when they are too many to name.
Project 0, which nobody has, says that something else has changed, too. Whoever waits for work of
one project is woken by what names it, and by what names nothing or everything.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from taskforge.domain.retry import Patience
from taskforge.storage.postgres.connections import PostgresConnections

DEBOUNCE_SECONDS = 0.005
# Room under a limit is mostly used by whoever made it; under load, telling the others each time
# cost a busy worker a fourteenth.
ROOM_SECONDS = 0.025
SOONEST_SECONDS = 0.001
SLOW_RIDE_SECONDS = 0.005
NO_RIDE_SECONDS = 1.0
MOST_BYTES = 7_900  # the server refuses 8,000
EVERYWHERE = "*"
NO_PROJECT = 0
LATE_MICROSECONDS = 50_000  # what a signal tells of became ready so long before it came, or later
Arrival = tuple[int, int, int]
"""Project, spot (a lane, or what it holds of one key), and a turn that the job which came there is
not before."""


class Signals:
    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._listeners: dict[int | None, set[Callable[[], None]]] = {None: set()}  # by project
        # told of arrivals, ours and others': a list, or None for unknown ones
        self.on_arrivals: Callable[[Iterable[Arrival] | None], None] = lambda _: None
        self._arrivals: dict[int, set[int]] = {}  # to be told to others
        self._everywhere = False
        self._besides = False  # something has changed that is no arrival
        self._listening: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._wanted = False
        self._rides_from = 0.0  # when an insert may carry the next NOTIFY
        self._alarm: asyncio.TimerHandle | None = None
        self._room: asyncio.TimerHandle | None = None
        self.hears = False  # whether LISTEN works just now

    @property
    def channel(self) -> str:
        return f"{self._connections.schema}_work"

    def on_work(self, wake: Callable[[], None], project: int | None = None) -> Callable[[], None]:
        self._listeners.setdefault(project, set()).add(wake)
        if self._listening is None and not self._connections.poll_only:
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        return lambda: self._forget(wake, project)

    def _forget(self, wake: Callable[[], None], project: int | None) -> None:
        listeners = self._listeners.get(project, set())
        listeners.discard(wake)
        if project is not None and not listeners:
            self._listeners.pop(project, None)

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._room is not None:
            self._tell()  # it would be lost with this process
            if self._sending is not None:
                await asyncio.wait([self._sending], timeout=0.5)
        for task in (self._listening, self._sending):
            # In Python 3.11 the driver's `connect` can forget that it was cancelled in the moment
            # it succeeds: say it again.
            while task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=0.5)
            if task is not None and not task.cancelled():
                task.exception()  # whatever it met while it was being stopped
        self._listening = self._sending = None

    def send(self, arrivals: Iterable[Arrival] | None = ()) -> None:
        """Tell everyone, this process included, that there may be work: in these lanes, or None for
        unknown ones. Returns at once."""
        arrivals = None if arrivals is None else list(arrivals)
        self.on_arrivals(arrivals)
        self._everywhere |= arrivals is None
        for project, lane, _ in arrivals or ():
            self._arrivals.setdefault(project, set()).add(lane)
        self._besides |= arrivals == []
        self._wake(arrivals)
        self._tell()

    def send_room(self) -> None:
        """The same after jobs that count under a limit have ended: this process hears at once, the
        others a little later."""
        self._besides = True
        self._wake()
        if self._room is None:
            self._room = asyncio.get_running_loop().call_later(ROOM_SECONDS, self._tell)

    def _tell(self) -> None:
        if self._room is not None:
            self._room.cancel()
            self._room = None
        if self._connections.poll_only:
            return
        self._wanted = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def may_ride(self) -> bool:
        """Whether an insert should carry its NOTIFY itself: nothing was sent just before."""
        sending = self._sending is not None and not self._sending.done()
        return (
            not sending and not self._connections.poll_only and time.monotonic() >= self._rides_from
        )

    @contextlib.contextmanager
    def riding(self) -> Iterator[None]:
        """Around an insert that does."""
        started = time.monotonic()
        self._rides_from = started + NO_RIDE_SECONDS  # until it is known how long this takes
        yield
        now = time.monotonic()
        self._rides_from = now + (
            DEBOUNCE_SECONDS if now - started < SLOW_RIDE_SECONDS else NO_RIDE_SECONDS
        )

    def rode(self, arrival: Arrival) -> None:
        """An insert has carried its NOTIFY itself: this process need not wait to hear it."""
        self.on_arrivals([arrival])
        self._wake([arrival])

    def wake_in(self, seconds: float) -> None:
        """A rate limit lets the next job through then: this process looks again, without waiting
        for its poll."""
        if not any(self._listeners.values()):
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
                await self._connections.value(
                    self._connections.sql("notify"), self.channel, self._where()
                )
            await asyncio.sleep(DEBOUNCE_SECONDS)

    def _where(self) -> str:
        """What is to be told, taken out."""
        arrivals, everywhere = self._arrivals, self._everywhere
        if self._besides and arrivals:
            arrivals[NO_PROJECT] = {0}
        self._arrivals, self._everywhere, self._besides = {}, False, False
        if everywhere or sum(map(len, arrivals.values())) * 3 > MOST_BYTES:
            return EVERYWHERE
        text = ";".join(
            f"{project}:{','.join(map(str, lanes))}" for project, lanes in arrivals.items()
        )
        return text if len(text) <= MOST_BYTES else EVERYWHERE

    async def _listen(self) -> None:
        patience = Patience()
        while True:
            gone = asyncio.Event()
            try:
                connection = await self._connections.connect("taskforge listen")
            except Exception:  # noqa: BLE001 - whatever keeps us from listening, polling goes on and we try again
                await asyncio.sleep(patience.wait())
                continue
            try:
                connection.add_termination_listener(lambda _, gone=gone: gone.set())
                # An old primary that can only be read would keep the connection, and say nothing.
                self._connections.on_renewal = gone.set
                await connection.add_listener(self.channel, self._heard)
                self.hears = True
                patience.forget()
                self.on_arrivals(None)  # whatever was signalled while nobody listened
                self._wake()
                await gone.wait()
            except Exception:  # noqa: BLE001 - whatever keeps us from listening, polling goes on and we try again
                await asyncio.sleep(patience.wait())
            finally:
                self.hears = False
                connection.terminate()

    def _heard(self, _connection: Any, _pid: int, _channel: str, where: object) -> None:
        arrivals = read_arrivals(str(where), self._connections.milliseconds() * 1_000)
        self.on_arrivals(arrivals)
        self._wake(arrivals)

    def _wake(self, arrivals: Iterable[Arrival] | None = None) -> None:
        """Everyone, or those whom these arrivals concern."""
        named: set[int | None] = {project for project, *_ in arrivals or ()}
        meant = {None, *named} if named and NO_PROJECT not in named else self._listeners.keys()
        for project in tuple(meant):
            for listener in tuple(self._listeners.get(project, ())):
                listener()


def read_arrivals(where: str, now: int) -> list[Arrival] | None:
    """What a signal says that came now. One that nobody here could have sent means anything."""
    arrivals: list[Arrival] = []
    if not where:
        return arrivals
    turn = now - LATE_MICROSECONDS
    try:
        for part in where.split(";"):
            project, lanes = part.split(":")
            arrivals += [(int(project), int(lane), turn) for lane in lanes.split(",")]
    except ValueError:
        return None
    return arrivals
