"""Webhooks as their owners make, see and steer them, and the log of what was sent. Every change
leaves its audit entry and its event; secrets and addresses are in neither."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import msgspec

from taskforge.domain.access import PLATFORM_ORGANIZATION
from taskforge.domain.addresses import Network
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound, Stale
from taskforge.domain.ids import IdMint
from taskforge.domain.signature import new_secret, read_secret
from taskforge.domain.versions import check_same
from taskforge.domain.webhook import (
    MOST_WEBHOOKS,
    PING,
    REPORT,
    Delivery,
    DeliveryStatus,
    MadeWebhook,
    NewWebhook,
    Webhook,
    WebhookEdit,
    check_new_webhook,
    edit_webhook,
    is_asked_for,
    origin_of,
)
from taskforge.ports.events import EventLog
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step

_encode = msgspec.json.Encoder().encode
BEHIND_ALL = 2**62


class WebhookStore(Records, EventLog, Protocol):
    """What webhooks are kept in."""


class _Owner(msgspec.Struct, frozen=True):
    organization: int


class WebhookRecords:
    """Implements the ports `Webhooks` and `WebhookLog` on a store."""

    def __init__(self, records: WebhookStore, opened: Sequence[Network] = ()) -> None:
        """`opened`: networks that webhooks may reach beside the public internet."""
        self._records = records
        self._opened = tuple(opened)
        self._mint = IdMint()

    # --- Reading ---

    async def webhooks(
        self, projects: Sequence[int], *, after: int = 0, limit: int = 1_000
    ) -> list[Webhook]:
        found: list[Webhook] = []
        for project in projects:
            found += await self._records.look(Webhook, "webhooks", project, after, limit)
        return sorted(found, key=lambda one: one.number)[:limit]

    async def find(self, projects: Sequence[int], name: UUID | str) -> list[Webhook]:
        if isinstance(name, UUID):
            rows = await self._records.look(Webhook, "webhook", name)
            return [one for one in rows if one.project in projects]
        found: list[Webhook] = []
        for project in projects:
            found += await self._records.look(Webhook, "webhook_named", project, name)
        return found

    async def deliveries(
        self,
        webhook: Webhook,
        *,
        status: DeliveryStatus | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Delivery]:
        upto = BEHIND_ALL if before is None else before
        values = (webhook.number, upto, "" if status is None else str(status), limit)
        return await self._records.look(Delivery, "webhook_deliveries", *values)

    # --- Changing ---

    async def create(self, project: int, new: NewWebhook, note: Note | None) -> MadeWebhook:
        now, identifier, secret = await self._records.now(), self._mint(), new_secret()
        [owner] = await self._records.look(_Owner, "organization_of_project", project)
        sees_cluster = owner.organization == PLATFORM_ORGANIZATION
        new = check_new_webhook(new, self._opened, sees_cluster=sees_cluster)
        made = Webhook(
            number=0,
            id=identifier,
            project=project,
            organization=owner.organization,
            name=new.name,
            url=new.url,
            description=new.description,
            kinds=frozenset(new.kinds),
            queues=frozenset(new.queues),
            report_seconds=new.report_seconds,
            is_active=new.is_active,
            disabled_reason=None,
            since=now,
            waiting=0,
            failures=0,
            failing_since=None,
            delivered_at=None,
            old_secret_until=None,
            version=1,
            created_at=now,
            updated_at=now,
        )
        values = (
            *(identifier, project, made.name, made.url, made.description),
            *(_words(made.kinds), _words(made.queues), made.report_seconds),
            *(_report_at(made, now), made.is_active, read_secret("secret", secret), now),
            *(owner.organization, sees_cluster),
        )
        answers = await self._records.write(
            [
                Step(
                    "room_for_webhook",
                    (project, MOST_WEBHOOKS),
                    partial(Conflict, f"the project has {MOST_WEBHOOKS} webhooks: the most"),
                ),
                Step(
                    "add_webhook",
                    values,
                    partial(Conflict, f"webhook {made.name!r} already exists"),
                ),
                *(await self._follow_events() if made.is_active else ()),
                *_told(made, "created", note, now, None, made),
            ]
        )
        [(number,)] = answers[1]
        return MadeWebhook(msgspec.structs.replace(made, number=number), secret)

    async def update(
        self, old: Webhook, edit: WebhookEdit, note: Note | None, expected: str | None = None
    ) -> Webhook:
        check_same(f"webhook {old.name!r}", expected, old.mark)
        now = await self._records.now()
        sees_cluster = old.organization == PLATFORM_ORGANIZATION
        new = edit_webhook(old, edit, now, self._opened, sees_cluster=sees_cluster)
        values = (
            *(old.number, old.version, new.name, new.url, new.description),
            *(_words(new.kinds), _words(new.queues), new.report_seconds),
            *(_report_at(new, now), new.is_active, new.disabled_reason, new.since),
            *(new.failures, new.failing_since, now),
        )
        steps = [
            Step("update_webhook", values, partial(_stale, old)),
            Step("due_webhook", (old.number,)),
            *(await self._follow_events() if new.is_active and not old.is_active else ()),
            *_told(new, "updated", note, now, old, new),
        ]
        if new.name != old.name:
            taken = partial(Conflict, f"webhook {new.name!r} already exists")
            steps.insert(0, Step("free_webhook_name", (old.project, new.name), taken))
        await self._records.write(steps)
        return new

    async def rotate(self, old: Webhook, overlap_seconds: float, note: Note | None) -> MadeWebhook:
        now, secret = await self._records.now(), new_secret()
        until = now + timedelta(seconds=overlap_seconds)
        key = read_secret("secret", secret)
        values = (old.number, old.version, key, until, now)
        new = msgspec.structs.replace(
            old, old_secret_until=until, version=old.version + 1, updated_at=now
        )
        await self._records.write(
            [
                Step("rotate_webhook", values, partial(_stale, old)),
                *_told(new, "rotated", note, now, old, new),
            ]
        )
        return MadeWebhook(new, secret)

    async def delete(self, old: Webhook, note: Note | None, expected: str | None = None) -> None:
        check_same(f"webhook {old.name!r}", expected, old.mark)
        now = await self._records.now()
        version = 0 if expected is None else old.version
        await self._records.write(
            [
                Step("remove_webhook", (old.number, version), partial(_stale, old)),
                Step("forget_webhook", (old.number,)),
                *_told(old, "deleted", note, now, old, None),
            ]
        )

    async def ping(self, webhook: Webhook, note: Note | None) -> UUID:
        now, identifier = await self._records.now(), self._mint()
        data = {"webhook": webhook.id, "name": webhook.name}
        body = _encode({"type": PING, "timestamp": now, "data": data}).decode()
        off = partial(Conflict, f"webhook {webhook.name!r} is off; switch it on to send anything")
        await self._records.write(
            [
                Step("add_webhook_delivery", (identifier, webhook.number, PING, body, now), off),
                Step("release_webhook", (webhook.number,)),
                Step("due_webhook", (webhook.number,)),
                *_noted(webhook, note, now, None, {"delivery": identifier}),
            ]
        )
        return identifier

    async def retry(self, webhook: Webhook, delivery: UUID, note: Note | None) -> Delivery:
        found = await self._records.look(Delivery, "webhook_delivery", webhook.number, delivery)
        if not found:
            raise NotFound("delivery", str(delivery))
        if not webhook.is_active:
            raise Conflict(f"webhook {webhook.name!r} is off; switch it on to send anything")
        now = await self._records.now()
        await self._records.write(
            [
                Step("retry_webhook_delivery", (found[0].number, now)),
                Step("release_webhook", (webhook.number,)),
                Step("due_webhook", (webhook.number,)),
                *_noted(webhook, note, now, None, {"delivery": delivery}),
            ]
        )
        status, none = DeliveryStatus.PENDING, None
        return msgspec.structs.replace(
            found[0], status=status, attempts=0, due_at=now, ended_at=none
        )

    async def _follow_events(self) -> list[Step]:
        """From now on events are looked at, if they were not before."""
        cursor = (await self._records.events(None, 1)).cursor
        return [Step("begin_webhook_cursor", (cursor,))]


def _words(words: frozenset[str]) -> str:
    return " ".join(sorted(words))


def _report_at(webhook: Webhook, now: datetime) -> datetime | None:
    if not webhook.is_active or not is_asked_for(webhook.kinds, REPORT):
        return None
    return now + timedelta(seconds=webhook.report_seconds)


def _stale(webhook: Webhook) -> Stale:
    return Stale(f"webhook {webhook.name!r} was changed since it was read; read it again")


def _told(
    webhook: Webhook,
    verb: str,
    note: Note | None,
    now: datetime,
    before: Webhook | None,
    after: Webhook | None,
) -> list[Step]:
    """The event, and the audit entry where there is a note."""
    details = _encode({"webhook": webhook.id, "name": webhook.name}).decode()
    old, new = (None if one is None else _shown(one) for one in (before, after))
    if old is not None and new is not None:
        different = {name for name in old if old[name] != new[name]}
        old = {name: old[name] for name in different}
        new = {name: new[name] for name in different}
    return [
        Step("add_event", (webhook.project, f"webhook.{verb}", details, now)),
        *_noted(webhook, note, now, old, new),
    ]


def _noted(
    webhook: Webhook, note: Note | None, now: datetime, before: Any, after: Any
) -> list[Step]:
    if note is None:
        return []
    target = f"webhook {webhook.name} ({webhook.id})"
    return [audit_step(note, now, target, project=webhook.project, before=before, after=after)]


def _shown(webhook: Webhook) -> dict[str, Any]:
    """What the audit log tells: an address may hold a secret behind its host."""
    return {
        "name": webhook.name,
        "origin": origin_of(webhook.url),
        "address": f"{len(webhook.url)} characters",
        "description": webhook.description,
        "kinds": sorted(webhook.kinds),
        "queues": sorted(webhook.queues),
        "report_seconds": webhook.report_seconds,
        "is_active": webhook.is_active,
        "old_secret_until": webhook.old_secret_until,
    }
