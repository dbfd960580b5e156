"""Times at which a scaling policy has other bounds, such as working hours."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from taskforge.domain import rules
from taskforge.domain.cron import check_cron, check_zone, next_time
from taskforge.domain.errors import Invalid

MOST_WINDOWS = 20
MOST_WORKERS = 10_000


class ScalingWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The minutes that a cron expression names, and the bounds that hold in them. `* 8-17 * * 1-5`
    is from 8:00 to 17:59, Monday to Friday."""

    cron: str
    zone: str = "UTC"
    min_workers: int | None = None  # None: as without the window
    max_workers: int | None = None


def read_windows(field: str, value: Any) -> tuple[ScalingWindow, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        example = '[{"cron": "* 8-17 * * 1-5", "min_workers": 2}]'
        raise Invalid(field, "is not a list", f"use a list such as {example}")
    if len(value) > MOST_WINDOWS:
        raise Invalid(field, f"are {len(value):,}", f"use at most {MOST_WINDOWS}")
    return tuple(_read_window(f"{field}[{place}]", one) for place, one in enumerate(value))


def _read_window(field: str, value: Any) -> ScalingWindow:
    if isinstance(value, ScalingWindow):
        window = value
    else:
        try:
            window = msgspec.convert(value, ScalingWindow)
        except msgspec.ValidationError as error:
            expected = "use cron, zone, min_workers and max_workers"
            raise Invalid(field, f"does not fit ({error})", expected) from None
    cron = check_cron(f"{field}.cron", window.cron)
    if len(cron.split()) != 5:
        expected = "use five fields such as * 8-17 * * 1-5: every minute that they name"
        raise Invalid(f"{field}.cron", f"{window.cron!r} names moments", expected)
    check_zone(f"{field}.zone", window.zone)
    for name in ("min_workers", "max_workers"):
        if getattr(window, name) is not None:
            rules.integer(f"{field}.{name}", getattr(window, name), 0, MOST_WORKERS)
    return msgspec.structs.replace(window, cron=cron)


def window_at(windows: Sequence[ScalingWindow], now: datetime) -> ScalingWindow | None:
    """The first one that holds at this time."""
    minute = now.replace(second=0, microsecond=0)
    before = minute - timedelta(seconds=1)
    for window in windows:
        if next_time(window.cron, window.zone, before) == minute:
            return window
    return None
