"""Quotas: what a project may use, and what does not count."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.worker import NewWorker, Registered
from taskforge.operations.limits import quotas
from tests.api.conftest import Api

JOB = {"queue": "q", "job_type": "t"}
Limit = Callable[..., Awaitable[None]]


@pytest.fixture
async def limit(root: httpx.AsyncClient) -> Limit:
    """Sets the quota of the project, which has a queue."""
    await root.post("/api/v1/queues", json={"name": "q"})

    async def limit(**limits: int) -> None:
        assert (
            await root.patch("/api/v1/projects/default", json={"quota": limits})
        ).status_code == 200

    return limit


@pytest.fixture
async def minute(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute that does not end before the test does."""
    now = await api.engine.now()

    async def still() -> Any:
        return now

    monkeypatch.setattr(api.engine, "now", still)


async def post(client: httpx.AsyncClient, key: str | None = None, **more: Any) -> httpx.Response:
    return await client.post(
        "/api/v1/jobs", json=JOB | more, headers={} if key is None else {"idempotency-key": key}
    )


async def bulk(
    client: httpx.AsyncClient, jobs: list[Any], key: str | None = None
) -> httpx.Response:
    return await client.post(
        "/api/v1/jobs/bulk", json=jobs, headers={} if key is None else {"idempotency-key": key}
    )


def refused_by(answer: httpx.Response) -> str:
    assert answer.status_code == 429, answer.text
    return str(answer.json()["context"]["quota"])


@pytest.mark.usefixtures("minute")
async def test_quotas_are_kept(root: httpx.AsyncClient, limit: Limit) -> None:
    job = {"queue": "q", "job_type": "t", "payload": "x" * 50}
    await limit(pending_jobs=3)
    assert [(await root.post("/api/v1/jobs", json=job)).status_code for _ in range(5)] == [
        201,
        201,
        201,
        429,
        429,
    ]
    await limit(enqueue_per_minute=5)
    answers = [await root.post("/api/v1/jobs", json=job) for _ in range(12)]
    assert [one.status_code for one in answers] == [201] * 5 + [429] * 7
    refused = answers[-1]
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "enqueue_per_minute" in refused.json()["detail"]
    # What was counted in this minute are five payloads of 52 bytes; there is room for one more.
    await limit(payload_bytes_per_minute=7 * 52 - 1)
    answers = [await root.post("/api/v1/jobs", json=job) for _ in range(4)]
    assert [one.status_code for one in answers] == [201, 429, 429, 429]
    await limit(enqueue_per_minute=1_000, payload_bytes_per_minute=100)
    answers = [await root.post("/api/v1/jobs", json=job) for _ in range(4)]
    assert [one.status_code for one in answers] == [429] * 4
    refused = answers[0]
    assert "quota payload_bytes_per_minute of 100" in refused.json()["detail"]
    await limit()
    assert (await root.post("/api/v1/jobs", json=job)).status_code == 201


async def test_the_document_tells_where_quotas_hold(root: httpx.AsyncClient) -> None:
    paths = (await root.get("/api/v1/openapi.json")).json()["paths"]
    for path, method in (
        ("jobs", "post"),
        ("jobs/bulk", "post"),
        ("jobs/{job_id}", "patch"),
        ("worker/register", "post"),
    ):
        assert "429" in paths[f"/api/v1/{path}"][method]["responses"]


# --- Jobs ---


async def test_calls_at_once_do_not_pass_a_count_together(
    api: Api, root: httpx.AsyncClient, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = api.engine.stats

    async def slow(projects: Any, *, exact: bool = False) -> Any:
        found = await stats(projects)
        await asyncio.sleep(0.02)
        return found

    monkeypatch.setattr(api.engine, "stats", slow)
    await limit(pending_jobs=10)
    answers = await asyncio.gather(*(bulk(root, [JOB] * 10) for _ in range(8)))
    assert Counter(one.status_code for one in answers) == {200: 1, 429: 7}


async def test_what_is_on_its_way_into_the_store_counts(
    api: Api, root: httpx.AsyncClient, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, sent, go = api.engine.insert, asyncio.Event(), asyncio.Event()

    async def held(project: int, jobs: Any) -> Any:
        sent.set()
        await go.wait()
        return await insert(project, jobs)

    monkeypatch.setattr(api.engine, "insert", held)
    monkeypatch.setattr(quotas, "COUNT_SECONDS", -1.0)  # counted anew for each call
    await limit(pending_jobs=1)
    first = asyncio.create_task(post(root))
    await sent.wait()
    second = asyncio.create_task(post(root))
    await asyncio.wait([second], timeout=5)
    go.set()
    assert refused_by(await second) == "pending_jobs"
    assert (await first).status_code == 201


@pytest.mark.parametrize("quota", ["pending_jobs", "enqueue_per_minute"])
async def test_what_may_have_been_stored_though_the_store_went_away_counts(
    api: Api,
    root: httpx.AsyncClient,
    limit: Limit,
    minute: None,
    monkeypatch: pytest.MonkeyPatch,
    quota: str,
) -> None:
    insert = api.engine.insert

    async def lose_the_answer(project: int, jobs: Any) -> Any:
        await insert(project, jobs)
        raise StoreUnavailable("away")

    await limit(**{quota: 1})
    with monkeypatch.context() as away:
        away.setattr(api.engine, "insert", lose_the_answer)
        assert (await post(root)).status_code == 503
    assert refused_by(await post(root)) == quota


async def test_nobody_waits_for_a_long_count(
    api: Api, root: httpx.AsyncClient, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats, counting, over = api.engine.stats, asyncio.Event(), asyncio.Event()

    async def long(projects: Any, *, exact: bool = False) -> Any:
        found = await stats(projects)
        counting.set()
        await over.wait()
        return found

    await limit(pending_jobs=6)
    assert (await post(root)).status_code == 201
    monkeypatch.setattr(api.engine, "stats", long)
    monkeypatch.setattr(quotas, "COUNT_SECONDS", -1.0)  # counted whenever no count is under way
    monkeypatch.setattr(quotas, "REST", 0)
    async with asyncio.timeout(20):
        # The last count holds meanwhile, and what came since.
        assert [(await post(root)).status_code for _ in range(7)] == [201] * 5 + [429] * 2
        assert counting.is_set()
        over.set()
        monkeypatch.setattr(api.engine, "stats", stats)
        [job] = (await root.get("/api/v1/jobs", params={"limit": 1})).json()["items"]
        assert (await root.post(f"/api/v1/jobs/{job['id']}/cancel")).status_code == 200
        while (await post(root)).status_code == 429:
            await asyncio.sleep(0.05)  # until it is counted anew


async def test_what_was_let_in_during_a_long_count_is_added_to_it(
    api: Api, root: httpx.AsyncClient, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats, over = api.engine.stats, asyncio.Event()

    async def long(projects: Any, *, exact: bool = False) -> Any:
        found = await stats(projects)
        await over.wait()
        return found

    await limit(pending_jobs=3)
    assert (await post(root)).status_code == 201
    monkeypatch.setattr(api.engine, "stats", long)
    monkeypatch.setattr(quotas, "COUNT_SECONDS", -1.0)  # counted whenever no count is under way
    monkeypatch.setattr(quotas, "REST", 0)
    assert [(await post(root)).status_code for _ in range(2)] == [201] * 2
    monkeypatch.setattr(quotas, "COUNT_SECONDS", 3_600.0)  # and not again
    over.set()
    assert refused_by(await post(root)) == "pending_jobs"


async def test_what_is_stored_while_others_count_counts(
    api: Api, root: httpx.AsyncClient, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats, insert, go, counted = (
        api.engine.stats,
        api.engine.insert,
        asyncio.Event(),
        asyncio.Event(),
    )

    async def held(project: int, jobs: Any) -> Any:
        await go.wait()
        return await insert(project, jobs)

    async def slow(projects: Any, *, exact: bool = False) -> Any:
        found = await stats(projects)
        if counted.is_set():
            go.set()
            await first
        counted.set()
        return found

    monkeypatch.setattr(api.engine, "insert", held)
    monkeypatch.setattr(api.engine, "stats", slow)
    monkeypatch.setattr(quotas, "COUNT_SECONDS", -1.0)
    await limit(pending_jobs=1)
    first = asyncio.create_task(post(root))
    await counted.wait()
    assert refused_by(await post(root)) == "pending_jobs"
    assert (await first).status_code == 201


@pytest.mark.usefixtures("minute")
async def test_what_was_refused_uses_nothing(
    root: httpx.AsyncClient, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "COUNT_SECONDS", 3_600.0)
    await limit(enqueue_per_minute=5, pending_jobs=3)
    assert (await post(root)).status_code == 201
    assert [(await post(root, queue="nowhere")).status_code for _ in range(5)] == [404] * 5
    assert (await bulk(root, [JOB | {"queue": "nowhere"}, JOB])).json()["ids"][1] is not None
    assert {refused_by(await bulk(root, [JOB] * 2)) for _ in range(3)} == {"pending_jobs"}
    await limit(enqueue_per_minute=5, pending_jobs=10)
    assert refused_by(await bulk(root, [JOB] * 4)) == "enqueue_per_minute"
    await limit(enqueue_per_minute=5, pending_jobs=5)
    assert (await bulk(root, [JOB] * 3)).status_code == 200
    assert refused_by(await post(root)) == "pending_jobs"
    await limit(enqueue_per_minute=5)
    assert refused_by(await post(root)) == "enqueue_per_minute"


@pytest.mark.usefixtures("minute")
@pytest.mark.parametrize("quota", ["enqueue_per_minute", "pending_jobs"])
async def test_a_repetition_is_answered_and_uses_nothing(
    root: httpx.AsyncClient, limit: Limit, quota: str
) -> None:
    await limit(**{quota: 3})
    first = (await post(root, "order-1")).json()["id"]
    assert [(await post(root, "order-1")).json() for _ in range(3)] == [
        {"id": first, "existed": True}
    ] * 3
    made = (await bulk(root, [JOB] * 2, "orders")).json()
    assert refused_by(await post(root)) == quota
    assert refused_by(await post(root, "order-2")) == quota
    assert (await post(root, "order-1")).json() == {"id": first, "existed": True}
    assert (await post(root, "order-1", payload=1)).status_code == 409
    assert (await bulk(root, [JOB] * 2, "orders")).json() == made | {"existed": [0, 1]}
    assert refused_by(await bulk(root, [JOB] * 3, "orders")) == quota  # one of them is new
    await limit(**{quota: 4})
    assert (await bulk(root, [JOB] * 3, "orders")).json()["existed"] == [0, 1]


async def test_a_repetition_is_answered_by_a_paused_queue(
    root: httpx.AsyncClient, limit: Limit
) -> None:
    first = (await post(root, "order-1", delay_seconds=5)).json()["id"]
    (queue,) = (await root.get("/api/v1/queues")).json()["items"]
    await root.post(f"/api/v1/queues/{queue['id']}/pause")
    assert (await post(root, "order-1", delay_seconds=5)).json() == {"id": first, "existed": True}
    assert (await post(root, "order-2")).status_code == 409


@pytest.mark.usefixtures("minute")
async def test_a_payload_that_is_edited_counts(root: httpx.AsyncClient, limit: Limit) -> None:
    await limit(payload_bytes_per_minute=100, enqueue_per_minute=1)
    job = f"/api/v1/jobs/{(await post(root, payload='x' * 8)).json()['id']}"
    never = await root.patch(job, json={"payload": "x" * 200})
    assert (never.status_code, never.json()["errors"][0]["pointer"]) == (422, "#/payload")
    assert (
        "takes 202 bytes in one call, more than the quota payload_bytes_per_minute of 100"
        in never.json()["detail"]
    )
    # and uses nothing
    assert (
        await root.patch(job, json={"payload": "x" * 80, "queue": "nowhere"})
    ).status_code == 404
    assert (await root.patch(job, json={"payload": "x" * 58})).status_code == 200
    assert (
        refused_by(await root.patch(job, json={"payload": "x" * 58})) == "payload_bytes_per_minute"
    )
    assert (await root.patch(job, json={"priority": 3})).json()["payload"] == "x" * 58


async def test_an_operator_may_retry_beyond_the_quota(
    root: httpx.AsyncClient, limit: Limit
) -> None:
    await bulk(root, [JOB] * 3)
    every = {"where": {"everything": True}}
    await root.post("/api/v1/jobs/change", json=every | {"action": "cancel"})
    await limit(pending_jobs=2)
    assert (await root.post("/api/v1/jobs/change", json=every | {"action": "retry"})).json() == {
        "changed": 3,
        "refused": 0,
    }
    assert refused_by(await post(root)) == "pending_jobs"


# --- Workers ---


async def test_workers_count_from_their_registration_on(api: Api, limit: Limit) -> None:
    worker = api.client(await api.key(1, [], project="default", kind="worker"))

    async def register(name: str) -> httpx.Response:
        return await worker.post("/api/v1/worker/register", json={"name": name})

    await limit(workers=2)
    answers = await asyncio.gather(*(register(f"w{number}") for number in range(6)))
    assert Counter(one.status_code for one in answers) == {201: 2, 429: 4}
    lives = [
        {"incarnation": one.json()["incarnation"]} for one in answers if one.status_code == 201
    ]
    for one in lives:  # they cannot claim, and may any moment
        await worker.post("/api/v1/worker/heartbeat", json=one | {"healthy": False})
    refused = await register("one too many")
    assert refused_by(refused) == "workers"
    assert 1 <= int(refused.headers["retry-after"]) <= 15  # when the first lease may be over
    await worker.post("/api/v1/worker/deregister", json=lives[0])
    assert (await register("the next")).status_code == 201


async def test_of_two_servers_that_register_at_once_one_steps_back(
    api: Api, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, register = (
        api.client(await api.key(1, [], project="default", kind="worker")),
        api.engine.register,
    )

    async def after_another(project: int, one: NewWorker, lease_seconds: float) -> Registered:
        await register(project, NewWorker(name="the other server's"), lease_seconds)
        return await register(project, one, lease_seconds)

    await limit(workers=1)
    monkeypatch.setattr(api.engine, "register", after_another)
    assert (
        refused_by(await worker.post("/api/v1/worker/register", json={"name": "mine"})) == "workers"
    )
    now = await api.engine.now()
    assert [one.name for one in await api.engine.workers([1]) if one.lease_until > now] == [
        "the other server's"
    ]
