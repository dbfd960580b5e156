"""Metrics over HTTP: of a project, a queue, a job type, a worker."""

from typing import Any

import httpx

from tests.support.serving import Api


async def test_metrics_of_what_ran(root: httpx.AsyncClient, api: Api) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
    key = await api.key(1, [], project="default", kind="worker")
    worker = api.client(key)
    told = await worker.post("/api/v1/worker/register", json={"name": "w", "types": ["send"]})
    incarnation = told.json()["incarnation"]
    await worker.post("/api/v1/worker/heartbeat", json={"incarnation": incarnation})
    claimed = await worker.post(
        "/api/v1/worker/claim", json={"incarnation": incarnation, "limit": 1}
    )
    outcome = {
        "execution": claimed.json()["jobs"][0]["execution"],
        "outcome": {"kind": "success", "result": None},
        "ran_seconds": 0.5,
    }
    done = await worker.post(
        "/api/v1/worker/complete", json={"incarnation": incarnation, "outcomes": [outcome]}
    )
    assert done.json() == {"lost": []}
    [identity] = (await root.get("/api/v1/workers")).json()["items"]
    while await api.platform.engine.fold(100):
        pass
    queries: list[dict[str, Any]] = [
        {},
        {"queue": "mail"},
        {"job_type": "send"},
        {"worker_id": identity["id"]},
        {"queue": "mail", "worker_id": identity["id"]},
    ]
    for query in queries:
        answer = await root.get("/api/v1/metrics", params={**query, "step_seconds": 300})
        assert answer.status_code == 200, answer.text
        metrics = answer.json()
        assert metrics["totals"]["succeeded"] == 1, query
        assert sum(point["figures"]["executions"] for point in metrics["series"]) == 1
        assert metrics["totals"]["duration_ms"]["p50"] == 500
    for kind, name in (("queues", "mail"), ("job-types", "send"), ("workers", "w")):
        [item] = (await root.get(f"/api/v1/metrics/{kind}")).json()["items"]
        assert (item["name"], item["metrics"]["totals"]["executions"]) == (name, 1)


async def test_a_question_that_makes_no_sense_is_answered_by_its_field(
    root: httpx.AsyncClient,
) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    assert (await root.get("/api/v1/metrics", params={"queue": "mali"})).status_code == 404
    for query, field in (
        ({"last_seconds": "5"}, "last_seconds"),
        ({"step_seconds": "60", "last_seconds": "72000"}, "step_seconds"),
        ({"queue": "mail", "job_type": "send"}, "queue"),
    ):
        answer = await root.get("/api/v1/metrics", params=query)
        assert answer.status_code == 422
        assert field in answer.text
    assert (await root.get("/api/v1/metrics/queues", params={"limit": "900"})).status_code == 422
