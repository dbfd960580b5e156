"""Alerts: rules about a project, and what each of them says now."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.versions import mark_of

MOST_RULES = 1_000  # of one project
CHECK_SECONDS = 15.0
LEAST_EXECUTIONS = 10  # below that a share of failures says nothing
MOST_SECONDS = 30 * 86_400.0


class AlertKind(StrEnum):
    """What a rule looks at."""

    FAILED_JOBS = "failed_jobs"
    FAILURE_RATE = "failure_rate"
    QUEUE_SIZE = "queue_size"
    OLDEST_PENDING = "oldest_pending"
    WORKERS_DOWN = "workers_down"
    SCHEDULE_MISSED = "schedule_missed"
    CIRCUIT_OPEN = "circuit_open"
    UPKEEP_LATE = "upkeep_late"


class AlertNews(StrEnum):
    """What became of an alert."""

    FIRED = "fired"
    REPEATED = "repeated"
    RESOLVED = "resolved"


class KindOfAlert(msgspec.Struct, frozen=True):
    """What there is to say of a kind."""

    threshold: float  # unless the rule says otherwise
    what: str  # with a number before it
    by_queue: bool = False  # whether it may be about one queue
    over_window: bool = False  # whether it counts what happened in a window
    most: float = 1e9


KINDS: dict[AlertKind, KindOfAlert] = {
    AlertKind.FAILED_JOBS: KindOfAlert(10, "jobs failed for good", by_queue=True, over_window=True),
    AlertKind.FAILURE_RATE: KindOfAlert(
        50, "% of executions failed", by_queue=True, over_window=True, most=100
    ),
    AlertKind.QUEUE_SIZE: KindOfAlert(1_000, "jobs are pending", by_queue=True),
    AlertKind.OLDEST_PENDING: KindOfAlert(
        300, "s is the age of the oldest pending job", by_queue=True, most=MOST_SECONDS
    ),
    AlertKind.WORKERS_DOWN: KindOfAlert(300, "s since a worker was heard of", most=MOST_SECONDS),
    AlertKind.SCHEDULE_MISSED: KindOfAlert(
        60, "s is a schedule behind its time", most=MOST_SECONDS
    ),
    AlertKind.CIRCUIT_OPEN: KindOfAlert(1, "circuits are open"),
    AlertKind.UPKEEP_LATE: KindOfAlert(1, "services of the platform are late"),
}


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, and what it says now. It fires when what it looks at reaches the threshold, and is
    resolved when that falls below."""

    number: int
    id: UUID
    project: int
    name: str
    kind: AlertKind
    queue_id: UUID | None  # None: every queue of the project
    queue: str | None  # its name when it was last looked at
    threshold: float
    window_seconds: float
    repeat_seconds: float  # 0: never
    is_paused: bool
    silenced_until: datetime | None
    is_firing: bool
    since: datetime | None  # it fires, or was resolved
    value: float | None  # when it was last looked at
    detail: str | None
    told_at: datetime | None
    checked_at: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def mark(self) -> str:
        return mark_of(self.id, self.version)

    def is_silent(self, now: datetime) -> bool:
        return self.silenced_until is not None and now < self.silenced_until


class NewAlertRule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    queue: str | None = None
    queue_id: UUID | None = None
    threshold: float | None = None
    window_seconds: float = 300.0
    repeat_seconds: float = 3_600.0
    is_paused: bool = False


class AlertRuleEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is UNSET stays."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType | None = msgspec.UNSET
    queue_id: UUID | msgspec.UnsetType | None = msgspec.UNSET
    threshold: float | msgspec.UnsetType = msgspec.UNSET
    window_seconds: float | msgspec.UnsetType = msgspec.UNSET
    repeat_seconds: float | msgspec.UnsetType = msgspec.UNSET
    is_paused: bool | msgspec.UnsetType = msgspec.UNSET
    silenced_until: datetime | msgspec.UnsetType | None = msgspec.UNSET


class AlertEntry(msgspec.Struct, frozen=True):
    """One line of the history of alerts."""

    number: int
    rule: UUID
    name: str
    at: datetime
    news: AlertNews
    value: float | None
    detail: str
    is_silent: bool  # nobody was told


class AlertFigure(msgspec.Struct, frozen=True):
    """What a rule looks at, as it is now; None: there is nothing to go by."""

    value: float | None
    about: str = ""  # whose figure it is


class Judgement(msgspec.Struct, frozen=True):
    """What a rule says from now on, and whether that is news."""

    is_firing: bool
    since: datetime | None
    value: float | None
    detail: str
    told_at: datetime | None
    news: AlertNews | None


def check_new_rule(new: NewAlertRule) -> NewAlertRule:
    """With everything said that it leaves to its kind."""
    kind = _kind(new.kind)
    threshold = KINDS[kind].threshold if new.threshold is None else new.threshold
    return NewAlertRule(
        name=rules.text("name", new.name, most=100),
        kind=kind,
        queue=_queue(kind, new.queue),
        queue_id=new.queue_id,
        threshold=rules.number("threshold", threshold, 0.001, KINDS[kind].most),
        window_seconds=rules.number("window_seconds", new.window_seconds, 60, MOST_SECONDS),
        repeat_seconds=_repeat(new.repeat_seconds),
        is_paused=rules.flag("is_paused", new.is_paused),
    )


def edit_rule(old: AlertRule, edit: AlertRuleEdit, now: datetime) -> AlertRule:
    """The rule as it is from now on. A rule that is paused says nothing; one that begins to look
    at something else begins anew."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": lambda value: rules.text("name", value, most=100),
        "queue": lambda value: _queue(old.kind, value),
        "queue_id": lambda value: value,
        "threshold": lambda value: rules.number("threshold", value, 0.001, KINDS[old.kind].most),
        "window_seconds": lambda value: rules.number("window_seconds", value, 60, MOST_SECONDS),
        "repeat_seconds": _repeat,
        "is_paused": lambda value: rules.flag("is_paused", value),
        "silenced_until": lambda value: value,
    }
    given = {
        name: check(value)
        for name, check in checks.items()
        if (value := getattr(edit, name)) is not msgspec.UNSET
    }
    begins_anew = (
        given.get("is_paused", False) or given.get("queue_id", old.queue_id) != old.queue_id
    )
    if begins_anew:
        given |= {"is_firing": False, "since": None, "value": None, "detail": None, "told_at": None}
    return msgspec.structs.replace(old, **given, version=old.version + 1, updated_at=now)


def judge_rule(rule: AlertRule, measured: AlertFigure, now: datetime) -> Judgement:
    """What the rule says of this. Told is when it fires, now and then while it does, and when it
    is resolved; while it is silenced the history alone is."""
    value = measured.value
    fires = value is not None and value >= rule.threshold
    detail = describe(rule, measured)
    if fires != rule.is_firing:
        news = AlertNews.FIRED if fires else AlertNews.RESOLVED
        return Judgement(fires, now, value, detail, now, news)
    is_due = (
        fires
        and rule.repeat_seconds > 0
        and rule.told_at is not None
        and now >= rule.told_at + timedelta(seconds=rule.repeat_seconds)
    )
    told_at = now if is_due else rule.told_at
    repeated = AlertNews.REPEATED if is_due else None
    return Judgement(fires, rule.since, value, detail, told_at, repeated)


def keep_judgement(rule: AlertRule, error: str) -> Judgement:
    """What the rule said before: what it looks at could not be read."""
    detail = f"it cannot be looked at: {error}"
    return Judgement(rule.is_firing, rule.since, rule.value, detail, rule.told_at, None)


def describe(rule: AlertRule, measured: AlertFigure) -> str:
    kind = KINDS[rule.kind]
    if measured.value is None:
        return "nothing to go by"
    text = f"{measured.value:,.10g} {kind.what}"
    if kind.over_window:
        text += f" in {rule.window_seconds:g} s"
    if measured.about:
        text += f" ({measured.about})"
    return f"{text}; the threshold is {rule.threshold:,.10g}"


def _kind(value: str) -> AlertKind:
    try:
        return AlertKind(value)
    except ValueError:
        raise Invalid("kind", f"is {value!r}", f"use one of {', '.join(AlertKind)}") from None


def _queue(kind: AlertKind, queue: str | None) -> str | None:
    if queue is not None and not KINDS[kind].by_queue:
        raise Invalid("queue", f"is given, but {kind} is about the whole project", "leave it out")
    return queue


def _repeat(value: Any) -> float:
    seconds = rules.number("repeat_seconds", value, 0, MOST_SECONDS)
    if 0 < seconds < 60:
        raise Invalid("repeat_seconds", f"is {seconds:g}", "use at least 60, or 0 for never")
    return seconds
