"""Webhooks on both engines: what happens becomes deliveries, exactly once; those are sent until
they arrive or are given up; and nobody waits for another's receiver."""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from taskforge.client.outgoing import OutgoingDoor
from taskforge.control import webhook_gatherer
from taskforge.control.reporter import ProjectReporter
from taskforge.control.webhook_gatherer import WebhookGatherer
from taskforge.control.webhook_sender import WebhookSender
from taskforge.domain.addresses import parse_networks
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, Invalid, NotFound, Stale
from taskforge.domain.outcome import Finish, ToFailed, ToSucceeded
from taskforge.domain.term import Deposed
from taskforge.domain.webhook import (
    GIVEN_UP_DAYS,
    MOST_WEBHOOKS,
    WAITS,
    DeliveryStatus,
    MadeWebhook,
    NewWebhook,
    WebhookEdit,
)
from taskforge.operations import webhooks as operations
from taskforge.storage.records.audit_log import AuditLog
from taskforge.storage.records.webhooks import WebhookRecords
from tests.support.receiver import WebhookReceiver, answer, receiving
from tests.support.world import ERROR, World

NOTE = Note("user:ada@example.com", "webhook.create", 1, "127.0.0.1", "r-1")
LOOPBACK = parse_networks("outgoing_networks", "127.0.0.0/8")


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with receiving() as made:
        yield made


@pytest.fixture
async def door() -> AsyncIterator[OutgoingDoor]:
    made = OutgoingDoor(LOOPBACK, seconds=2.0)
    yield made
    await made.close()


class Desk:
    """A project with webhooks, and the leader that serves them."""

    def __init__(self, world: World, door: OutgoingDoor) -> None:
        self.world, self.door = world, door
        self.records = WebhookRecords(world.engine, LOOPBACK)
        self.gatherer = WebhookGatherer(world.engine)
        self.sender = WebhookSender(world.engine, lambda: door, chance=lambda: 0.5)
        self.reporter = ProjectReporter(world.engine)

    async def make(self, url: str, *kinds: str, name: str = "hook", **options: Any) -> MadeWebhook:
        new = NewWebhook(name=name, url=url, kinds=kinds or ("job",), **options)
        engine = self.world.engine
        return await operations.create_webhook(engine, self.records, engine.home, new, NOTE)

    async def turn(self) -> None:
        """Of the leader: all that happened is gathered, and all that is due is sent."""
        while await self.gatherer.gather(0):
            pass
        await self.reporter.report(0)
        await self.sender.send_due(0, self.door)

    async def log(self, name: str = "hook") -> list[tuple[str, str, int]]:
        """The oldest first."""
        [webhook] = await self.records.find([self.world.engine.home], name)
        found = await self.records.deliveries(webhook)
        return [(one.kind, str(one.status), one.attempts) for one in reversed(found)]

    async def end_jobs(self, good: int = 0, bad: int = 0, queue: str = "default") -> None:
        await self.world.enqueue_many(good + bad, queue)
        claimed = await self.world.claim(await self.world.worker(), good + bad)
        await self.world.engine.finish(
            [
                Finish(one.fence, ToSucceeded() if place < good else ToFailed(ERROR, "no"), 0.1)
                for place, one in enumerate(claimed)
            ]
        )


@pytest.fixture
def desk(world: World, door: OutgoingDoor) -> Desk:
    return Desk(world, door)


async def test_what_is_asked_for_is_sent_signed_and_nothing_else(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    made = await desk.make(receiver.url(), "job.failed", "queue")
    await desk.end_jobs(good=2, bad=3)
    await desk.world.queue("mail")
    await desk.turn()
    await desk.turn()
    assert sorted(one.event["type"] for one in receiver.received) == ["job.failed", "queue.created"]
    for one in receiver.received:
        assert one.is_signed_with(made.secret)
        assert one.headers["content-type"] == "application/json"
    [failed] = [one.event for one in receiver.received if one.event["type"] == "job.failed"]
    assert failed["data"]["queue"] == "default"
    assert failed["data"]["project"] == "default"
    assert len(failed["data"]["jobs"]) == 3
    assert {one[1:] for one in await desk.log()} == {("delivered", 1)}


async def test_what_happened_before_is_not_sent(desk: Desk, receiver: WebhookReceiver) -> None:
    await desk.end_jobs(good=1)
    await desk.make(receiver.url())
    await desk.turn()
    assert receiver.received == []
    desk.world.clock.advance(1)
    await desk.end_jobs(good=1)
    await desk.turn()
    assert [one.event["type"] for one in receiver.received] == ["job.succeeded"]


async def test_a_filter_of_queues_narrows_what_is_of_a_queue(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    await desk.world.queue("mail")
    await desk.make(receiver.url(), "job", "worker", queues=["mail"])
    await desk.end_jobs(good=1)
    await desk.end_jobs(good=1, queue="mail")
    await desk.turn()
    told = [(one.event["type"], one.event["data"].get("queue")) for one in receiver.received]
    assert min(told, key=str) == ("job.succeeded", "mail")
    assert {topic for topic, _ in told} == {"job.succeeded", "worker.registered"}
    assert sum(topic == "job.succeeded" for topic, _ in told) == 1


async def test_a_failed_delivery_is_tried_again_under_the_same_id_until_it_is_given_up(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    await desk.make(receiver.url())
    receiver.status = 500
    await desk.end_jobs(good=1)
    await desk.turn()
    for wait in WAITS:
        desk.world.clock.advance(wait - 1)
        before = len(receiver.received)
        await desk.sender.send_due(0, desk.door)
        assert len(receiver.received) == before
        desk.world.clock.advance(1)
        await desk.sender.send_due(0, desk.door)
        assert len(receiver.received) == before + 1
    assert await desk.log() == [("job.succeeded", "failed", 10)]
    assert len({one.id for one in receiver.received}) == 1
    [webhook] = await desk.records.find([desk.world.engine.home], "hook")
    assert (webhook.failures, webhook.waiting, webhook.is_active) == (10, 0, True)
    [delivery] = await desk.records.deliveries(webhook)
    assert [(one.status, one.answer) for one in delivery.read_tries()] == [(500, "as told")] * 10
    # and by hand once more
    receiver.status = 204
    await operations.retry_delivery(desk.records, webhook, delivery.id, NOTE)
    await desk.sender.send_due(0, desk.door)
    assert await desk.log() == [("job.succeeded", "delivered", 1)]
    assert len({one.id for one in receiver.received}) == 1


async def test_a_receiver_that_asks_for_time_gets_it(desk: Desk, receiver: WebhookReceiver) -> None:
    await desk.make(receiver.url())

    async def later(_: Any) -> bytes:
        return answer(429, retry_after="1000")

    receiver.respond = later
    await desk.end_jobs(good=1)
    await desk.turn()
    [webhook] = await desk.records.find([desk.world.engine.home], "hook")
    [delivery] = await desk.records.deliveries(webhook)
    assert delivery.due_at == desk.world.clock.now() + timedelta(seconds=1_000)


async def test_a_receiver_that_fails_for_days_or_is_gone_is_switched_off_and_told_of(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    await desk.make(receiver.url("/watch"), "webhook", name="watch")
    await desk.make(receiver.url("/gone"), name="gone")
    await desk.make(receiver.url("/bad"), name="bad")

    async def respond(received: Any) -> bytes:
        return answer({"/gone": 410, "/bad": 500}.get(received.path, 200))

    receiver.respond = respond
    for _ in range(7):
        await desk.end_jobs(good=1)
        await desk.turn()
        desk.world.clock.advance(GIVEN_UP_DAYS * 86_400 / 6 + 1)
    await desk.turn()
    [bad], [gone] = [await desk.records.find([1], name) for name in ("bad", "gone")]
    assert (bad.is_active, gone.is_active) == (False, False)
    assert bad.disabled_reason == "every delivery has failed for 5 days"
    assert gone.disabled_reason == "the receiver answered 410: it wants no more"
    told = [one.event for one in receiver.received if one.path == "/watch"]
    off = [one["data"]["details"] for one in told if one["type"] == "webhook.disabled"]
    assert {one["name"]: one["reason"] for one in off} == {
        "bad": bad.disabled_reason,
        "gone": gone.disabled_reason,
    }
    with pytest.raises(Conflict, match="is off"):
        await operations.ping_webhook(desk.records, bad, NOTE)
    # what waited is sent once it is on again
    receiver.respond = receiver._respond
    await operations.update_webhook(
        desk.world.engine, desk.records, bad, WebhookEdit(is_active=True), NOTE
    )
    await desk.turn()
    assert {one[1] for one in await desk.log("bad")} <= {"delivered", "failed"}


async def test_a_leader_that_dies_between_sending_and_marking_leaves_it_to_its_successor(
    desk: Desk, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.make(receiver.url())
    await desk.end_jobs(good=1)

    async def die(*_: Any) -> None:
        raise Deposed(0)

    monkeypatch.setattr(desk.sender._deliveries, "mark", die)
    await desk.gatherer.gather(0)
    await desk.sender.look(0, desk.door)
    await receiver.wait(1)
    await desk.sender._stop_lanes()
    assert await desk.log() == [("job.succeeded", "pending", 0)]
    successor = Desk(desk.world, desk.door)
    await successor.turn()
    assert [one.id for one in receiver.received] == [receiver.received[0].id] * 2
    assert receiver.received[0].body == receiver.received[1].body
    assert await desk.log() == [("job.succeeded", "delivered", 1)]


async def test_a_deposed_leader_gathers_and_marks_nothing(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    await desk.make(receiver.url())
    await desk.end_jobs(good=1)
    with pytest.raises(Deposed):
        await desk.gatherer.gather(7)
    assert await desk.log() == []
    await desk.gatherer.gather(0)
    await desk.gatherer.gather(0)
    assert await desk.log() == [("job.succeeded", "pending", 0)]
    await desk.sender.look(7, desk.door)
    await receiver.wait(1)
    await desk.sender.send_due(0, desk.door)
    assert await desk.log() == [("job.succeeded", "delivered", 1)]


async def test_two_gatherers_that_read_the_same_events_make_one_delivery(
    desk: Desk, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.make(receiver.url())
    await desk.end_jobs(good=1)
    late = WebhookGatherer(desk.world.engine)
    cursor = await late._deliveries.cursor()
    await desk.gatherer.gather(0)

    async def read_before() -> str | None:
        return cursor

    monkeypatch.setattr(late._deliveries, "cursor", read_before)
    with pytest.raises(Stale):
        await late.gather(0)
    assert len(await desk.log()) == 1


async def test_a_rotated_secret_signs_beside_the_old_one_for_a_while(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    old = await desk.make(receiver.url())
    new = await operations.rotate_secret(desk.records, old.webhook, 3_600, NOTE)
    assert new.secret != old.secret
    await operations.ping_webhook(desk.records, new.webhook, NOTE)
    await desk.turn()
    desk.world.clock.advance(3_600)
    await operations.ping_webhook(desk.records, new.webhook, NOTE)
    await desk.turn()
    during, after = receiver.received
    assert during.is_signed_with(old.secret)
    assert during.is_signed_with(new.secret)
    assert after.is_signed_with(new.secret)
    assert not after.is_signed_with(old.secret)
    assert during.event["type"] == "ping"


async def test_a_report_comes_as_often_as_is_asked_for(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    await desk.make(receiver.url(), "report", report_seconds=30)
    await desk.end_jobs(good=2, bad=1)
    await desk.world.enqueue_many(4)
    await desk.turn()
    assert receiver.received == []
    for _ in range(3):
        desk.world.clock.advance(30)
        await desk.turn()
    reports = [one.event for one in receiver.received]
    assert [one["type"] for one in reports] == ["report"] * 3
    assert reports[0]["data"] == {
        "project": "default",
        "active": 0,
        "completed": 2,
        "failed": 1,
        "queue_size": 4,
        "scheduled": 0,
        "workers": 0,  # it was not heard of for 30 s
    }


async def test_the_log_tells_how_the_project_fares_where_that_is_wanted(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskforge.report")
    await desk.end_jobs(good=2, bad=1)
    wanted = ProjectReporter(desk.world.engine, log_seconds=60)
    for seconds in (0, 30, 30):
        desk.world.clock.advance(seconds)
        await desk.reporter.write_log()  # it was asked for none
        await wanted.write_log()
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "0 active, 2 completed, 1 failed, 0 in queues, 0 scheduled, 0 workers"
    assert len(told) == 2


async def test_a_network_that_is_closed_again_is_not_reached_and_tenants_read_nothing_of_it(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    made = await desk.make(receiver.url())
    await operations.ping_webhook(desk.records, made.webhook, NOTE)

    async def inside(_host: str, _port: int) -> list[str]:
        return ["10.1.2.3"]

    await desk.make("https://inside.example/", name="inside")
    [other] = await desk.records.find([1], "inside")
    await operations.ping_webhook(desk.records, other, NOTE)
    closed = OutgoingDoor(resolve=inside)
    await desk.sender.send_due(0, closed)
    await closed.close()
    assert receiver.received == []
    for webhook in (made.webhook, other):
        [delivery] = await desk.records.deliveries(webhook)
        [tried] = delivery.read_tries()
        assert (tried.error, tried.status) == (
            "the address is not one that webhooks may reach",
            None,
        )


async def test_a_webhook_that_is_deleted_leaves_nothing(
    desk: Desk, receiver: WebhookReceiver
) -> None:
    made = await desk.make(receiver.url())
    receiver.status = 500
    await desk.end_jobs(good=1)
    await desk.turn()
    await operations.delete_webhook(desk.records, made.webhook, NOTE)
    desk.world.clock.advance(86_400)
    await desk.turn()
    assert len(receiver.received) == 1
    assert await desk.records.deliveries(made.webhook) == []
    assert await desk.gatherer._deliveries.cursor() is None


async def test_what_cannot_be_is_refused(desk: Desk, receiver: WebhookReceiver) -> None:
    with pytest.raises(Invalid, match="did you mean 'worker'"):
        await desk.make(receiver.url(), "workers")
    with pytest.raises(NotFound, match="queue"):
        await desk.make(receiver.url(), queues=["nowhere"])
    with pytest.raises(Invalid, match="which is private"):
        await desk.make("https://10.0.0.1/")
    made = await desk.make(receiver.url())
    with pytest.raises(Conflict, match="already exists"):
        await desk.make(receiver.url())
    edit = WebhookEdit(description="x")
    await operations.update_webhook(desk.world.engine, desk.records, made.webhook, edit, NOTE)
    with pytest.raises(Stale):
        await operations.update_webhook(desk.world.engine, desk.records, made.webhook, edit, NOTE)
    for number in range(MOST_WEBHOOKS - 1):
        await desk.make(receiver.url(), name=f"hook {number}")
    with pytest.raises(Conflict, match="20 webhooks: the most"):
        await desk.make(receiver.url(), name="one too many")
    assert DeliveryStatus.PENDING == "pending"


async def test_jobs_of_a_moment_come_together_and_one_that_is_too_far_behind_is_switched_off(
    desk: Desk, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.make(receiver.url())
    await desk.world.enqueue_many(450)
    worker = await desk.world.worker(max_concurrent_jobs=450)
    for _ in range(3):
        claimed = await desk.world.claim(worker, 150)
        await desk.world.engine.finish([Finish(one.fence, ToSucceeded(), 0.1) for one in claimed])
    await desk.turn()
    bodies = [one.event["data"]["jobs"] for one in receiver.received]
    assert sorted(map(len, bodies)) == [150, 150, 150]
    assert len({job for jobs in bodies for job in jobs}) == 450
    monkeypatch.setattr(webhook_gatherer, "MOST_WAITING", 2)
    for _ in range(4):
        await desk.end_jobs(bad=1)
        await desk.gatherer.gather(0)
    [webhook] = await desk.records.find([1], "hook")
    assert (webhook.is_active, webhook.waiting) == (False, 2)
    assert webhook.disabled_reason == "more than 10,000 deliveries wait"


async def test_neither_secret_nor_address_is_in_the_audit_log_in_events_or_in_the_log(
    desk: Desk, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpcore", "httpcore2", "asyncio"):  # what a user may not switch on
        caplog.set_level(logging.INFO, name)
    made = await desk.make(receiver.url("/a-secret-path"), "webhook")
    gone = await desk.make("http://127.0.0.1:1/a-secret-path", "webhook", name="refused")
    for webhook in (made.webhook, gone.webhook):
        await operations.ping_webhook(desk.records, webhook, NOTE)
    await desk.turn()
    assert receiver.received[0].path == "/a-secret-path"
    assert (await desk.log("refused"))[0][1] == "pending"
    rotated = await operations.rotate_secret(desk.records, made.webhook, 60, NOTE)
    await operations.delete_webhook(desk.records, rotated.webhook, NOTE)
    entries = await AuditLog(desk.world.engine).entries(1, before=None, limit=50)
    text = "".join(str(entry) for entry in entries) + caplog.text
    text += "".join(str(one.body) for one in receiver.received)
    assert "webhook hook" in text
    for secret in (
        made.secret,
        rotated.secret,
        made.secret.removeprefix("whsec_"),
        "a-secret-path",
    ):
        assert secret not in text
    assert "whsec" not in repr(made.webhook)
