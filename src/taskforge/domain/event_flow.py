"""How a stream of events is kept readable: above some number a second its reader gets sums."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from taskforge.domain.query import Event

MOST_A_SECOND = 50
"""Events of jobs that a stream tells one by one; where there are more, it tells sums by the
second."""
SUMMED = frozenset({"job.enqueued", "job.started"})
"""Topics that a process tells in sums anyway, one event for each queue and tick."""


class _Sum(msgspec.Struct):
    first: Event
    last: datetime
    events: int = 0
    jobs: int = 0


class EventFlow:
    """One stream. Its second begins with its first event; whoever knows the time tells when it is
    over."""

    def __init__(self, most: int = MOST_A_SECOND) -> None:
        self._most = most
        self._ends: float | None = None
        self._seen = 0  # in this second
        self._is_dense = False  # whether the second before had too many
        self._sums: dict[tuple[int, int | None, str], _Sum] = {}
        self._cursor = ""  # of the last event that is summed up
        self._told = ""  # of the last that was told

    def take(self, events: Iterable[Event], now: float) -> list[Event]:
        """What is to be told now. What is summed up is told when its second is over."""
        told = self.over(now)
        for event in events:
            if not event.topic.startswith("job."):
                told += self._flush()  # in order: what came before it comes before it
                told.append(event)
                self._told = event.cursor
                continue
            if self._ends is None:
                self._ends = now + 1.0
            self._seen += 1
            if self._is_dense or self._seen > self._most:
                self._add(event)
            else:
                told.append(event)
                self._told = event.cursor
        return told

    def over(self, now: float) -> list[Event]:
        """The sums of a second that is over; nothing while it is not."""
        if self._ends is None or now < self._ends:
            return []
        self._is_dense = self._seen > self._most and now < self._ends + 1.0
        self._ends, self._seen = None, 0
        return self._flush()

    def seconds_left(self, now: float, most: float) -> float:
        """How long a reader may wait for more, at most so long."""
        if not self._sums or self._ends is None:
            return most
        return max(0.0, min(most, self._ends - now))

    @property
    def is_holding(self) -> bool:
        """Whether something is not told yet: the reader's place is before it."""
        return bool(self._sums)

    def _add(self, event: Event) -> None:
        key = (event.project, event.queue, event.topic)
        found = self._sums.setdefault(key, _Sum(event, event.at))
        found.events += 1
        found.jobs += jobs_in(event)
        found.last = event.at
        self._cursor = event.cursor

    def _flush(self) -> list[Event]:
        """Only the last of them stands at the end of what they sum up: whoever goes on behind one
        of them misses nothing, and may have some of it once more."""
        sums, self._sums = list(self._sums.values()), {}
        last, before = len(sums) - 1, self._told
        if sums:
            self._told = self._cursor
        return [
            msgspec.structs.replace(
                one.first,
                cursor=self._cursor if place == last else before,
                at=one.last,
                jobs=(),
                details=_encode({"events": one.events, "count": one.jobs}).decode(),
            )
            for place, one in enumerate(sums)
        ]


def jobs_in(event: Event) -> int:
    """How many jobs an event tells of, named or counted."""
    if event.jobs or event.details is None:
        return len(event.jobs)
    return _count(event.details).count


class _Count(msgspec.Struct):
    count: int = 0


_count = msgspec.json.Decoder(_Count).decode
_encode = msgspec.json.Encoder().encode
