"""The audit log: who changed what, before and after, from where. `audit_chain` seals its entries,
so that tampering shows."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec


class Note(msgspec.Struct, frozen=True):
    """What the log must know of a request besides what it changes; whoever makes the change stores
    both in one transaction."""

    actor: str  # user:ada@example.com, key:tf_3kd9…, system
    action: str  # queue.update, job.cancel, key.create
    organization: int | None = None
    origin: str | None = None  # the address it came from
    request: str | None = None  # its id


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    xact: int  # with `number` the order in which entries are sealed
    number: int
    at: datetime
    organization: int | None
    organization_number: int | None  # counts the organization's own; what its members see
    project: int | None
    actor: str
    action: str
    target: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None
    origin: str | None
    request: str | None


def digest_of(entries: Iterable[AuditEntry]) -> bytes:
    total = hashlib.sha256()
    for entry in entries:
        # The bytes of JSON columns are those that were stored; times as UTC, whatever the session's
        # zone.
        fields: list[Any] = [
            entry.xact,
            entry.number,
            entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
            entry.organization,
            entry.organization_number,
            entry.project,
            entry.actor,
            entry.action,
            entry.target,
            None if entry.before is None else bytes(entry.before).decode(),
            None if entry.after is None else bytes(entry.after).decode(),
            entry.origin,
            entry.request,
        ]
        total.update(hashlib.sha256(msgspec.json.encode(fields)).digest())
    return total.digest()
