"""F6: ceilings, what an organization may have in all its projects. Only the platform's owner sets
them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from taskforge.domain.access import Role
from tests.api.conftest import Api
from tests.support.nodes import count_bytes

JOB = {"queue": "q", "job_type": "t"}
Cap = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def platform_owner(api: Api) -> httpx.AsyncClient:
    return api.client(await api.user(1, Role.OWNER))


@pytest.fixture
async def acme(api: Api) -> httpx.AsyncClient:
    """An owner of an organization of its own, which has a queue."""
    tenant = await api.tenant("acme")
    client = api.client(tenant.key)
    assert (await client.post("/api/v1/queues", json={"name": "q"})).status_code == 201
    return client


@pytest.fixture
async def cap(platform_owner: httpx.AsyncClient, acme: httpx.AsyncClient) -> Cap:
    """Sets the organization's ceiling, as the platform's owner."""
    del acme
    known = (await platform_owner.get("/api/v1/organizations")).json()["items"]
    [path] = [f"/api/v1/organizations/{one['id']}" for one in known if one["name"] == "acme"]

    async def cap(**limits: int) -> dict[str, Any]:
        answer = await platform_owner.patch(path, json={"ceiling": limits})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    return cap


def refused_by(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "ceiling")
    return str(answer.json()["context"]["ceiling"])


async def test_only_the_platforms_owner_sets_it_and_members_see_it(
    acme: httpx.AsyncClient, platform_owner: httpx.AsyncClient, cap: Cap
) -> None:
    told = await cap(projects=3, workers=2)
    assert told["ceiling"] == {
        "projects": 3,
        "queues": None,
        "pending_jobs": None,
        "workers": 2,
        "enqueue_per_minute": None,
        "bytes_per_minute": None,
        "stored_bytes": None,
        "streams": None,
    }
    mine = (await acme.get("/api/v1/organization")).json()
    assert mine["ceiling"] == told["ceiling"]
    raised = await acme.patch(f"/api/v1/organizations/{mine['id']}", json={"ceiling": {}})
    assert raised.status_code == 403
    assert (await acme.get("/api/v1/organization")).json() == mine
    assert (await platform_owner.get("/api/v1/organization")).json()["ceiling"]["projects"] is None
    bad = await platform_owner.patch(
        f"/api/v1/organizations/{mine['id']}", json={"ceiling": {"workers": -1}}
    )
    assert bad.status_code == 422
    missing = "/api/v1/organizations/019a0000-0000-7000-8000-000000000000"
    assert (await platform_owner.patch(missing, json={"ceiling": {}})).status_code == 404


async def test_projects_stop_at_the_ceiling_also_at_once(
    acme: httpx.AsyncClient, root: httpx.AsyncClient, cap: Cap
) -> None:
    await cap(projects=3)
    answers = await asyncio.gather(
        *(acme.post("/api/v1/projects", json={"name": f"p{index}"}) for index in range(8))
    )
    assert sorted(one.status_code for one in answers) == [201] * 2 + [409] * 6
    assert {refused_by(one) for one in answers if one.status_code == 409} == {"projects"}
    assert (await root.post("/api/v1/projects", json={"name": "free"})).status_code == 201


async def test_queues_are_counted_over_all_projects(acme: httpx.AsyncClient, cap: Cap) -> None:
    await acme.post("/api/v1/projects", json={"name": "second"})
    await cap(queues=3)
    answers = await asyncio.gather(
        *(
            acme.post(f"/api/v1/queues?project={project}", json={"name": f"q{index}"})
            for index in range(4)
            for project in ("default", "second")
        )
    )
    assert sorted(one.status_code for one in answers) == [201] * 2 + [409] * 6
    assert {refused_by(one) for one in answers if one.status_code == 409} == {"queues"}


async def test_jobs_wait_up_to_the_ceiling_in_all_projects(
    acme: httpx.AsyncClient, root: httpx.AsyncClient, cap: Cap
) -> None:
    await acme.post("/api/v1/projects", json={"name": "second"})
    await acme.post("/api/v1/queues?project=second", json={"name": "q"})
    await cap(pending_jobs=10)
    # lifting the quota of a project does not lift it
    lifted = await acme.patch("/api/v1/projects/default", json={"quota": {}})
    assert lifted.status_code == 200
    answers = await asyncio.gather(
        *(
            acme.post(f"/api/v1/jobs?project={project}", json=JOB)
            for _ in range(10)
            for project in ("default", "second")
        )
    )
    assert sorted(one.status_code for one in answers) == [201] * 10 + [409] * 10
    assert {refused_by(one) for one in answers if one.status_code == 409} == {"pending_jobs"}
    # what is refused by a ceiling is not counted by a quota
    await acme.patch("/api/v1/projects/default", json={"quota": {"pending_jobs": 50}})
    assert refused_by(await acme.post("/api/v1/jobs?project=default", json=JOB)) == "pending_jobs"
    await root.post("/api/v1/queues", json={"name": "q"})
    assert (await root.post("/api/v1/jobs", json=JOB)).status_code == 201
    # retries are never refused, not even at the ceiling
    job = next(one for one in answers if one.status_code == 201).json()["id"]
    assert (await acme.post(f"/api/v1/jobs/{job}/cancel")).status_code == 200
    assert (await acme.post(f"/api/v1/jobs/{job}/retry")).status_code == 200


async def test_repeating_an_enqueue_is_no_new_job(acme: httpx.AsyncClient, cap: Cap) -> None:
    await cap(pending_jobs=1)
    key = {"idempotency-key": "k"}
    first = await acme.post("/api/v1/jobs", json=JOB, headers=key)
    again = await acme.post("/api/v1/jobs", json=JOB, headers=key)
    assert (first.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert refused_by(await acme.post("/api/v1/jobs", json=JOB)) == "pending_jobs"


async def test_workers_are_counted_over_all_projects(
    api: Api, acme: httpx.AsyncClient, cap: Cap
) -> None:
    await acme.post("/api/v1/projects", json={"name": "second"})
    await cap(workers=2)
    number = next(
        one.number for one in await api.platform.tenants.organizations() if one.name == "acme"
    )
    clients = [
        api.client(await api.key(number, [], project=project, kind="worker"))
        for project in ("default", "second")
    ]
    answers = await asyncio.gather(
        *(
            client.post("/api/v1/worker/register", json={"name": f"w{index}-{place}"})
            for index in range(3)
            for place, client in enumerate(clients)
        )
    )
    assert sorted(one.status_code for one in answers) == [201] * 2 + [409] * 4
    assert {refused_by(one) for one in answers if one.status_code == 409} == {"workers"}


# --- Rates, bytes, streams ---


def throttled_by(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (429, "quota")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert "organization's ceiling" in answer.json()["detail"]
    return str(answer.json()["context"]["quota"])


@pytest.fixture
async def worker(api: Api, acme: httpx.AsyncClient) -> httpx.AsyncClient:
    del acme
    organizations = await api.platform.tenants.organizations()
    number = next(one.number for one in organizations if one.name == "acme")
    return api.client(await api.key(number, [], project="default", kind="worker"))


async def claim(worker: httpx.AsyncClient, limit: int = 1) -> tuple[str, list[str]]:
    """The incarnation and the executions that it got."""
    made = await worker.post("/api/v1/worker/register", json={"name": "w", "types": ["t"]})
    assert made.status_code == 201, made.text
    incarnation = made.json()["incarnation"]
    body = {"incarnation": incarnation, "limit": limit, "wait_seconds": 5}
    claimed = await worker.post("/api/v1/worker/claim", json=body)
    return incarnation, [one["execution"] for one in claimed.json()["jobs"]]


async def succeed(
    worker: httpx.AsyncClient, incarnation: str, execution: str, result: str
) -> httpx.Response:
    outcome = {"execution": execution, "outcome": {"kind": "success", "result": result}}
    return await worker.post(
        "/api/v1/worker/complete", json={"incarnation": incarnation, "outcomes": [outcome]}
    )


async def early_in_a_minute(api: Api, seconds: int = 20) -> None:
    """What a minute allows is not asked for across its end."""
    while (now := await api.platform.engine.now()).second > 60 - seconds:
        await asyncio.sleep(60.05 - now.second - now.microsecond / 1e6)


async def test_the_rate_of_enqueues_holds_over_all_projects(
    api: Api, acme: httpx.AsyncClient, root: httpx.AsyncClient, cap: Cap
) -> None:
    await acme.post("/api/v1/projects", json={"name": "second"})
    await acme.post("/api/v1/queues?project=second", json={"name": "q"})
    await cap(enqueue_per_minute=45)
    await early_in_a_minute(api)
    answers = await asyncio.gather(
        *(
            acme.post(f"/api/v1/jobs?project={project}", json=JOB)
            for _ in range(30)
            for project in ("default", "second")
        )
    )
    assert sorted(one.status_code for one in answers) == [201] * 45 + [429] * 15
    refused = [one for one in answers if one.status_code == 429]
    assert {throttled_by(one) for one in refused} == {"enqueue_per_minute"}
    await root.post("/api/v1/queues", json={"name": "q"})
    assert (await root.post("/api/v1/jobs", json=JOB)).status_code == 201
    job = next(one for one in answers if one.status_code == 201).json()["id"]
    assert (await acme.post(f"/api/v1/jobs/{job}/cancel")).status_code == 200
    assert (await acme.post(f"/api/v1/jobs/{job}/retry")).status_code == 200
    too_many = await acme.post("/api/v1/jobs/bulk?project=default", json=[JOB] * 46)
    assert too_many.status_code == 422


async def test_jobs_that_were_refused_take_nothing_of_the_rate(
    api: Api, acme: httpx.AsyncClient, cap: Cap
) -> None:
    await cap(enqueue_per_minute=5)
    await early_in_a_minute(api)
    for _ in range(10):
        missing = await acme.post("/api/v1/jobs", json=JOB | {"queue": "none"})
        assert missing.status_code == 404
    answers = [(await acme.post("/api/v1/jobs", json=JOB)).status_code for _ in range(6)]
    assert answers == [201] * 5 + [429]


@pytest.mark.rotates
async def test_the_row_is_written_some_twenty_times_a_minute(
    api: Api, acme: httpx.AsyncClient, cap: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskforge.storage.records.ceiling_usage import CeilingUsage

    await cap(enqueue_per_minute=200, bytes_per_minute=10**9)
    await early_in_a_minute(api)
    taken, take = [], CeilingUsage.take

    async def counted(self: CeilingUsage, *asked: Any) -> bool:
        taken.append(asked)
        return await take(self, *asked)

    monkeypatch.setattr(CeilingUsage, "take", counted)
    answers = [(await acme.post("/api/v1/jobs", json=JOB)).status_code for _ in range(100)]
    assert answers == [201] * 100
    assert len(taken) == 10


async def test_bytes_a_minute_count_results_and_logs_and_endings_are_never_refused(
    api: Api, acme: httpx.AsyncClient, worker: httpx.AsyncClient, cap: Cap
) -> None:
    made = [(await acme.post("/api/v1/jobs", json=JOB)).json()["id"] for _ in range(2)]
    await cap(bytes_per_minute=10_000)
    await early_in_a_minute(api)
    incarnation, executions = await claim(worker, 2)
    assert len(executions) == 2
    kept = await succeed(worker, incarnation, executions[0], "x" * 6_000)
    assert (kept.status_code, kept.json()) == (200, {"lost": []})
    line = {"execution": executions[1], "level": "info", "message": "y" * 3_000}
    lines = {"incarnation": incarnation, "lines": [line]}
    assert (await worker.post("/api/v1/worker/logs", json=lines)).status_code == 200
    refused = await worker.post("/api/v1/worker/logs", json=lines)
    assert throttled_by(refused) == "bytes_per_minute"
    large = JOB | {"payload": "z" * 3_000}
    assert throttled_by(await acme.post("/api/v1/jobs", json=large)) == "bytes_per_minute"
    dropped = await succeed(worker, incarnation, executions[1], "x" * 6_000)
    assert (dropped.status_code, dropped.json()) == (200, {"lost": []})
    jobs = [(await acme.get(f"/api/v1/jobs/{job}")).json() for job in made]
    assert {one["status"] for one in jobs} == {"succeeded"}
    [whole] = [one for one in jobs if one["result"] is not None]
    [empty] = [one for one in jobs if one["result"] is None]
    assert (whole["result"], whole["reason"]) == ("x" * 6_000, None)
    assert "its result of 6,002 bytes was dropped" in empty["reason"]
    assert "bytes_per_minute" in empty["reason"]


async def test_what_is_stored_stops_at_the_ceiling_until_something_is_removed(
    api: Api,
    acme: httpx.AsyncClient,
    worker: httpx.AsyncClient,
    cap: Cap,
) -> None:
    # noise, which PostgreSQL does not make smaller
    text = "".join(chr(32 + (index * index * 7919 + index * 31) % 90) for index in range(3_000))
    large = JOB | {"payload": text.replace("\\", "-").replace('"', "-")}
    first = (await acme.post("/api/v1/jobs", json=large)).json()["id"]
    await cap(stored_bytes=10_000)
    await count_bytes(api.engine)
    assert (await acme.post("/api/v1/jobs", json=large)).status_code == 201
    small = [(await acme.post("/api/v1/jobs", json=JOB)).json()["id"]]
    while (answer := await acme.post("/api/v1/jobs", json=large)).status_code == 201:
        pass
    assert refused_by(answer) == "stored_bytes"
    edited = await acme.patch(f"/api/v1/jobs/{small[0]}", json={"payload": large["payload"] * 3})
    assert refused_by(edited) == "stored_bytes"
    incarnation, [execution] = await claim(worker)
    assert (await succeed(worker, incarnation, execution, "x" * 9_999)).status_code == 200
    done = (await acme.get(f"/api/v1/jobs/{first}")).json()
    assert (done["status"], done["result"]) == ("succeeded", None)
    assert "stored bytes" in done["reason"]
    assert (await acme.delete(f"/api/v1/jobs/{first}")).status_code == 204
    await count_bytes(api.engine)
    assert (await acme.post("/api/v1/jobs", json=large)).status_code == 201


async def test_streams_stop_at_the_ceiling(acme: httpx.AsyncClient, cap: Cap) -> None:
    await cap(streams=1)
    async with acme.stream("GET", "/api/v1/events") as open_one:
        assert open_one.status_code == 200
        assert refused_by(await acme.get("/api/v1/events")) == "streams"
