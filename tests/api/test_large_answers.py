"""S13, F2 and F3: large jobs of one tenant, listed and changed. What the server takes for it is
bounded, and others hardly wait."""

import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.target import JOB, MIB, Target, growth_of, serve_alone

LARGE = 250_000
COUNT = 240
MB = 10**6


@pytest.fixture
async def target(store_url: str, tmp_path: Path) -> AsyncIterator[Target]:
    async with serve_alone(store_url, tmp_path) as target:
        yield target


def stand_by(address: str, key: str, began: Any, stop: Any, waits: Any) -> None:
    """Someone else, in a process of their own, who enqueues one job after the other."""
    found = []
    with httpx.Client(base_url=address, headers={"authorization": f"Bearer {key}"}) as client:
        while not stop.is_set():
            begun = time.monotonic()
            assert client.post("/api/v1/jobs", json=JOB, timeout=60).status_code == 201
            found.append(time.monotonic() - begun)
            began.set()
            time.sleep(0.01)
    waits.put(found)


@asynccontextmanager
async def bystander(target: Target) -> AsyncIterator[list[float]]:
    context = multiprocessing.get_context("spawn")
    began, stop, waits = context.Event(), context.Event(), context.Queue()
    process = context.Process(
        target=stand_by, args=(target.address, target.key, began, stop, waits)
    )
    process.start()
    assert await asyncio.to_thread(began.wait, 60)
    found: list[float] = []
    try:
        yield found
    finally:
        stop.set()
        found += await asyncio.to_thread(waits.get, True, 60)
        process.join()


def p99(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)] * 1e3


async def fill(client: httpx.AsyncClient) -> None:
    settings = {"payload_limit_bytes": 8 * MIB}
    made = await client.post("/api/v1/queues", json={"name": "large", "settings": settings})
    assert made.status_code == 201, made.text
    job = {"queue": "large", "job_type": "send", "payload": "x" * LARGE}
    for _ in range(COUNT // 30):
        assert (await client.post("/api/v1/jobs/bulk", json=[job] * 30)).json()["errors"] == []


@pytest.mark.rotates
async def test_a_listing_is_bounded_in_bytes_and_stops_nobody(
    target: Target, figure: Callable[[str], None]
) -> None:
    async with target.client() as client:
        await fill(client)
        async with bystander(target) as quiet:
            await asyncio.sleep(3)
        async with bystander(target) as waits, growth_of(target) as growth:
            path = "/api/v1/jobs?queue=large&limit=1000"
            for _ in range(3):
                brief = await asyncio.gather(*(client.get(path) for _ in range(4)))
            assert all(len(one.content) < MIB for one in brief)
            assert [len(one.json()["items"]) for one in brief] == [COUNT] * 4
            assert "payload" not in brief[0].json()["items"][0]
            for _ in range(3):
                whole = await asyncio.gather(
                    *(client.get(f"{path}&include=payload&include=result") for _ in range(4))
                )
            assert all(4 * MIB < len(one.content) < 5 * MIB for one in whole)
            seen, cursor = len(whole[0].json()["items"]), whole[0].json()["next_cursor"]
            while cursor is not None:
                page = (await client.get(f"{path}&include=payload&cursor={cursor}")).json()
                seen, cursor = seen + len(page["items"]), page["next_cursor"]
            assert seen == COUNT
    assert growth.most < 100 * MIB, f"{growth.most / MIB:.0f} MiB"
    figure(
        f"F2 {target.address}: {COUNT} jobs of {LARGE:,} bytes, 4 listings at once: memory "
        f"+{growth.most / MIB:.0f} MiB; a bystander's p99 {p99(quiet):.0f} ms before "
        f"(n={len(quiet)}), {p99(waits):.0f} ms meanwhile (n={len(waits)})"
    )


@pytest.mark.rotates
async def test_a_change_takes_a_few_times_its_body(
    target: Target, figure: Callable[[str], None]
) -> None:
    # with a text that looks like a number which no reader can hold
    body = b'{"payload":["1e999",' + b"{}," * (7 * MIB // 3) + b"{}]}"
    headers = {"content-type": "application/json"}
    async with target.client() as client:
        await fill(client)  # SQLite's own memory is full then, which it keeps
        page = (await client.get("/api/v1/jobs?queue=large&limit=8")).json()
        paths = [f"/api/v1/jobs/{one['id']}" for one in page["items"]]
        async with bystander(target) as quiet:
            await asyncio.sleep(3)
        async with growth_of(target) as single:
            answer = await client.patch(paths[0], content=body, headers=headers)
            assert answer.status_code == 200, answer.text[:500]
        assert single.most < 3 * len(body) + 20 * MB, f"{single.most / MIB:.0f} MiB"
        statuses: set[int] = set()
        async with bystander(target) as waits, growth_of(target) as growth:
            for _ in range(3):
                changes = (client.patch(path, content=body, headers=headers) for path in paths)
                statuses |= {one.status_code for one in await asyncio.gather(*changes)}
    assert statuses == {200}
    # those that wait for their turn take their bytes, and one is worked on
    assert growth.most < (8 + 3) * len(body) + 20 * MB, f"{growth.most / MIB:.0f} MiB"
    figure(
        f"F3 {target.address}: PATCH of {len(body) / MIB:.1f} MiB: memory "
        f"+{single.most / MIB:.0f} MiB, 8 at once +{growth.most / MIB:.0f} MiB; "
        f"a bystander's p99 {p99(quiet):.0f} ms before (n={len(quiet)}), "
        f"{p99(waits):.0f} ms meanwhile (n={len(waits)})"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_bodies_under_way_are_bounded_and_small_ones_pass(target: Target) -> None:
    head = (
        f"POST /api/v1/jobs/bulk HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {target.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {8 * MIB}\r\n\r\n"
    ).encode()
    open_ones = []
    try:
        for _ in range(8):
            reader, writer = await asyncio.open_connection(target.host, int(target.port))
            open_ones.append(writer)
            writer.write(head + b" " * (8 * MIB - 1))
            await writer.drain()
        reader, writer = await asyncio.open_connection(target.host, int(target.port))
        open_ones.append(writer)
        writer.write(head)
        answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        for _ in range(8 * 16 - 1):
            if answer.done():
                break
            writer.write(b" " * 65_536)
            await asyncio.sleep(0.01)
        told = (await asyncio.wait_for(answer, 10)).lower()
        assert told.startswith(b"http/1.1 503")
        assert b"retry-after: 2" in told
        async with target.client() as client:
            assert (await client.post("/api/v1/jobs", json=JOB)).status_code == 201
            for one in open_ones:
                one.close()
            many = [JOB | {"payload": "x" * 100_000}] * 20
            for _ in range(100):
                made = await client.post("/api/v1/jobs/bulk", json=many)
                if made.status_code == 200:
                    break
                await asyncio.sleep(0.05)
            assert made.status_code == 200, "who left gives the room back"
    finally:
        for one in open_ones:
            one.close()
