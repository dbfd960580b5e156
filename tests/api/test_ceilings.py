"""Ceilings: what an organization may have in all its projects. Only the platform's owner sets
them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from taskforge.domain.access import Role
from tests.api.conftest import Api

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
