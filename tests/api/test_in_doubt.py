"""R4: the store fails before or after it wrote; clients that send again with a key lose nothing and
do nothing twice.

And the server while its store is away: it says so, says when to try again, and serves again once
the store is back.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskforge.domain.errors import StoreUnavailable
from taskforge.operations.access.first_start import make_key
from taskforge.testing.postgres import LocalServer
from tests.api.conftest import Api

pytestmark = pytest.mark.rotates

CLIENTS = 32


def make_doubtful(api: Api, monkeypatch: pytest.MonkeyPatch, share: float) -> Counter[str]:
    """In this share of calls nothing is written, in as many it is and nobody hears of it."""
    insert, chance, faults = api.engine.insert, random.Random(5), Counter[str]()

    async def doubtful(project: int, jobs: Any) -> Any:
        drawn = chance.random()
        if drawn < share:
            faults["before"] += 1
            raise StoreUnavailable("the store went away", retry_after=0.01)
        answers = await insert(project, jobs)
        if drawn > 1 - share:
            faults["after"] += 1
            raise StoreUnavailable("the store went away", retry_after=0.01)
        return answers

    monkeypatch.setattr(api.engine, "insert", doubtful)
    return faults


async def enqueue_all(api: Api, key: str, jobs: int, *, with_keys: bool) -> int:
    """Returns how many requests it took."""
    numbers, requests = iter(range(jobs)), 0

    async def client() -> None:
        nonlocal requests
        async with httpx.AsyncClient(
            base_url=api.address, headers={"authorization": f"Bearer {key}"}, timeout=30
        ) as http:
            for number in numbers:
                headers = {"idempotency-key": f"job-{number}"} if with_keys else {}
                body = {"queue": "mail", "job_type": "send", "payload": number}
                for _ in range(50):
                    requests += 1
                    try:
                        answer = await http.post("/api/v1/jobs", json=body, headers=headers)
                    except httpx.TransportError:
                        continue
                    if answer.status_code == 201:
                        break
                    assert answer.status_code == 503, answer.text
                    assert int(answer.headers["retry-after"]) >= 1
                else:
                    raise AssertionError(f"job {number} never got through")

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return requests


async def stored(root: httpx.AsyncClient) -> Counter[int]:
    """How often each job is there."""
    found: Counter[int] = Counter()
    cursor: str | None = None
    while True:
        page = (
            await root.get(
                "/api/v1/jobs",
                params={"limit": 1_000, "include": "payload"}
                | ({"cursor": cursor} if cursor else {}),
            )
        ).json()
        found.update(one["payload"] for one in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found


async def run(
    api: Api,
    root: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
    *,
    with_keys: bool,
) -> Any:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    key = await make_key(api.platform, "enqueuer")
    faults = make_doubtful(api, monkeypatch, 0.05)
    requests = await enqueue_all(api, key, jobs, with_keys=with_keys)
    found = await stored(root)
    return faults, requests, jobs - len(found), sum(found.values()) - len(found)


@pytest.mark.parametrize("jobs", [5_000, pytest.param(500_000, marks=pytest.mark.long)])
async def test_nothing_is_lost_and_nothing_is_there_twice(
    api: Api,
    root: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
    jobs: int,
) -> None:
    faults, requests, lost, twice = await run(api, root, monkeypatch, jobs, with_keys=True)
    assert faults["after"] > jobs / 40
    assert (lost, twice) == (0, 0)
    figure(
        f"R4 {type(api.engine).__name__}: n={jobs:,} jobs of {CLIENTS} clients in {requests:,} "
        f"requests, "
        f"{faults['before']} failed before and {faults['after']} after the commit: {lost} lost, "
        f"{twice} twice"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_without_keys_some_are_there_twice(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    faults, _, lost, twice = await run(api, root, monkeypatch, 400, with_keys=False)
    assert lost == 0
    assert twice == faults["after"] > 0


# --- The store away ---


@pytest.fixture
def stoppable(server_directory: Path) -> Iterator[LocalServer]:
    with LocalServer.start(server_directory, settings={"fsync": "off"}) as server:
        yield server


async def test_a_store_that_is_away_is_told_and_comes_back(
    stoppable: LocalServer, serve: Callable[..., Awaitable[Api]], figure: Callable[[str], None]
) -> None:
    api = await serve(stoppable.url())
    root = api.client(await make_key(api.platform, "root"))
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    calls: dict[str, Callable[[], Awaitable[httpx.Response]]] = {
        "read": lambda: root.get("/api/v1/queues"),
        "enqueue": lambda: root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"}),
        "login": lambda: root.post("/api/v1/session", json={"email": "a@b", "password": "wrong"}),
        "readyz": lambda: root.get("/readyz"),
    }
    before = {name: (await call()).status_code for name, call in calls.items()}
    assert before == {"read": 200, "enqueue": 201, "login": 401, "readyz": 200}
    await asyncio.to_thread(stoppable.stop)
    for name, call in calls.items():
        answer = await call()
        assert (name, answer.status_code, answer.headers["content-type"]) == (
            name,
            503,
            "application/problem+json",
        )
        assert "127.0.0.1" not in answer.text, "where the database is, is nobody's business"
        assert int(answer.headers["retry-after"]) >= 1
    assert (await root.get("/healthz")).status_code == 200, "the process itself is well"
    await asyncio.to_thread(stoppable.restart)
    begun = asyncio.get_running_loop().time()
    while {name: (await call()).status_code for name, call in calls.items()} != before:
        assert asyncio.get_running_loop().time() - begun < 20
        await asyncio.sleep(0.2)
    took = asyncio.get_running_loop().time() - begun
    figure(
        f"R4 PostgreSQL away: n={len(calls)} kinds of request got 503 with Retry-After, and were "
        f"served {took:.1f} s after"
    )
