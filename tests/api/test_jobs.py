from typing import Any

import httpx

from taskforge.domain.worker import NewWorker, Sample
from tests.api.conftest import Api


async def test_a_job_is_created_read_and_cancelled(api: Api, root: httpx.AsyncClient) -> None:
    made = await root.post("/api/v1/queues", json={"name": "mail"})
    assert made.status_code == 201, made.text
    created = await root.post(
        "/api/v1/jobs",
        json={"queue": "mail", "job_type": "send", "payload": {"to": "a@b", "n": 1.5}},
    )
    assert created.status_code == 201, created.text
    job = (await root.get(f"/api/v1/jobs/{created.json()['id']}")).json()
    assert (job["queue"], job["status"], job["payload"]) == (
        "mail",
        "pending",
        {"to": "a@b", "n": 1.5},
    )
    cancelled = await root.post(f"/api/v1/jobs/{job['id']}/cancel", json={"reason": "not needed"})
    assert cancelled.json()["status"] == "cancelled"
    again = await root.post(f"/api/v1/jobs/{job['id']}/cancel")
    assert (again.status_code, again.headers["content-type"]) == (409, "application/problem+json")


async def test_a_job_that_waits_says_why_and_only_those_who_may_see_workers_see_them(
    api: Api, root: httpx.AsyncClient
) -> None:
    queue = (await root.post("/api/v1/queues", json={"name": "mail"})).json()
    job = (await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})).json()["id"]
    why = (await root.get(f"/api/v1/jobs/{job}/explain")).json()
    assert [reason["code"] for reason in why["reasons"]] == ["no_worker"]
    anna = await api.engine.register(api.engine.home, NewWorker(name="anna", types=("other",)), 60)
    await api.engine.renew(anna.incarnation, 60, Sample())
    assert (await root.post(f"/api/v1/queues/{queue['id']}/pause")).status_code == 200
    why = (await root.get(f"/api/v1/jobs/{job}/explain")).json()
    assert [reason["code"] for reason in why["reasons"]] == ["paused", "no_handler"]
    assert [(one["name"], one["hindrance"]) for one in why["workers"]] == [("anna", "no_handler")]
    made = await root.post("/api/v1/keys", json={"name": "reader", "permissions": ["job:read"]})
    answer = await root.get(
        f"/api/v1/jobs/{job}/explain", headers={"authorization": f"Bearer {made.json()['secret']}"}
    )
    assert (answer.status_code, answer.json()["workers"]) == (200, [])
    assert [reason["code"] for reason in answer.json()["reasons"]] == ["paused", "no_handler"]
    assert "anna" not in answer.text


async def test_jobs_are_read_by_their_ids_in_the_order_asked(
    api: Api, root: httpx.AsyncClient
) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    jobs = [
        (await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})).json()["id"]
        for _ in range(3)
    ]
    asked = [jobs[2], jobs[0], "01a1e2be-3d77-74b2-b190-1dcf91000000"]
    found = (await root.get("/api/v1/jobs", params={"id": asked})).json()
    assert ([one["id"] for one in found["items"]], found["next_cursor"]) == (
        [jobs[2], jobs[0]],
        None,
    )
    wrong: list[dict[str, Any]] = [
        {"id": asked, "queue": "mail"},
        {"id": asked, "offset": 1},
        {"id": [jobs[0]] * 101},
        {"id": "none"},
    ]
    for one in wrong:
        assert (await root.get("/api/v1/jobs", params=one)).status_code == 422, one


async def test_no_payload_is_an_empty_object_alone_and_among_many(
    api: Api, root: httpx.AsyncClient
) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    plain = {"queue": "mail", "job_type": "send"}
    one = (await root.post("/api/v1/jobs", json=plain)).json()["id"]
    many = (await root.post("/api/v1/jobs/bulk", json=[plain, plain])).json()["ids"]
    mixed = (
        await root.post(
            "/api/v1/jobs/bulk", json=[plain, {**plain, "tags": ["x"]}, {**plain, "payload": None}]
        )
    ).json()["ids"]
    asked = {"id": [one, *many, *mixed], "include": ["payload"]}
    found = (await root.get("/api/v1/jobs", params=asked)).json()["items"]
    assert [job["payload"] for job in found] == [{}, {}, {}, {}, {}, None]
    assert {job["payload_erased"] for job in found} == {False}


async def test_limits_hold_for_edits_and_moves_and_erased_payloads_do_not_run(
    api: Api, root: httpx.AsyncClient
) -> None:
    await root.post("/api/v1/queues", json={"name": "wide"})
    await root.post(
        "/api/v1/queues", json={"name": "narrow", "settings": {"payload_limit_bytes": 20}}
    )
    job = (await root.post("/api/v1/jobs", json={"queue": "narrow", "job_type": "send"})).json()[
        "id"
    ]
    refused = await root.patch(f"/api/v1/jobs/{job}", json={"payload": 50 * "x"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/payload")
    large = (
        await root.post(
            "/api/v1/jobs", json={"queue": "wide", "job_type": "send", "payload": 50 * "x"}
        )
    ).json()["id"]
    refused = await root.patch(f"/api/v1/jobs/{large}", json={"queue": "narrow"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/queue")
    await root.post("/api/v1/jobs", json={"queue": "wide", "job_type": "send"})
    moved = await root.post(
        "/api/v1/jobs/change",
        json={"action": "move", "queue": "narrow", "where": {"queue": "wide"}},
    )
    assert moved.json() == {"changed": 1, "refused": 1}
    await root.post(f"/api/v1/jobs/{large}/cancel")
    assert (await root.delete(f"/api/v1/jobs/{large}/payload")).status_code == 200
    found = (await root.get(f"/api/v1/jobs/{large}")).json()
    assert (found["payload"], found["payload_erased"], found["redacted"]) == (None, True, False)
    again = await root.post(f"/api/v1/jobs/{large}/retry")
    assert again.status_code == 409
    assert "was erased; it cannot be run again" in again.json()["detail"]


async def test_a_job_belongs_to_the_trace_of_whoever_asks_for_it(
    api: Api, root: httpx.AsyncClient
) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    job = {"queue": "mail", "job_type": "send"}

    async def trace_of(sent: dict[str, Any], headers: dict[str, str]) -> Any:
        made = await root.post("/api/v1/jobs", json=sent, headers=headers)
        return (await root.get(f"/api/v1/jobs/{made.json()['id']}")).json()["trace"]

    assert await trace_of(job, {}) is None
    assert await trace_of(job, {"traceparent": parent}) == parent
    assert await trace_of(job, {"traceparent": parent, "tracestate": "v=1"}) == f"{parent} v=1"
    assert await trace_of({**job, "trace": "mine"}, {"traceparent": parent}) == "mine"
    for wrong in ("nonsense", f"00-{'0' * 32}-{'b' * 16}-01", f"ff-{'a' * 32}-{'b' * 16}-01"):
        assert await trace_of(job, {"traceparent": wrong}) is None
    made = await root.post("/api/v1/jobs/bulk", json=[job, job], headers={"traceparent": parent})
    for one in made.json()["ids"]:
        found = (await root.get(f"/api/v1/jobs/{one}")).json()
        assert found["trace"] == f"{parent} taskforge=batch"
    made = await root.post("/api/v1/jobs/bulk", json=[{**job, "trace": "mine"}, job])
    read = [(await root.get(f"/api/v1/jobs/{one}")).json() for one in made.json()["ids"]]
    assert [one["trace"] for one in read] == ["mine", None]
    refused = await root.post("/api/v1/jobs/bulk", json=[{**job, "trace": "x" * 2_001}, job])
    [error] = refused.json()["errors"]
    assert (error["index"], error["errors"][0]["pointer"]) == (0, "#/0/trace")
