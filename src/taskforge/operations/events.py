"""One reader of the outbox for all who follow it in this process."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Self

from taskforge.domain.errors import EventsGone, StoreUnavailable
from taskforge.domain.query import Event
from taskforge.ports.engine import Engine

logger = logging.getLogger("taskforge.api")
POLL_SECONDS = 0.25
PAGE = 500
KEPT = 2_000


class Feed:
    def __init__(self, engine: Engine, forget: Callable[[], Collection[int]]) -> None:
        """`forget` drops what is remembered of accounts and projects, and tells which projects
        those were."""
        self._engine = engine
        self._forget = forget
        self._projects: set[int] = set()  # those that whoever follows is known to have, or not
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._base: str | None = None  # the cursor before the first event that is kept
        self._head: str | None = None
        self._moved = asyncio.Event()
        self._followers = 0
        self._wanted = asyncio.Event()
        self.is_closed = False

    def follow(self, after: str | None) -> "Follower":
        return Follower(self, self._engine, after)

    async def run(self) -> None:
        """Until cancelled; rests while nobody follows."""
        while True:
            await self._wanted.wait()
            try:
                if self._head is None:
                    self._base = self._head = (await self._engine.events(None, PAGE)).cursor
                page = await self._engine.events(self._head, PAGE)
            except StoreUnavailable as error:
                await asyncio.sleep(error.retry_after)
                continue
            except EventsGone:
                self._reset()
                continue
            if not page.items:
                await asyncio.sleep(POLL_SECONDS)
                continue
            for event in page.items:
                if len(self._kept) == KEPT:
                    self._base = self._kept[0].cursor
                self._kept.append(event)
            self._head = page.cursor
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()

    def close(self) -> None:
        """The server stops: whoever follows goes on elsewhere, from where they are."""
        self.is_closed = True
        self._moved.set()

    def joined(self) -> None:
        self._followers += 1
        self._wanted.set()

    def left(self) -> None:
        self._followers -= 1
        if not self._followers:
            self._wanted.clear()
            self._reset()

    def _reset(self) -> None:
        self._kept.clear()
        self._base = self._head = None

    async def moved(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            return

    def meet(self, events: Sequence[Event]) -> None:
        """A project's first event may come before this server has heard of the project: whose it is
        must be read anew."""
        new = {event.project for event in events} - self._projects
        if new:
            self._projects |= new.union(self._forget())

    def behind(self, cursor: str) -> list[Event] | None:
        """What came after a cursor, if all of it is kept here."""
        if cursor == self._base:
            return list(self._kept)
        if cursor == self._head:
            return []
        found: list[Event] = []
        for event in reversed(self._kept):
            if event.cursor == cursor:
                return found[::-1]
            found.append(event)
        return None


class Follower:
    def __init__(self, feed: Feed, engine: Engine, after: str | None) -> None:
        self._feed = feed
        self._engine = engine
        self.cursor = after or ""

    async def begin(self) -> None:
        """Find the place to begin, or say that it is gone, before the answer's head is sent."""
        page = await self._engine.events(self.cursor or None, 1)
        if not self.cursor:
            self.cursor = page.cursor

    def __enter__(self) -> Self:
        self._feed.joined()
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.left()

    @property
    def is_over(self) -> bool:
        return self._feed.is_closed

    async def next(self, seconds: float) -> list[Event]:
        """What comes next, or nothing when nothing came for so long."""
        until = asyncio.get_running_loop().time() + seconds
        while True:
            events = self._feed.behind(self.cursor)
            if events is None:
                try:
                    events = (await self._engine.events(self.cursor, PAGE)).items
                except StoreUnavailable as error:
                    await asyncio.sleep(error.retry_after)
                    events = []
            if events:
                self._feed.meet(events)
                self.cursor = events[-1].cursor
                return events
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or self._feed.is_closed:
                return []
            await self._feed.moved(min(left, 1.0))
