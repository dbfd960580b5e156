"""What is to be sent to webhooks, as the leader gathers, sends and marks it. Everything that the
leader writes carries its term."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.errors import Stale
from taskforge.domain.webhook import (
    KEPT_ENDED,
    KEPT_TRIES,
    MOST_WAITING,
    Delivery,
    DeliveryStatus,
    Try,
    WebhookHealth,
)
from taskforge.ports.records import Records, Step
from taskforge.storage.records.cluster import held

_encode = msgspec.json.Encoder().encode
TRIMMED_AT_ONCE = 200
TOO_FAR_BEHIND = f"more than {MOST_WAITING:,} deliveries wait"
MANY_DUE = 200


class Subscriber(msgspec.Struct, frozen=True):
    """A webhook as events are looked at for it."""

    number: int
    id: UUID
    name: str
    project: int
    project_name: str
    kinds: frozenset[str]
    queues: frozenset[str]
    since: datetime
    waiting: int


class DueWebhook(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    project: int
    organization: int
    name: str
    url: str
    failures: int
    failing_since: datetime | None
    held_until: datetime | None
    delivered_at: datetime | None

    @property
    def health(self) -> WebhookHealth:
        return WebhookHealth(self.failures, self.failing_since, self.held_until)


class DueReport(msgspec.Struct, frozen=True):
    number: int
    project: int
    project_name: str
    report_seconds: float
    waiting: int


class WebhookSecrets(msgspec.Struct, frozen=True):
    """What requests are signed with; never shown, and not even by `repr`."""

    secret: bytes
    old_secret: bytes | None
    old_secret_until: datetime | None

    def __repr__(self) -> str:
        return "WebhookSecrets(***)"

    def keys(self, now: datetime) -> list[bytes]:
        """The present one first; the one before, while it still signs."""
        if self.old_secret is None or self.old_secret_until is None or now >= self.old_secret_until:
            return [self.secret]
        return [self.secret, self.old_secret]


class NewDelivery(msgspec.Struct, frozen=True):
    id: UUID
    webhook: int
    kind: str
    body: str


class Marked(msgspec.Struct, frozen=True):
    """What came of one try."""

    delivery: Delivery
    tried: Try
    due_at: datetime | None  # None: it is over

    @property
    def status(self) -> DeliveryStatus:
        if self.tried.is_success:
            return DeliveryStatus.DELIVERED
        return DeliveryStatus.FAILED if self.due_at is None else DeliveryStatus.PENDING


class NumberedQueue(msgspec.Struct, frozen=True):
    number: int
    id: UUID
    name: str


class _Cursor(msgspec.Struct, frozen=True):
    cursor: str | None


class _Number(msgspec.Struct, frozen=True):
    number: int


class DeliveryRecords:
    def __init__(self, records: Records) -> None:
        self._records = records

    # --- Gathering ---

    async def cursor(self) -> str | None:
        """Behind which event the next ones are looked at; None: nobody wants to be told."""
        [found] = await self._records.look(_Cursor, "webhook_cursor")
        return found.cursor

    async def any_active(self) -> bool:
        return bool(await self._records.look(_Number, "any_webhook"))

    async def subscribers(self, projects: Sequence[int]) -> list[Subscriber]:
        found = await self._records.look(Subscriber, "subscribers", list(projects))
        return sorted(found, key=lambda one: one.number)

    async def subscribers_of_cluster(self) -> list[Subscriber]:
        return await self._records.look(Subscriber, "subscribers_of_cluster")

    async def queues(self, numbers: Sequence[int]) -> dict[int, NumberedQueue]:
        found = await self._records.look(NumberedQueue, "queues_numbered", list(numbers))
        return {queue.number: queue for queue in found}

    async def rest(self, term: int) -> None:
        """Events need not be looked at while no webhook is active."""
        await self._records.write(
            [held(term), Step("lock_webhook_cursor"), Step("end_webhook_cursor")]
        )

    async def gather(
        self,
        term: int,
        before: str,
        after: str,
        gathered: Sequence[NewDelivery],
        behind: Sequence[Subscriber],
        now: datetime,
    ) -> None:
        """Events up to a cursor become deliveries, all or none. Webhooks that are too far `behind`
        are switched off."""
        moved = partial(Stale, "the events were looked at meanwhile")
        await self._records.write(
            [
                held(term),
                Step("move_webhook_cursor", (before, after), moved),
                *_added(gathered, now),
                *(step for one in behind for step in _switched_off(one, TOO_FAR_BEHIND, now)),
            ]
        )

    async def skip_to(self, term: int, before: str, after: str) -> None:
        """Go on elsewhere: the events between are no longer kept."""
        await self._records.write([held(term), Step("move_webhook_cursor", (before, after))])

    async def due_reports(self, now: datetime, limit: int) -> list[DueReport]:
        return await self._records.look(DueReport, "due_reports", now, limit)

    async def report(
        self,
        term: int,
        reports: Sequence[NewDelivery],
        next_at: Sequence[tuple[int, datetime]],
        now: datetime,
    ) -> None:
        again = [Step("next_report", one) for one in next_at]
        await self._records.write([held(term), *_added(reports, now), *again])

    # --- Sending ---

    async def due_webhooks(self, now: datetime) -> list[DueWebhook]:
        """Where they are many, those of each organization come in turn."""
        found = await self._records.look(DueWebhook, "due_webhooks", now, MANY_DUE)
        if len(found) < MANY_DUE:
            return found
        return await self._records.look(DueWebhook, "turns_of_due_webhooks", now, MANY_DUE)

    async def due(self, webhook: int, now: datetime, limit: int) -> list[Delivery]:
        return await self._records.look(Delivery, "due_deliveries", webhook, now, limit)

    async def secrets(self, webhook: int) -> WebhookSecrets | None:
        found = await self._records.look(WebhookSecrets, "webhook_secrets", webhook)
        return found[0] if found else None

    async def mark(
        self,
        term: int,
        webhook: DueWebhook,
        marked: Sequence[Marked],
        health: WebhookHealth,
        off: str | None,
        now: datetime,
    ) -> None:
        """What came of these tries. `off`: why nothing more is sent there."""
        delivered_at = now if any(one.tried.is_success for one in marked) else None
        fares = (health.failures, health.failing_since, health.held_until, delivered_at)
        await self._records.write(
            [
                held(term),
                Step("mark_webhook", (webhook.number, *fares)),
                *(_marked(one, now) for one in marked),
                Step("trim_webhook_log", (webhook.number, KEPT_ENDED, TRIMMED_AT_ONCE)),
                *(() if off is None else _switched_off(webhook, off, now)),
                Step("due_webhook", (webhook.number,)),
            ]
        )

    # --- Removing ---

    async def prune(self, term: int, before: datetime, limit: int) -> int:
        """Old deliveries, and those of webhooks that are gone; how many those were."""
        steps = [held(term), Step("remove_old_deliveries", (before, limit))]
        gone = await self._records.look(_Number, "removed_webhook")
        for one in gone:
            steps.append(Step("remove_deliveries_of_webhook", (one.number, limit)))
            steps.append(Step("end_removed_webhook", (one.number,)))
        answers = await self._records.write(steps)
        return len(answers[1]) + (len(answers[2]) if gone else 0)


def _added(deliveries: Sequence[NewDelivery], now: datetime) -> list[Step]:
    """In two statements, however many they are."""
    if not deliveries:
        return []
    told = _encode([(one.webhook, one.kind, one.body) for one in deliveries]).decode()
    counts = Counter(one.webhook for one in deliveries)
    ids = b"".join(one.id.bytes for one in deliveries)
    return [
        Step("add_webhook_deliveries", (told, ids, now)),
        Step("wake_webhooks", (_encode(sorted(counts.items())).decode(), now)),
    ]


def _marked(marked: Marked, now: datetime) -> Step:
    tries = [*marked.delivery.read_tries(), marked.tried][-KEPT_TRIES:]
    values = (
        *(marked.delivery.number, marked.delivery.attempts, str(marked.status)),
        *(_encode(tries).decode(), marked.due_at, now if marked.due_at is None else None),
    )
    return Step("mark_webhook_delivery", values)


def _switched_off(webhook: DueWebhook | Subscriber, reason: str, now: datetime) -> list[Step]:
    details: dict[str, Any] = {"webhook": webhook.id, "name": webhook.name, "reason": reason}
    told = ("webhook.disabled", _encode(details).decode(), now)
    return [
        Step("tell_webhook", (webhook.number, *told)),
        Step("switch_off_webhook", (webhook.number, reason, now)),
    ]
