"""Alert rules as their owners make, see and steer them, and what they look at."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from taskforge.domain import rules
from taskforge.domain.alert import (
    LEAST_EXECUTIONS,
    MOST_SECONDS,
    AlertEntry,
    AlertFigure,
    AlertKind,
    AlertRule,
    AlertRuleEdit,
    NewAlertRule,
    check_new_rule,
)
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, NotFound, nearest
from taskforge.domain.metrics import Period, Subject
from taskforge.domain.query import QueueStats
from taskforge.operations.metrics import read_metrics
from taskforge.operations.naming import find_queue
from taskforge.ports.alerts import AlertRules
from taskforge.ports.engine import AnyEngine, Engine
from taskforge.storage.records.alerts import AlertRecords

NEAREST_AMONG = 1_000
# One that is silent for longer has not gone down just now: it was taken away.
FORGOTTEN_SECONDS = 86_400.0


async def list_rules(
    alerts: AlertRules, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
) -> list[AlertRule]:
    return await alerts.rules(projects, after=after, limit=limit)


async def find_rule(alerts: AlertRules, projects: Sequence[int], name: UUID | str) -> AlertRule:
    """By id, or by name where one project alone has it."""
    found = await alerts.find(projects, name)
    if len(found) > 1:
        raise Invalid("rule", f"{name!r} is in {len(found)} of your projects", "name it by its id")
    if found:
        return found[0]
    known = await alerts.rules(projects, limit=NEAREST_AMONG)
    names = [rule.name for rule in known]
    raise NotFound("alert rule", str(name), nearest=nearest(str(name), names))


async def create_rule(
    engine: AnyEngine,
    alerts: AlertRules,
    project: int,
    new: NewAlertRule,
    note: Note | None = None,
) -> AlertRule:
    new = check_new_rule(new)
    if new.queue is not None:
        queue = await find_queue(engine, new.queue, project)
        new = msgspec.structs.replace(new, queue_id=queue.id, queue=queue.name)
    return await alerts.create(project, new, note)


async def update_rule(
    engine: AnyEngine,
    alerts: AlertRules,
    old: AlertRule,
    edit: AlertRuleEdit,
    note: Note | None = None,
    expected_mark: str | None = None,
) -> AlertRule:
    if edit.queue is None:
        edit = msgspec.structs.replace(edit, queue_id=None)
    elif isinstance(edit.queue, str):
        queue = await find_queue(engine, edit.queue, old.project)
        edit = msgspec.structs.replace(edit, queue_id=queue.id, queue=queue.name)
    return await alerts.update(old, edit, note, expected_mark)


async def silence_rule(
    alerts: AlertRules, old: AlertRule, seconds: float, note: Note | None = None
) -> AlertRule:
    """Tell nobody of it for so long; 0: from now on again."""
    rules.number("seconds", seconds, 0, MOST_SECONDS)
    return await alerts.silence(old, seconds, note)


async def delete_rule(
    alerts: AlertRules, old: AlertRule, note: Note | None = None, expected_mark: str | None = None
) -> None:
    await alerts.delete(old, note, expected_mark)


async def list_history(
    alerts: AlertRules, projects: Sequence[int], rule: UUID | None = None, *, limit: int = 50
) -> list[AlertEntry]:
    return await alerts.history(projects, rule, limit=limit)


async def page_history(
    alerts: AlertRecords,
    projects: Sequence[int],
    rule: UUID | None,
    *,
    before: int | None,
    limit: int,
) -> list[AlertEntry]:
    """The same of a store, before the number of an entry."""
    return await alerts.history(projects, rule, before=before, limit=limit)


class ProjectFigures:
    """What the rules of one project look at, each read at most once."""

    def __init__(
        self,
        engine: Engine,
        alerts: AlertRecords,
        project: int,
        late: Sequence[str],
        now: datetime,
    ) -> None:
        """`late`: services of the platform that should have run by now."""
        self._engine = engine
        self._alerts = alerts
        self._project = project
        self._late = late
        self._now = now
        self._stats: dict[UUID, QueueStats] | None = None

    async def measure(self, rule: AlertRule) -> tuple[AlertFigure, str | None]:
        """What the rule looks at, and the name of its queue."""
        queue: str | None = None
        if rule.queue_id is not None:
            stats = (await self._read_stats()).get(rule.queue_id)
            if stats is None:
                return AlertFigure(None, "its queue was deleted"), rule.queue
            queue = stats.queue
        return await self._measure(rule), queue

    async def _measure(self, rule: AlertRule) -> AlertFigure:
        match rule.kind:
            case AlertKind.FAILED_JOBS | AlertKind.FAILURE_RATE:
                return await self._measure_failures(rule)
            case AlertKind.QUEUE_SIZE:
                return self._worst(rule, await self._read_stats(), "pending")
            case AlertKind.OLDEST_PENDING:
                return self._worst(rule, await self._read_stats(), "oldest_pending_seconds")
            case AlertKind.WORKERS_DOWN:
                return await self._measure_silence()
            case AlertKind.SCHEDULE_MISSED:
                return await self._measure_schedules()
            case AlertKind.CIRCUIT_OPEN:
                found = await self._alerts.open_circuits(self._project)
                return AlertFigure(float(found.count), found.name or "")
            case AlertKind.UPKEEP_LATE:
                return AlertFigure(float(len(self._late)))

    async def _read_stats(self) -> dict[UUID, QueueStats]:
        if self._stats is None:
            stats = await self._engine.stats([self._project])
            self._stats = {one.queue_id: one for one in stats}
        return self._stats

    def _worst(self, rule: AlertRule, stats: dict[UUID, QueueStats], field: str) -> AlertFigure:
        asked = [stats[rule.queue_id]] if rule.queue_id is not None else list(stats.values())
        worst = max(asked, key=lambda one: getattr(one, field) or 0.0, default=None)
        if worst is None:
            return AlertFigure(0.0)
        return AlertFigure(round(float(getattr(worst, field) or 0.0), 3), f"queue {worst.queue}")

    async def _measure_failures(self, rule: AlertRule) -> AlertFigure:
        subject = Subject(queue=rule.queue_id)
        period = Period(last_seconds=rule.window_seconds)
        figures = (await read_metrics(self._engine, [self._project], subject, period)).totals
        about = "" if rule.queue is None else f"queue {rule.queue}"
        if rule.kind is AlertKind.FAILED_JOBS:
            return AlertFigure(float(figures.failed_for_good + figures.dead_letter), about)
        ran = figures.succeeded + figures.failed
        if ran < LEAST_EXECUTIONS:
            return AlertFigure(None)
        return AlertFigure(round(100 * figures.failed / ran, 3), about)

    async def _measure_silence(self) -> AlertFigure:
        since = self._now - timedelta(seconds=FORGOTTEN_SECONDS)
        silent = await self._alerts.most_silent(self._project, since)
        if silent is None:
            return AlertFigure(0.0)
        seconds = max(0.0, (self._now - silent.heartbeat_at).total_seconds())
        return AlertFigure(round(seconds, 1), f"worker {silent.name}")

    async def _measure_schedules(self) -> AlertFigure:
        overdue = await self._alerts.most_overdue(self._project)
        if overdue is None:
            return AlertFigure(0.0)
        seconds = max(0.0, (self._now - overdue.due_at).total_seconds())
        return AlertFigure(round(seconds, 3), f"schedule {overdue.name}" if seconds else "")
