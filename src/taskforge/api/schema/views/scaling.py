"""Scaling policies as callers see them, and the bodies that make and change them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from taskforge.api.schema.values import Time
from taskforge.domain.queue_scaling import (
    AdvisedScaling,
    QueueScaling,
    ScalingEntry,
    ScalingPoint,
)
from taskforge.domain.scaling import ScalingPolicy, ScalingSight
from taskforge.domain.scaling_windows import ScalingWindow

_UNSET = msgspec.UNSET


class ScalingBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is left out is as it is by itself."""

    max_workers: int
    min_workers: int | msgspec.UnsetType = _UNSET
    target_queue_length: int | msgspec.UnsetType = _UNSET
    """How many jobs there may be for each worker"""
    target_utilization_percent: float | msgspec.UnsetType = _UNSET
    drain_seconds: float | msgspec.UnsetType = _UNSET
    """Within which what is there should be done"""
    scale_up_threshold: int | msgspec.UnsetType = _UNSET
    """More jobs than that, pending and processing: more workers"""
    scale_down_threshold: int | msgspec.UnsetType = _UNSET
    """Fewer jobs than that: fewer workers"""
    scale_up_cooldown_seconds: float | msgspec.UnsetType = _UNSET
    scale_down_cooldown_seconds: float | msgspec.UnsetType = _UNSET
    missing_after_seconds: float | msgspec.UnsetType = _UNSET
    """After which a worker that was asked for and has not come is missing"""
    drain_grace_seconds: float | msgspec.UnsetType = _UNSET
    """How long a drained worker may go on with its jobs before it is stopped all the same"""
    may_stop_any_worker: bool | msgspec.UnsetType = _UNSET
    """Whether also workers may be stopped that the provider did not start"""
    windows: list[ScalingWindow] | msgspec.UnsetType = _UNSET
    """Times at which other bounds hold; the first that holds counts"""
    provider: str | msgspec.UnsetType = _UNSET
    """One that the platform's settings declare, or none: it only advises"""
    is_paused: bool | msgspec.UnsetType = _UNSET
    is_dry_run: bool | msgspec.UnsetType = _UNSET
    """It says what it would do, and does nothing"""


class ScalingEditBody(ScalingBody, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Fields left out stay as they are."""

    max_workers: int | msgspec.UnsetType = _UNSET  # type: ignore[assignment]


def given_fields(body: ScalingBody) -> dict[str, Any]:
    return {
        name: value
        for name in body.__struct_fields__
        if (value := getattr(body, name)) is not _UNSET
    }


class DrainedView(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: UUID
    worker: str
    since: Time
    stopped_at: Time | None
    """When the provider was last told to stop it"""


class ScalingStateView(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy said when it was last looked at, and what is under way."""

    action: str
    """scale_up, scale_down or hold"""
    count: int
    desired: int
    reason: str
    workers: int
    coming: int
    """Workers that were asked for and may still come"""
    missing: int
    """Workers that were asked for and did not come in time"""
    draining: list[DrainedView]
    last_up: Time | None
    last_down: Time | None
    error: str | None
    """What the provider did not do, and why; null: it did what it was asked"""
    retry_at: Time | None
    looked_at: Time | None


class ScalingView(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    queue: str
    queue_id: UUID
    provider: str
    is_paused: bool
    is_dry_run: bool
    min_workers: int
    max_workers: int
    target_queue_length: int
    target_utilization_percent: float
    drain_seconds: float
    scale_up_threshold: int
    scale_down_threshold: int
    scale_up_cooldown_seconds: float
    scale_down_cooldown_seconds: float
    missing_after_seconds: float
    drain_grace_seconds: float
    may_stop_any_worker: bool
    windows: list[ScalingWindow]
    state: ScalingStateView
    version: int
    created_at: Time
    updated_at: Time


class ScalingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a queue and its workers."""

    pending: int
    processing: int
    length: int
    workers: int
    """Online and accepting, that may take its jobs"""
    busy_slots: int
    slots: int
    utilization_percent: float
    jobs_per_second: float | None
    """Of one busy worker, as measured lately; null: nothing was"""
    arrivals_per_second: float


class ScalingEntryView(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    queue_id: UUID
    at: Time
    news: str
    """scale_up, scale_down, would_scale_up, would_scale_down, stopped, kept, missing or failed"""
    count: int
    desired: int
    reason: str
    term: int
    """Of the leader"""
    figures: ScalingFigures | None


class AdviceView(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    queue_id: UUID
    action: str
    """scale_up, scale_down or hold"""
    count: int
    reason: str
    desired: int
    coming: int
    missing: int
    figures: ScalingFigures


class ScalingPointView(msgspec.Struct, frozen=True, kw_only=True):
    at: Time
    desired: int
    actual: int
    coming: int
    draining: int
    length: int
    utilization_percent: float


def scaling_view(scaling: QueueScaling, projects: Mapping[int, str]) -> ScalingView:
    state = scaling.state
    draining = [
        DrainedView(
            worker_id=one.worker, worker=one.name, since=one.since, stopped_at=one.stopped_at
        )
        for one in state.draining
    ]
    told = {
        name: getattr(state, name)
        for name in ScalingStateView.__struct_fields__
        if name not in ("action", "draining")
    }
    figures = {name: getattr(scaling.policy, name) for name in ScalingPolicy.__struct_fields__}
    own = ("queue", "queue_id", "provider", "is_paused", "is_dry_run", "version")
    return ScalingView(
        project=projects[scaling.project],
        **(figures | {"windows": list(scaling.policy.windows)}),
        **{name: getattr(scaling, name) for name in (*own, "created_at", "updated_at")},
        state=ScalingStateView(action=state.action.value, draining=draining, **told),
    )


def figures_view(figures: ScalingSight) -> ScalingFigures:
    return ScalingFigures(
        **{name: getattr(figures, name) for name in ScalingFigures.__struct_fields__}
    )


def entry_view(entry: ScalingEntry) -> ScalingEntryView:
    figures = None if entry.figures is None else figures_view(entry.figures)
    own = {
        name: getattr(entry, name)
        for name in ScalingEntryView.__struct_fields__
        if name not in ("news", "figures")
    }
    return ScalingEntryView(news=entry.news.value, figures=figures, **own)


def advice_view(advised: AdvisedScaling) -> AdviceView:
    advice = advised.advice
    return AdviceView(
        queue=advised.queue,
        queue_id=advised.queue_id,
        action=advice.action.value,
        **{
            name: getattr(advice, name)
            for name in ("count", "reason", "desired", "coming", "missing")
        },
        figures=figures_view(advised.figures),
    )


def point_view(point: ScalingPoint) -> ScalingPointView:
    return ScalingPointView(
        **{name: getattr(point, name) for name in ScalingPointView.__struct_fields__}
    )
