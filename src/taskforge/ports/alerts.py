"""Alert rules: what their owners ask of a store, or of a server in front of one."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from taskforge.domain.alert import AlertEntry, AlertRule, AlertRuleEdit, NewAlertRule
from taskforge.domain.audit import Note


class AlertRules(Protocol):
    # In the order in which they were made, behind this number.
    async def rules(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[AlertRule]: ...
    # By id, or by name in any of these projects.
    async def find(self, projects: Sequence[int], name: UUID | str) -> list[AlertRule]: ...
    # The newest first; of one rule, or of all.
    async def history(
        self, projects: Sequence[int], rule: UUID | None = None, *, limit: int = 50
    ) -> list[AlertEntry]: ...
    async def create(self, project: int, new: NewAlertRule, note: Note | None) -> AlertRule: ...
    # `expected`: the mark of the version that is meant; None: whatever is there.
    async def update(
        self, old: AlertRule, edit: AlertRuleEdit, note: Note | None, expected: str | None = None
    ) -> AlertRule: ...
    # For so many seconds from now; 0: not any more.
    async def silence(self, old: AlertRule, seconds: float, note: Note | None) -> AlertRule: ...
    async def delete(
        self, old: AlertRule, note: Note | None, expected: str | None = None
    ) -> None: ...
