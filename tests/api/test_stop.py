"""A server that is told to stop does so at once: whoever waits for jobs or follows events gets an
end to it, not a broken line."""

import asyncio
import re
import time
from pathlib import Path

import httpx
import pytest

from taskforge.operations.platform import Platform
from tests.api.conftest import Api
from tests.api.test_start import Running

MOST_SECONDS = 3.0  # it breaks off what is under way after five


async def test_claims_that_wait_and_streams_do_not_hold_up_a_server_that_stops(
    tmp_path: Path,
) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        async with Running(tmp_path) as server:
            client.base_url = httpx.URL(f"{server.address}/api/v1")
            [key] = re.findall(r"tfk_[\w-]+", server.output)
            client.headers["authorization"] = f"Bearer {key}"
            made = await client.post("/worker/register", json={"name": "waits"})
            wish = {"incarnation": made.json()["incarnation"], "wait_seconds": 60}
            claiming = asyncio.create_task(client.post("/worker/claim", json=wish))
            following, opened = await _follow(client)
            await opened.wait()
            assert (await client.get(f"{server.address}/healthz")).status_code == 200
            assert not claiming.done()
            ends = list[float]()
            for one in (claiming, following):
                one.add_done_callback(lambda _: ends.append(time.monotonic()))
            began = time.monotonic()
        claimed = await claiming
        assert (claimed.status_code, claimed.json()) == (200, {"jobs": []})
        await following
    assert max(ends) - began < MOST_SECONDS
    assert "Traceback" not in server.output, server.output


async def _follow(client: httpx.AsyncClient) -> tuple[asyncio.Task[None], asyncio.Event]:
    """A stream that must end as it should: httpx raises when it is cut off."""
    opened = asyncio.Event()

    async def follow() -> None:
        async with client.stream("GET", "/events") as answer:
            async for _ in answer.aiter_lines():
                opened.set()

    return asyncio.create_task(follow()), opened


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_nobody_begins_to_wait_at_a_server_that_stops(
    api: Api, root: httpx.AsyncClient
) -> None:
    made = await root.post("/api/v1/worker/register", json={"name": "late"})
    platform: Platform = api.platform
    platform.end_waits()
    async with asyncio.timeout(5):
        claimed = await root.post(
            "/api/v1/worker/claim",
            json={"incarnation": made.json()["incarnation"], "wait_seconds": 60},
        )
    assert claimed.json() == {"jobs": []}
    assert platform.desk.claims.waiting == 0
