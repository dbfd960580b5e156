"""The audit log: the step that leaves an entry with a change, entries of their own, and reading
them."""

from datetime import datetime
from typing import Any

import msgspec

from taskforge.domain.audit import AuditEntry, Note
from taskforge.ports.records import Records, Step


def audit_step(
    note: Note,
    now: datetime,
    target: str,
    *,
    project: int | None = None,
    before: Any = None,
    after: Any = None,
) -> Step:
    """The step that leaves the audit entry of a change, in the change's own transaction."""
    values = (
        now,
        note.organization,
        project,
        note.actor,
        note.action,
        target,
        _json(before),
        _json(after),
        note.origin,
        note.request,
    )
    return Step("add_audit_entry", values)


def _part(text: str | None) -> str:
    """A pattern of what has this in it."""
    if not text:
        return ""
    for letter in "\\%_":
        text = text.replace(letter, "\\" + letter)
    return f"%{text}%"


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


class AuditLog:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def add(
        self, note: Note, target: str, *, project: int | None = None, after: object = None
    ) -> None:
        """An entry of its own, for what is not one transaction: a change of every job that matches
        begins with it."""
        now = await self._records.now()
        await self._records.write([audit_step(note, now, target, project=project, after=after)])

    async def entries(
        self,
        organization: int,
        *,
        before: int | None,
        limit: int,
        action: str | None = None,
        actor: str | None = None,
        target: str | None = None,
    ) -> list[AuditEntry]:
        """Newest first, below the number `before`. `target`: an id, or another part of how they
        name what was changed."""
        values = (organization, before or 2**62, action or "", actor or "", limit, _part(target))
        return await self._records.look(AuditEntry, "audit_entries", *values)
