"""Alert rules from Python: `forge.alerts`."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from taskforge.domain.alert import AlertEntry, AlertRule, AlertRuleEdit, NewAlertRule
from taskforge.operations import alerts as operations
from taskforge.wiring import alerts_of

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class AppAlerts:
    """`forge.alerts`: what the REST API has of them too."""

    def __init__(self, app: "TaskForge") -> None:
        self._app = app

    async def create(self, name: str, kind: str, **options: Any) -> AlertRule:
        """`kind`: failed_jobs, failure_rate, queue_size, oldest_pending, workers_down,
        schedule_missed, circuit_open or upkeep_late. `options`: queue, threshold, window_seconds,
        repeat_seconds, is_paused."""
        engine = await self._app.engine()
        new = NewAlertRule(name=name, kind=kind, **options)
        return await operations.create_rule(engine, alerts_of(engine), engine.home, new)

    async def all(self) -> list[AlertRule]:
        """With what each says now."""
        engine = await self._app.engine()
        return await operations.list_rules(alerts_of(engine), [engine.home])

    async def get(self, name: UUID | str) -> AlertRule:
        engine = await self._app.engine()
        return await operations.find_rule(alerts_of(engine), [engine.home], name)

    async def edit(self, name: UUID | str, /, **options: Any) -> AlertRule:
        """What is not named stays. `options`: as in `create`, and name."""
        engine, old = await self._app.engine(), await self.get(name)
        edit = AlertRuleEdit(**options)
        return await operations.update_rule(engine, alerts_of(engine), old, edit)

    async def pause(self, name: UUID | str) -> AlertRule:
        return await self.edit(name, is_paused=True)

    async def resume(self, name: UUID | str) -> AlertRule:
        return await self.edit(name, is_paused=False)

    async def silence(self, name: UUID | str, seconds: float) -> AlertRule:
        """Tell nobody of it for so long; 0: from now on again."""
        engine, old = await self._app.engine(), await self.get(name)
        return await operations.silence_rule(alerts_of(engine), old, seconds)

    async def delete(self, name: UUID | str) -> None:
        engine, old = await self._app.engine(), await self.get(name)
        await operations.delete_rule(alerts_of(engine), old)

    async def history(self, name: UUID | str | None = None, *, limit: int = 50) -> list[AlertEntry]:
        """What became of alerts, the newest first; of one rule, or of all."""
        engine = await self._app.engine()
        rule = None if name is None else (await self.get(name)).id
        return await operations.list_history(alerts_of(engine), [engine.home], rule, limit=limit)
