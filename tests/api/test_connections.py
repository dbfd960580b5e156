"""Connections are shared out by address, and only proxies that were named are believed whom they
act for."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from taskforge.operations.access.first_start import make_key
from taskforge.operations.limits.connection_limits import AddressShares
from tests.support.serving import Api

Serve = Callable[..., Awaitable[Api]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(api: Api, address: str) -> Connection:
    port = httpx.URL(api.address).port
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))


async def _ask(connection: Connection, path: str = "/healthz", *headers: str) -> tuple[int, bytes]:
    """The status and the head of the answer; 0 when it was closed."""
    reader, writer = connection
    lines = "".join(f"{header}\r\n" for header in headers)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n{lines}\r\n".encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = await asyncio.wait_for(reader.readexactly(length), 10)
    return int(head.split(b" ")[1]), head + body


def _close(connections: list[Connection]) -> None:
    for _, writer in connections:
        writer.close()


@pytest.mark.parametrize("says", ["nothing", "healthz"])
async def test_an_address_takes_no_more_than_its_share(
    serve: Serve, tmp_path: Path, says: str
) -> None:
    """F10: 2,500 connections of one address took all 2,000 places, and everybody got 503."""
    api = await serve(
        f"sqlite:///{tmp_path / 'api.db'}", max_connections=200, connections_per_address=50
    )
    attackers = [await _connect(api, "127.0.0.2") for _ in range(300)]
    if says == "healthz":
        statuses = [(await _ask(one))[0] for one in attackers[:50]]
        assert statuses == [200] * 50
    refused = await asyncio.wait_for(attackers[-1][0].read(), 10)  # told at once, and closed
    assert refused.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 2" in refused
    problem = json.loads(refused.partition(b"\r\n\r\n")[2])
    assert problem["type"] == "urn:taskforge:problem:crowded"
    assert "50" in problem["detail"]
    bystander = await _connect(api, "127.0.0.3")
    for _ in range(20):
        assert (await _ask(bystander))[0] == 200
    _close([*attackers, bystander])
    async with asyncio.timeout(10):  # what was closed counts no more
        while True:
            again = await _connect(api, "127.0.0.2")
            try:
                if (await _ask(again))[0] == 200:
                    break
            except (asyncio.IncompleteReadError, ConnectionError):
                await asyncio.sleep(0.01)
            finally:
                _close([again])


async def test_workers_have_a_share_of_their_own(serve: Serve, tmp_path: Path) -> None:
    api = await serve(
        f"sqlite:///{tmp_path / 'api.db'}", max_connections=100, connections_per_address=5
    )
    key = await api.key(1, [], "default", kind="worker")
    connections = []
    for _ in range(12):  # each shows its key before the next one comes
        connections.append(await _connect(api, "127.0.0.2"))
        head = f"authorization: Bearer {key}"
        connections[-1][1].write(
            f"POST /api/v1/worker/claim HTTP/1.1\r\nhost: x\r\n{head}\r\n"
            f"content-length: 2\r\n\r\n{{}}".encode()
        )
        line = await asyncio.wait_for(connections[-1][0].readline(), 10)
        assert b" 422 " in line, line  # an empty claim, but the key is a worker's
    strangers = [await _connect(api, "127.0.0.2") for _ in range(6)]
    assert [(await _ask(one))[0] for one in strangers[:5]] == [200] * 5
    assert (await strangers[5][0].read()).startswith(b"HTTP/1.1 429 ")
    _close([*connections, *strangers])


async def test_only_named_proxies_are_believed_whom_they_act_for(
    serve: Serve, tmp_path: Path
) -> None:
    """F11: whoever came from 127.0.0.1 was believed, and the audit log wrote what it said."""
    for proxies, origin in (("", "127.0.0.1"), ("127.0.0.0/30", "203.0.113.7")):
        api = await serve(
            f"sqlite:///{tmp_path / f'api{len(proxies)}.db'}", trusted_proxies=proxies
        )
        client = api.client(await make_key(api.platform, "root"))
        made = await client.post(
            "/api/v1/queues", json={"name": "q"}, headers={"x-forwarded-for": "203.0.113.7"}
        )
        assert made.status_code == 201
        entries = (await client.get("/api/v1/audit")).json()["items"]
        assert [e["origin"] for e in entries if e["action"] == "queue.create"] == [origin]
        await api.stop()


async def test_behind_a_proxy_requests_under_way_are_shared_out(
    serve: Serve, tmp_path: Path
) -> None:
    api = await serve(
        f"sqlite:///{tmp_path / 'api.db'}",
        max_connections=200,
        connections_per_address=3,
        trusted_proxies="127.0.0.1",
    )
    key = await make_key(api.platform, "root")
    head = f"authorization: Bearer {key}"
    streams = [await _connect(api, "127.0.0.1") for _ in range(5)]
    for _, writer in streams[:3]:
        writer.write(
            f"GET /api/v1/events HTTP/1.1\r\nhost: x\r\n{head}\r\n"
            f"x-forwarded-for: 198.51.100.1\r\n\r\n".encode()
        )
    for reader, _ in streams[:3]:
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 10)
    status, text = await _ask(streams[3], "/healthz", "x-forwarded-for: 198.51.100.1")
    assert (status, b"under way" in text) == (429, True)
    assert (await _ask(streams[4], "/healthz", "x-forwarded-for: 198.51.100.2"))[0] == 200
    _close(streams)


def test_a_place_is_given_back_once() -> None:
    shares = AddressShares(2, 1)
    first, second = shares.take("192.0.2.1"), shares.take("192.0.2.1")
    assert first is not None
    assert second is not None
    assert shares.take("192.0.2.1") is None
    first.belongs_to_worker()
    third = shares.take("192.0.2.1")
    assert third is not None
    third.belongs_to_worker()  # their share is taken: it stays with its address
    assert shares.take("192.0.2.1") is None
    first.release()
    first.release()
    third.belongs_to_worker()
    assert shares.take("192.0.2.1") is not None
    assert shares.take("192.0.2.1") is None
