"""Schedules, slots and nodes as callers see them, and the bodies that make and change schedules."""

from typing import Any
from uuid import UUID

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.node import ClusterNode, ClusterState
from taskforge.domain.schedule import (
    JobTemplate,
    NewSchedule,
    Schedule,
    ScheduleEdit,
    Slot,
    Timing,
    job_template,
)

_KINDS = ("cron", "every_seconds", "at")
_TIMING = Timing.__struct_fields__
_JOB = JobTemplate.__struct_fields__
_UNSET = msgspec.UNSET


class TimingBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """When slots come: exactly one of cron, every_seconds and at."""

    cron: str | None = None
    """5 fields, 6 with seconds first, or a name such as @daily"""
    zone: str = "UTC"
    every_seconds: float | None = None
    at: Time | None = None
    starts_at: Time | None = None
    ends_at: Time | None = None
    jitter_seconds: float = 0.0
    catch_up: str = "once"
    catch_up_limit: int = 100
    overlap: str = "allow"

    def timing(self) -> Timing:
        return Timing(**{name: getattr(self, name) for name in _TIMING})


class NewScheduleBody(TimingBody, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    queue: str
    job_type: str
    payload: Any = msgspec.UNSET
    description: str = ""
    is_paused: bool = False
    declared_by: str | None = None
    """The application whose code has it"""
    priority: int = 0
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    deadline_seconds: float | None = None
    expires_seconds: float | None = None
    tags: list[str] = []
    requires: dict[str, Any] | None = None
    fairness_key: str | None = None

    def new(self) -> NewSchedule:
        return NewSchedule(
            name=self.name,
            description=self.description,
            is_paused=self.is_paused,
            declared_by=self.declared_by,
            timing=self.timing(),
            job=job_template(**{name: getattr(self, name) for name in _JOB}),
        )


class ScheduleEditBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Fields left out stay as they are. One of cron, every_seconds and at takes the place of the
    one that was there."""

    name: str | None = None
    description: str | None = None
    declared_by: str | None = None
    cron: str | None = None
    zone: str | None = None
    every_seconds: float | None = None
    at: Time | None = None
    starts_at: Time | msgspec.UnsetType | None = msgspec.UNSET
    ends_at: Time | msgspec.UnsetType | None = msgspec.UNSET
    jitter_seconds: float | None = None
    catch_up: str | None = None
    catch_up_limit: int | None = None
    overlap: str | None = None
    queue: str | None = None
    job_type: str | None = None
    payload: Any = msgspec.UNSET
    priority: int | None = None
    max_attempts: int | msgspec.UnsetType | None = msgspec.UNSET
    timeout_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    deadline_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    expires_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    tags: list[str] | None = None
    requires: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    fairness_key: str | msgspec.UnsetType | None = msgspec.UNSET

    def edit(self, old: Schedule) -> ScheduleEdit:
        return ScheduleEdit(
            name=self.name,
            description=self.description,
            declared_by=self.declared_by,
            timing=self._timing(old.timing),
            job=self._job(old.job),
        )

    def _given(self, names: tuple[str, ...]) -> dict[str, Any]:
        """What is said; null says something only where a field can be without a value."""
        nullable = ScheduleEditBody.__struct_defaults__
        plain = dict(zip(ScheduleEditBody.__struct_fields__, nullable, strict=True))
        return {
            name: value
            for name in names
            if (value := getattr(self, name)) is not _UNSET
            and not (value is None and plain[name] is None)
        }

    def _timing(self, old: Timing) -> Timing | None:
        given = self._given(_TIMING)
        if not given:
            return None
        kept = {name: getattr(old, name) for name in _TIMING if name not in given}
        if any(name in given for name in _KINDS):
            kept |= {name: None for name in _KINDS if name not in given}
            if old.every_seconds is not None and "starts_at" not in given:
                kept["starts_at"] = None
        return Timing(**(kept | given))

    def _job(self, old: JobTemplate) -> JobTemplate | None:
        given = self._given(_JOB)
        if not given:
            return None
        kept = {name: getattr(old, name) for name in _JOB if name not in given}
        if "requires" in kept:
            kept["requires"] = msgspec.json.decode(old.requires) if old.requires else None
        return job_template(**(kept | given))


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """The payload is null without the permission job:payload; `redacted` tells that apart."""

    id: UUID
    project: str
    name: str
    description: str
    cron: str | None
    zone: str
    every_seconds: float | None
    at: Time | None
    starts_at: Time | None
    ends_at: Time | None
    jitter_seconds: float
    catch_up: str
    catch_up_limit: int
    overlap: str
    queue: str
    job_type: str
    payload: Json
    redacted: bool
    priority: int
    max_attempts: int | None
    timeout_seconds: float | None
    deadline_seconds: float | None
    expires_seconds: float | None
    tags: list[str]
    requires: Json
    fairness_key: str | None
    is_paused: bool
    declared_by: str | None
    next_at: Time | None
    last_slot: Time | None
    last_job: UUID | None
    version: int
    created_at: Time
    updated_at: Time


class SlotView(msgspec.Struct, frozen=True, kw_only=True):
    at: Time
    fired_at: Time
    outcome: str
    job: UUID | None
    detail: str | None
    manual: bool


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    roles: list[str]
    address: str
    host: str
    pid: int
    version: str
    beat_seconds: float
    """How often it is heard of"""
    is_leader: bool
    is_silent: bool
    joined_at: Time
    seen_at: Time
    services: Json


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    term: int
    leader: UUID | None
    since: Time
    now: Time
    """By the store's clock"""
    nodes: list[NodeView]


def schedule_view(
    schedule: Schedule, projects: dict[int, str], *, open_payload: bool
) -> ScheduleView:
    job = msgspec.structs.asdict(schedule.job)
    timing = msgspec.structs.asdict(schedule.timing)
    own = ("id", "name", "description", "is_paused", "declared_by", "next_at", "last_slot")
    stamps = ("last_job", "version", "created_at", "updated_at")
    return ScheduleView(
        **{name: getattr(schedule, name) for name in (*own, *stamps)},
        **timing,
        **job
        | {
            "payload": schedule.job.payload if open_payload else None,
            "requires": msgspec.Raw(schedule.job.requires.encode())
            if schedule.job.requires
            else None,
            "tags": list(schedule.job.tags),
        },
        project=projects[schedule.project],
        redacted=not open_payload,
    )


def slot_view(slot: Slot) -> SlotView:
    return SlotView(**msgspec.structs.asdict(slot))


def cluster_view(state: ClusterState) -> ClusterView:
    return ClusterView(
        term=state.leadership.term,
        leader=state.leadership.node,
        since=state.leadership.since,
        now=state.now,
        nodes=[_node_view(state, node) for node in state.nodes],
    )


def _node_view(state: ClusterState, node: ClusterNode) -> NodeView:
    return NodeView(
        id=node.id,
        name=node.name,
        roles=sorted(node.roles),
        address=node.address,
        host=node.host,
        pid=node.pid,
        version=node.version,
        beat_seconds=node.beat_seconds,
        is_leader=node.id == state.leadership.node,
        is_silent=state.is_silent(node),
        joined_at=node.joined_at,
        seen_at=node.seen_at,
        services=node.upkeep,
    )
