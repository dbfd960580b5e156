"""Looks at what alert rules are about, and tells when one fires, goes on firing, or is resolved: an
event, a line in the log, and a line in the history."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.domain.alert import (
    AlertNews,
    AlertRule,
    Judgement,
    judge_rule,
    keep_judgement,
)
from taskforge.domain.errors import StoreUnavailable
from taskforge.operations.alerts import ProjectFigures
from taskforge.ports.engine import Engine
from taskforge.storage.records.alerts import AlertRecords

logger = logging.getLogger("taskforge.alerts")
LOOK_SECONDS = 5.0
AT_ONCE = 200
PRUNED_AT_ONCE = 1_000
HISTORY_DAYS = 90.0
Late = Callable[[], Sequence[str]]


class Alerter(Rounds):
    def __init__(self, engine: Engine, late: Late, seconds: float = LOOK_SECONDS) -> None:
        """`late`: services that should have run by now."""
        super().__init__("alerts", self._look, seconds)
        self._engine = engine
        self._alerts = AlertRecords(engine)
        self._late = late

    async def _look(self, term: Term) -> bool:
        looked = await self.look(term.number)
        return looked == AT_ONCE

    async def look(self, term: int) -> int:
        """At the rules that are due, at most so many; how many those were."""
        now = await self._engine.now()
        due = await self._alerts.due(now, AT_ONCE)
        by_project: dict[int, list[AlertRule]] = {}
        for rule in due:
            by_project.setdefault(rule.project, []).append(rule)
        for project, rules in by_project.items():
            await self.judge(term, project, rules, now)
        if not due:
            before = now - timedelta(days=HISTORY_DAYS)
            await self._alerts.prune_history(term, before, PRUNED_AT_ONCE)
        return len(due)

    async def judge(
        self, term: int, project: int, rules: Sequence[AlertRule], now: datetime
    ) -> None:
        """What rules of one project say. One that cannot be looked at says so, and holds up no
        other."""
        figures = ProjectFigures(self._engine, self._alerts, project, self._late(), now)
        judged: list[tuple[AlertRule, str | None, Judgement]] = []
        for rule in rules:
            try:
                figure, queue = await figures.measure(rule)
            except StoreUnavailable:
                raise
            except Exception as error:
                logger.exception("alert %s of project %d cannot be looked at", rule.name, project)
                judged.append((rule, rule.queue, keep_judgement(rule, repr(error))))
            else:
                judged.append((rule, queue, judge_rule(rule, figure, now)))
        await self._alerts.judge(term, judged, now)
        for rule, _, judgement in judged:
            if judgement.news is not None and not rule.is_silent(now):
                level = logging.INFO if judgement.news is AlertNews.RESOLVED else logging.WARNING
                logger.log(
                    level,
                    "alert %s of project %d %s: %s",
                    rule.name,
                    project,
                    judgement.news,
                    judgement.detail,
                )
