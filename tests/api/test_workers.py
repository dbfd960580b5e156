"""What operators ask of workers, and what workers hear of it."""

from typing import Any
from uuid import uuid4

import httpx

from tests.api.conftest import Api


async def call(
    client: httpx.AsyncClient, verb: str, expected: int = 200, query: str = "", **body: Any
) -> Any:
    answer = await client.post(f"/api/v1/worker/{verb}{query}", json=body)
    assert answer.status_code == expected, answer.text
    return answer.json() if answer.content else None


async def start(root: httpx.AsyncClient, name: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await call(root, "register", 201, name=name, **more)
    await call(root, "heartbeat", incarnation=made["incarnation"])
    return made


async def patch(root: httpx.AsyncClient, worker: str, expected: int = 200, **body: Any) -> Any:
    answer = await root.patch(f"/api/v1/workers/{worker}", json=body)
    assert answer.status_code == expected, answer.text
    return answer.json()


async def test_no_worker_gets_more_than_its_slots_over_http_either(root: httpx.AsyncClient) -> None:
    queue = (await root.post("/api/v1/queues", json={"name": "mail"})).json()
    jobs = [{"queue": "mail", "job_type": "send"}] * 12
    assert (await root.post("/api/v1/jobs/bulk", json=jobs)).status_code == 200
    worker = await start(root, "w", max_concurrent_jobs=1)
    mine = {"incarnation": worker["incarnation"]}
    [first] = (await call(root, "claim", limit=5, **mine))["jobs"]
    assert (await call(root, "claim", limit=5, **mine))["jobs"] == []
    [load] = (await root.get(f"/api/v1/queues/{queue['id']}/workers")).json()["items"]
    assert (load["active"], load["max"], load["load_percent"]) == (1, 1, 100.0)
    changed = await patch(root, worker["worker"], max_concurrent_jobs=3)
    assert (changed["max_concurrent_jobs"], changed["started_slots"]) == (3, 1)
    assert (await call(root, "heartbeat", **mine))["slots"] == 3
    assert len((await call(root, "claim", limit=9, **mine))["jobs"]) == 2
    assert len((await call(root, "claim", limit=9, reporting=1, **mine))["jobs"]) == 1
    outcome = {"execution": first["execution"], "outcome": {"kind": "success"}}
    await call(root, "complete", outcomes=[outcome], **mine)
    assert (await call(root, "claim", limit=9, **mine))["jobs"] == []
    assert (await patch(root, worker["worker"], max_concurrent_jobs=None))[
        "max_concurrent_jobs"
    ] == 1
    assert (await patch(root, worker["worker"], name="w"))["max_concurrent_jobs"] == 1


async def test_a_renamed_worker_stays_itself_and_names_in_use_are_refused(
    root: httpx.AsyncClient,
) -> None:
    first, second = await start(root, "w1"), await start(root, "w2")
    refused = await patch(root, second["worker"], 409, name="w1")
    assert "'w1' is in use" in refused["detail"]
    shown = await patch(root, first["worker"], name="shown")
    assert (shown["name"], shown["started_as"]) == ("shown", "w1")
    assert (await start(root, "w1"))["worker"] == first["worker"]
    assert (await root.get(f"/api/v1/workers/{first['worker']}")).json()["name"] == "shown"


async def test_a_deregistered_worker_is_told_so_and_comes_back_when_it_is_started(
    root: httpx.AsyncClient,
) -> None:
    worker = await start(root, "w")
    assert (await root.delete(f"/api/v1/workers/{worker['worker']}")).status_code == 204
    for verb, body in (("heartbeat", {}), ("claim", {"limit": 1})):
        told = await call(root, verb, 409, incarnation=worker["incarnation"], **body)
        assert told["type"].endswith("deregistered"), told
        assert "comes back when someone starts it again" in told["detail"]
    assert (await root.get(f"/api/v1/workers/{worker['worker']}")).json()["status"] == "offline"
    assert (await start(root, "w"))["worker"] == worker["worker"]
    assert (await root.get(f"/api/v1/workers/{worker['worker']}")).json()["status"] == "online"


async def register(
    client: httpx.AsyncClient, expected: int = 201, query: str = "", **body: Any
) -> Any:
    answer = await client.post(f"/api/v1/workers{query}", json=body)
    assert answer.status_code == expected, answer.text
    return answer.json()


async def test_whoever_may_change_workers_registers_one_ahead_and_its_process_becomes_it(
    api: Api, root: httpx.AsyncClient
) -> None:
    """`worker:write` is enough for it, and not for a worker's work; `worker:run` is not enough."""
    keeper, runner = [
        api.client(await api.key(1, [f"worker:{one}"], "default")) for one in ("write", "run")
    ]
    made = await register(
        keeper,
        name="gpu-1",
        worker_type="specialized_gpu",
        capabilities={"gpu": True},
        max_concurrent_jobs=2,
    )
    assert (made["status"], made["last_heartbeat"], made["project"]) == ("offline", None, "default")
    assert (made["worker_type"], made["capabilities"], made["max_concurrent_jobs"]) == (
        "specialized_gpu",
        {"gpu": True},
        2,
    )
    refused = await register(runner, 403, name="gpu-2")
    assert "worker:write" in refused["detail"]
    assert "worker:run" in (await call(keeper, "register", 403, name="gpu-1"))["detail"]
    queue = (await root.post("/api/v1/queues", json={"name": "renders"})).json()["id"]
    assert (
        await keeper.put(f"/api/v1/queues/{queue}/assignments/{made['id']}", json={})
    ).status_code == 201
    await root.post("/api/v1/jobs/bulk", json=[{"queue": "renders", "job_type": "render"}] * 3)
    started = await start(runner, "gpu-1", max_concurrent_jobs=8)
    assert started["worker"] == made["id"]
    assert (
        len((await call(runner, "claim", incarnation=started["incarnation"], limit=8))["jobs"]) == 2
    )
    shown = (await root.get(f"/api/v1/workers/{made['id']}")).json()
    assert (shown["status"], shown["max_concurrent_jobs"], shown["started_slots"]) == (
        "online",
        2,
        8,
    )


async def test_a_worker_is_not_registered_over_one_that_is_there(root: httpx.AsyncClient) -> None:
    worker, other = await start(root, "w"), await start(root, "other")
    assert (
        "'w' is in use"
        in (await register(root, 409, name="w", capabilities={"gpu": True}))["detail"]
    )
    assert (await root.get(f"/api/v1/workers/{worker['worker']}")).json()["capabilities"] == {}
    await patch(root, other["worker"], name="shown")
    for incarnation in (worker["incarnation"], other["incarnation"]):
        await call(root, "deregister", 204, incarnation=incarnation)
    assert "'shown' is in use" in (await register(root, 409, name="shown"))["detail"]
    again = await register(root, name="w", role="night")
    assert (again["id"], again["status"], again["role"]) == (worker["worker"], "offline", "night")
    assert (await register(root, name="w"))["id"] == worker["worker"]
    assert (await root.delete(f"/api/v1/workers/{worker['worker']}")).status_code == 204


async def test_workers_are_registered_in_ones_own_projects_alone(
    api: Api, root: httpx.AsyncClient
) -> None:
    rival = await api.tenant("rival")
    assert (await root.post("/api/v1/projects", json={"name": "two"})).status_code == 201
    bound = api.client(await api.key(1, ["worker:write"], "two"))
    assert (await register(bound, name="w"))["project"] == "two"
    assert (await register(root, name="w", query="?project=two"))["project"] == "two"
    await register(root, 422, name="w")  # which of the two is not said
    await register(bound, 403, "?project=default", name="w")
    await register(api.client(rival.key), 404, "?project=two", name="w")
    theirs = await register(api.client(rival.key), name="w")
    assert (await root.get(f"/api/v1/workers/{theirs['id']}")).status_code == 403
    assert {
        one["id"] for one in (await root.get("/api/v1/workers?project=default")).json()["items"]
    } == set()
    for body in (
        {},
        {"name": ""},
        {"name": "w", "worker_type": "bogus"},
        {"name": "w", "max_concurrent_jobs": 0},
        {"name": "w", "pid": 1},
    ):
        await register(bound, 422, **body)


async def test_who_is_healthy_and_what_is_asked_wrongly(root: httpx.AsyncClient) -> None:
    async def names(query: str) -> set[str]:
        answer = await root.get(f"/api/v1/workers?{query}")
        assert answer.status_code == 200, answer.text
        return {one["name"] for one in answer.json()["items"]}

    well, drained = await start(root, "well"), await start(root, "drained")
    await call(root, "register", 201, name="never-heard")
    unwell = await start(root, "unwell")
    await call(root, "heartbeat", incarnation=unwell["incarnation"], healthy=False)
    await root.post(f"/api/v1/workers/{drained['worker']}/drain")
    assert (await root.get(f"/api/v1/workers/{drained['worker']}")).json()["status"] == "draining"
    assert await names("healthy=true") == {"well", "drained"}
    assert await names("healthy=true&heartbeat_timeout_seconds=60") == {"well", "drained"}
    assert await names("healthy=true&heartbeat_timeout_seconds=0") == set()
    assert await names("worker_type=general") == {"well", "drained", "never-heard", "unwell"}
    assert await names("worker_type=specialized_gpu") == set()
    for query in (
        "worker_type=bogus",
        "heartbeat_timeout_seconds=5",
        "healthy=true&heartbeat_timeout_seconds=-1",
    ):
        assert (await root.get(f"/api/v1/workers?{query}")).status_code == 422, query
    for query in (f"queue_id={uuid4()}", f"worker_id={uuid4()}"):
        assert (await root.get(f"/api/v1/assignments?{query}")).status_code == 404, query
    assert (await root.get(f"/api/v1/assignments?worker_id={well['worker']}")).json() == {
        "items": [],
        "next_cursor": None,
    }


async def test_an_organizations_key_names_the_project_a_worker_registers_in(
    api: Api, root: httpx.AsyncClient
) -> None:
    assert (await root.post("/api/v1/projects", json={"name": "two"})).status_code == 201
    assert (await root.post("/api/v1/worker/register", json={"name": "w"})).status_code == 422
    made = await call(root, "register", 201, "?project=two", name="w")
    assert (await root.get(f"/api/v1/workers/{made['worker']}")).json()["project"] == "two"
    other = await call(root, "register", 201, "?project=default", name="w")
    assert other["worker"] != made["worker"]
