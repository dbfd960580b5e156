"""Metrics over HTTP: of a project, a queue, a job type, a worker."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from taskforge.domain.job import new_job
from taskforge.domain.queue import CreateQueue
from taskforge.operations import scraping
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
    await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})
    later = {"queue": "mail", "job_type": "send", "delay_seconds": 60}
    await root.post("/api/v1/jobs", json=later)
    assert (await root.get("/api/v1/metrics/snapshot")).json() == {
        "active": 0,
        "completed": 1,
        "failed": 0,
        "queue_size": 1,
        "scheduled": 1,
        "workers": 1,
    }
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


async def test_prometheus_scrapes_a_bounded_number_of_series(
    root: httpx.AsyncClient, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "MOST_QUEUES", 2)
    for name in ("mail", 'odd "name"\\', "third"):
        await root.post("/api/v1/queues", json={"name": name})
    await root.post("/api/v1/jobs", json={"queue": 'odd "name"\\', "job_type": "send"})
    answer = await root.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    odd = 'taskforge_jobs{project="default",queue="odd \\"name\\"\\\\",status="pending"} 1'
    assert odd in lines
    assert 'taskforge_left_out{what="queues"} 1' in lines
    assert len([line for line in lines if line.startswith("taskforge_jobs{")]) == 6
    assert (await api.client("nonsense").get("/metrics")).status_code == 401
    assert (promtool := shutil.which("promtool")) is None or (
        subprocess.run(
            [promtool, "check", "metrics"], input=answer.text, text=True, check=False
        ).returncode
        == 0
    )


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_of_fifty_thousand_queues_a_scrape_tells_two_hundred(
    root: httpx.AsyncClient, api: Api, figure: Callable[[str], None]
) -> None:
    engine, many = api.platform.engine, 50_000
    for start in range(0, many, 1_000):
        numbers = range(start, start + 1_000)
        made = (CreateQueue(name=f"queue-{number:05}") for number in numbers)
        await asyncio.gather(*(engine.change_queue(engine.home, one) for one in made))
    named = [new_job(f"queue-{number:05}", "send") for number in range(0, many, 100)]
    await engine.insert(engine.home, named)
    began = time.monotonic()
    answer = await root.get("/metrics", timeout=60)
    took = time.monotonic() - began
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert f'taskforge_left_out{{what="queues"}} {many - scraping.MOST_QUEUES}' in lines
    jobs = [line for line in lines if line.startswith("taskforge_jobs{")]
    assert len(jobs) == 3 * scraping.MOST_QUEUES
    pending = [line for line in jobs if 'status="pending"' in line]
    assert {line.rpartition(" ")[2] for line in pending} == {"1"}  # the fullest ones are told of
    assert len(lines) < 2_000
    figure(f"/metrics with {many:,} queues: {len(lines)} series in {took:.1f} s")


async def test_a_question_that_makes_no_sense_is_answered_by_its_field(
    root: httpx.AsyncClient,
) -> None:
    await root.post("/api/v1/queues", json={"name": "mail"})
    assert (await root.get("/api/v1/metrics", params={"queue": "mali"})).status_code == 404
    for query, field in (
        ({"last_seconds": "5"}, "last_seconds"),
        ({"step_seconds": "60", "last_seconds": "72000"}, "step_seconds"),
        ({"queue": "mail", "job_type": "send"}, "queue"),
        ({"until": "0001-01-01T00:00:00Z"}, "until"),
    ):
        answer = await root.get("/api/v1/metrics", params=query)
        assert answer.status_code == 422
        assert field in answer.text
    assert (await root.get("/api/v1/metrics/queues", params={"limit": "900"})).status_code == 422


async def test_what_handlers_count_is_stored_queried_and_scraped(
    root: httpx.AsyncClient, api: Api
) -> None:
    worker = api.client(await api.key(1, [], project="default", kind="worker"))
    told = await worker.post("/api/v1/worker/register", json={"name": "w"})
    incarnation = told.json()["incarnation"]
    await worker.post("/api/v1/worker/heartbeat", json={"incarnation": incarnation})

    def said(name: str, last: float, job_type: str = "send", **values: float) -> dict[str, Any]:
        one = {"count": 2, "total": last + 1, "least": 1, "most": last, "last": last, **values}
        return {"job_type": job_type, "name": name, **one}

    async def count(*values: dict[str, Any]) -> httpx.Response:
        body = {"incarnation": incarnation, "values": values}
        return await worker.post("/api/v1/worker/metrics", json=body)

    assert (await count(said("rows", 5), said("rows", 7, seconds_ago=30))).status_code == 204
    assert (await count(said("rows", -3, least=-3), said("a", 1, "other"))).status_code == 204
    for wrong in ({"name": ""}, {"count": 0}, {"total": 1e30}, {"seconds_ago": -1}):
        assert (await count({**said("rows", 1), **wrong})).status_code == 422
    names = [f"name {number:02}" for number in range(60)]
    assert (await count(*(said(name, 1, "many") for name in names))).status_code == 204
    while await api.platform.engine.fold(100):
        pass

    answer = await root.get("/api/v1/metrics/custom", params={"job_type": "send"})
    [rows] = answer.json()["items"]
    assert rows["totals"] == {
        "count": 6,
        "sum": 12.0,
        "min": -3.0,
        "max": 7.0,
        "avg": 2.0,
        "last": -3.0,
    }
    assert rows["series"] == []
    query = {"job_type": "send", "step_seconds": 60}
    [rows] = (await root.get("/api/v1/metrics/custom", params=query)).json()["items"]
    assert sum(point["figures"]["count"] for point in rows["series"]) == 6
    for since, found in (("2026-01-01T00:00:00Z", 1), ("8999-01-01T00:00:00Z", 0)):
        query = {"job_type": "send", "since": since, "until": "9000-12-31T23:59:59Z"}
        answer = await root.get("/api/v1/metrics/custom", params=query)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["items"]) == found
    everything = (await root.get("/api/v1/metrics/custom")).json()["items"]
    many = [one["name"] for one in everything if one["job_type"] == "many"]
    assert many == [*names[:50], "others"]
    assert [one["name"] for one in everything if one["job_type"] == "other"] == ["a"]
    behind = await root.get("/api/v1/metrics/custom", params={"after": "many", "limit": 1})
    assert [one["job_type"] for one in behind.json()["items"]] == ["other"]
    refused = await root.get("/api/v1/metrics/custom", params={"step_seconds": 60})
    assert refused.status_code == 422
    assert "step_seconds" in refused.text
    lines = (await root.get("/metrics")).text.splitlines()
    of = '{project="default",job_type="send",name="rows"}'
    assert f"taskforge_recent_custom_sum{of} 12" in lines
    assert f"taskforge_recent_custom_count{of} 6" in lines
