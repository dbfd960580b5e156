"""Reads what happened, and makes of it what is to be sent to webhooks. The place up to which events
were read is kept in the store, and moves in the transaction that keeps the deliveries: a change of
leader leaves none out and makes none twice."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from taskforge.control.leader import Term
from taskforge.control.rounds import Rounds
from taskforge.domain.errors import EventsGone
from taskforge.domain.ids import IdMint
from taskforge.domain.query import CLUSTER, Event
from taskforge.domain.webhook import KEPT_DAYS, MOST_WAITING, is_asked_for
from taskforge.ports.engine import Engine
from taskforge.storage.records.webhook_deliveries import (
    DeliveryRecords,
    NewDelivery,
    NumberedQueue,
    Subscriber,
)

logger = logging.getLogger("taskforge.webhooks")
LOOK_SECONDS = 1.0
PAGE = 500
MOST_AT_ONCE = 1_000  # deliveries of one transaction
MOST_JOBS = 200  # of one delivery
PRUNED_AT_ONCE = 1_000
PRUNE_SECONDS = 60.0
_encode = msgspec.json.Encoder().encode
_Key = tuple[int, str, int, int]


class _Draft:
    """A delivery whose jobs are still being gathered."""

    def __init__(self, subscriber: Subscriber, event: Event, queue: NumberedQueue | None) -> None:
        self.subscriber = subscriber
        self._event = event
        self._queue = queue
        self._jobs: list[UUID] = []

    def add(self, event: Event) -> bool:
        """Whether it has room for the event's jobs."""
        if self._jobs and len(self._jobs) + len(event.jobs) > MOST_JOBS:
            return False
        self._jobs += event.jobs
        self._event = event
        return True

    def delivery(self, identifier: UUID) -> NewDelivery:
        event = self._event
        data: dict[str, Any] = {}
        if event.project != CLUSTER:
            data["project"] = self.subscriber.project_name
        if self._queue is not None:
            data |= {"queue": self._queue.name, "queue_id": self._queue.id}
        if self._jobs:
            data["jobs"] = self._jobs
        if event.worker is not None:
            data["worker"] = event.worker
        if event.details is not None:
            data["details"] = msgspec.Raw(event.details.encode())
        body = {"type": event.topic, "timestamp": event.at, "data": data}
        return NewDelivery(identifier, self.subscriber.number, event.topic, _encode(body).decode())


class WebhookGatherer(Rounds):
    def __init__(self, engine: Engine, seconds: float = LOOK_SECONDS) -> None:
        super().__init__("webhook events", self._gather, seconds)
        self._engine = engine
        self._deliveries = DeliveryRecords(engine)
        self._mint = IdMint()
        self._pruned_at: datetime | None = None

    async def _gather(self, term: Term) -> bool:
        return await self.gather(term.number)

    async def gather(self, term: int) -> bool:
        """From the next events; whether there may be more."""
        await self._prune(term)
        cursor = await self._deliveries.cursor()
        if cursor is None:
            return False
        if not await self._deliveries.any_active():
            await self._deliveries.rest(term)
            return False
        try:
            events = (await self._engine.events(cursor, PAGE)).items
        except EventsGone:
            after = (await self._engine.events(None, 1)).cursor
            logger.warning(
                "events behind %s are no longer kept: webhooks are not told of them", cursor
            )
            await self._deliveries.skip_to(term, cursor, after)
            return True
        if not events:
            return False
        drafts, behind, after = await self._draft(events)
        now = await self._engine.now()
        gathered = [draft.delivery(self._mint()) for draft in drafts]
        await self._deliveries.gather(term, cursor, after, gathered, behind, now)
        for one in behind:
            logger.warning(
                "webhook %s of project %d is switched off: more than %d deliveries wait",
                *(one.name, one.project, MOST_WAITING),
            )
        return len(events) == PAGE or after != events[-1].cursor

    async def _draft(self, events: Sequence[Event]) -> tuple[list[_Draft], list[Subscriber], str]:
        """What is to be sent of the first of these events, webhooks that are too far behind, and
        the cursor of the last event that was looked at."""
        by_project = await self._subscribers(events)
        told_of = {
            event.queue
            for event in events
            if event.queue is not None and event.project in by_project
        }
        queues = await self._deliveries.queues(sorted(told_of)) if told_of else {}
        drafts: list[_Draft] = []
        open_drafts: dict[_Key, _Draft] = {}
        counts: dict[int, int] = {}
        behind: dict[int, Subscriber] = {}
        for event in events:
            queue = None if event.queue is None else queues.get(event.queue)
            for subscriber in by_project.get(event.project, ()):
                if not _wants(subscriber, event, queue):
                    continue
                key = (subscriber.number, event.topic, event.project, event.queue or 0)
                draft = open_drafts.get(key) if event.jobs else None
                if draft is not None and draft.add(event):
                    continue
                counts[subscriber.number] = counts.get(subscriber.number, 0) + 1
                if subscriber.waiting + counts[subscriber.number] > MOST_WAITING:
                    behind[subscriber.number] = subscriber
                    continue
                draft = _Draft(subscriber, event, queue)
                draft.add(event)
                drafts.append(draft)
                open_drafts[key] = draft
            if len(drafts) >= MOST_AT_ONCE:
                return drafts, list(behind.values()), event.cursor
        return drafts, list(behind.values()), events[-1].cursor

    async def _subscribers(self, events: Sequence[Event]) -> dict[int, list[Subscriber]]:
        projects = sorted({event.project for event in events} - {CLUSTER})
        by_project: dict[int, list[Subscriber]] = {}
        for one in await self._deliveries.subscribers(projects) if projects else ():
            by_project.setdefault(one.project, []).append(one)
        if any(event.project == CLUSTER for event in events):
            by_project[CLUSTER] = await self._deliveries.subscribers_of_cluster()
        return by_project

    async def _prune(self, term: int) -> None:
        """Now and then, and at once again where there was much."""
        now = await self._engine.now()
        if self._pruned_at is not None and now < self._pruned_at + timedelta(seconds=PRUNE_SECONDS):
            return
        before = now - timedelta(days=KEPT_DAYS)
        removed = await self._deliveries.prune(term, before, PRUNED_AT_ONCE)
        self._pruned_at = None if removed >= PRUNED_AT_ONCE else now


def _wants(subscriber: Subscriber, event: Event, queue: NumberedQueue | None) -> bool:
    if not is_asked_for(subscriber.kinds, event.topic) or event.at < subscriber.since:
        return False
    if not subscriber.queues or event.queue is None:
        return True  # what is of no queue is not narrowed by queues
    return queue is not None and str(queue.id) in subscriber.queues
