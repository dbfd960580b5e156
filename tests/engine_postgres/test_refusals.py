"""PostgreSQL that runs, and refuses: whatever it says, the engine says `StoreUnavailable`, and
serves when it does."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import Conflict, StoreFault, StoreUnavailable, StoreUnsuitable
from taskforge.domain.job import new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.operations.upkeep import Upkeep
from taskforge.storage.postgres.connection_pool import Borrowed
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.telemetry.outage import Outage
from tests.support.refusals import REFUSALS, Refusing

WHY = {
    "read_only": "read-only transaction",
    "closed": "is not currently accepting connections",
    "renamed": "does not exist",
    "locked_out": "is not permitted to log in",
    "cancelling": "canceling statement",
    "wrong_password": "password authentication failed",
}


@pytest.fixture
async def refusing(postgres_url: str) -> AsyncIterator[Refusing]:
    async with Refusing(postgres_url, f"refusing_{secrets.token_hex(4)}") as database:
        yield database


@pytest.mark.rotates
@pytest.mark.parametrize("refusal", [*REFUSALS, "wrong_password"])
async def test_whatever_it_refuses_is_unavailable_and_serves_again(
    refusing: Refusing, refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = PostgresEngine(refusing.url)
    await engine.open()
    try:
        await engine.change_queue(1, CreateQueue(name="default"))
        worker = await engine.register(1, NewWorker(name="w", max_concurrent_jobs=1_000), 60)
        calls = [
            lambda: engine.insert(1, [new_job("default", "work")]),
            lambda: engine.claim(Claim(worker.incarnation, 5)),
            lambda: engine.stage(10),
            lambda: engine.fold(10),
        ]
        for call in calls:
            await call()
        await calls[0]()  # something to claim: whoever finds nothing writes nothing
        caplog.clear()
        async with refusing.refusal(refusal):
            for _ in range(3):
                for call in calls[:2]:  # the others may be served: they find nothing to do
                    with pytest.raises(StoreUnavailable):
                        await call()
        back = time.monotonic()
        while True:
            try:
                await asyncio.gather(*(call() for call in calls * 5))
                break
            except StoreUnavailable:
                await asyncio.sleep(0.05)
        assert time.monotonic() - back < 2
        async with asyncio.timeout(10):
            while sum("serves again" in record.message for record in caplog.records) == 0:
                await engine.stage(10)
                await asyncio.sleep(0.1)
    finally:
        await engine.close()
    told = [record for record in caplog.records if record.name.startswith(("taskforge", "asyncpg"))]
    assert [record.message.partition(",")[0] for record in told] == [
        "the store does not serve",
        "the store serves again",
    ]
    assert [record.levelno for record in told] == [logging.WARNING] * 2
    assert WHY[refusal] in told[0].message, (
        "and not that connections were ended, which it did first"
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"path": "/nodb"}, "create the database"),
        ({"user": "nobody_knows"}, "correct the user"),
        ({"query": "?foo=bar"}, "behind the ?"),
        ({"query": "?sslmode=sometimes"}, "write the URL like"),
    ],
)
async def test_a_newcomers_mistake_is_told_with_what_to_do(
    postgres_url: str, change: dict[str, str], wanted: str
) -> None:
    base, _, place = postgres_url.rpartition("@")
    user, path = change.get("user", "postgres"), change.get("path", "/postgres")
    url = f"postgresql://{user}@{place.rpartition('/')[0]}{path}"
    assert base
    with pytest.raises(StoreUnsuitable) as caught:
        await PostgresEngine(url + change.get("query", "")).open()
    assert wanted in caught.value.next_step


async def test_a_role_that_may_not_create_is_told_so(postgres_url: str) -> None:
    name = f"poor_{secrets.token_hex(4)}"
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f"create role {name} login")
    try:
        engine = PostgresEngine(postgres_url.replace("postgres@", f"{name}@"), schema=name)
        with pytest.raises(StoreUnsuitable, match="permission denied") as caught:
            await engine.open()
        assert "grant create on database" in caught.value.next_step
    finally:
        await admin.execute(f"drop role {name}")
        await admin.close()


async def test_a_role_with_the_rights_that_the_guide_lists_can_work(
    engine: PostgresEngine, postgres_url: str, schema: str
) -> None:
    name = f"modest_{secrets.token_hex(4)}"
    admin = await asyncpg.connect(postgres_url)
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "postgres.md").read_text()
    grants = (
        guide.partition("```sql rights\n")[2]
        .partition("```")[0]
        .replace("taskforge", schema)
        .replace("jobs_app", name)
    )
    await admin.execute(grants)
    modest = PostgresEngine(postgres_url.replace("postgres@", f"{name}@"), schema=schema)
    try:
        await modest.open()
        await modest.insert(1, [new_job("emails", "send")])
        worker = await modest.register(1, NewWorker(name="w"), 60)
        [claimed] = await modest.claim(Claim(worker.incarnation, 5))
        assert await modest.finish([Finish(claimed.fence, ToSucceeded())]) == []
        await Upkeep(modest).once()
        await modest.fold(100)
        await modest.prune(1, 100)
        await modest.change_queue(1, CreateQueue(name="more"))
    finally:
        await modest.close()
        await admin.execute(f"drop owned by {name}; drop role {name}")
        await admin.close()


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("select nonsense", StoreFault),
        ("select 1 / 0", StoreFault),
        ("insert into taskforge.queues (number) values (null)", Conflict),
        ("select * from taskforge.nowhere", StoreUnavailable),
        ("do $$ begin raise exception using errcode = 'ZZ123'; end $$", StoreUnavailable),
        ("do $$ begin raise exception using errcode = 'XX000'; end $$", StoreUnavailable),
    ],
)
async def test_no_error_of_the_driver_leaves(
    engine: PostgresEngine,
    statement: str,
    wanted: type[Exception],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        with pytest.raises(wanted):
            await engine.connections.value(statement)
    if wanted is not StoreUnavailable:
        assert sum(record.exc_info is not None for record in caplog.records) == 1, (
            "its traceback is told once"
        )


@pytest.mark.parametrize("code", ["40P01", "40001"])
async def test_a_deadlock_is_no_outage(
    engine: PostgresEngine, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The store serves: two who work side by side met, and one of them tries again."""
    with pytest.raises(StoreUnavailable):
        await engine.connections.value(
            f"do $$ begin raise exception using errcode = '{code}'; end $$"
        )
    assert [record.message for record in caplog.records if record.name == "taskforge.store"] == []


async def test_a_plan_that_no_longer_fits_its_table_is_no_outage(
    postgres_url: str, schema: str, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """As while another process migrates. In a transaction the driver cannot try again by itself."""
    engine = PostgresEngine(postgres_url, schema=schema, pool_size=1)
    await engine.open()

    async def look() -> list[asyncpg.Record]:
        async with engine.connections.transaction() as own:
            return await own.fetch(f"select * from {schema}.changing")

    try:
        await connection.execute(f"create table {schema}.changing (one int)")
        assert await engine.connections.until_undisturbed(look) == []
        await connection.execute(f"alter table {schema}.changing add column two int")
        assert await engine.connections.until_undisturbed(look) == []
    finally:
        await engine.close()
    assert [record.message for record in caplog.records if record.name == "taskforge.store"] == []


async def test_a_read_that_met_another_transaction_head_on_is_made_again(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, tries = engine.connections.reading, []

    @asynccontextmanager
    async def meet_one_at_first(projects: Sequence[int]) -> AsyncIterator[Any]:
        async with reading(projects) as connection:
            tries.append(projects)
            if len(tries) == 1:
                raise asyncpg.DeadlockDetectedError("deadlock detected")
            yield connection

    monkeypatch.setattr(engine.connections, "reading", meet_one_at_first)
    assert await engine.workers([1]) == []
    assert len(tries) == 2


async def test_a_connection_that_was_in_use_while_the_others_were_renewed_is_not_kept(
    engine: PostgresEngine,
) -> None:
    """After a failover it may lead to where one can only read, too, and whoever is given it next
    would be refused."""
    async with engine.connections.connection() as in_use:
        old: int = await in_use.fetchval("select pg_backend_pid()")
        with pytest.raises(StoreUnavailable, match="read-only"):
            async with engine.connections.connection() as other, other.transaction(readonly=True):
                await other.execute(
                    engine.connections.in_schema(
                        "update taskforge.horizons set pruned_event = pruned_event"
                    )
                )
    assert await engine.connections.value("select pg_backend_pid()") != old


async def test_connections_kept_at_hand_are_dropped_when_one_can_only_read(
    engine: PostgresEngine,
) -> None:
    """They lead to the same server, and whoever is given one next would be refused."""
    connections, pid = engine.connections, "select pg_backend_pid()"
    change = connections.in_schema("update taskforge.horizons set pruned_event = pruned_event")
    at_hand: set[int] = set()

    async def meet_a_server_that_can_only_be_read() -> None:
        async with connections.connection() as reading:
            async with connections.connection() as first, connections.connection() as second:
                at_hand.update([await first.fetchval(pid), await second.fetchval(pid)])
            assert await connections.value(pid) in at_hand, "they were not kept"
            async with reading.transaction(readonly=True):
                await reading.execute(change)

    with pytest.raises(StoreUnavailable, match="read-only"):
        await meet_a_server_that_can_only_be_read()
    async with connections.connection() as first, connections.connection() as second:
        assert at_hand.isdisjoint({await first.fetchval(pid), await second.fetchval(pid)})


async def test_a_driver_that_stumbles_over_a_broken_connection_is_an_outage(
    engine: PostgresEngine,
) -> None:
    with pytest.raises(StoreUnavailable, match="AttributeError"):
        async with engine.connections.connection():
            asyncpg.Connection.is_closed(None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        async with engine.connections.connection():
            None.ours  # type: ignore[attr-defined]  # noqa: B018


async def test_a_value_that_does_not_fit_is_no_outage(engine: PostgresEngine) -> None:
    with pytest.raises(StoreFault):
        await engine.connections.value("select $1::int", "many")


async def test_every_error_that_the_driver_knows_becomes_one_of_ours() -> None:
    """Also those that no test has seen: whatever the server may say, and whatever the driver says
    by itself."""

    class Nothing:
        generation = 0
        outage = Outage()

        async def borrow(self) -> Any:
            return type("Connection", (), {"terminate": lambda _: None})()

        def keep(self, *_: object) -> bool:
            return True

        async def release(self, _: object) -> None:
            return None

        renew = release

    known = [
        kind
        for kind in vars(asyncpg.exceptions).values()
        if isinstance(kind, type)
        and issubclass(
            kind, asyncpg.PostgresError | asyncpg.InterfaceError | asyncpg.InternalClientError
        )
    ]
    assert len(known) > 200
    leaving = []
    for kind in known:
        error = kind.__new__(kind)
        Exception.__init__(error, "x")
        try:
            async with Borrowed(Nothing()):  # type: ignore[arg-type]
                raise error
        except Exception as ours:  # noqa: BLE001 - that is what is looked at
            if type(ours).__module__.startswith("asyncpg"):
                leaving.append(kind)
    assert leaving == []
