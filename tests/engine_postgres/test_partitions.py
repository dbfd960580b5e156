"""Daily partitions: old ones go whole, and whoever must stay moves out of them first."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from taskforge.control.leader import Term
from taskforge.control.retention import PartitionKeeper
from taskforge.domain.changes import CancelJob, RetryJob
from taskforge.domain.claim import Claim
from taskforge.domain.finding import PARTITIONS, Severity
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.term import Deposed
from taskforge.domain.worker import NewWorker
from taskforge.storage.postgres import partitions
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.storage.records.cluster import ClusterRecords
from tests.support.nodes import a_node


async def test_old_partitions_go_whole_and_survivors_stay(postgres_url: str, schema: str) -> None:
    today = datetime.now(UTC).replace(hour=12)
    now = today - timedelta(days=20)
    engine = PostgresEngine(postgres_url, schema=schema, clock=lambda: now)
    await engine.open()
    try:
        await partitions.make_ahead(engine.connections, now)
        await engine.change_queue(1, CreateQueue(name="emails"))
        worker = await engine.register(
            1, NewWorker(name="w", max_concurrent_jobs=1_000), 40 * 86_400
        )
        done, pending = [
            answer.job
            for answer in await engine.insert(
                1, [new_job("emails", "a", tags=["t"]), new_job("emails", "b")]
            )
        ]
        claimed = [
            one for one in await engine.claim(Claim(worker.incarnation, 2)) if one.job_type == "a"
        ]
        await engine.finish([Finish(claimed[0].fence, ToSucceeded())])
        now = today
        pruned = await engine.keep_partitions(7, None)
        assert pruned.jobs == 1
        assert [job.id for job in await engine.get([1], [done, pending])] == [pending]
        days = await engine.connections.value(
            "select count(*) from pg_inherits where inhparent = $1::regclass", f"{schema}.jobs"
        )
        assert days >= partitions.DAYS_AHEAD + 1
        [stats] = await engine.stats([1])
        assert (stats.succeeded, stats.processing) == (0, 1)
    finally:
        await engine.close()


class Aged:
    """An engine whose clock can move, three jobs of one day, the first of them finished then, and
    the partition they are in."""

    def __init__(self, url: str, schema: str) -> None:
        self.now = datetime(2030, 1, 1, 12, tzinfo=UTC)
        self.engine = PostgresEngine(url, schema=schema, clock=lambda: self.now)

    async def begin(self) -> None:
        await self.engine.open()
        await partitions.make_ahead(self.engine.connections, self.now)
        await self.engine.change_queue(1, CreateQueue(name="emails"))
        answers = await self.engine.insert(
            1, [new_job("emails", "a", number, tags=["t"]) for number in range(3)]
        )
        self.jobs = [answer.job for answer in answers if isinstance(answer, Inserted)]
        await self.engine.change([1], self.jobs[:1], CancelJob())

    async def later(self, days: int) -> int:
        self.now += timedelta(days=days)
        whole = (await self.engine.keep_partitions(7, None)).jobs
        return whole + (await self.engine.prune(7, 100)).jobs

    async def has_partition(self) -> bool:
        return await self.engine.connections.value(
            f"select to_regclass('{self.engine.connections.schema}.jobs_20300101') is not null"
        )

    async def left(self) -> list[UUID]:
        [stats] = await self.engine.stats([1])
        found = [job.id for job in await self.engine.get([1], self.jobs)]
        assert stats.total == len(found)
        return found


@pytest.fixture
async def aged(postgres_url: str, schema: str) -> AsyncIterator[Aged]:
    made = Aged(postgres_url, schema)
    await made.begin()
    yield made
    await made.engine.close()


async def test_a_partition_that_many_survive_stays_and_its_old_jobs_go_one_by_one(
    aged: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MOST_SURVIVORS", 1)
    assert await aged.later(days=20) == 1
    assert await aged.has_partition()
    assert await aged.left() == aged.jobs[1:]
    # Those that finished of late are survivors too.
    await aged.engine.change([1], aged.jobs[1:], CancelJob())
    assert await aged.later(days=1) == 0
    assert await aged.has_partition()
    assert await aged.left() == aged.jobs[1:]
    assert await aged.later(days=20) == 2
    assert not await aged.has_partition()
    assert await aged.left() == []


async def test_a_job_that_is_retried_before_its_partition_goes_survives(
    aged: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    await aged.engine.change([1], aged.jobs[1:], CancelJob())
    look, seen = partitions._survivors, []

    async def look_and_retry(*arguments: Any) -> set[UUID]:
        seen.append(await look(*arguments))
        if len(seen) == 1:
            await aged.engine.change([1], aged.jobs[1:2], RetryJob())
        return seen[-1]

    monkeypatch.setattr(partitions, "_survivors", look_and_retry)
    assert await aged.later(days=20) == 2
    assert (seen, await aged.has_partition(), await aged.left()) == (
        [set(), {aged.jobs[1]}],
        False,
        aged.jobs[1:2],
    )
    worker = await aged.engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    [claimed] = await aged.engine.claim(Claim(worker.incarnation, 2))
    assert claimed.payload == b"1"


async def test_a_leader_whose_term_is_over_drops_and_makes_nothing(aged: Aged) -> None:
    cluster = ClusterRecords(aged.engine)
    node = a_node()
    term = await cluster.take(node, (await cluster.look(node)).reign, 60.0)
    assert term is not None
    aged.now += timedelta(days=20)
    with pytest.raises(Deposed):
        await aged.engine.keep_partitions(7, term - 1)
    assert await aged.has_partition()
    assert (await aged.engine.keep_partitions(7, term)).jobs == 1
    assert not await aged.has_partition()


async def test_a_day_whose_partition_cannot_be_made_is_told_once(
    aged: Aged, caplog: pytest.LogCaptureFixture
) -> None:
    aged.now += timedelta(days=30)  # nobody was there to make one: the job goes where all else goes
    await aged.engine.insert(1, [new_job("emails", "late")])
    keeper = PartitionKeeper(aged.engine, 40.0)
    term = Term(0, float("inf"), lambda: 0.0)
    for _ in range(2):
        assert not await keeper._keep(term)
    told = [record for record in caplog.records if record.name == "taskforge.retention"]
    assert len(told) == 1
    assert "2030-01-31 could not be made" in told[0].getMessage()
    assert (await aged.engine.keep_partitions(40, None)).missing == ("2030-01-31",)
    found = [one for one in await aged.engine.examine() if one.subject == PARTITIONS]
    assert found[0].level is Severity.WARNING
    assert "2030-01-31" in found[0].text
