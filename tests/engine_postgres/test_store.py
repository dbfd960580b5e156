"""What only PostgreSQL can do wrong: lost answers, held snapshots, poolers, partitions, several
processes migrating at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from taskforge.control.leader import Term
from taskforge.control.scheduler import Scheduler
from taskforge.domain.claim import Claim
from taskforge.domain.errors import Invalid, StoreUnavailable, StoreUnsuitable
from taskforge.domain.job import new_job
from taskforge.domain.outcome import Finish, ToCancelled, ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import CreateQueue, QueueSettings, UpdateQueue
from taskforge.domain.schedule import NewSchedule, Timing, job_template
from taskforge.domain.worker import NewWorker, UpdateWorker
from taskforge.operations.limits.slot_admission import SlotAdmission
from taskforge.storage.postgres.claim_window import ClaimWindow
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.storage.records.schedules import ScheduleRecords


class Deaf:
    """A connection that does what it is told and loses the answer."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetch(self, *arguments: Any) -> Any:
        await self._connection.fetch(*arguments)
        raise ConnectionResetError("the answer was lost")

    async def execute(self, *arguments: Any) -> Any:
        await self._connection.execute(*arguments)
        raise ConnectionResetError("the answer was lost")


class Forgetful(PostgresEngine):
    deaf = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._whole = self.connections.connection
        self.connections.connection = self._connection  # type: ignore[method-assign]

    @asynccontextmanager
    async def _connection(self, **options: Any) -> AsyncIterator[Any]:
        async with self._whole(**options) as connection:
            if self.deaf:
                self.deaf = False
                try:
                    yield Deaf(connection)
                except ConnectionResetError as error:
                    raise StoreUnavailable(str(error)) from error
            else:
                yield connection


@pytest.fixture
async def forgetful(postgres_url: str, schema: str) -> AsyncIterator[Forgetful]:
    engine = Forgetful(postgres_url, schema=schema)
    await engine.open()
    await engine.change_queue(1, CreateQueue(name="emails"))
    yield engine
    await engine.close()


async def test_a_claim_whose_answer_was_lost_is_answered_by_the_next(forgetful: Forgetful) -> None:
    await forgetful.insert(1, [new_job("emails", "send", number) for number in range(3)])
    worker = await forgetful.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    assert len(await forgetful.claim(Claim(worker.incarnation, 1))) == 1
    forgetful.deaf = True
    with pytest.raises(StoreUnavailable):
        await forgetful.claim(Claim(worker.incarnation, 1))
    [adopted] = await forgetful.claim(Claim(worker.incarnation, 1))
    assert adopted.payload == b"1"
    [third] = await forgetful.claim(Claim(worker.incarnation, 1))
    assert third.payload == b"2"
    assert (
        await forgetful.finish(
            [Finish(adopted.fence, ToSucceeded()), Finish(third.fence, ToSucceeded())]
        )
        == []
    )
    assert await forgetful.claim(Claim(worker.incarnation, 1)) == []


async def test_a_claim_whose_commit_was_lost_is_answered_by_the_next(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.change_queue(1, CreateQueue(name="slow", settings=QueueSettings(rate_limit=6000)))
    await engine.insert(1, [new_job("slow", "send", number) for number in range(3)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    assert len(await engine.claim(Claim(worker.incarnation, 1))) == 1
    whole = engine.connections.transaction

    @asynccontextmanager
    async def deaf() -> AsyncIterator[Any]:
        async with whole() as connection:
            yield connection
        raise StoreUnavailable("the answer to the commit was lost")

    with monkeypatch.context() as losing:
        losing.setattr(engine.connections, "transaction", deaf)
        with pytest.raises(StoreUnavailable):
            await engine.claim(Claim(worker.incarnation, 1))
    assert [job.payload for job in await engine.claim(Claim(worker.incarnation, 1))] == [b"1"]
    assert [job.payload for job in await engine.claim(Claim(worker.incarnation, 5))] == [b"2"]


async def test_what_a_claim_took_before_it_was_cancelled_is_given_to_the_next(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim over uneven lanes takes several times; here it is cancelled when the first of them is
    through."""
    await engine.insert(1, [new_job("emails", f"rare-{number}") for number in range(4)])
    await engine.insert(1, [new_job("emails", "send", number) for number in range(40)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    once, taken = engine._claims._claim_all, []

    async def cancelled(*arguments: Any) -> Any:
        if taken:
            raise asyncio.CancelledError
        taken.extend((await once(*arguments))[0])
        return list(taken), False

    with monkeypatch.context() as cancelling:
        cancelling.setattr(engine._claims, "_claim_all", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await engine.claim(Claim(worker.incarnation, 44))
    adopted = await engine.claim(Claim(worker.incarnation, 44))
    assert {job.fence for job in adopted} == {row["fence"] for row in taken}
    rest = await engine.claim(Claim(worker.incarnation, 44))
    assert len(adopted) + len(rest) == 44


async def test_what_the_rest_of_a_claim_took_is_given_to_the_next_though_its_answer_was_lost(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first part of it took is there at once."""
    await engine.insert(1, [new_job("emails", f"rare-{number}") for number in range(4)])
    await engine.insert(1, [new_job("emails", "send", number) for number in range(40)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    once, parts = engine._claims._claim_all, []

    async def lose_the_second(*arguments: Any) -> Any:
        parts.append((await once(*arguments))[0])
        if len(parts) == 2:
            raise StoreUnavailable("the answer was lost")
        return list(parts[-1]), False

    with monkeypatch.context() as losing:
        losing.setattr(engine._claims, "_claim_all", lose_the_second)
        claimed = await engine.claim(Claim(worker.incarnation, 44))
    first, second = ({row["fence"] for row in part} for part in parts)
    assert {job.fence for job in claimed} == first
    adopted = await engine.claim(Claim(worker.incarnation, 44))
    assert {job.fence for job in adopted} == second
    assert second


@pytest.mark.parametrize("shut", ["paused", "draining"])
async def test_a_lost_claim_is_answered_though_the_worker_could_not_take_its_jobs_now(
    forgetful: Forgetful, shut: str
) -> None:
    await forgetful.insert(1, [new_job("emails", "send", number) for number in range(2)])
    worker = await forgetful.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    assert len(await forgetful.claim(Claim(worker.incarnation, 1))) == 1
    forgetful.deaf = True
    with pytest.raises(StoreUnavailable):
        await forgetful.claim(Claim(worker.incarnation, 1))
    if shut == "paused":
        [queue] = await forgetful.queues([1])
        await forgetful.change_queue(1, UpdateQueue(queue=queue.id, is_active=False))
    else:
        await forgetful.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=True))
    forgetful._catalog_cache.forget()
    [adopted] = await forgetful.claim(Claim(worker.incarnation, 1))
    assert (adopted.payload, adopted.queue, adopted.job_type) == (b"1", "emails", "send")
    assert await forgetful.claim(Claim(worker.incarnation, 1)) == []


async def test_a_batch_that_was_not_found_yet_stays_in_doubt_when_another_is(
    engine: PostgresEngine,
) -> None:
    await engine.insert(1, [new_job("emails", "send", number) for number in range(2)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    [job] = await engine.claim(Claim(worker.incarnation, 1))
    batch = await engine.connections.value("select batch from taskforge.running")
    engine._claims._lost._doubts[worker.incarnation] = {
        batch: time.monotonic(),
        batch + 100: time.monotonic(),
    }
    assert [one.fence for one in await engine.claim(Claim(worker.incarnation, 1))] == [job.fence]
    assert list(engine._claims._lost._doubts[worker.incarnation]) == [batch + 100]


class Slow:
    """A connection that has read a row and hands it over when it is told."""

    def __init__(self, connection: Any, has_read: asyncio.Event, may_go_on: asyncio.Event) -> None:
        self._connection, self._has_read, self._may_go_on = connection, has_read, may_go_on

    async def fetch(self, *arguments: Any) -> Any:
        rows = await self._connection.fetch(*arguments)
        self._has_read.set()
        await self._may_go_on.wait()
        return rows


async def test_a_worker_that_drains_while_its_state_is_read_gets_nothing_more(
    engine: PostgresEngine, postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.insert(1, [new_job("emails", "send", number) for number in range(3)])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    await engine._catalog_cache.of(1)
    has_read, may_go_on, whole = asyncio.Event(), asyncio.Event(), engine.connections.connection

    @asynccontextmanager
    async def slow() -> AsyncIterator[Any]:
        async with whole() as connection:
            yield Slow(connection, has_read, may_go_on)

    async with asyncio.timeout(10):
        with monkeypatch.context() as reading:
            reading.setattr(engine.connections, "connection", slow)
            claim = asyncio.create_task(engine.claim(Claim(worker.incarnation, 1)))
            await has_read.wait()
        other = PostgresEngine(postgres_url, schema=schema)
        await other.open()
        await other.change_worker(1, UpdateWorker(worker=worker.worker, drain_mode=True))
        await other.close()
        await engine.insert(1, [new_job("emails", "send")])  # which finds the new catalog
        may_go_on.set()
        assert await claim == []
        assert await engine.claim(Claim(worker.incarnation, 1)) == []


async def test_an_insert_whose_answer_was_lost_is_not_made_twice(forgetful: Forgetful) -> None:
    await forgetful.insert(1, [new_job("emails", "send")])
    forgetful.deaf = True
    answers = await forgetful.insert(1, [new_job("emails", "send", number) for number in range(5)])
    jobs = (await forgetful.list_jobs([1], JobFilter(), Page())).jobs
    assert len(jobs) == 6
    assert {answer.job for answer in answers} <= {job.id for job in jobs}


async def test_one_statement_of_inserts_is_under_way_at_a_time_whoever_comes_meanwhile(
    engine: PostgresEngine,
) -> None:
    """Who comes while the first runs shares the second, who comes while that one runs the third."""
    begun, gates = list[int](), [asyncio.Event() for _ in range(3)]
    inserts: Any = engine._insert_groups._inserts

    class Held:
        async def insert_jobs(self, project: int, jobs: Any) -> Any:
            return await self._hold(len(jobs), inserts.insert_jobs(project, jobs))

        async def insert_wanted(self, wanted: Any) -> Any:
            return await self._hold(len(wanted), inserts.insert_wanted(wanted))

        async def _hold(self, count: int, insert: Any) -> Any:
            begun.append(count)
            await gates[len(begun) - 1].wait()
            return await insert

    held: Any = Held()
    engine._insert_groups._inserts = held
    calls: list[asyncio.Task[Any]] = []
    for number in range(3):
        for _ in range(number + 1):
            calls.append(asyncio.create_task(engine.insert(1, [new_job("emails", "send")])))
            await asyncio.sleep(0.005)
        if number:
            gates[number - 1].set()
        async with asyncio.timeout(10):
            while len(begun) <= number:
                await asyncio.sleep(0.001)
        assert begun == [1, 2, 3][: number + 1]
    gates[-1].set()
    answers = await asyncio.gather(*calls)
    assert len({answer[0].job for answer in answers}) == len(calls) == 6


async def test_behind_a_pooler_everything_works_by_polling(postgres_url: str, schema: str) -> None:
    engine = PostgresEngine(postgres_url, schema=schema, poll_only=True)
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="emails"))
        rung = asyncio.Event()
        engine.on_work(rung.set)
        await engine.insert(1, [new_job("emails", "send", unique_key="k", at=0.0)])
        worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
        [claimed] = await engine.claim(Claim(worker.incarnation, 5))
        assert await engine.finish([Finish(claimed.fence, ToSucceeded(b"1"))]) == []
        connection = await asyncpg.connect(postgres_url)
        names = await connection.fetch(
            "select query from pg_stat_activity where query like 'LISTEN%' and query like $1",
            f"%{schema}%",
        )
        await connection.close()
        assert names == []
    finally:
        await engine.close()


async def test_many_processes_may_start_at_once(postgres_url: str, schema: str) -> None:
    engines = [PostgresEngine(postgres_url, schema=schema, pool_size=2) for _ in range(6)]
    await asyncio.gather(*(engine.open() for engine in engines))
    await engines[0].change_queue(1, CreateQueue(name="emails"))
    assert [len(await engine.queues([1])) for engine in engines] == [1] * 6
    await asyncio.gather(*(engine.close() for engine in engines))


async def test_a_schema_that_is_behind_or_ahead_is_refused(
    engine: PostgresEngine, postgres_url: str, schema: str
) -> None:
    other = PostgresEngine(postgres_url, schema=f"{schema}_none")
    with pytest.raises(StoreUnsuitable, match="taskforge migrate"):
        await other.open(migrate=False)
    await engine.connections.value(
        f"insert into {schema}.migrations values (999, 'from the future')"
    )
    newer = PostgresEngine(postgres_url, schema=schema)
    with pytest.raises(StoreUnsuitable, match="newer than this release"):
        await newer.open()


async def test_a_schema_name_is_checked(postgres_url: str) -> None:
    with pytest.raises(Invalid, match="schema"):
        await PostgresEngine(postgres_url, schema='x"; drop').open()


async def test_a_database_that_is_away_is_unavailable_not_a_traceback() -> None:
    with pytest.raises(StoreUnavailable):
        await PostgresEngine("postgresql://postgres@127.0.0.1:1/none").open()


@pytest.mark.parametrize("stops", [False, True])
async def test_others_hear_of_room_under_a_limit_also_from_one_that_stops(
    engine: PostgresEngine, postgres_url: str, schema: str, stops: bool
) -> None:
    await engine.change_queue(
        1, CreateQueue(name="narrow", settings=QueueSettings(max_concurrent_jobs=1))
    )
    worker = (
        await engine.register(1, NewWorker(name="one", max_concurrent_jobs=1_000), 60)
    ).incarnation
    other = PostgresEngine(postgres_url, schema=schema)
    await other.open()
    rung = asyncio.Event()
    other.on_work(rung.set)
    try:
        await engine.insert(1, [new_job("narrow", "work")])
        [job] = await engine.claim(Claim(worker, 1))
        async with asyncio.timeout(5):
            while not other._signals.hears:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the news of the insert
        rung.clear()
        await engine.finish([Finish(job.fence, ToSucceeded())])
        if stops:
            await engine.close()
        await asyncio.wait_for(rung.wait(), 2)
    finally:
        await other.close()


def test_slow_claims_seek_past_what_is_dead_and_look_back_now_and_then() -> None:
    window = ClaimWindow()
    now = 100.0
    for _ in range(3):
        assert window.ask([1], 10, now) == ([0], [10])
        window.learn([(1, 50)], now, took=1.0)
        now += 0.001
    assert window.ask([1], 10, now) == ([50], [10])
    window.from_head()
    assert window.ask([1], 10, now) == ([0], [10])
    window.learn([(1, 60)], now, took=1.0)
    assert window.ask([1], 10, now + 1) == ([60], [10])
    assert window.ask([1], 10, now + 11) == ([0], [10])
    window.learn([], now + 11, took=0.001)
    assert window.ask([1], 10, now + 11) == ([0], [10])


def test_many_lanes_are_asked_for_what_they_lately_gave() -> None:
    window = ClaimWindow()
    lanes = list(range(100))
    assert window.ask(lanes, 1_000, 0.0)[1] == [14] * 100
    window.learn([(7, turn) for turn in range(14)], 0.0, 0.001)
    most = window.ask(lanes, 1_000, 0.0)[1]
    assert (most[7], most[8]) == (37, 14)
    window.learn([(7, turn) for turn in range(800)], 0.0, 0.001)
    assert window.ask(lanes, 1_000, 0.0)[1][7] == 1_000
    window.ask(lanes, 10, 0.0)
    window.learn([(7, 801), (8, 802)], 0.0, 0.001)
    # a small claim does not make it forget the large ones at once
    assert window.ask(lanes, 1_000, 0.0)[1][7:9] == [1_000, 14]


@pytest.mark.parametrize("odd", ["a\x00b", "a\udcffb"])
async def test_text_that_no_column_can_hold_is_refused_in_words(
    engine: PostgresEngine, odd: str
) -> None:
    await engine.insert(1, [new_job("emails", "send")])
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    [job] = await engine.claim(Claim(worker.incarnation, 1))
    with pytest.raises(Invalid, match="use valid Unicode text without NUL"):
        await engine.finish([Finish(job.fence, ToCancelled(odd))])


async def test_what_a_schedule_fires_names_its_lane(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle worker then asks that lane, and need not look for it."""
    schedules = ScheduleRecords(engine)
    await engine.change_queue(1, CreateQueue(name="ticks"))
    timing = Timing(cron="* * * * * *")
    made = await schedules.create(
        1, NewSchedule(name="tick", timing=timing, job=job_template("ticks", "tick")), None
    )
    assert made.next_at is not None
    told: list[list[tuple[int, int, int]] | None] = []
    monkeypatch.setattr(engine._signals, "send", lambda arrivals=(): told.append(arrivals))
    async with asyncio.timeout(10):
        while not await Scheduler(engine, schedules, SlotAdmission.of_engine(engine)).once(
            Term(0, float("inf"), lambda: 0.0)
        ):
            await asyncio.sleep(0.05)
    lane = await engine.connections.value("select lane from taskforge.ready")
    assert told == [[(1, lane, 0)]]
