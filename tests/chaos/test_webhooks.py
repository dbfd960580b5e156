"""Leaders that are killed while they gather and send: every event arrives, under one id, and no
delivery is made twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taskforge.domain.queue import CreateQueue, UpdateQueue
from taskforge.domain.webhook import NewWebhook
from taskforge.storage.records.webhooks import WebhookRecords
from tests.chaos.fleet import Figure
from tests.chaos.test_leaders import ON_A_STORE, Electorate
from tests.support.receiver import Received, answer, receiving

pytestmark = pytest.mark.rotates
KILLS, EVENTS = 3, 20


@ON_A_STORE
@pytest.mark.timeout(180)
async def test_leaders_that_are_killed_between_sending_and_keeping_send_again_under_the_same_id(
    tmp_path: Path, store: dict[str, str], figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKFORGE_OUTGOING_NETWORKS", "127.0.0.0/8")
    async with (
        receiving() as receiver,
        Electorate(tmp_path, store, "webhooks") as electorate,
    ):
        engine: Any = electorate.engine
        queue = await engine.change_queue(1, CreateQueue(name="told"))
        records = WebhookRecords(engine, electorate.settings.opened)
        new = NewWebhook(name="hook", url=receiver.url(), kinds=["queue"])
        webhook = (await records.create(1, new, None)).webhook
        hold, has_come = asyncio.Event(), asyncio.Event()

        async def respond(_: Received) -> bytes:
            has_come.set()
            await hold.wait()
            return answer(200)

        receiver.respond = respond
        term, node = await electorate.leader()
        for _ in range(KILLS):
            hold.clear()
            has_come.clear()
            for number in range(EVENTS):
                change = UpdateQueue(queue=queue.id, description=f"{number}")
                await engine.change_queue(1, change)
            async with asyncio.timeout(60):
                await has_come.wait()  # it is sent, and cannot have been kept
            electorate.end(node)
            hold.set()
            term, node = await electorate.leader(term)
            async with asyncio.timeout(60):
                while (await records.find([1], "hook"))[0].waiting or await _is_behind(records):
                    await asyncio.sleep(0.05)
        log = await records.deliveries(webhook, limit=1_000)
    ids = [one.id for one in receiver.received]
    sent = {str(one.id) for one in log}
    assert {str(one.status) for one in log} == {"delivered"}
    assert sent == set(ids)
    assert len(log) == KILLS * EVENTS
    assert len(ids) > len(sent), "no leader was killed in between"
    figure(
        f"webhooks {electorate.label}: {KILLS} leaders killed between sending and keeping: "
        f"0 of n = {len(sent)} lost, 0 made twice, "
        f"{len(ids) - len(sent)} sent again under their ids"
    )


async def _is_behind(records: WebhookRecords) -> bool:
    """Whether events wait that are not gathered yet."""
    log = await records.deliveries((await records.find([1], "hook"))[0], limit=1_000)
    return len(log) % EVENTS != 0
