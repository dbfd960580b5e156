"""The audit log: who changed what, before and after, from where. Entries are sealed into a chain, so that tampering shows."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec


class Note(msgspec.Struct, frozen=True):
    """What the log must know of a request besides what it changes; whoever makes the change stores both in one transaction."""

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
    project: int | None
    actor: str
    action: str
    target: str
    before: msgspec.Raw | None
    after: msgspec.Raw | None
    origin: str | None
    request: str | None


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """Closes the entries behind the seal before it, up to and with (last_xact, last_number)."""

    number: int
    last_xact: int
    last_number: int
    entries: int
    digest: bytes
    hash: bytes
    at: datetime
    pruned: bool  # its entries are older than what is kept; the seal itself stays


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of the whole chain found."""

    intact: bool
    seals: int
    entries: int
    problem: str | None
    head: str | None  # the last seal's hash: kept elsewhere, it also shows a log that was replaced as a whole


FIRST = b"\0" * 32


def digest_of(entries: Iterable[AuditEntry]) -> bytes:
    total = hashlib.sha256()
    for entry in entries:
        # The bytes of JSON columns are those that were stored; times as UTC, whatever the session's zone.
        fields: list[Any] = [
            entry.xact,
            entry.number,
            entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
            entry.organization,
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


def link(previous: bytes, digest: bytes, entries: int) -> bytes:
    return hashlib.sha256(previous + digest + entries.to_bytes(8)).digest()
