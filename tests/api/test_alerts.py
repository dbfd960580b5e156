"""Alert rules over HTTP and from Python behind it: every verb, what is refused and why, and what is
told when one fires."""

from typing import Any

import httpx
import pytest

from taskforge import TaskForge
from taskforge.control.alerter import Alerter
from taskforge.operations.access.first_start import make_key
from tests.api.conftest import Api

BODY = {"name": "deep", "kind": "queue_size", "queue": "mail", "threshold": 2}


@pytest.fixture
async def made(root: httpx.AsyncClient) -> dict[str, Any]:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    answer = await root.post("/api/v1/alerts", json=BODY)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_a_rule_is_made_read_changed_and_deleted(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    assert (made["window_seconds"], made["repeat_seconds"]) == (300.0, 3600.0)
    for name in (made["id"], "deep"):
        assert (await root.get(f"/api/v1/alerts/{name}")).json() == made
    listed = (await root.get("/api/v1/alerts?limit=1")).json()
    assert listed["items"] == [made]
    behind = await root.get("/api/v1/alerts", params={"cursor": listed["next_cursor"]})
    assert behind.json() == {"items": [], "next_cursor": None}
    for listing in ("alerts", "schedules", "circuits", "alerts/history"):
        far = await root.get(f"/api/v1/{listing}", params={"cursor": "f_________8"})
        assert (far.status_code, far.json()["errors"][0]["pointer"]) == (422, "cursor"), far.text
    path = f"/api/v1/alerts/{made['id']}"
    etag = (await root.get(path)).headers["etag"]
    changed = await root.patch(path, json={"queue": None}, headers={"if-match": etag})
    assert (changed.status_code, changed.json()["queue"]) == (200, None)
    stale = await root.patch(path, json={"threshold": 5}, headers={"if-match": etag})
    assert stale.status_code == 412
    silenced = await root.post(f"{path}/silence", json={"seconds": 60})
    assert silenced.json()["silenced_until"] is not None
    assert (await root.post(f"{path}/silence", json={"seconds": 0})).json()[
        "silenced_until"
    ] is None
    assert (await root.delete(path)).status_code == 204
    assert (await root.get(path)).status_code == 404


async def test_rules_and_dependencies_go_with_a_project_that_was_never_used(
    root: httpx.AsyncClient,
) -> None:
    assert (await root.post("/api/v1/projects", json={"name": "idle"})).status_code == 201
    asked = {"params": {"project": "idle"}}
    rule = await root.post("/api/v1/alerts", json={"name": "a", "kind": "failed_jobs"}, **asked)
    made = await root.post("/api/v1/dependencies", json={"name": "stripe"}, **asked)
    assert (rule.status_code, made.status_code) == (201, 200)
    assert (await root.delete("/api/v1/projects/idle")).status_code == 204
    assert (await root.get(f"/api/v1/alerts/{rule.json()['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"kind": "queue_sise"}, "/kind"),
        ({"queue": "mial"}, None),
        ({"threshold": -1}, "/threshold"),
        ({"kind": "workers_down"}, "/queue"),
        ({"window_seconds": 3}, "/window_seconds"),
        ({"thresold": 3}, "/thresold"),
    ],
)
async def test_what_is_wrong_is_named(
    root: httpx.AsyncClient, made: dict[str, Any], body: dict[str, Any], pointer: str | None
) -> None:
    refused = await root.post("/api/v1/alerts", json={**BODY, "name": "other", **body})
    assert refused.status_code == (404 if pointer is None else 422), refused.text
    if pointer is not None:
        assert refused.json()["errors"][0]["pointer"] == f"#{pointer}"
    assert len((await root.get("/api/v1/alerts")).json()["items"]) == 1


async def test_what_fires_is_seen_by_everyone_who_asks(
    api: Api, root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    jobs = [{"queue": "mail", "job_type": "letter", "payload": {}}] * 2
    assert (await root.post("/api/v1/jobs/bulk", json=jobs)).status_code in (200, 201)
    other = {"name": "any", "kind": "queue_size", "threshold": 1}
    assert (await root.post("/api/v1/alerts", json=other)).status_code == 201
    await Alerter(api.engine, list).look(0)
    fires = (await root.get("/api/v1/alerts/deep")).json()
    assert (fires["is_firing"], fires["value"]) == (True, 2.0)
    history = (await root.get("/api/v1/alerts/history", params={"rule_id": made["id"]})).json()
    assert [(one["name"], one["news"]) for one in history["items"]] == [("deep", "fired")]
    page = (await root.get("/api/v1/alerts/history?limit=1")).json()
    behind = await root.get("/api/v1/alerts/history", params={"cursor": page["next_cursor"]})
    assert {one["name"] for one in (*page["items"], *behind.json()["items"])} == {"deep", "any"}
    async with TaskForge(api.address, token=await make_key(api.platform, "reader")) as forge:
        assert [one.name for one in await forge.alerts.history("deep")] == ["deep"]
        assert [len(await forge.alerts.history(limit=most)) for most in (1, 2, 9)] == [1, 2, 2]
