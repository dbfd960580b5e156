"""Scaling policies, what leaders know of them, and what became of them. Every change that a user
asks for leaves its audit entry and its event."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Stale
from taskforge.domain.ids import IdMint
from taskforge.domain.queue import Queue
from taskforge.domain.queue_scaling import (
    HISTORY_DAYS,
    POINT_DAYS,
    NewScaling,
    QueueScaling,
    ScalingEntry,
    ScalingNews,
    ScalingPoint,
    ScalingState,
)
from taskforge.domain.scaling import ScalingPolicy, ScalingSight
from taskforge.domain.versions import check_same
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.cluster import held
from taskforge.storage.records.rows import first

_encode = msgspec.json.Encoder().encode
_policy = msgspec.json.Decoder(ScalingPolicy)
_state = msgspec.json.Decoder(ScalingState)
_figures = msgspec.json.Decoder(ScalingSight)
BEHIND_ALL = 2**62


class _Row(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    project: int
    queue: str
    queue_id: UUID
    is_queue_active: bool
    provider: str
    is_paused: bool
    is_dry_run: bool
    policy: msgspec.Raw
    state: msgspec.Raw
    state_version: int
    version: int
    created_at: datetime
    updated_at: datetime

    def scaling(self) -> QueueScaling:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values |= {"policy": _policy.decode(self.policy), "state": _state.decode(self.state)}
        return QueueScaling(**values)


class _EntryRow(msgspec.Struct, frozen=True):
    number: int
    queue: str
    queue_id: UUID
    at: datetime
    news: ScalingNews
    count: int
    desired: int
    reason: str
    term: int
    figures: msgspec.Raw | None

    def entry(self) -> ScalingEntry:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.figures is not None:
            values["figures"] = _figures.decode(self.figures)
        return ScalingEntry(**values)


class _PointRow(msgspec.Struct, frozen=True):
    second: int
    desired: int
    actual: int
    coming: int
    draining: int
    length: int
    utilization_percent: float

    def point(self) -> ScalingPoint:
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name != "second"}
        return ScalingPoint(at=datetime.fromtimestamp(self.second, UTC), **values)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a leader writes of one look at a policy."""

    scaling: QueueScaling  # as it was read
    state: ScalingState
    entries: tuple[ScalingEntry, ...] = ()
    point: ScalingPoint | None = None
    term: int


class ScalingRecords:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    # --- Reading ---

    async def policies(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[QueueScaling]:
        """In the order in which their queues were made, behind the number of one."""
        found: list[QueueScaling] = []
        for project in projects:
            rows = await self._records.look(_Row, "scaling_policies", project, after, limit)
            found += [row.scaling() for row in rows]
        return sorted(found, key=lambda one: one.number)[:limit]

    async def find(self, queue: UUID) -> QueueScaling | None:
        row = first(await self._records.look(_Row, "scaling_policy", queue))
        return None if row is None else row.scaling()

    async def other_user_of(self, provider: str, queue: UUID) -> QueueScaling | None:
        """Another policy that names this provider."""
        row = first(await self._records.look(_Row, "other_policy_of_provider", provider, queue))
        return None if row is None else row.scaling()

    async def history(
        self,
        projects: Sequence[int],
        queue: UUID | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
    ) -> list[ScalingEntry]:
        upto = BEHIND_ALL if before is None else before
        found: list[_EntryRow] = []
        for project in projects:
            if queue is None:
                found += await self._records.look(
                    _EntryRow, "scaling_history", project, upto, limit
                )
            else:
                found += await self._records.look(
                    _EntryRow, "scaling_history_of_queue", project, queue, upto, limit
                )
        newest = sorted(found, key=lambda row: -row.number)[:limit]
        return [row.entry() for row in newest]

    async def series(
        self, scaling: QueueScaling, since: datetime, until: datetime, step_seconds: int
    ) -> list[ScalingPoint]:
        """One point for every so many seconds in which there was one; the first holds at `since`
        already, where there was one before."""
        first_second, last = int(since.timestamp()), int(until.timestamp())
        of = scaling.number
        points = await self._records.look(
            _PointRow, "scaling_points", of, first_second, last, step_seconds
        )
        before = await self._records.look(_PointRow, "last_scaling_point", of, first_second)
        begun = [msgspec.structs.replace(one, second=first_second) for one in before]
        return [row.point() for row in (*begun, *points)]

    # --- Changing ---

    async def create(self, queue: Queue, new: NewScaling, note: Note | None) -> QueueScaling:
        now = await self._records.now()
        made = QueueScaling(
            number=queue.number,
            id=self._mint(),
            project=queue.project,
            queue=queue.name,
            queue_id=queue.id,
            is_queue_active=queue.is_active,
            **{name: getattr(new, name) for name in NewScaling.__struct_fields__},
            state=ScalingState(),
            state_version=1,
            version=1,
            created_at=now,
            updated_at=now,
        )
        values = (queue.id, queue.project, made.id, *_steering(made), _text(made.policy))
        taken = partial(Conflict, f"queue {queue.name!r} has a scaling policy by now; read it")
        steps = [
            Step("add_scaling_policy", (*values, _text(made.state), now), taken),
            *_told(made, "created", note, now, None, made),
        ]
        await self._records.write(steps)
        return made

    async def update(
        self, old: QueueScaling, new: NewScaling, note: Note | None, expected: str | None = None
    ) -> QueueScaling:
        """`expected`: the mark of the version that is meant; None: whatever is there."""
        check_same(f"the scaling policy of {old.queue!r}", expected, old.mark)
        now = await self._records.now()
        given = {name: getattr(new, name) for name in NewScaling.__struct_fields__}
        made = msgspec.structs.replace(old, **given, version=old.version + 1, updated_at=now)
        values = (old.number, old.version, *_steering(made), _text(made.policy), now)
        steps = [
            Step("update_scaling_policy", values, partial(_stale, old)),
            *_told(made, "updated", note, now, old, made),
        ]
        if made.provider != old.provider:
            made = msgspec.structs.replace(made, state=ScalingState())
            steps.append(Step("forget_scaling_state", (old.number, _text(made.state))))
        await self._records.write(steps)
        return made

    async def delete(
        self, old: QueueScaling, note: Note | None, expected: str | None = None
    ) -> None:
        check_same(f"the scaling policy of {old.queue!r}", expected, old.mark)
        now = await self._records.now()
        version = 0 if expected is None else old.version
        await self._records.write(
            [
                Step("remove_scaling_policy", (old.number, version), partial(_stale, old)),
                Step("remove_scaling_points", (old.number,)),
                *_told(old, "deleted", note, now, old, None),
            ]
        )

    # --- Leading ---

    async def page(self, after: int, limit: int) -> list[QueueScaling]:
        """Of all projects, behind the number of a queue."""
        rows = await self._records.look(_Row, "all_scaling_policies", after, limit)
        return [row.scaling() for row in rows]

    async def save(self, look: Look) -> QueueScaling:
        """Raises `Stale` where the policy was edited, or its state written, since it was read."""
        old = look.scaling
        values = (old.number, old.state_version, _text(look.state), old.version)
        steps = [held(look.term), Step("save_scaling_state", values, partial(_stale, old))]
        steps += [step for entry in look.entries for step in _entry_steps(old, entry)]
        if look.point is not None:
            point = msgspec.structs.asdict(look.point)
            second = int(point.pop("at").timestamp())
            steps.append(Step("add_scaling_point", (old.number, second, *point.values())))
        await self._records.write(steps)
        return msgspec.structs.replace(old, state=look.state, state_version=old.state_version + 1)

    async def prune(self, term: int, now: datetime, limit: int) -> int:
        """Lines and points that are too old, at most so many of each; how many those were."""
        lines = now - timedelta(days=HISTORY_DAYS)
        points = int((now - timedelta(days=POINT_DAYS)).timestamp())
        steps = [
            held(term),
            Step("remove_old_scaling_history", (lines, limit)),
            Step("remove_old_scaling_points", (points, limit)),
        ]
        return sum(len(rows) for rows in (await self._records.write(steps))[1:])


def _entry_steps(scaling: QueueScaling, entry: ScalingEntry) -> list[Step]:
    figures = None if entry.figures is None else _text(entry.figures)
    said = (entry.count, entry.desired, entry.reason, entry.term)
    line = (scaling.project, scaling.queue_id, scaling.queue, entry.at, str(entry.news), *said)
    details = {
        "queue": scaling.queue,
        "queue_id": scaling.queue_id,
        "count": entry.count,
        "desired": entry.desired,
        "reason": entry.reason,
    }
    event = (scaling.project, f"scaling.{entry.news}", _text(details), entry.at)
    return [Step("add_scaling_entry", (*line, figures)), Step("add_event", event)]


def _text(value: Any) -> str:
    return _encode(value).decode()


def _steering(scaling: QueueScaling) -> tuple[str, bool, bool]:
    return scaling.provider, scaling.is_paused, scaling.is_dry_run


def _stale(scaling: QueueScaling) -> Stale:
    return Stale(
        f"the scaling policy of {scaling.queue!r} was changed since it was read; read it again"
    )


def _told(
    scaling: QueueScaling,
    verb: str,
    note: Note | None,
    now: datetime,
    before: QueueScaling | None,
    after: QueueScaling | None,
) -> list[Step]:
    """The event, and the audit entry where there is a note."""
    details = _text({"queue": scaling.queue, "queue_id": scaling.queue_id})
    steps = [Step("add_event", (scaling.project, f"scaling_policy.{verb}", details, now))]
    if note is not None:
        old, new = (None if one is None else _shown(one) for one in (before, after))
        if old is not None and new is not None:
            different = {name for name in old if old[name] != new[name]}
            old = {name: old[name] for name in different}
            new = {name: new[name] for name in different}
        target = f"scaling policy of {scaling.queue} ({scaling.queue_id})"
        steps.append(audit_step(note, now, target, project=scaling.project, before=old, after=new))
    return steps


def _shown(scaling: QueueScaling) -> dict[str, Any]:
    steering = dict(zip(("provider", "is_paused", "is_dry_run"), _steering(scaling), strict=True))
    figures: dict[str, Any] = msgspec.to_builtins(scaling.policy)
    return figures | steering
