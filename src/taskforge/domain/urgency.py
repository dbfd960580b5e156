"""How urgent a job is by its priority and by how long it has waited: `age_boost` lets it rise,
`priority_pacing` holds it back for a while where there is more to do than slots to do it in.

Both go by the job's turn, the moment in which it became ready. Of one kind of job (a lane) the
oldest is always the most urgent, so a claim that begins with the oldest of each kind is exact. All
times are whole microseconds: claims, `explain` and PostgreSQL count the same steps.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid

HIGHEST = 9
IMMEDIATE = 8
MICROSECONDS = 1_000_000
MOST_PACE_SECONDS = 3_600.0


def should_execute_immediately(priority: int) -> bool:
    """No pacing holds such a job back."""
    return priority >= IMMEDIATE


class Pacing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How long jobs wait at least while more are ready than slots are free."""

    # Those of priority 0 to 2
    low_seconds: float = 30.0
    # Those of priority 3 to 5
    medium_seconds: float = 10.0
    # Those of priority 6 and 7; from 8 on none waits
    high_seconds: float = 5.0

    def seconds(self, priority: int) -> float:
        if should_execute_immediately(priority):
            return 0.0
        if priority >= 6:
            return self.high_seconds
        return self.medium_seconds if priority >= 3 else self.low_seconds


class Urgency(msgspec.Struct, frozen=True):
    """What waiting means to jobs of one priority in a queue that has `age_boost`,
    `priority_pacing` or both."""

    priority: int
    boost: int | None = None  # microseconds until each step
    pace: int = 0  # microseconds, while the project is loaded

    def steps(self, waited: int) -> int:
        """By how many steps a job has risen that has waited for so long."""
        if self.boost is None or waited <= 0:
            return 0
        return min(HIGHEST - self.priority, waited // self.boost)

    def risen_until(self, steps: int, now: int) -> int | None:
        """The last turn of those that have risen by so many steps, or more; None: none ever
        does."""
        if self.boost is None or steps > HIGHEST - self.priority:
            return None
        return now - steps * self.boost

    def held_behind(self, now: int, *, is_loaded: bool) -> int | None:
        """Jobs with a later turn than this are held back; None: none is."""
        return now - self.pace if is_loaded and self.pace else None


def urgency_of(age_boost: float | None, pacing: Pacing | None, priority: int) -> Urgency | None:
    """None where waiting changes nothing."""
    boost = None if age_boost is None or priority >= HIGHEST else _whole(age_boost)
    pace = 0 if pacing is None else _pace(boost, pacing, priority)
    return None if boost is None and not pace else Urgency(priority, boost, pace)


def _pace(boost: int | None, pacing: Pacing, priority: int) -> int:
    """A job that rises meanwhile waits no longer than one of the priority that it goes as."""
    if boost is None:
        return _whole(pacing.seconds(priority))
    return min(
        max(steps * boost, _whole(pacing.seconds(priority + steps)))
        for steps in range(HIGHEST - priority + 1)
    )


def _whole(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


def parse_pacing(field: str, value: Any) -> Pacing:
    if isinstance(value, Pacing):
        value = msgspec.structs.asdict(value)
    if not isinstance(value, Mapping):
        raise Invalid(
            field,
            f"is {value!r}, not an object",
            'use {} for 30, 10 and 5 s, or {"low_seconds": 60}',
        )
    for name in value:
        if name not in _CHECKS:
            raise rules.unknown(field, name, tuple(_CHECKS))
    pacing = Pacing(
        **{
            name: _CHECKS[name](f"{field}.{name}", given)
            for name, given in value.items()
            if given is not None
        }
    )
    for more, less in (("medium_seconds", "low_seconds"), ("high_seconds", "medium_seconds")):
        if getattr(pacing, more) > getattr(pacing, less):
            raise Invalid(
                f"{field}.{more}",
                f"is {getattr(pacing, more):g}, more than {less}",
                f"use at most {getattr(pacing, less):g}: no job waits longer than one that is "
                f"less urgent",
            )
    return pacing


def _seconds(field: str, value: Any) -> float:
    return rules.number(field, value, 0, MOST_PACE_SECONDS)


_CHECKS: dict[str, Callable[[str, Any], float]] = {
    "low_seconds": _seconds,
    "medium_seconds": _seconds,
    "high_seconds": _seconds,
}
