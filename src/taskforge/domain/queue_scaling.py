"""The scaling policy of a queue as it is kept: who its workers come from, what was asked of it and
not seen yet, and what became of it."""

import enum
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.scaling import (
    AskedWorkers,
    ScalingAction,
    ScalingAdvice,
    ScalingPolicy,
    ScalingSight,
    check_policy,
)
from taskforge.domain.scaling_provider import NONE
from taskforge.domain.versions import mark_of

HISTORY_DAYS = 90.0
POINT_DAYS = 3.0
POINT_SECONDS = 15  # a point of the series at most so often, while only the queue's length changes
STEADY_SECONDS = 60  # and at least so often, while there is anything to see
MOST_POINTS = 1_000


class AskedFor(msgspec.Struct, frozen=True, kw_only=True):
    """A wish: workers that a leader decided to ask for. It is written before they are asked for;
    the next leader asks again, for as many above the same number, until it is acknowledged."""

    count: int
    at: datetime
    above: int  # how many the provider had been told to have
    term: int
    given_up: int = 0  # the provider does not mean to have them any more
    is_acknowledged: bool = False
    is_told_missing: bool = False


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is drained, to be stopped once it is empty."""

    worker: UUID
    name: str
    since: datetime
    told_at: datetime | None = None  # since then claims give it nothing more
    stopped_at: datetime | None = None  # the provider was last told to stop it
    # the provider was last told to, and would not; nothing else waits for that
    failed_at: datetime | None = None
    error: str | None = None


class ScalingState(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader knows of a policy, whoever leads."""

    asked: tuple[AskedFor, ...] = ()
    draining: tuple[Drained, ...] = ()
    last_up: datetime | None = None
    last_down: datetime | None = None
    slots: int = 0  # of one worker, when there was one
    # what it said last
    action: ScalingAction = ScalingAction.HOLD
    count: int = 0
    desired: int = 0
    reason: str = ""
    workers: int = 0
    coming: int = 0
    missing: int = 0
    looked_at: datetime | None = None
    # the provider fails
    error: str | None = None
    failures: int = 0
    retry_at: datetime | None = None


class QueueScaling(msgspec.Struct, frozen=True, kw_only=True):
    """A policy and how it fares."""

    number: int  # of its queue
    id: UUID
    project: int
    queue: str
    queue_id: UUID
    is_queue_active: bool
    provider: str
    is_paused: bool
    is_dry_run: bool
    policy: ScalingPolicy
    state: ScalingState
    state_version: int
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def mark(self) -> str:
        return mark_of(self.id, self.version)

    @property
    def only_advises(self) -> bool:
        return self.is_dry_run or self.provider == NONE


class NewScaling(msgspec.Struct, frozen=True, kw_only=True):
    policy: ScalingPolicy
    provider: str = NONE
    is_paused: bool = False
    is_dry_run: bool = False


class ScalingNews(enum.StrEnum):
    """What there is in the history of a policy."""

    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    WOULD_SCALE_UP = "would_scale_up"  # it only advises
    WOULD_SCALE_DOWN = "would_scale_down"
    STOPPED = "stopped"  # a drained worker
    KEPT = "kept"  # a drained worker that somebody let take jobs again
    MISSING = "missing"  # workers that were asked for have not come
    FAILED = "failed"  # the provider did not do what it was asked


class ScalingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the history: what was decided or met, and the figures that were seen."""

    number: int
    queue: str
    queue_id: UUID
    at: datetime
    news: ScalingNews
    count: int
    desired: int
    reason: str
    term: int
    figures: ScalingSight | None


class ScalingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the series for charts; it holds until the next."""

    at: datetime
    desired: int
    actual: int
    coming: int
    draining: int
    length: int
    utilization_percent: float


class AdvisedScaling(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says now, and the figures that it goes by. Nothing is done about it."""

    queue: str
    queue_id: UUID
    advice: ScalingAdvice
    figures: ScalingSight


_STEERING: dict[str, Callable[[Any], Any]] = {
    "provider": lambda value: rules.text("provider", value, most=100),
    "is_paused": lambda value: rules.flag("is_paused", value),
    "is_dry_run": lambda value: rules.flag("is_dry_run", value),
}
SCALING_FIELDS = (*ScalingPolicy.__struct_fields__, *_STEERING)


def check_names(fields: Mapping[str, Any]) -> None:
    for name in fields:
        if name not in SCALING_FIELDS:
            raise rules.unknown("", name, SCALING_FIELDS)


def read_scaling(fields: Mapping[str, Any], old: QueueScaling | None = None) -> NewScaling:
    """A checked policy of what somebody says of it; what is left out is as before, or as it is by
    itself."""
    check_names(fields)
    steering = {name: check(fields[name]) for name, check in _STEERING.items() if name in fields}
    figures = {name: value for name, value in fields.items() if name not in _STEERING}
    if old is not None:
        policy = msgspec.structs.replace(old.policy, **figures)
        before = {name: getattr(old, name) for name in _STEERING}
        return NewScaling(policy=check_policy(policy), **(before | steering))
    if "max_workers" not in figures:
        raise Invalid("max_workers", "is missing", "say how many workers there may be at most")
    return NewScaling(policy=check_policy(ScalingPolicy(**figures)), **steering)


def asked_workers(asked: Iterable[AskedFor]) -> tuple[AskedWorkers, ...]:
    return tuple(AskedWorkers(one.count, one.at) for one in asked)
