"""Schedules over HTTP: every verb, what is refused and why, and who sees nodes."""

from typing import Any

import httpx
import pytest

from taskforge.domain.access import Role
from taskforge.storage.records.cluster import ClusterRecords
from tests.api.conftest import Api
from tests.support.nodes import a_node
from tests.support.serving import SETUP

NEW = {"name": "nightly", "cron": "0 3 * * *", "zone": "Asia/Jakarta", "queue": "mail"}
BODY: dict[str, Any] = {**NEW, "job_type": "report", "payload": {"to": "ada"}, "tags": ["daily"]}


@pytest.fixture
async def made(root: httpx.AsyncClient) -> dict[str, Any]:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    answer = await root.post("/api/v1/schedules", json=BODY)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_a_schedule_is_made_read_and_listed(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    assert (made["cron"], made["zone"], made["payload"]) == (
        "0 3 * * *",
        "Asia/Jakarta",
        {"to": "ada"},
    )
    assert made["next_at"].endswith("20:00:00Z")  # three in the morning, seven hours ahead
    for name in (made["id"], "nightly"):
        assert (await root.get(f"/api/v1/schedules/{name}")).json() == made
    listed = (await root.get("/api/v1/schedules?limit=1")).json()
    assert listed["items"] == [made]
    behind = await root.get("/api/v1/schedules", params={"cursor": listed["next_cursor"]})
    assert behind.json() == {"items": [], "next_cursor": None}


async def test_an_edit_changes_what_it_names_and_no_more(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    path = f"/api/v1/schedules/{made['id']}"
    etag = (await root.get(path)).headers["etag"]
    edit = {"every_seconds": 90, "priority": 4, "overlap": "skip"}
    changed = await root.patch(path, json=edit, headers={"if-match": etag})
    assert changed.status_code == 200, changed.text
    after = changed.json()
    assert (after["cron"], after["every_seconds"], after["priority"]) == (None, 90.0, 4)
    assert (after["payload"], after["tags"], after["overlap"]) == (
        {"to": "ada"},
        ["daily"],
        "skip",
    )
    stale = await root.patch(path, json={"priority": 5}, headers={"if-match": etag})
    assert stale.status_code == 412
    assert (await root.patch(path, json={"queue": "mial"})).status_code == 404


async def test_pause_resume_run_slots_preview_and_delete(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    path = f"/api/v1/schedules/{made['id']}"
    paused = (await root.post(f"{path}/pause")).json()
    assert (paused["is_paused"], paused["next_at"]) == (True, None)
    run = (await root.post(f"{path}/run")).json()
    job = (await root.get(f"/api/v1/jobs/{run['job']}")).json()
    assert (job["job_type"], job["payload"], job["tags"]) == ("report", {"to": "ada"}, ["daily"])
    [slot] = (await root.get(f"{path}/slots")).json()["items"]
    assert (slot["manual"], slot["outcome"], slot["job"]) == (True, "fired", run["job"])
    assert (await root.post(f"{path}/resume")).json()["next_at"] == made["next_at"]
    soon = (await root.get(f"{path}/preview?count=3")).json()["items"]
    assert (len(soon), soon[0]) == (3, made["next_at"])
    assert (await root.delete(path)).status_code == 204
    assert (await root.get(path)).status_code == 404
    assert (await root.get(f"/api/v1/jobs/{run['job']}")).status_code == 200


async def test_a_timing_is_previewed_before_it_is_made(root: httpx.AsyncClient) -> None:
    found = await root.get("/api/v1/schedules/preview", params={"cron": "@hourly", "count": 2})
    assert len(found.json()["items"]) == 2
    wrong = await root.get("/api/v1/schedules/preview", params={"cron": "0 0 31 2 *"})
    assert wrong.status_code == 422


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": "0 3 * * *", "zone": "Asia/Jakart"}, "zone"),
        ({"cron": None, "every_seconds": 0}, "every_seconds"),
        ({"starts_at": "2030-01-02T00:00:00Z", "ends_at": "2030-01-01T00:00:00Z"}, "ends_at"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
        ({"cron": None, "at": "2020-01-01T00:00:00Z"}, "at"),
        ({"overlap": "maybe"}, "overlap"),
        ({"job_type": ""}, "job_type"),
    ],
)
async def test_bad_input_is_one_clear_error_and_writes_nothing(
    root: httpx.AsyncClient, made: dict[str, Any], change: dict[str, Any], field: str
) -> None:
    body = {**BODY, "name": "wrong", **change}
    refused = await root.post("/api/v1/schedules", json=body)
    assert refused.status_code == 422, refused.text
    [error] = refused.json()["errors"]
    assert field in str(error)
    listed = (await root.get("/api/v1/schedules")).json()["items"]
    assert [one["name"] for one in listed] == ["nightly"]


async def test_an_unknown_queue_is_named_with_the_nearest(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    refused = await root.post("/api/v1/schedules", json={**BODY, "name": "x", "queue": "mial"})
    assert refused.status_code == 404
    assert "did you mean 'mail'" in refused.json()["detail"]


async def test_who_may_not_see_payloads_sees_none(
    api: Api, root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    viewer = api.client(await api.user(1, Role.VIEWER))
    seen = (await viewer.get(f"/api/v1/schedules/{made['id']}")).json()
    assert (seen["payload"], seen["redacted"]) == (None, True)
    assert (await viewer.post(f"/api/v1/schedules/{made['id']}/run")).status_code == 403


async def test_a_quota_bounds_how_many_there_are(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    limited = await root.patch("/api/v1/projects/default", json={"quota": {"schedules": 1}})
    assert limited.status_code == 200, limited.text
    refused = await root.post("/api/v1/schedules", json={**BODY, "name": "second"})
    assert refused.status_code == 409
    assert "quota schedules of 1" in refused.json()["detail"]


async def test_nodes_are_shown_to_the_first_organization_alone(
    api: Api, root: httpx.AsyncClient
) -> None:
    node = a_node("one")
    await ClusterRecords(api.engine).beat(node)
    seen = (await root.get("/api/v1/cluster")).json()
    assert [one["name"] for one in seen["nodes"]] == ["one"]
    other = await api.platform.records.organizations.create("other", SETUP)
    api.platform.forget()
    tenant = api.client(await api.user(other.number, Role.OWNER))
    assert (await tenant.get("/api/v1/cluster")).json()["nodes"] == []
