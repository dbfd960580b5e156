"""Queues over HTTP: versions, merging, pausing, and errors that point to the field."""

import httpx
import pytest

from tests.api.conftest import Api


@pytest.fixture
async def queue(root: httpx.AsyncClient) -> dict[str, object]:
    made = await root.post(
        "/api/v1/queues", json={"name": "mail", "settings": {"max_retries": 2}, "priority": 3}
    )
    assert made.status_code == 201, made.text
    return dict(made.json())


async def test_an_update_is_made_to_the_version_that_was_read(
    root: httpx.AsyncClient, queue: dict[str, object]
) -> None:
    path = f"/api/v1/queues/{queue['id']}"
    read = await root.get(path)
    etag = read.headers["etag"]
    first = await root.patch(path, json={"priority": 5}, headers={"if-match": etag})
    assert (first.status_code, first.json()["priority"]) == (200, 5)
    assert first.headers["etag"] != etag
    stale = await root.patch(path, json={"priority": 7}, headers={"if-match": etag})
    assert (stale.status_code, stale.json()["type"]) == (412, "urn:taskforge:problem:stale")
    assert (await root.get(path)).json()["priority"] == 5
    assert (
        await root.patch(path, json={"priority": 7}, headers={"if-match": "*"})
    ).status_code == 200
    assert (
        await root.patch(path, json={"priority": 7}, headers={"if-match": "nonsense"})
    ).status_code == 422


async def test_settings_are_merged_and_null_is_the_default(
    root: httpx.AsyncClient, queue: dict[str, object]
) -> None:
    path = f"/api/v1/queues/{queue['id']}"
    changed = await root.patch(path, json={"settings": {"timeout_seconds": 5}})
    assert changed.json()["settings"] == {"max_retries": 2, "timeout_seconds": 5.0}
    changed = await root.patch(path, json={"settings": {"max_retries": None}})
    assert changed.json()["settings"] == {"timeout_seconds": 5.0}


async def test_a_paused_queue_takes_no_jobs(
    root: httpx.AsyncClient, queue: dict[str, object]
) -> None:
    assert (await root.post(f"/api/v1/queues/{queue['id']}/pause")).json()["is_active"] is False
    refused = await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
    assert (refused.status_code, refused.json()["type"]) == (
        409,
        "urn:taskforge:problem:queue-paused",
    )
    assert (await root.post(f"/api/v1/queues/{queue['id']}/resume")).json()["is_active"] is True
    assert (
        await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
    ).status_code == 201


async def test_a_deleted_queue_cancels_what_waits_and_keeps_its_history(
    root: httpx.AsyncClient, queue: dict[str, object]
) -> None:
    job = (await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})).json()["id"]
    assert (await root.delete(f"/api/v1/queues/{queue['id']}")).status_code == 204
    assert (await root.get(f"/api/v1/queues/{queue['id']}")).status_code == 404
    assert (await root.get(f"/api/v1/jobs/{job}")).json()["status"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": ""}, "#/name"),
        ({"name": "x", "priority": 10}, "#/priority"),
        ({"name": "x", "settings": {"timeout_second": 1}}, "#/settings/timeout_second"),
        ({"name": "x", "settings": {"max_retries": "many"}}, "#/settings/max_retries"),
        ({"name": "x", "colour": "red"}, "#/"),
        ({}, "#/"),
    ],
)
async def test_a_bad_value_is_pointed_to(
    root: httpx.AsyncClient, body: dict[str, object], pointer: str
) -> None:
    answer = await root.post("/api/v1/queues", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_lists_cover_a_project_or_the_organization(
    api: Api, root: httpx.AsyncClient, queue: dict[str, object]
) -> None:
    await root.post("/api/v1/projects", json={"name": "shop"})
    # which project?
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 422
    assert (
        await root.post("/api/v1/queues?project=shop", json={"name": "mail"})
    ).status_code == 201
    assert [one["project"] for one in (await root.get("/api/v1/queues")).json()["items"]] == [
        "default",
        "shop",
    ]
    assert [
        one["project"] for one in (await root.get("/api/v1/queues?project=shop")).json()["items"]
    ] == ["shop"]
    for project in ("default", "shop", "shop"):
        made = await root.post(
            f"/api/v1/projects/{project}/jobs", json={"queue": "mail", "job_type": "send"}
        )
        assert made.status_code == 201
    assert len((await root.get("/api/v1/jobs")).json()["items"]) == 3
    assert len((await root.get("/api/v1/jobs?project=shop")).json()["items"]) == 2
    bound = api.client(await api.key(1, ["job:*", "queue:read"], project="shop"))
    assert len((await bound.get("/api/v1/jobs")).json()["items"]) == 2
    assert (
        await bound.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
    ).status_code == 201
    assert (await bound.get("/api/v1/jobs?project=default")).status_code == 403
    assert (
        await bound.post(
            "/api/v1/projects/default/jobs", json={"queue": "mail", "job_type": "send"}
        )
    ).status_code == 403
    assert (await root.get("/api/v1/queues?project=shopp")).status_code == 404


async def test_large_answers_are_compressed(
    root: httpx.AsyncClient, queue: dict[str, object]
) -> None:
    await root.post("/api/v1/jobs/bulk", json=[{"queue": "mail", "job_type": "send"}] * 50)
    assert (await root.get("/api/v1/jobs")).headers["content-encoding"] == "gzip"


async def test_a_queue_is_read_changed_and_deleted_by_its_name_too(
    api: Api, root: httpx.AsyncClient
) -> None:
    queue = (await root.post("/api/v1/queues", json={"name": "mail ÿ"})).json()
    worker = (await root.post("/api/v1/workers", json={"name": "w"})).json()["id"]
    path = "/api/v1/queues/mail%20%C3%BF"
    assert (
        (await root.get(path)).json()
        == queue
        == (await root.get(f"/api/v1/queues/{queue['id'].upper()}")).json()
    )
    assert (await root.patch(path, json={"priority": 4})).json()["priority"] == 4
    assert (await root.post(f"{path}/pause")).json()["is_active"] is False
    assert (await root.post(f"{path}/resume")).json()["is_active"] is True
    assert (await root.get(f"{path}/stats")).json()["queue_id"] == queue["id"]
    for method, status in (("PUT", 201), ("PATCH", 200), ("GET", 200), ("DELETE", 204)):
        body = {"json": {"weight": 2}} if method in ("PUT", "PATCH") else {}
        answer = await root.request(method, f"{path}/assignments/{worker}", **body)
        assert answer.status_code == status, answer.text
    assert (await root.get(f"{path}/workers")).json() == {"items": []}
    missing = await root.get("/api/v1/queues/maill ÿ")
    assert (missing.status_code, "did you mean 'mail ÿ'?" in missing.json()["detail"]) == (
        404,
        True,
    )
    rival = api.client((await api.tenant("rival")).key)
    assert (await rival.get(path)).status_code == 404
    assert "did you mean" not in (await rival.get("/api/v1/queues/maill ÿ")).text
    assert (await rival.get(f"/api/v1/queues/{queue['id']}")).status_code == 403
    assert (await root.delete(path)).status_code == 204
    assert (await root.get(path)).status_code == 404


async def test_a_name_that_two_of_ones_projects_have_is_told_by_the_key_or_not_at_all(
    api: Api, root: httpx.AsyncClient
) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    await root.post("/api/v1/projects", json={"name": "two"})
    second = (await root.post("/api/v1/queues?project=two", json={"name": "mail"})).json()
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause")):
        answer = await root.request(method, f"/api/v1/queues/mail{path}")
        assert (answer.status_code, answer.json()["errors"][0]["expected"]) == (
            422,
            "name it by its id",
        ), answer.text
    bound = api.client(await api.key(1, ["queue:read"], "two"))
    assert (await bound.get("/api/v1/queues/mail")).json() == second


async def test_jobs_are_made_listed_and_counted_by_queue_id_with_job_permissions_alone(
    api: Api, root: httpx.AsyncClient
) -> None:
    queue = (await root.post("/api/v1/queues", json={"name": "mail"})).json()["id"]
    await root.post("/api/v1/queues", json={"name": "other"})
    caller = api.client(await api.key(1, ["job:read", "job:write"]))
    job = {"queue": queue, "job_type": "send"}
    made = (await caller.post("/api/v1/jobs", json=job)).json()["id"]
    many = (
        await caller.post(
            "/api/v1/jobs/bulk", json=[job, job | {"queue": "other"}, job | {"tags": ["x"]}]
        )
    ).json()["ids"]
    listed = (await caller.get("/api/v1/jobs", params={"queue": queue})).json()["items"]
    assert {one["id"] for one in listed} == {made, many[0], many[2]}
    assert {(one["queue"], one["queue_id"]) for one in listed} == {("mail", queue)}
    everything = (await caller.get("/api/v1/jobs/stats")).json()
    assert {one["queue"]: one["pending"] for one in everything["items"]} == {"mail": 3, "other": 1}
    assert everything["totals"]["total"] == 4
    for text in ("mail", queue):
        stats = (await caller.get("/api/v1/jobs/stats", params={"queue": text})).json()
        assert ([one["queue_id"] for one in stats["items"]], stats["totals"]["pending"]) == (
            [queue],
            3,
        )
    assert (await caller.get("/api/v1/jobs/stats", params={"queue": "mali"})).status_code == 404
    assert (await caller.get("/api/v1/stats")).status_code == 403
    assert (
        await caller.patch(f"/api/v1/jobs/{made}", json={"queue": queue, "priority": 2})
    ).status_code == 200
    where = {"where": {"queue": "other"}, "action": "move", "queue": queue}
    assert (await caller.post("/api/v1/jobs/change", json=where)).json() == {
        "changed": 1,
        "refused": 0,
    }


async def test_a_queue_with_nothing_behind_it_has_no_forecast_but_says_so(
    root: httpx.AsyncClient,
) -> None:
    await root.post("/api/v1/queues", json={"name": "foretold"})
    empty = await root.get("/api/v1/queues/foretold/forecast")
    assert (empty.status_code, empty.json()["outlook"]) == (200, "empty"), empty.text
    await root.post("/api/v1/jobs", json={"queue": "foretold", "job_type": "send"})
    told = (await root.get("/api/v1/queues/foretold/forecast")).json()
    assert (told["outlook"], told["pending"], told["wait"]) == ("unknown", 1, None)
    await root.post("/api/v1/queues/foretold/pause")
    assert (await root.get("/api/v1/queues/foretold/forecast")).json()["outlook"] == "paused"
    assert (await root.get("/api/v1/queues/none-such/forecast")).status_code == 404


async def test_lists_come_in_pages_and_by_part_of_a_name(root: httpx.AsyncClient) -> None:
    for number in range(5):
        body = {"name": f"mail-{number}"}
        assert (await root.post("/api/v1/queues", json=body)).status_code == 201
        assert (await root.post("/api/v1/workers", json=body)).status_code == 201
    for what in ("queues", "workers"):
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            query = {"limit": "2", "name": "mail-*", **cursor}
            page = (await root.get(f"/api/v1/{what}", params=query)).json()
            found += [one["name"] for one in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert found == [f"mail-{number}" for number in range(5)]
        exact = (await root.get(f"/api/v1/{what}?name=mail-3")).json()["items"]
        assert [one["name"] for one in exact] == ["mail-3"]
        missing = await root.get(f"/api/v1/{what}?name=mail-33")
        assert missing.status_code == 404
        assert "did you mean 'mail-3'" in missing.json()["detail"]
        for wrong in ("cursor=x", "limit=0", "limit=1001"):
            assert (await root.get(f"/api/v1/{what}?{wrong}")).status_code == 422, wrong
    workers = (await root.get("/api/v1/workers")).json()["items"]
    for one in workers:
        made = await root.put(f"/api/v1/queues/mail-1/assignments/{one['id']}", json={})
        assert made.status_code == 201
    query = f"queue_id={made.json()['queue_id']}&limit=3"
    page = (await root.get(f"/api/v1/assignments?{query}")).json()
    rest = await root.get(f"/api/v1/assignments?{query}&cursor={page['next_cursor']}")
    assert len(page["items"]) + len(rest.json()["items"]) == 5
    matrix = await root.get("/api/v1/assignments/matrix?name=*-1&worker_name=*-2&limit=1")
    assert [one["name"] for one in matrix.json()["queues"]] == ["mail-1"]
    assert [one["worker_id"] for one in matrix.json()["assignments"]] == [
        one["id"] for one in workers if one["name"] == "mail-2"
    ]
    page = (await root.get("/api/v1/assignments/matrix?limit=1&worker_limit=2")).json()
    assert (len(page["queues"]), len(page["workers"])) == (1, 2)
    assert page["next_cursor"]
    assert page["next_worker_cursor"]
    assert (await root.get("/api/v1/assignments/matrix?limit=101")).status_code == 422
