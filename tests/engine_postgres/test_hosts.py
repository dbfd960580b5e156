"""URLs with several hosts: whichever can be written to is found, and left once it cannot."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.errors import Invalid, StoreUnavailable, StoreUnsuitable
from taskforge.domain.job import Inserted, new_job
from taskforge.domain.outcome import Finish, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.worker import NewWorker
from taskforge.settings import Settings
from taskforge.storage.postgres import hosts
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.testing.postgres import LocalServer
from tests.support.pair import Pair, run


@pytest.fixture
def silent_host() -> Iterator[str]:
    """A machine that says nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_host() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def behind(first: str, url: str) -> str:
    return url.replace("@", f"@{first},")


@pytest.fixture
async def engines() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as stack:
        yield stack


async def opened(stack: contextlib.AsyncExitStack, url: str, schema: str) -> PostgresEngine:
    engine = PostgresEngine(url, schema=schema)
    await engine.open()
    stack.push_async_callback(engine.close)
    return engine


async def test_a_host_that_says_nothing_is_passed_by_and_asked_last_from_then_on(
    engines: contextlib.AsyncExitStack,
    silent_host: str,
    postgres_url: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "HOST_SECONDS", 0.5)
    began = time.monotonic()
    engine = await opened(engines, behind(silent_host, postgres_url), schema)
    assert time.monotonic() - began >= 0.5
    began = time.monotonic()
    await asyncio.gather(*(engine.connections.value("select pg_sleep(0.1)") for _ in range(5)))
    assert time.monotonic() - began < 0.5, "new connections begin with the host that served"


async def test_the_time_for_all_hosts_is_less_than_whoever_waits_has(silent_host: str) -> None:
    url = f"postgresql://u@{','.join([silent_host] * 6)}/d"
    assert 6 * hosts.Hosts(url)._seconds < 10
    assert hosts.Hosts("postgresql://u@one/d")._seconds == hosts.CONNECT_SECONDS


async def test_what_keeps_each_host_from_serving_is_told(
    closed_host: str, silent_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "HOST_SECONDS", 0.2)
    with pytest.raises(StoreUnavailable) as caught:
        await PostgresEngine(f"postgresql://u:secret@{closed_host},{silent_host}/d").open()
    assert f"{silent_host} says nothing" in str(caught.value)
    assert closed_host in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_mistake_is_told_with_several_hosts_too(
    closed_host: str, postgres_url: str
) -> None:
    url = behind(closed_host, postgres_url).rpartition("/")[0] + "/nodb"
    with pytest.raises(StoreUnsuitable, match="nodb"):
        await PostgresEngine(url).open()


@pytest.mark.parametrize("wanted", ["standby", "prefer-standby", "read-only", "master"])
def test_a_store_that_is_only_to_be_read_is_refused(wanted: str) -> None:
    with pytest.raises(Invalid, match="target_session_attrs") as caught:
        Settings.load({"url": f"postgresql://a,b/d?target_session_attrs={wanted}"})
    assert "read-write" in str(caught.value)


@pytest.mark.parametrize("wanted", ["any", "primary", "read-write"])
def test_what_a_store_may_be_asked_for_is_accepted(wanted: str) -> None:
    Settings.load({"url": f"postgresql://a:1,b:2/d?target_session_attrs={wanted}"})


async def test_a_vanished_machine_is_given_up_before_the_system_would(
    engine: PostgresEngine,
) -> None:
    """What was sent and not heard, and an idle connection alike."""
    connection = await engine.connections.connect("test")
    found = connection._transport.get_extra_info("socket")
    assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
    idle = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    each = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
    count = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
    assert idle + each * count <= 10
    await connection.close()


async def _port_of(server: LocalServer, name: str) -> int:
    [row] = await run(
        server,
        f"select count(*) as n from pg_stat_activity where application_name = '{name}'",
    )
    return int(row["n"])


async def test_an_old_primary_that_can_only_be_read_is_left_by_pool_and_listener(
    server_directory: Path,
) -> None:
    """It goes on and answers: only what it refuses tells that another has taken its place."""
    with Pair.start(server_directory) as pair:
        await pair.synchronize()
        ports = [urlsplit(f"//{host}").port for host in pair.url.split("@")[1][:-9].split(",")]
        assert ports == [pair.primary.port, pair.replica.port]
        engine = PostgresEngine(pair.url)
        await engine.open()
        heard = asyncio.Event()
        try:
            await engine.change_queue(1, CreateQueue(name="default"))
            engine.on_work(heard.set)
            await _until(lambda: engine._signals.hears)
            [before] = await engine.insert(1, [new_job("default", "work")])
            worker = await engine.register(1, NewWorker(name="w"), 60)
            assert await engine.queues([1])
            await pair.demote()
            await pair.promote()
            began = time.monotonic()
            while True:
                try:
                    [after] = await engine.insert(1, [new_job("default", "work")])
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
            assert time.monotonic() - began < 10
            async with asyncio.timeout(10):
                while not await _port_of(pair.replica, "taskforge listen"):
                    await asyncio.sleep(0.05)
            assert await _port_of(pair.primary, "taskforge listen") == 0
            heard.clear()
            await run(pair.replica, f"select pg_notify('{engine._signals.channel}', '')")
            async with asyncio.timeout(5):
                await heard.wait()
            assert isinstance(before, Inserted)
            assert isinstance(after, Inserted)
            claimed = await engine.claim(Claim(worker.incarnation, 5))
            assert {one.fence for one in claimed}
            assert await engine.finish([Finish(one.fence, ToSucceeded()) for one in claimed]) == []
            assert len(await engine.get([1], [before.job, after.job])) == 2
        finally:
            await engine.close()


async def _until(holds: object) -> None:
    assert callable(holds)
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.02)
