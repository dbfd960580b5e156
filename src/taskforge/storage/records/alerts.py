"""Alert rules, what they say, and what became of them. Every change leaves its audit entry and its
event."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.alert import (
    CHECK_SECONDS,
    MOST_RULES,
    AlertEntry,
    AlertKind,
    AlertRule,
    AlertRuleEdit,
    Judgement,
    NewAlertRule,
    edit_rule,
)
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Stale
from taskforge.domain.ids import IdMint
from taskforge.domain.versions import check_same
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.cluster import held

_encode = msgspec.json.Encoder().encode
_SHOWN = (
    "name",
    "queue",
    "threshold",
    "window_seconds",
    "repeat_seconds",
    "is_paused",
    "silenced_until",
)
BEHIND_ALL = 2**62


class OverdueSchedule(msgspec.Struct, frozen=True):
    name: str
    due_at: datetime


class OpenCircuits(msgspec.Struct, frozen=True):
    count: int
    name: str | None


class SilentWorker(msgspec.Struct, frozen=True):
    name: str
    heartbeat_at: datetime


class AlertRecords:
    """Implements the port `AlertRules` on a store."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    # --- Reading ---

    async def rules(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[AlertRule]:
        found: list[AlertRule] = []
        for project in projects:
            found += await self._records.look(AlertRule, "alert_rules", project, after, limit)
        return sorted(found, key=lambda rule: rule.number)[:limit]

    async def find(self, projects: Sequence[int], name: UUID | str) -> list[AlertRule]:
        if isinstance(name, UUID):
            rows = await self._records.look(AlertRule, "alert_rule", name)
            return [rule for rule in rows if rule.project in projects]
        found: list[AlertRule] = []
        for project in projects:
            found += await self._records.look(AlertRule, "alert_rule_named", project, name)
        return found

    async def history(
        self,
        projects: Sequence[int],
        rule: UUID | None = None,
        *,
        before: int | None = None,
        limit: int = 50,
    ) -> list[AlertEntry]:
        """`before`: only those before this number."""
        upto = BEHIND_ALL if before is None else before
        found: list[AlertEntry] = []
        for project in projects:
            if rule is None:
                found += await self._records.look(AlertEntry, "alert_history", project, upto, limit)
            else:
                found += await self._records.look(
                    AlertEntry, "alert_history_of_rule", project, rule, upto, limit
                )
        return sorted(found, key=lambda entry: -entry.number)[:limit]

    # --- Changing ---

    async def create(self, project: int, new: NewAlertRule, note: Note | None) -> AlertRule:
        """Of what was checked before: `check_new_rule`."""
        now = await self._records.now()
        identifier = self._mint()
        made = AlertRule(
            number=0,
            id=identifier,
            project=project,
            name=new.name,
            kind=AlertKind(new.kind),
            queue_id=new.queue_id,
            queue=new.queue,
            threshold=new.threshold or 0.0,
            window_seconds=new.window_seconds,
            repeat_seconds=new.repeat_seconds,
            is_paused=new.is_paused,
            silenced_until=None,
            is_firing=False,
            since=None,
            value=None,
            detail=None,
            told_at=None,
            checked_at=None,
            version=1,
            created_at=now,
            updated_at=now,
        )
        values = (
            identifier,
            project,
            made.name,
            str(made.kind),
            made.queue_id,
            made.queue,
            made.threshold,
            made.window_seconds,
            made.repeat_seconds,
            made.is_paused,
            None if made.is_paused else now,
            now,
        )
        answers = await self._records.write(
            [
                Step(
                    "room_for_alert_rule",
                    (project, MOST_RULES),
                    partial(Conflict, f"the project has {MOST_RULES:,} alert rules: the most"),
                ),
                Step(
                    "add_alert_rule",
                    values,
                    partial(Conflict, f"alert rule {made.name!r} already exists"),
                ),
                *_told(made, "created", note, now, None, made),
            ]
        )
        [(number,)] = answers[1]
        return msgspec.structs.replace(made, number=number)

    async def update(
        self, old: AlertRule, edit: AlertRuleEdit, note: Note | None, expected: str | None = None
    ) -> AlertRule:
        check_same(f"alert rule {old.name!r}", expected, old.mark)
        now = await self._records.now()
        new = edit_rule(old, edit, now)
        begins_anew = old.since is not None and new.since is None
        values = (
            old.number,
            old.version,
            new.name,
            new.queue_id,
            new.queue,
            new.threshold,
            new.window_seconds,
            new.repeat_seconds,
            new.is_paused,
            new.silenced_until,
            None if new.is_paused else now,
            now,
            begins_anew,
        )
        steps = [
            Step("update_alert_rule", values, partial(_stale, old)),
            *_told(new, "updated", note, now, old, new),
        ]
        if new.name != old.name:
            taken = partial(Conflict, f"alert rule {new.name!r} already exists")
            steps.insert(0, Step("free_alert_rule_name", (old.project, new.name), taken))
        await self._records.write(steps)
        return new

    async def silence(self, old: AlertRule, seconds: float, note: Note | None) -> AlertRule:
        now = await self._records.now()
        until = now + timedelta(seconds=seconds) if seconds > 0 else None
        return await self.update(old, AlertRuleEdit(silenced_until=until), note)

    async def delete(self, old: AlertRule, note: Note | None, expected: str | None = None) -> None:
        check_same(f"alert rule {old.name!r}", expected, old.mark)
        now = await self._records.now()
        version = 0 if expected is None else old.version
        await self._records.write(
            [
                Step("remove_alert_rule", (old.number, version), partial(_stale, old)),
                *_told(old, "deleted", note, now, old, None),
            ]
        )

    # --- Judging ---

    async def due(self, now: datetime, limit: int) -> list[AlertRule]:
        """Those that were not looked at for longest."""
        return await self._records.look(AlertRule, "due_alert_rules", now, limit)

    async def judge(
        self, term: int, judged: Sequence[tuple[AlertRule, str | None, Judgement]], now: datetime
    ) -> None:
        """What these rules say now, each with the name of its queue; with their history, and an
        event where there is news. A rule that was edited meanwhile is left alone."""
        again = now + timedelta(seconds=CHECK_SECONDS)
        steps = [held(term)]
        for rule, queue, judgement in judged:
            said = (judgement.is_firing, judgement.since, judgement.value, judgement.detail)
            values = (rule.number, rule.version, queue, *said, judgement.told_at, now, again)
            steps.append(Step("judge_alert_rule", values))
            if judgement.news is not None:
                steps += _news_steps(rule, judgement, now)
        await self._records.write(steps)

    async def most_overdue(self, project: int) -> OverdueSchedule | None:
        """The schedule that is due for longest, or will be next."""
        found = await self._records.look(OverdueSchedule, "most_overdue_schedule", project)
        return found[0] if found else None

    async def most_silent(self, project: int, since: datetime) -> SilentWorker | None:
        """The worker that was not heard of for longest, since this time."""
        found = await self._records.look(SilentWorker, "longest_silence", project, since)
        return found[0] if found else None

    async def open_circuits(self, project: int) -> OpenCircuits:
        [found] = await self._records.look(OpenCircuits, "open_circuits", project)
        return found

    async def prune_history(self, term: int, before: datetime, limit: int) -> int:
        steps = [held(term), Step("remove_old_alert_history", (before, limit))]
        _, rows = await self._records.write(steps)
        return len(rows)


def _news_steps(rule: AlertRule, judgement: Judgement, now: datetime) -> list[Step]:
    is_silent = rule.is_silent(now)
    line = (now, str(judgement.news), judgement.value, judgement.detail, is_silent)
    steps = [Step("add_alert_entry", (rule.number, rule.version, *line))]
    if not is_silent:
        details = {
            "alert": rule.id,
            "name": rule.name,
            "kind": rule.kind,
            "queue": rule.queue,
            "value": judgement.value,
            "threshold": rule.threshold,
            "detail": judgement.detail,
        }
        said = (f"alert.{judgement.news}", _encode(details).decode(), now)
        steps.append(Step("tell_alert", (rule.number, rule.version, *said)))
    return steps


def _stale(rule: AlertRule) -> Stale:
    return Stale(f"alert rule {rule.name!r} was changed since it was read; read it again")


def _told(
    rule: AlertRule,
    verb: str,
    note: Note | None,
    now: datetime,
    before: AlertRule | None,
    after: AlertRule | None,
) -> list[Step]:
    """The event, and the audit entry where there is a note."""
    details = _encode({"alert": rule.id, "name": rule.name}).decode()
    steps = [Step("add_event", (rule.project, f"alert_rule.{verb}", details, now))]
    if note is not None:
        old, new = (None if one is None else _shown(one) for one in (before, after))
        if old is not None and new is not None:
            different = {name for name in old if old[name] != new[name]}
            old = {name: old[name] for name in different}
            new = {name: new[name] for name in different}
        target = f"alert rule {rule.name} ({rule.id})"
        steps.append(audit_step(note, now, target, project=rule.project, before=old, after=new))
    return steps


def _shown(rule: AlertRule) -> dict[str, Any]:
    return {"kind": rule.kind} | {name: getattr(rule, name) for name in _SHOWN}
