"""Enqueue inside the caller's transaction: on an asyncpg connection, and by the SQL function from
anywhere."""

import asyncio
from uuid import UUID

import asyncpg
import psycopg
import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import Conflict, QueuePaused
from taskforge.domain.fairness import key_of
from taskforge.domain.ids import is_job_id
from taskforge.domain.job import Inserted, JobStatus, Refused, new_job
from taskforge.domain.query import JobFilter, Page
from taskforge.domain.queue import QueueSettings, UpdateQueue
from taskforge.domain.worker import NewWorker
from taskforge.ports.jobs import Transactional
from taskforge.storage.postgres.engine import PostgresEngine


async def count(engine: PostgresEngine) -> int:
    return len((await engine.list_jobs([1], JobFilter(), Page(limit=1000))).jobs)


async def pause(engine: PostgresEngine) -> None:
    [queue] = await engine.queues([1])
    await engine.change_queue(1, UpdateQueue(queue=queue.id, is_active=False))


# --- On the caller's asyncpg connection ---


async def test_jobs_exist_when_the_callers_transaction_commits(
    engine: PostgresEngine, connection: asyncpg.Connection
) -> None:
    assert isinstance(engine, Transactional)
    transaction = connection.transaction()
    await transaction.start()
    [answer] = await engine.insert_within(connection, 1, [new_job("emails", "send", {"a": 1})])
    assert isinstance(answer, Inserted)
    assert await count(engine) == 0
    await transaction.commit()
    [job] = await engine.get([1], [answer.job])
    assert job.status is JobStatus.PENDING


async def test_nothing_exists_when_it_rolls_back(
    engine: PostgresEngine, connection: asyncpg.Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    jobs = [new_job("emails", "send", unique_key="k", tags=["t"]), new_job("emails", "send", at=60)]
    await engine.insert_within(connection, 1, jobs)
    await transaction.rollback()
    assert await count(engine) == 0
    [answer] = await engine.insert(1, [new_job("emails", "send", unique_key="k")])
    assert answer == Inserted(answer.job, existed=False)


async def test_a_refusal_leaves_the_callers_transaction_usable(
    engine: PostgresEngine, connection: asyncpg.Connection
) -> None:
    await pause(engine)
    async with connection.transaction():
        [answer] = await engine.insert_within(connection, 1, [new_job("emails", "send")])
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, QueuePaused)
        assert await connection.fetchval("select 1") == 1


async def test_a_snapshot_older_than_the_catalog_is_refused_in_words(
    engine: PostgresEngine, connection: asyncpg.Connection
) -> None:
    await engine.insert(1, [new_job("emails", "send")])
    async with connection.transaction(isolation="repeatable_read"):
        await connection.fetchval("select count(*) from pg_class")
        # Known before, so it can be stored; a type that nobody has seen makes a lane, which this
        # snapshot cannot show.
        [answer] = await engine.insert_within(connection, 1, [new_job("emails", "send")])
        assert isinstance(answer, Inserted)
        async with asyncio.timeout(5):
            with pytest.raises(
                Conflict, match="Insert in a new transaction, or use READ COMMITTED"
            ):
                await engine.insert_within(connection, 1, [new_job("emails", "brand new")])
    async with connection.transaction():
        await engine.insert_within(connection, 1, [new_job("emails", "brand new")])
    assert await count(engine) == 3


# --- The SQL function ---


async def call(connection: asyncpg.Connection, schema: str, arguments: str) -> UUID:
    return await connection.fetchval(f"select {schema}.enqueue({arguments})")


async def test_the_function_makes_a_job_like_any_other(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
    assert await engine.claim(Claim(worker.incarnation, 1)) == []
    everything = """'emails', 'send', '{"a": 1}', priority => 3, max_attempts => 7, tags =>
        array['x', 'y'], unique_key => 'u',
        timeout_seconds => 5, deadline => now() + interval '1 hour',
        expires_at => now() + interval '2 hours'"""
    made = await call(connection, schema, everything)
    assert is_job_id(made)
    [job] = await engine.get([1], [made])
    assert (job.queue, job.job_type, job.priority, job.max_attempts, set(job.tags)) == (
        "emails",
        "send",
        3,
        7,
        {"x", "y"},
    )
    assert job.unique_key == "u"
    assert job.timeout_at is not None
    listed = await engine.list_jobs([1], JobFilter(tags=("x",)), Page())
    assert [found.id for found in listed.jobs] == [made]
    [claimed] = await engine.claim(Claim(worker.incarnation, 5))
    assert (claimed.payload, claimed.timeout_seconds, claimed.attempt) == (b'{"a": 1}', 5.0, 1)


async def test_the_function_gives_a_job_the_key_that_python_gives_it(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    [queue] = await engine.queues([1])
    settings = QueueSettings.parse({"fairness": {}})
    await engine.change_queue(1, UpdateQueue(queue=queue.id, settings=settings))
    for name in ("acme", "Ünïcode ☃", *(f"key-{number}" for number in range(20))):
        await engine.insert(1, [new_job("emails", "send", fairness_key=name)])
        made = await call(connection, schema, f"'emails', 'send', fairness_key => '{name}'")
        rows = await connection.fetch(f"select key, job from {schema}.ready where key is not null")
        assert {row["key"] for row in rows} == {key_of(name)}
        assert made in {row["job"] for row in rows}
        worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
        assert len(await engine.claim(Claim(worker.incarnation, 5))) == 2


async def test_a_payload_left_out_is_an_empty_object(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    given = ["'emails', 'send'", "'emails', 'send', null", "'emails', 'send', 'null'"]
    jobs = [
        (await engine.get([1], [await call(connection, schema, arguments)]))[0]
        for arguments in given
    ]
    assert [bytes(job.payload or b"") for job in jobs] == [b"{}", b"{}", b"null"]
    assert {job.payload_erased for job in jobs} == {False}


async def test_time_keys_and_queue_defaults_hold(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    [queue] = await engine.queues([1])
    await engine.change_queue(1, UpdateQueue(queue=queue.id, settings=QueueSettings(max_retries=4)))
    later = await call(connection, schema, "'emails', 'send', run_at => now() + interval '1 hour'")
    [job] = await engine.get([1], [later])
    assert (job.status, job.max_attempts) == (JobStatus.SCHEDULED, 5)
    [by_id] = await engine.get([1], [await call(connection, schema, f"'{queue.id}', 'send'")])
    assert (by_id.queue, by_id.max_attempts) == ("emails", 5)
    one = await call(connection, schema, "'emails', 'send', unique_key => 'k'")
    assert await call(connection, schema, "'emails', 'send', unique_key => 'k'") == one
    assert await engine.insert(1, [new_job("emails", "send", unique_key="k")]) == [
        Inserted(one, existed=True)
    ]
    same = await call(connection, schema, "'emails', 'send', '1', idempotency_key => 'i'")
    assert await call(connection, schema, "'emails', 'send', '1', idempotency_key => 'i'") == same
    # An idempotency key whose job was not made because of a unique one stands for the job that was.
    assert (
        await call(
            connection, schema, "'emails', 'send', unique_key => 'k', idempotency_key => 'both'"
        )
        == one
    )
    assert (
        await call(
            connection, schema, "'emails', 'send', unique_key => 'k', idempotency_key => 'both'"
        )
        == one
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'nope', 'send'", "queue 'nope' does not exist"),
        ("'emails', ''", "job_type: has 0 characters"),
        ("'emails', repeat('x', 101)", "job_type: has 101 characters"),
        ("'emails', 'send', priority => 10", "priority: is 10"),
        ("'emails', 'send', max_attempts => 0", "max_attempts: is 0"),
        ("'emails', 'send', to_jsonb(repeat('x', 300000))", "payload: takes 300002 bytes"),
        ("'emails', 'send', tags => array['']", "tags:"),
        ("'emails', 'send', requires => '[]'", "requires: is a array"),
        ("'emails', 'send', timeout_seconds => 0", "timeout_seconds: is 0"),
        ("'emails', 'send', unique_key => ''", "unique_key: has 0 characters"),
        (
            "'emails', 'send', run_at => '20000-01-01'",
            "run_at: is in the year 20000; use a time from 1970 to 9000",
        ),
        (
            "'emails', 'send', deadline => '0100-01-01 BC'",
            "deadline: is in the year -100; use a time from 1970 to 9000",
        ),
        (
            "'emails', 'send', expires_at => '1969-12-31 23:59:59+00'",
            "expires_at: is in the year 1969",
        ),
        (
            "'emails', 'send', expires_at => '9001-01-01 00:00:00+00'",
            "expires_at: is in the year 9001",
        ),
        (
            "'emails', 'send', run_at => 'infinity'",
            "run_at: is infinity; use a time from 1970 to 9000",
        ),
        ("'emails', 'send', deadline => '-infinity'", "deadline: is -infinity"),
    ],
)
async def test_bad_input_is_refused_by_name(
    engine: PostgresEngine,
    connection: asyncpg.Connection,
    schema: str,
    arguments: str,
    message: str,
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await call(connection, schema, arguments)
    assert message in str(caught.value)
    assert await count(engine) == 0


async def test_a_paused_queue_and_another_body_are_refused(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    first = await call(connection, schema, "'emails', 'send', '1', idempotency_key => 'i'")
    with pytest.raises(asyncpg.PostgresError, match="different body"):
        await call(connection, schema, "'emails', 'send', '2', idempotency_key => 'i'")
    await pause(engine)
    with pytest.raises(asyncpg.PostgresError, match="paused"):
        await call(connection, schema, "'emails', 'send'")
    with pytest.raises(asyncpg.PostgresError, match="does not exist in project 'nope'"):
        await call(
            connection, schema, "'emails', 'send', '1', idempotency_key => 'i', project => 'nope'"
        )
    # What was stored before is the answer all the same.
    assert await call(connection, schema, "'emails', 'send', '1', idempotency_key => 'i'") == first


async def test_it_wakes_workers_when_the_transaction_commits(
    engine: PostgresEngine, postgres_url: str, schema: str
) -> None:
    rung = asyncio.Event()
    engine.on_work(rung.set)
    async with asyncio.timeout(5):
        await rung.wait()  # listening has begun
    rung.clear()

    def enqueue() -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(f"select {schema}.enqueue('emails', 'send')")

    await asyncio.to_thread(enqueue)
    async with asyncio.timeout(5):
        await rung.wait()
    assert await count(engine) == 1


async def test_a_requirement_nobody_understands_stands_in_nobodys_way(
    engine: PostgresEngine, connection: asyncpg.Connection, schema: str
) -> None:
    await call(connection, schema, """'emails', 'send', requires => '{"gpu": {"~": 1}}'""")
    plain = await call(connection, schema, "'emails', 'send'")
    worker = await engine.register(1, NewWorker(name="w", capabilities={"gpu": 1}), 60)
    claimed = await engine.claim(Claim(worker.incarnation, 5))
    assert len(claimed) == 1
    assert str(claimed[0].fence)[:30] == str(plain)[:30]
