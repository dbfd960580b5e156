"""What waits for the disk, and who hears when it failed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.execution import Beat
from taskforge.domain.job import new_job
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Finish, ToHandBack, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker, Sample
from taskforge.storage.postgres.engine import PostgresEngine


@pytest.fixture
async def single(postgres_url: str, schema: str) -> AsyncIterator[PostgresEngine]:
    """An engine with one connection for everything: whatever a call leaves behind on it, the next
    one meets."""
    engine = PostgresEngine(postgres_url, schema=schema, pool_size=1)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="emails"))
    yield engine
    await engine.close()


async def test_what_need_not_wait_for_the_disk_leaves_its_connection_as_it_was(
    single: PostgresEngine,
) -> None:
    async def waits() -> bool:
        return (
            await single.connections.value("select current_setting('synchronous_commit')") == "on"
        )

    await single.insert(1, [new_job("emails", "send", number) for number in range(2)])
    worker = await single.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    first, second = await single.claim(Claim(worker.incarnation, 2))
    await single.beat([Beat(fence=first.fence, progress=0.5)])
    assert await waits(), "after a beat"
    await single.log([NewLine(first.fence, Level.INFO, "line")])
    assert await waits(), "after a line of log"
    await single.renew(worker.incarnation, 60, Sample())
    assert await waits(), "after a renewal"
    await single.renew(worker.incarnation, 60, Sample(healthy=False))
    assert await waits(), "after a renewal that tells of a change"
    await single.finish(
        [Finish(first.fence, ToHandBack("stop")), Finish(second.fence, ToSucceeded())]
    )
    assert single._signals._sending is not None
    await asyncio.wait_for(single._signals._sending, 10)
    assert await waits(), "after a signal"


async def test_a_renewal_waits_for_the_disk_only_where_it_raises_the_catalogs_version(
    single: PostgresEngine,
) -> None:
    """A version that a power cut takes back would be given twice, for two catalogs."""
    worker = await single.register(1, NewWorker(name="w"), 60)
    for healthy, level in ((True, "off"), (False, "on"), (False, "off"), (True, "on")):
        async with single.connections.transaction() as connection:
            values = (worker.incarnation, 60.0, None, None, healthy, None, False, 0, None, False)
            assert len(await connection.fetch(single.connections.sql("renew"), *values)) == 1
            assert (
                await connection.fetchval("select current_setting('synchronous_commit')") == level
            )


async def test_every_caller_of_a_failed_group_hears_of_it(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        await asyncio.sleep(0.01)  # so that the others come meanwhile, and share the next statement
        raise StoreUnavailable("away")

    with monkeypatch.context() as failing:
        failing.setattr(engine._inserts, "_insert_identified", away)
        calls = (engine.insert(1, [new_job("emails", "send", number)]) for number in range(4))
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 4
    assert (await engine.list_jobs([1], JobFilter(), Page())).jobs == []
