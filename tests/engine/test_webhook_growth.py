"""What an event costs does not depend on how many webhooks others have, nor on how many deliveries
stand about."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from taskforge.control.reporter import ProjectReporter
from taskforge.control.webhook_gatherer import WebhookGatherer
from taskforge.control.webhook_sender import WebhookSender
from taskforge.domain.queue import CreateQueue
from taskforge.domain.webhook import NewWebhook
from taskforge.storage.records.webhooks import WebhookRecords
from taskforge.storage.sqlite.records import text_of
from tests.support.broken import MODULES, break_statements
from tests.support.reads import count_steps, touched
from tests.support.stores import PostgresStore, Store
from tests.support.world import Clock, World

OTHERS, ROUNDS = 50_000, 10
_WEBHOOKS = """
insert into webhooks (id, project, organization, name, url, description, kinds, queues,
    report_seconds, report_at, is_active, sees_cluster, since, secret, waiting, due_at, failures,
    version, created_at, updated_at)
select {id}, {project}, 1, 'crowd-' || i, 'https://x.example', '', 'job queue', '', 60, {later},
    {yes}, {no}, {at}, {secret}, 1, {later}, 0, 1, {at}, {at} from {rows}
"""
_DELIVERIES = """
insert into webhook_deliveries (id, webhook, project, kind, body, status, attempts, tries, due_at,
    created_at)
select {id}, i + 1, {project}, 'job.failed', '{{}}', 'pending', 0, '[]', {later}, {at} from {rows}
"""


async def crowd(store: Store, project: int) -> None:
    """Webhooks of another project, each with a delivery that is due later."""
    if isinstance(store, PostgresStore):
        rows = f"generate_series(1, {OTHERS}) i"
        values = {"id": "gen_random_uuid()", "yes": "true", "no": "false", "rows": rows}
        values |= {"at": "'2030-01-01 12:00+00'", "later": "'2090-01-01'", "secret": "''"}
    else:
        rows = (
            f"(with recursive n (i) as (select 1 union all select i + 1 from n "
            f"where i < {OTHERS}) select i from n)"
        )
        values = {"id": "randomblob(16)", "yes": "1", "no": "0", "rows": rows}
        values |= {"at": "1893499200000000", "later": "3800000000000000", "secret": "x''"}
    for text in (_WEBHOOKS, _DELIVERIES):
        await store.probe.rows(text.format(project=project, **values))
    await store.probe.rows("analyze")


async def cost(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """Of events that are gathered, and of looks at what is due: rows that were read, or steps."""
    with monkeypatch.context() as counting:
        steps = count_steps(counting)
        before = await touched(store) if isinstance(store, PostgresStore) else Counter()
        engine = await store.open(clock)
        began = steps()
        gatherer, reporter = WebhookGatherer(engine), ProjectReporter(engine)
        sender = WebhookSender(engine, lambda: None)
        for number in range(ROUNDS):
            await engine.change_queue(1, CreateQueue(name=f"{name}-{number}"))
            assert not await gatherer.gather(0)
            assert await reporter.report(0) == 0
            assert len(await sender._deliveries.due_webhooks(await engine.now())) == 1
        taken = steps() - began
        await engine.close()
    if not isinstance(store, PostgresStore):
        return taken
    used = await touched(store)
    used.subtract(before)
    tables = ("webhooks", "webhook_deliveries")
    return sum(used[table, "read"] for table in tables), sum(
        used[table, "scans"] for table in tables
    )


@pytest.mark.rotates
@pytest.mark.new_store
@pytest.mark.timeout(240)
async def test_an_event_costs_no_more_beside_50_000_webhooks_of_others(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    clock = world.clock
    new = NewWebhook(name="own", url="https://x.example", kinds=["queue"])
    await WebhookRecords(world.engine).create(1, new, None)
    await cost(store, clock, monkeypatch, "first")
    if isinstance(store, PostgresStore):
        await crowd(store, await store.probe.add_project("neighbour"))
        read, scans = await cost(store, clock, monkeypatch, "beside")
        figure(
            f"{ROUNDS} events beside {OTHERS} webhooks: {read} index entries read, {scans} scans"
        )
        assert scans == 0
        assert read < 100 * ROUNDS
    else:
        alone = await cost(store, clock, monkeypatch, "alone")
        await crowd(store, await store.probe.add_project("neighbour"))
        beside = await cost(store, clock, monkeypatch, "beside")
        figure(f"{ROUNDS} events beside {OTHERS} webhooks: {beside} steps, alone {alone}")
        assert 0 < beside <= 1.5 * alone + 20
    # The broken twin reads all of them.
    kind = "postgres" if isinstance(store, PostgresStore) else "sqlite"
    blind = {
        "postgres": ("w.project = any", "w.project + 0 = any"),
        "sqlite": ("on w.project = i.value", "on w.project + 0 = i.value"),
    }[kind]
    break_statements(monkeypatch, MODULES[kind], {"subscribers": [blind]})
    text_of.cache_clear()
    twin = await cost(store, clock, monkeypatch, "twin")
    text_of.cache_clear()
    assert twin[1] + twin[0] > OTHERS if kind == "postgres" else twin > 2 * beside
