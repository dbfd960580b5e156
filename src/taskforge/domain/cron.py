"""Cron expressions in a time zone: 5 fields, 6 with seconds first, or a name such as @daily.

At a change of the clocks they keep to what Debian's cron does. A time that falls into the gap of
spring runs once, at the first minute behind it; a time that comes twice in autumn runs the first
time alone. An expression whose minutes or hours begin with a star goes by the real hours instead:
every hour is every hour. Whatever the clocks do, each run is later than the one before.
"""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from taskforge.domain import rules
from taskforge.domain.errors import Invalid, nearest

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MOST_CHARACTERS = 200
_FIELDS = "minute hour day-of-month month day-of-week, with seconds in front of them if wanted"
# Any moment does: it is where the next one is looked for from, and is replaced in every copy.
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_WEEK = timedelta(days=7)


class _Expression:
    """Read once. `sim` finds its times by Debian's rules where the time of day is fixed: then
    `seconds` are those within each minute. Else it walks through the wall's times."""

    __slots__ = ("seconds", "sim")

    def __init__(self, text: str) -> None:
        self.sim = CronSim(text, _SOME_DAY)
        parts = text.split()
        minutes, hours = parts[-5], parts[-4]
        self.seconds: list[int] | None = None
        if not minutes.startswith("*") and not hours.startswith("*"):
            self.seconds = sorted(self.sim.seconds)
            # The parser keeps to Debian's rules in expressions of 5 fields alone.
            self.sim = CronSim(" ".join(parts[-5:]), _SOME_DAY)

    def times_after(self, after: datetime, zone: tzinfo) -> Iterator[datetime]:
        found = (
            self._by_hours(after, zone)
            if self.seconds is None
            else self._by_days(after, zone, self.seconds)
        )
        last = after
        for moment in found:
            # Whoever begins within the hour that comes twice is led back into the first of them.
            if moment > last:
                last = moment
                yield moment

    def _by_days(self, after: datetime, zone: tzinfo, seconds: list[int]) -> Iterator[datetime]:
        sim = copy.copy(self.sim)
        # Of a minute that has begun, seconds may be left.
        begin = (after - timedelta(minutes=1)).astimezone(zone).replace(microsecond=0)
        sim.dt = begin.replace(tzinfo=None)
        sim.fixup_tz = zone
        for minute in sim:
            first = minute.astimezone(UTC)
            yield from (first + timedelta(seconds=second) for second in seconds)

    def _by_hours(self, after: datetime, zone: tzinfo) -> Iterator[datetime]:
        """Between two changes of the clocks the wall runs as steadily as time. The parser walks
        through it there; its own way over a change goes by whole hours, and not all changes do."""
        moment = after
        while True:
            offset = _offset(zone, moment)
            sim = copy.copy(self.sim)
            sim.dt = (moment + offset).replace(tzinfo=None, microsecond=0)
            change = None
            for wall in sim:
                found = wall.replace(tzinfo=UTC) - offset
                change = _first_change(zone, moment, found)
                if change is not None:
                    break
                yield found
                moment = found
            if change is None:
                return
            # The first moment with the new offset may be a run itself.
            wall = (change + _offset(zone, change)).replace(tzinfo=None)
            if _is_run(self.sim, wall):
                yield change
            moment = change


def _offset(zone: tzinfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _first_change(zone: tzinfo, begin: datetime, end: datetime) -> datetime | None:
    """The first second behind `begin`, up to `end`, at which the wall shows another offset."""
    if zone is UTC:
        return None
    offset = _offset(zone, begin)
    while begin < end:
        ahead = min(end, begin + _WEEK)
        if _offset(zone, ahead) != offset:
            while ahead - begin > timedelta(seconds=1):
                middle = begin + (ahead - begin) / 2
                if _offset(zone, middle) == offset:
                    begin = middle
                else:
                    ahead = middle
            return ahead.replace(microsecond=0)
        begin = ahead
    return None


def _is_run(sim: CronSim, wall: datetime) -> bool:
    before = copy.copy(sim)
    before.dt = wall - timedelta(seconds=1)
    return next(before, None) == wall


def check_cron(field: str, text: str) -> str:
    """The expression as it is kept: its name, or its fields with one space between them."""
    rules.text(field, text, most=MOST_CHARACTERS)
    written = " ".join(text.split())
    if written.startswith("@"):
        if written.lower() not in NAMES:
            near = nearest(written.lower(), NAMES)
            hint = f"did you mean {near!r}? " if near else ""
            raise Invalid(field, f"{text!r} is not a name", f"{hint}use one of {', '.join(NAMES)}")
        return written.lower()
    try:
        _read(written)
    except CronSimError as error:
        raise _wrong(field, text, str(error)) from None
    except (AssertionError, ValueError, TypeError):  # what the parser did not foresee
        raise _wrong(field, text, "Cannot be read") from None
    if next_time(written, "UTC", _SOME_DAY) is None:
        raise Invalid(field, f"{text!r} never comes, in fifty years", "use a day that there is")
    return written


def _wrong(field: str, text: str, problem: str) -> Invalid:
    problem = problem[0].lower() + problem[1:]
    if problem == "bad day-of-month":
        problem += " (or one that its months do not have)"
    return Invalid(field, f"{text!r} is not a cron expression: {problem}", f"use {_FIELDS}")


def check_zone(field: str, name: str) -> str:
    rules.text(field, name, most=100)
    try:
        zone_of(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = nearest(name, available_timezones())
        hint = f"did you mean {near!r}?" if near else "use a name such as Asia/Jakarta"
        raise Invalid(field, f"{name!r} is not a time zone", hint) from None
    return name


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    if name.startswith(("/", ".")) or ".." in name or name in ("localtime", "posixrules"):
        raise ValueError(name)
    return ZoneInfo(name)


@lru_cache(maxsize=4_000)
def _read(text: str) -> _Expression:
    return _Expression(NAMES.get(text, text))


@lru_cache(maxsize=20_000)
def next_time(text: str, zone: str, after: datetime) -> datetime | None:
    """The first run behind a moment, as UTC; None if there is none in fifty years. Remembered:
    thousands of schedules that are alike fall due together."""
    try:
        return next(_read(text).times_after(after, zone_of(zone)), None)
    except (OverflowError, ValueError):
        return None  # beyond the last year that there is
