"""Sends what waits for webhooks. Each webhook is served by a lane of its own, so that a slow
receiver holds up nobody else; organizations come in turn, and those whose receivers fail or are
slow share a part of the lanes.

What came of a try is kept before the lane goes on. A leader that dies between the two leaves a
delivery that its successor sends again, under the same id."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urlsplit

from taskforge.control.leader import Term
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.rules import storable
from taskforge.domain.signature import sign
from taskforge.domain.targets import TargetFailed, TargetRefused
from taskforge.domain.term import Deposed
from taskforge.domain.webhook import (
    KEPT_CHARACTERS,
    Delivery,
    Try,
    judge_tries,
    next_wait,
    reason_to_switch_off,
)
from taskforge.ports.engine import Engine
from taskforge.services import Periodic, ServiceHealth, end_tasks
from taskforge.storage.records.webhook_deliveries import DeliveryRecords, DueWebhook, Marked

logger = logging.getLogger("taskforge.webhooks")
LOOK_SECONDS = 1.0
BATCH = 20  # deliveries that a lane takes
AT_ONCE = 4  # of them under way
MOST_LANES = 32
MOST_SLOW_LANES = 16  # of receivers that fail, are slow or new
LANES_OF_ONE = 4  # organization
SLOW_LANES_OF_ONE = 2
LANES_TO_ONE_HOST = 2  # of one organization: another's calls to that host are not its affair
SLOW_SECONDS = 2.0
MOST_REMEMBERED = 10_000
_ASKS_FOR_TIME = (429, 503)
_REFUSED = "the address is not one that webhooks may reach"


class TargetAnswer(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def retry_after(self) -> str | None: ...


class Door(Protocol):
    """What sends to addresses that tenants name: `client.outgoing.OutgoingDoor`."""

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> TargetAnswer: ...
    async def close(self) -> None: ...


class WebhookSender:
    name = "webhooks"

    def __init__(
        self,
        engine: Engine,
        make_door: Callable[[], Door | None],
        seconds: float = LOOK_SECONDS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`make_door` returns None where this process cannot send."""
        self._engine = engine
        self._deliveries = DeliveryRecords(engine)
        self._make_door = make_door
        self._seconds = seconds
        self._chance = chance
        self._lanes: dict[int, tuple[DueWebhook, asyncio.Task[None]]] = {}
        self._slow: set[int] = set()  # webhooks whose receivers were slow
        self._ended = asyncio.Event()  # a lane has
        self._has_said_why_not = False
        self._rounds: Periodic | None = None

    async def run(self, term: Term) -> None:
        door = self._make_door()
        self._rounds = rounds = Periodic(
            self.name, lambda: self.look(term.number, door, term.check), seconds=self._seconds
        )
        rounds.begin()
        try:
            while True:
                term.check()
                self._ended.clear()
                await rounds.run_once()
                await self._rest()
        finally:
            await self._stop_lanes()
            if door is not None:
                await door.close()

    def health(self) -> list[ServiceHealth]:
        """Of the last term, if it does not run now."""
        return [] if self._rounds is None else self._rounds.health()

    async def look(
        self, term: int, door: Door | None, check: Callable[[], None] = lambda: None
    ) -> int:
        """Open a lane for each webhook that is due and whose turn it is; how many were opened."""
        if len(self._lanes) >= MOST_LANES:
            return 0
        due = await self._deliveries.due_webhooks(await self._engine.now())
        if door is None:
            if due and not self._has_said_why_not:
                logger.warning("webhooks wait for a leader with the extra `server` or `client`")
                self._has_said_why_not = True
            return 0
        opened = 0
        for webhook in due:
            if self._has_room(webhook):
                lane = self._serve(term, door, webhook, check)
                self._lanes[webhook.number] = webhook, asyncio.create_task(lane)
                opened += 1
        return opened

    async def send_due(self, term: int, door: Door) -> None:
        """All that is due now, for tests."""
        while await self.look(term, door) or self._lanes:
            tasks = [task for _, task in self._lanes.values()]
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._ended.clear()

    def _has_room(self, webhook: DueWebhook) -> bool:
        if webhook.number in self._lanes:
            return False
        others = [other for other, _ in self._lanes.values()]
        own = [other for other in others if other.organization == webhook.organization]
        host = urlsplit(webhook.url).hostname
        if (
            len(others) >= MOST_LANES
            or len(own) >= LANES_OF_ONE
            or sum(urlsplit(other.url).hostname == host for other in own) >= LANES_TO_ONE_HOST
        ):
            return False
        if not self._is_slow(webhook):
            return True
        slow = Counter(other.organization for other in others if self._is_slow(other))
        return slow.total() < MOST_SLOW_LANES and slow[webhook.organization] < SLOW_LANES_OF_ONE

    def _is_slow(self, webhook: DueWebhook) -> bool:
        """Or nothing is known of it that says otherwise."""
        return webhook.failures > 0 or webhook.delivered_at is None or webhook.number in self._slow

    async def _serve(
        self, term: int, door: Door, webhook: DueWebhook, check: Callable[[], None]
    ) -> None:
        try:
            await self._serve_batch(term, door, webhook, check)
        except (Deposed, StoreUnavailable) as error:
            logger.debug("webhook %s is served again: %s", webhook.name, error)
        except Exception:
            logger.exception(
                "webhook %s of project %d is served again", webhook.name, webhook.project
            )
        finally:
            self._lanes.pop(webhook.number, None)
            self._ended.set()

    async def _serve_batch(
        self, term: int, door: Door, webhook: DueWebhook, check: Callable[[], None]
    ) -> None:
        """A few at once, and one alone while it fails; what came of them is kept before others are
        sent."""
        health, at_once = webhook.health, AT_ONCE
        if health.failures:
            at_once = 1
        limit = BATCH if not health.held_until else 1
        due = await self._deliveries.due(webhook.number, await self._engine.now(), limit)
        secrets = await self._deliveries.secrets(webhook.number)
        if secrets is None:
            return
        for start in range(0, len(due), at_once):
            check()
            now = await self._engine.now()
            batch, keys = due[start : start + at_once], secrets.keys(now)
            tries = await asyncio.gather(
                *(self._try(door, webhook, one, keys, now) for one in batch)
            )
            now = await self._engine.now()
            health = judge_tries(health, tries, now)
            off = reason_to_switch_off(health, tries, now)
            marked = [
                Marked(delivery, tried, self._due_again(delivery, tried, now))
                for delivery, tried in zip(batch, tries, strict=True)
            ]
            await self._deliveries.mark(term, webhook, marked, health, off, now)
            self._remember(webhook, tries)
            if off is not None:
                logger.warning(
                    "webhook %s of project %d is switched off: %s",
                    *(webhook.name, webhook.project, off),
                )
            if off is not None or health.held_until is not None:
                return

    async def _try(
        self,
        door: Door,
        webhook: DueWebhook,
        delivery: Delivery,
        keys: Sequence[bytes],
        now: datetime,
    ) -> Try:
        body = bytes(delivery.body)
        headers = {
            "content-type": "application/json",
            **sign(keys, str(delivery.id), now, body),
        }
        began = time.monotonic()
        try:
            answer = await door.post(webhook.url, body, headers)
        except TargetRefused as error:
            # What a name stands for within the platform's network is not for tenants to read.
            logger.info("webhook %s of project %d: %s", webhook.name, webhook.project, error)
            return Try(at=now, seconds=time.monotonic() - began, error=_REFUSED)
        except TargetFailed as error:
            return Try(at=now, seconds=time.monotonic() - began, error=storable(str(error)))
        asked_for = answer.retry_after if answer.status in _ASKS_FOR_TIME else None
        return Try(
            at=now,
            seconds=round(time.monotonic() - began, 3),
            status=answer.status,
            answer=storable(answer.body.decode("utf-8", "replace"))[:KEPT_CHARACTERS],
            retry_after=float(asked_for)
            if asked_for is not None and asked_for.isdecimal()
            else None,
        )

    def _due_again(self, delivery: Delivery, tried: Try, now: datetime) -> datetime | None:
        if tried.is_success:
            return None
        wait = next_wait(delivery.kind, delivery.attempts + 1, self._chance(), tried.retry_after)
        return None if wait is None else now + timedelta(seconds=wait)

    def _remember(self, webhook: DueWebhook, tries: Sequence[Try]) -> None:
        if max(one.seconds for one in tries) > SLOW_SECONDS:
            if len(self._slow) >= MOST_REMEMBERED:
                self._slow.clear()
            self._slow.add(webhook.number)
        else:
            self._slow.discard(webhook.number)

    async def _rest(self) -> None:
        """Until the next look, or until a lane has ended and may be due again."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._ended.wait()
        except TimeoutError:
            return

    async def _stop_lanes(self) -> None:
        await end_tasks(*(task for _, task in self._lanes.values()))
        self._lanes.clear()
