"""Times as people type them: 90, 90s, 15m, 2h, 3d, or a date and time."""

import re
from datetime import UTC, datetime, timedelta

from taskforge.domain.errors import Invalid

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w|)")


def seconds(field: str, text: str) -> float:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise Invalid(
            field,
            f"is {text!r}",
            "use a number of seconds, or one with a unit such as 90s, 15m, 2h or 3d",
        )
    return float(found[1]) * _UNITS[found[2]]


def instant(field: str, text: str) -> datetime:
    """A date and time; without a zone it is this machine's."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        raise Invalid(
            field,
            f"is {text!r}",
            "use a date and time such as 2026-05-01T09:30 or 2026-05-01T09:30+02:00",
        ) from None


def ago(field: str, text: str) -> datetime:
    """How long ago, or since when."""
    if _DURATION.fullmatch(text.strip().lower()):
        return datetime.now(UTC) - timedelta(seconds=seconds(field, text))
    try:
        return instant(field, text)
    except Invalid:
        raise Invalid(
            field,
            f"is {text!r}",
            "use how long ago (15m, 2h, 3d) or a date and time (2026-05-01T09:30)",
        ) from None
