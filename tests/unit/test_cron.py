"""Cron expressions against an oracle that shares nothing with them: it walks through every minute,
or every wall time, around the changes of the clocks (T3)."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from taskforge.domain import cron
from taskforge.domain.cron import check_cron, check_zone, next_time
from taskforge.domain.errors import Invalid

SAMPLES = 5_000
SLOTS = 8  # of each sample, from shortly before a change of the clocks on
ZONES = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc"))
MINUTES = [0, 1, 15, 29, 30, 31, 45, 59]
HOURS = [0, 1, 2, 3, 4, 12, 23]


def transitions(zone: ZoneInfo, year: int) -> list[datetime]:
    """The minutes, as UTC, from which on the offset is another."""
    found = []
    moment, step = datetime(year, 1, 1, tzinfo=UTC), timedelta(days=7)
    while moment.year == year:
        offset = moment.astimezone(zone).utcoffset()
        if (moment + step).astimezone(zone).utcoffset() != offset:
            before, after = moment, moment + step
            while after - before > timedelta(minutes=1):
                middle = before + (after - before) / 2
                if middle.astimezone(zone).utcoffset() == offset:
                    before = middle
                else:
                    after = middle
            found.append(after.replace(second=0, microsecond=0))
        moment += step
    return found


class Pattern:
    """Minutes and hours, each a list or every one, at every day or on some."""

    def __init__(self, random_: random.Random) -> None:
        self.seconds = random_.choice([None, None, None, [0], [30], [5, 50]])
        self.minutes = random_.choice(
            [None, [random_.choice(MINUTES)], sorted(random_.sample(MINUTES, 2))]
        )
        self.hours = random_.choice(
            [None, [random_.choice(HOURS)], sorted(random_.sample(HOURS, 2))]
        )
        self.weekdays = random_.choice([None, None, [0, 6], [1, 2, 3, 4, 5]])

    def __str__(self) -> str:
        fields = [_field(self.minutes), _field(self.hours), "*", "*", _field(self.weekdays)]
        return " ".join(fields if self.seconds is None else [_field(self.seconds), *fields])

    def has_day(self, day: date) -> bool:
        return self.weekdays is None or day.isoweekday() % 7 in self.weekdays

    def has(self, local: datetime) -> bool:
        return (
            (self.minutes is None or local.minute in self.minutes)
            and (self.hours is None or local.hour in self.hours)
            and self.has_day(local.date())
        )


def _field(values: list[int] | None) -> str:
    return "*" if values is None else ",".join(map(str, values))


def expected(pattern: Pattern, zone: ZoneInfo, begin: datetime) -> list[datetime]:
    walls = pattern.minutes is not None and pattern.hours is not None
    minutes = (by_walls if walls else by_minutes)(pattern, zone, begin)
    found: list[datetime] = []
    for minute in minutes:
        for second in pattern.seconds or [0]:
            moment = minute + timedelta(seconds=second)
            if moment > begin and moment not in found:
                found.append(moment)
        if len(found) >= SLOTS + 4:  # those of a day may not be in order around a gap
            return sorted(found)[:SLOTS]
    raise AssertionError


def by_minutes(pattern: Pattern, zone: ZoneInfo, begin: datetime) -> Iterator[datetime]:
    """Every hour is every hour: whatever the wall shows, as often as it shows it."""
    moment = begin.replace(second=0)
    while True:
        local = moment.astimezone(zone)
        if pattern.has(local):
            yield moment
        rare = not pattern.has_day(local.date()) and local.hour < 22
        moment += timedelta(minutes=60 - local.minute if rare else 1)


def by_walls(pattern: Pattern, zone: ZoneInfo, begin: datetime) -> Iterator[datetime]:
    """A time of day comes once a day: in a gap at its end, where it comes twice the first time."""
    day = begin.astimezone(zone).date() - timedelta(days=1)
    assert pattern.hours is not None
    assert pattern.minutes is not None
    while True:
        if pattern.has_day(day):
            for hour in pattern.hours:
                for minute in pattern.minutes:
                    wall = datetime.combine(day, time(hour, minute), tzinfo=zone)
                    while wall.astimezone(UTC).astimezone(zone).replace(fold=0) != wall:
                        wall += timedelta(minutes=1)
                    yield wall.replace(fold=0).astimezone(UTC)
        day += timedelta(days=1)


Find = Callable[[str, str, datetime], datetime | None]


def differences(samples: int, seed: int, find: Find) -> list[str]:
    chance = random.Random(seed)
    found: list[str] = []
    tried = 0
    while tried < samples:
        name = chance.choice(ZONES)
        zone = ZoneInfo(name)
        changes = transitions(zone, chance.randint(1971, 2037))
        for change in changes:
            for _ in range(10):
                begin = change - timedelta(seconds=chance.randint(-5_400, 10_800))
                if not _odd(zone, begin):
                    tried += 1
                    found += difference(Pattern(chance), name, begin, find)
    return found


def difference(pattern: Pattern, name: str, begin: datetime, find: Find) -> list[str]:
    actual: list[datetime] = []
    moment = begin
    while len(actual) < SLOTS and (following := find(str(pattern), name, moment)) is not None:
        if following <= moment:
            return [f"{pattern} in {name}: {following} is not behind {moment}"]
        actual.append(following)
        moment = following
    wanted = expected(pattern, ZoneInfo(name), begin)
    if actual == wanted:
        return []
    return [f"{pattern} in {name} after {begin}: {sorted(set(actual) ^ set(wanted))[:3]}"]


def _odd(zone: ZoneInfo, begin: datetime) -> bool:
    """Offsets that are no whole minutes (local mean time): their slots are no whole minutes."""
    around = [begin + timedelta(days=days) for days in (-2, 0, 2, 10)]
    offsets = [moment.astimezone(zone).utcoffset() for moment in around]
    return any(offset is not None and offset.total_seconds() % 60 for offset in offsets)


def test_cron_agrees_with_an_oracle_around_changes_of_the_clocks() -> None:
    wrong = differences(SAMPLES, 17, next_time)
    assert not wrong, f"{len(wrong)} of {SAMPLES}: " + "\n".join(wrong[:10])


@pytest.mark.long
def test_cron_agrees_with_an_oracle_in_the_long_form() -> None:
    assert not differences(200_000, 4, next_time)


def test_a_parser_alone_is_caught_by_the_oracle() -> None:
    """The twin: the parser's own iteration fires 6 fields twice in the hour that comes twice, and
    goes back in time when it begins within it."""

    def alone(text: str, zone: str, after: datetime) -> datetime | None:
        return next(CronSim(text, after.astimezone(ZoneInfo(zone)))).astimezone(UTC)

    assert differences(2_000, 17, alone)


def test_an_hour_that_comes_twice_fires_once_and_a_gap_fires_at_its_end() -> None:
    berlin = "Europe/Berlin"
    before = datetime(2026, 10, 24, 12, tzinfo=UTC)
    first = next_time("30 2 * * *", berlin, before)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert next_time("30 2 * * *", berlin, first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    # begun within the second of the two hours
    assert next_time("30 2 * * *", berlin, datetime(2026, 10, 25, 1, 10, tzinfo=UTC)) == datetime(
        2026, 10, 26, 1, 30, tzinfo=UTC
    )
    gap = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert next_time("30 2 * * *", berlin, gap) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert next_time("15 30 2 * * *", berlin, gap) == datetime(2026, 3, 29, 1, 0, 15, tzinfo=UTC)
    every = next_time("*/30 2 * * *", berlin, datetime(2026, 10, 25, 0, 31, tzinfo=UTC))
    assert every == datetime(2026, 10, 25, 1, 0, tzinfo=UTC)


def test_names_stand_for_expressions() -> None:
    start = datetime(2026, 2, 27, 12, 30, tzinfo=UTC)
    found = {name: next_time(check_cron("cron", name), "UTC", start) for name in cron.NAMES}
    assert found["@hourly"] == datetime(2026, 2, 27, 13, tzinfo=UTC)
    assert found["@daily"] == found["@midnight"] == datetime(2026, 2, 28, tzinfo=UTC)
    assert found["@weekly"] == datetime(2026, 3, 1, tzinfo=UTC)
    assert found["@yearly"] == found["@annually"] == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 characters"),
        ("* * * *", "wrong number of fields"),
        ("61 * * * *", "bad minute"),
        ("* * * * * * *", "wrong number of fields"),
        ("0 0 31 2 *", "day-of-month"),
        ("0 0 30 2 *", "day-of-month"),
        ("0 0 31 4,6 *", "day-of-month"),
        ("@dayly", "did you mean '@daily'"),
        ("@reboot", "is not a name"),
        ("1/0 * * * *", "bad minute"),
        ("0 0 * * 1#2/3", "bad day-of-week"),
        ("a b c d e", "bad minute"),
        ("* " * 150, "characters"),
    ],
)
def test_a_wrong_expression_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said) as refused:
        check_cron("cron", text)
    assert refused.value.field == "cron"


def test_29_february_comes_every_four_years() -> None:
    text = check_cron("cron", "0 0 29 2 *")
    assert next_time(text, "UTC", datetime(2026, 3, 1, tzinfo=UTC)) == datetime(
        2028, 2, 29, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "zone", ["Mars/Base", "Asia/Jakart", "../etc/passwd", "/etc/localtime", "", "x" * 200]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid):
        check_zone("zone", zone)


def test_a_near_zone_is_named() -> None:
    with pytest.raises(Invalid, match="Asia/Jakarta"):
        check_zone("zone", "Asia/Jakart")


@settings(max_examples=500, deadline=200)
@given(st.text(alphabet="0123456789*/,-L#W @SUNMONa", max_size=40))
def test_no_text_makes_another_error_than_invalid(text: str) -> None:
    try:
        written = check_cron("cron", text)
    except Invalid:
        return
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    following = next_time(written, "America/New_York", moment)
    assert following is None or following > moment
