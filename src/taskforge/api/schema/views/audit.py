"""Entries of the audit log, as callers see them."""

import msgspec

from taskforge.api.schema.values import Json, Time
from taskforge.domain.audit import AuditEntry


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    number: int  # counts the organization's own entries
    at: Time
    project: str | None
    actor: str
    action: str
    target: str
    before: Json
    after: Json
    origin: str | None
    request_id: str | None


def audit_view(entry: AuditEntry, projects: dict[int, str]) -> AuditView:
    return AuditView(
        number=entry.organization_number or 0,
        at=entry.at,
        project=None if entry.project is None else projects.get(entry.project, str(entry.project)),
        actor=entry.actor,
        action=entry.action,
        target=entry.target,
        before=entry.before,
        after=entry.after,
        origin=entry.origin,
        request_id=entry.request,
    )
