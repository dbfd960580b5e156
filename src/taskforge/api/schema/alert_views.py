"""Alert rules and what became of them as callers see them, and the bodies that make and change
rules."""

from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.alert import AlertEntry, AlertRule, AlertRuleEdit, NewAlertRule

_UNSET = msgspec.UNSET


class NewAlertRuleBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    kind: str
    """failed_jobs, failure_rate, queue_size, oldest_pending, workers_down, schedule_missed,
    circuit_open or upkeep_late"""
    queue: str | None = None
    """A queue's name or id; null: every queue of the project"""
    threshold: float | None = None
    """It fires when what it looks at is as much; null: as is usual for its kind"""
    window_seconds: float = 300.0
    """Over how long failures are counted"""
    repeat_seconds: float = 3_600.0
    """How often it is told again while it fires; 0: never"""
    is_paused: bool = False

    def new(self) -> NewAlertRule:
        return NewAlertRule(**{name: getattr(self, name) for name in self.__struct_fields__})


class AlertRuleEditBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Fields left out stay as they are."""

    name: str | msgspec.UnsetType = _UNSET
    queue: str | msgspec.UnsetType | None = _UNSET
    threshold: float | msgspec.UnsetType = _UNSET
    window_seconds: float | msgspec.UnsetType = _UNSET
    repeat_seconds: float | msgspec.UnsetType = _UNSET
    is_paused: bool | msgspec.UnsetType = _UNSET

    def edit(self) -> AlertRuleEdit:
        return AlertRuleEdit(**{name: getattr(self, name) for name in self.__struct_fields__})


class SilenceBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    seconds: float
    """For how long nobody is told; 0: from now on again"""


class AlertRuleView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project: str
    name: str
    kind: str
    queue: str | None
    threshold: float
    window_seconds: float
    repeat_seconds: float
    is_paused: bool
    silenced_until: Time | None
    is_firing: bool
    since: Time | None
    """Since when it fires, or when it was resolved"""
    value: float | None
    """What it looks at, when it last did"""
    detail: str | None
    checked_at: Time | None
    version: int
    created_at: Time
    updated_at: Time


class AlertEntryView(msgspec.Struct, frozen=True, kw_only=True):
    rule: UUID
    name: str
    at: Time
    news: str
    """fired, repeated or resolved"""
    value: float | None
    detail: str
    is_silent: bool
    """Nobody was told: the rule was silenced"""


def alert_rule_view(rule: AlertRule, projects: dict[int, str]) -> AlertRuleView:
    own = [name for name in AlertRuleView.__struct_fields__ if name != "project"]
    return AlertRuleView(
        project=projects[rule.project], **{name: getattr(rule, name) for name in own}
    )


def alert_entry_view(entry: AlertEntry) -> AlertEntryView:
    return AlertEntryView(
        **{name: getattr(entry, name) for name in AlertEntryView.__struct_fields__}
    )
