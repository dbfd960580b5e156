"""What becomes of a queue if the next minutes are like the last ones: how long a job that comes now
waits, and when nothing waits any more. Told as a range, as a few minutes tell no more."""

import enum
import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

LOOKED_MINUTES = 15  # of the past
LEAST_ENDED = 5  # jobs; from fewer nothing is told
_ERRORS = 2.0  # standard errors to either side: about 19 of 20


class Outlook(enum.StrEnum):
    EMPTY = "empty"  # nothing waits
    PAUSED = "paused"  # nothing starts
    UNKNOWN = "unknown"  # too few jobs have ended to tell
    GROWING = "growing"  # more jobs arrive than end: it only grows
    STEADY = "steady"  # as many arrive as end, as far as these minutes tell
    DRAINING = "draining"


class Minute(NamedTuple):
    arrived: int  # jobs that were enqueued
    ended: int  # jobs that left the queue for good


class Range(msgspec.Struct, frozen=True):
    """In seconds. `high` is null where it may take for ever."""

    likely: float
    low: float
    high: float | None


class Forecast(msgspec.Struct, frozen=True):
    """Rates are those of the last minutes; what ended within them is all that workers could do only
    where jobs were waiting."""

    outlook: Outlook
    pending: int
    arrived_per_minute: float
    ended_per_minute: float
    wait: Range | None = None
    """Until a job that comes now starts, behind those that wait already"""
    drain: Range | None = None
    """Until nothing waits any more, while jobs go on arriving; told of a queue that drains"""


class _Rate(NamedTuple):
    """Of something a minute, and how far that may be off."""

    mean: float
    error: float

    def seconds_for(self, jobs: int) -> Range:
        slow, fast = self.mean - self.error, self.mean + self.error
        return Range(
            likely=round(60 * jobs / self.mean, 1),
            low=round(60 * jobs / fast, 1),
            high=round(60 * jobs / slow, 1) if slow > 0 else None,
        )


def forecast(pending: int, minutes: Sequence[Minute], *, is_active: bool = True) -> Forecast:
    """Of a queue in which so many jobs wait, by the minutes that it has behind it."""
    arrived, ended = (sum(counts) for counts in zip(*minutes, strict=True)) if minutes else (0, 0)
    length = max(1, len(minutes))
    rates = (round(arrived / length, 2), round(ended / length, 2))
    if not pending:
        return Forecast(Outlook.EMPTY, pending, *rates)
    if not is_active:
        return Forecast(Outlook.PAUSED, pending, *rates)
    if ended < LEAST_ENDED:
        # Where nothing ends, what arrives stays.
        is_growing = not ended and arrived >= LEAST_ENDED
        return Forecast(Outlook.GROWING if is_growing else Outlook.UNKNOWN, pending, *rates)
    wait = _rate([minute.ended for minute in minutes], ended).seconds_for(pending)
    net = _rate([minute.ended - minute.arrived for minute in minutes], arrived + ended)
    if net.mean + net.error < 0:
        return Forecast(Outlook.GROWING, pending, *rates, wait)
    if net.mean - net.error <= 0:
        return Forecast(Outlook.STEADY, pending, *rates, wait)
    return Forecast(Outlook.DRAINING, pending, *rates, wait, net.seconds_for(pending))


def _rate(counts: Sequence[int], events: int) -> _Rate:
    """The error is what the minutes differ by among themselves, and no less than chance alone
    makes so many independent events differ."""
    length = len(counts)
    mean = sum(counts) / length
    variance = sum((count - mean) ** 2 for count in counts) / max(1, length - 1)
    error = max(math.sqrt(variance / length), math.sqrt(events) / length)
    return _Rate(mean, _ERRORS * error)
