"""The wall: with row-level security between projects, a statement that forgets its predicate shows
nothing of others.

What every engine must answer is asked of one that reads behind the wall in tests/engine, by the
modules marked with ALSO_WALLED; here its statements are broken.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from taskforge.domain.assignment import Assign
from taskforge.domain.errors import NotFound, StoreUnavailable
from taskforge.domain.job import JobStatus
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import ToSucceeded
from taskforge.domain.query import JobFilter, Page
from taskforge.storage.postgres.connections import PostgresConnections
from taskforge.storage.postgres.engine import PostgresEngine
from tests.support.stores import PostgresStore
from tests.support.world import Clock, World


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(postgres_url, walled=True)
    try:
        yield made
        await made.probe.check()
    finally:
        await made.close()


# --- Broken statements ---

PREDICATE = re.compile(r"(\w+\.)?project = any \((\$\d)::int\[\]\)")


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose every statement forgets to ask for the project."""
    right = PostgresConnections.in_schema

    def without(connections: PostgresConnections, text: str) -> str:
        return right(connections, PREDICATE.sub(r"\2::int[] is not null", text))

    monkeypatch.setattr(PostgresConnections, "in_schema", without)


class Neighbours:
    """A project full of everything there is to read, and what a reader who may see only the first
    project finds of it."""

    def __init__(self, world: World, jobs: list[UUID]) -> None:
        self.engine, self.jobs = world.engine, jobs

    async def get(self) -> list[Any]:
        return list(await self.engine.get([1], self.jobs))

    async def list_jobs(self) -> list[Any]:
        return (await self.engine.list_jobs([1], JobFilter(), Page())).jobs

    async def list_pending(self) -> list[Any]:
        return (await self.engine.list_jobs([1], JobFilter(statuses=tuple(JobStatus)), Page())).jobs

    async def executions(self) -> list[Any]:
        return [one for job in self.jobs for one in await self.engine.executions([1], job)]

    async def active_executions(self) -> list[Any]:
        return list(await self.engine.active_executions([1], timed_out=False, limit=10))

    async def explain(self) -> list[Any]:
        with contextlib.suppress(NotFound):
            return [await self.engine.explain([1], job) for job in self.jobs]
        return []

    async def logs(self) -> list[Any]:
        lines = [
            await self.engine.logs([1], job, least=Level.TRACE, after=0, limit=10, offset=0)
            for job in self.jobs
        ]
        return [line for some in lines for line in some]

    async def stats(self) -> list[Any]:
        return [one for one in await self.engine.stats([1]) if one.queue != "default"]

    async def workers(self) -> list[Any]:
        return list(await self.engine.workers([1]))

    async def worker_totals(self) -> list[Any]:
        return list(await self.engine.worker_totals([1]))


READS: list[Callable[[Neighbours], Awaitable[list[Any]]]] = [
    Neighbours.get,
    Neighbours.list_jobs,
    Neighbours.list_pending,
    Neighbours.executions,
    Neighbours.active_executions,
    Neighbours.explain,
    Neighbours.logs,
    Neighbours.stats,
    Neighbours.workers,
    Neighbours.worker_totals,
]


async def neighbours(store: PostgresStore) -> Neighbours:
    clock = Clock()
    world = World(store, await store.open(clock), clock)
    await world.queue("default")
    second = await world.probe.add_project("second")
    theirs = await world.queue("theirs", project=second)
    worker = await world.worker(project=second)
    await world.engine.change_assignment(second, Assign(theirs.id, worker.worker))
    jobs = [await world.enqueue("theirs", project=second, tags=["t"]) for _ in range(3)]
    done, runs = await world.claim(worker, 2)
    await world.engine.log([NewLine(one.fence, Level.INFO, "line") for one in (done, runs)])
    await world.finish(done.fence, ToSucceeded(), ran=1.0)
    return Neighbours(world, jobs)


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("read", READS, ids=[read.__name__ for read in READS])
async def test_a_forgotten_predicate_shows_nothing_behind_the_wall(
    store: PostgresStore, read: Any
) -> None:
    assert await read(await neighbours(store)) == []


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("read", READS, ids=[read.__name__ for read in READS])
async def test_without_the_wall_it_would_show_everything(postgres_url: str, read: Any) -> None:
    store = PostgresStore(postgres_url)
    try:
        assert await read(await neighbours(store)) != []
    finally:
        await store.close()


# --- The tables ---


async def test_no_table_shows_another_projects_rows_behind_the_wall(store: PostgresStore) -> None:
    """Every table a reader may look into, whatever is added to the schema: rows of the projects it
    named, or a refusal."""
    engine: Any = (await neighbours(store)).engine
    with_project = await store.probe.rows(
        "select c.table_name from information_schema.columns c join information_schema.tables t "
        "using (table_schema, table_name) "
        f"where table_schema = '{store.schema}' and column_name = 'project'"
    )
    looked_into, full = [], []
    for (table,) in with_project:
        [(rows,)] = await store.probe.rows(f"select count(*) from {table} where project <> 1")
        try:
            async with engine.connections.reading([1]) as connection:
                shown = await connection.fetchval(
                    f"select count(*) from {store.schema}.{table} where project <> 1"
                )
        except StoreUnavailable as error:
            if isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
                continue
            raise
        looked_into.append(table)
        full += [table] if rows else []
        assert shown == 0, table
    assert {
        "jobs",
        "ready",
        "running",
        "finished",
        "logs",
        "job_tags",
        "queues",
        "lanes",
        "workers",
        "outbox",
    } <= set(full)
    assert {"schedules", "slots"} <= set(looked_into)
    assert len(looked_into) == 24  # 23 tables and the view of jobs


async def test_nothing_can_be_written_nor_secrets_read_behind_the_wall(
    store: PostgresStore,
) -> None:
    engine: Any = (await neighbours(store)).engine
    for statement in (
        "select * from {}.users",
        "select * from {}.api_keys",
        "select * from {}.jobs_rest",
        "delete from {}.jobs",
    ):
        with pytest.raises(StoreUnavailable) as refused:
            async with engine.connections.reading([1]) as connection:
                await connection.fetch(statement.format(store.schema))
        assert isinstance(
            refused.value.__cause__,
            asyncpg.InsufficientPrivilegeError | asyncpg.ReadOnlySQLTransactionError,
        )
    async with engine.connections.reading([]) as connection:
        assert await connection.fetchval(f"select count(*) from {store.schema}.jobs") == 0
    # What a refused read leaves behind on its connection must not be in the way of the next one.
    assert len(await engine.queues([1])) == 1
    assert await engine.connections.value(
        "select current_user::text"
    ) == await engine.connections.value("select session_user::text")


# --- Users ---


@pytest.fixture
async def user(postgres_url: str) -> AsyncIterator[Callable[[PostgresStore, str], Awaitable[str]]]:
    """Makes users who are no superusers, and gives the address under which they come."""
    made: list[str] = []
    connection = await asyncpg.connect(postgres_url)

    async def make(store: PostgresStore, rights: str) -> str:
        name = f"{store.schema}_{len(made)}"
        made.append(name)
        await connection.execute(
            f"create role {name} login {rights}; grant create on database postgres to {name}"
        )
        return re.sub(r"//\w+@", f"//{name}@", postgres_url)

    yield make
    for name in made:
        await connection.execute(f"drop owned by {name}; drop role {name}")
    await connection.close()


async def stored_and_read(store: PostgresStore, engine: PostgresEngine) -> None:
    world = World(store, engine, Clock())
    await world.queue("default")
    job = await world.enqueue()
    assert [one.id for one in await engine.get([1], [job])] == [job]
    assert await engine.get([], [job]) == []
    await engine.close()


async def test_a_store_without_the_role_is_read_without_a_wall_and_says_so(
    postgres_url: str, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresStore(postgres_url)
    engine = PostgresEngine(await user(store, ""), schema=store.schema, walled=True)
    await engine.open()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{store.schema}_reader" in caplog.text
    await stored_and_read(store, engine)
    assert len(caplog.records) == 1
    await store.close()


@pytest.mark.usefixtures("forgetful")
async def test_the_statement_that_the_server_tells_is_all_that_the_wall_needs(
    postgres_url: str, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresStore(postgres_url)
    weak = await user(store, "")
    await (engine := PostgresEngine(weak, schema=store.schema, walled=True)).open()
    await engine.close()
    [record] = caplog.records
    statement = record.getMessage().partition("start the server again: ")[2]
    assert statement.startswith(f'create role "{store.schema}_reader" nologin; grant ')
    await (await store.probe.connection()).execute(statement)
    caplog.clear()
    # the policies are made at the first start, and stay
    await (engine := PostgresEngine(weak, schema=store.schema, walled=True)).open()
    await engine.close()
    await (engine := PostgresEngine(weak, schema=store.schema, walled=True)).open()
    await stored_and_read(store, engine)
    assert caplog.records == []
    await store.close()


@pytest.mark.usefixtures("forgetful")
async def test_a_user_who_may_create_roles_builds_the_wall(
    postgres_url: str, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresStore(postgres_url)
    engine = PostgresEngine(await user(store, "createrole"), schema=store.schema, walled=True)
    await engine.open()
    await stored_and_read(store, engine)
    assert caplog.records == []
    await store.close()


async def test_the_wall_is_in_nobodys_way_who_was_granted_the_tables(
    postgres_url: str, user: Any
) -> None:
    store = PostgresStore(postgres_url)
    await (await store.open(None)).close()
    weak = await user(store, "")
    name = f"{store.schema}_0"
    connection = await store.probe.connection()
    await connection.execute(
        f"grant usage on schema {store.schema} to {name}; grant all on all tables in schema "
        f"{store.schema} to {name}; "
        f"grant all on all sequences in schema {store.schema} to {name}"
    )
    engine = PostgresEngine(weak, schema=store.schema, clock=Clock())
    await engine.open(migrate=False)
    await stored_and_read(store, engine)
    await store.close()
