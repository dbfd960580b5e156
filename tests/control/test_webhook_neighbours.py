"""Receivers that are slow, broken or hang, beside those of other tenants: nothing is lost, and
nobody waits for another's receiver."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from taskforge.client.outgoing import OutgoingDoor
from taskforge.control import webhook_sender
from taskforge.control.leader import Term
from taskforge.control.webhook_sender import WebhookSender
from taskforge.domain.addresses import parse_networks
from taskforge.domain.audit import Note
from taskforge.domain.tenancy import Quota
from taskforge.domain.webhook import DeliveryStatus, NewWebhook, Webhook
from taskforge.services import end_tasks
from taskforge.storage.records.kinds import RecordKinds
from tests.support.receiver import Received, WebhookReceiver, answer, receiving
from tests.support.world import World

NOTE = Note("user:ada@example.com", "webhook.create", 1, "127.0.0.1", "r-1")
LOOPBACK = parse_networks("outgoing_networks", "127.0.0.0/8")
BAD_TENANTS, BAD_WEBHOOKS, GOOD_TENANTS, PINGS = 12, 3, 3, 10
HANG_SECONDS = 3.0
LATE_SECONDS = 2.5  # below what one hanging request takes


class Street:
    """Tenants whose receivers behave by the first part of the path."""

    def __init__(self, world: World, receiver: WebhookReceiver, canary: WebhookReceiver) -> None:
        self.records = RecordKinds(world.engine, opened=LOOPBACK)
        self.world, self.receiver, self.canary = world, receiver, canary
        self.arrived: dict[str, float] = {}
        receiver.respond = self._respond

    async def _respond(self, received: Received) -> bytes:
        match received.path.split("/")[1]:
            case "hangs":
                await asyncio.sleep(60)
            case "drips":
                await asyncio.sleep(0.6)
            case "fails":
                return answer(500)
            case "redirects":
                return answer(307, location=self.canary.url("/inside"))
        self.arrived[received.id] = time.monotonic()
        return answer(200)

    async def tenant(self, name: str, paths: list[str]) -> list[Webhook]:
        owner = await self.records.organizations.create(name, NOTE)
        project = await self.records.projects.create(owner.number, "mail", Quota(), NOTE)
        made = []
        for place, path in enumerate(paths):
            new = NewWebhook(name=f"{place}", url=self.receiver.url(path), kinds=["job"])
            made.append((await self.records.webhooks.create(project.number, new, None)).webhook)
        return made

    async def ping(self, webhook: Webhook) -> str:
        return str(await self.records.webhooks.ping(webhook, None))


@pytest.fixture
async def street(world: World) -> AsyncIterator[Street]:
    async with receiving() as receiver, receiving() as canary:
        yield Street(world, receiver, canary)


async def delays_beside(street: Street) -> list[float]:
    """How long pings of good tenants took, while all receivers of bad ones have much to do."""
    good = [
        webhook
        for number in range(GOOD_TENANTS)
        for webhook in await street.tenant(f"good {number}", [f"/works/{number}"])
    ]
    door = OutgoingDoor(LOOPBACK, seconds=HANG_SECONDS)
    sender = WebhookSender(street.world.engine, lambda: door, seconds=0.05)
    for webhook in good:  # so that they are known
        await street.ping(webhook)
    await sender.send_due(0, door)
    ways = ("hangs", "fails", "hangs", "drips", "redirects")
    for number in range(BAD_TENANTS):
        paths = [f"/{ways[(number + place) % 5]}/{number}" for place in range(BAD_WEBHOOKS)]
        for webhook in await street.tenant(f"bad {number}", paths):
            for _ in range(8):
                await street.ping(webhook)
    running = asyncio.create_task(sender.run(Term(0, 1e12, time.monotonic)))
    delays: list[float] = []
    try:
        await street.receiver.wait(len(street.receiver.received) + 5)  # bad ones are under way
        for _ in range(PINGS):
            street.world.clock.advance(0.001)  # they are due after what the others wait for
            sent = {await street.ping(webhook): time.monotonic() for webhook in good}
            async with asyncio.timeout(30):
                while not sent.keys() <= street.arrived.keys():
                    await asyncio.sleep(0.01)
            delays += [street.arrived[ping] - at for ping, at in sent.items()]
    finally:
        await end_tasks(running)
    return sorted(delays)


@pytest.mark.rotates
async def test_receivers_of_others_that_hang_fail_and_redirect_delay_nobody(
    street: Street, figure: Callable[[str], None]
) -> None:
    delays = await delays_beside(street)
    figure(
        f"webhooks of good tenants beside {BAD_TENANTS * BAD_WEBHOOKS} receivers that hang, fail, "
        f"are slow or redirect: n = {len(delays)}, p50 {delays[len(delays) // 2]:.2f} s, "
        f"worst {delays[-1]:.2f} s"
    )
    assert delays[-1] < LATE_SECONDS
    assert street.canary.received == []


@pytest.mark.rotates
async def test_a_sender_that_knows_no_tenants_is_caught(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(webhook_sender, "MOST_LANES", 4)
    for name in ("LANES_OF_ONE", "SLOW_LANES_OF_ONE", "LANES_TO_ONE_HOST", "MOST_SLOW_LANES"):
        monkeypatch.setattr(webhook_sender, name, 1_000)
    monkeypatch.setattr(webhook_sender.WebhookSender, "_is_slow", lambda *_: False)
    delays = await delays_beside(street)
    assert delays[-1] >= LATE_SECONDS


async def test_a_leader_that_cannot_send_says_so_once_something_waits(
    street: Street, caplog: pytest.LogCaptureFixture
) -> None:
    [webhook] = await street.tenant("waits", ["/works"])
    sender = WebhookSender(street.world.engine, lambda: None)
    for pings in range(3):
        assert await sender.look(0, None) == 0
        assert len(caplog.messages) == min(pings, 1)
        await street.ping(webhook)
    assert caplog.messages == ["webhooks wait for a leader with the extra `server` or `client`"]


async def test_an_hour_of_500_loses_nothing_and_delays_no_neighbour(
    street: Street, figure: Callable[[str], None]
) -> None:
    """In virtual time, a delivery a minute for each."""
    [broken] = await street.tenant("broken", ["/fails"])
    [other] = await street.tenant("other", ["/works"])
    clock = street.world.clock
    door = OutgoingDoor(LOOPBACK)
    sender = WebhookSender(street.world.engine, lambda: door, chance=lambda: 0.5)
    wanted, late = set(), 0.0
    began = clock.now()
    for _ in range(60):
        wanted.add(await street.ping(broken))
        prompt = await street.ping(other)
        made = clock.now()
        while prompt not in street.arrived:
            await sender.send_due(0, door)
            late = max(late, (clock.now() - made).total_seconds())
        clock.advance(60)
    assert not wanted & street.arrived.keys()
    street.receiver.respond = receiver_that_works(street)
    while True:
        await sender.send_due(0, door)
        log = await street.records.webhooks.deliveries(broken, limit=200)
        left = [one.due_at for one in log if one.due_at is not None]
        if not left:
            break
        clock.advance(max(1.0, (min(left) - clock.now()).total_seconds()))
    await door.close()
    assert wanted <= street.arrived.keys()
    assert {one.status for one in log} == {DeliveryStatus.DELIVERED}
    ids = [one.id for one in street.receiver.received if one.path == "/fails"]
    hours = (clock.now() - began).total_seconds() / 3_600
    figure(
        f"webhooks through an hour of 500: 0 of n = {len(wanted)} lost, {len(ids)} requests, the "
        f"last delivered {hours - 1:.1f} h after it; a neighbour's 60 at once (late: {late:.0f} s)"
    )
    assert late == 0
    assert hours < 6


def receiver_that_works(street: Street) -> Any:
    async def respond(received: Received) -> bytes:
        street.arrived[received.id] = time.monotonic()
        return answer(200)

    return respond
