"""Webhooks over HTTP: every verb, what is refused and why, and that a secret is told once."""

from typing import Any

import httpx
import pytest

from taskforge.control.webhook_gatherer import WebhookGatherer
from tests.api.conftest import Api

URL = "https://hooks.example.com/services/x"
BODY = {"name": "hook", "url": URL, "kinds": ["queue", "job.failed"], "queues": ["mail"]}


@pytest.fixture
async def made(root: httpx.AsyncClient) -> dict[str, Any]:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    answer = await root.post("/api/v1/webhooks", json=BODY)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_a_webhook_is_made_read_changed_and_deleted_and_its_secret_told_once(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    webhook, secret = made["webhook"], made["secret"]
    assert secret.startswith("whsec_")
    assert (webhook["kinds"], webhook["is_active"]) == (["job.failed", "queue"], True)
    path = f"/api/v1/webhooks/{webhook['id']}"
    for name in (webhook["id"], "hook"):
        assert (await root.get(f"/api/v1/webhooks/{name}")).json() == webhook
    listed = (await root.get("/api/v1/webhooks?limit=1")).json()
    assert listed["items"] == [webhook]
    behind = await root.get("/api/v1/webhooks", params={"cursor": listed["next_cursor"]})
    assert behind.json() == {"items": [], "next_cursor": None}
    etag = (await root.get(path)).headers["etag"]
    changed = await root.patch(path, json={"kinds": ["report"]}, headers={"if-match": etag})
    assert (changed.status_code, changed.json()["kinds"]) == (200, ["report"])
    stale = await root.patch(path, json={"kinds": ["job"]}, headers={"if-match": etag})
    assert stale.status_code == 412
    rotated = (await root.post(f"{path}/rotate", json={"overlap_seconds": 60})).json()
    assert rotated["webhook"]["old_secret_until"] is not None
    texts = [(await root.get(one)).text for one in (path, "/api/v1/webhooks", "/api/v1/audit")]
    assert not [text for text in texts if secret in text or rotated["secret"] in text]
    assert "services/x" not in texts[-1]
    assert (await root.delete(path)).status_code == 204
    assert (await root.get(path)).status_code == 404


async def test_deliveries_are_listed_in_pages_and_sent_again(
    root: httpx.AsyncClient, made: dict[str, Any], api: Api
) -> None:
    path = f"/api/v1/webhooks/{made['webhook']['id']}"
    pinged = [(await root.post(f"{path}/ping")).json()["delivery_id"] for _ in range(3)]
    found: list[str] = []
    cursor = None
    while True:
        asked = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = (await root.get(f"{path}/deliveries", params=asked)).json()
        found += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == pinged[::-1]
    only = await root.get(f"{path}/deliveries", params={"status": "delivered"})
    assert only.json()["items"] == []
    wrong = await root.get(f"{path}/deliveries", params={"status": "lost"})
    assert wrong.status_code == 422
    again = await root.post(f"{path}/deliveries/{pinged[0]}/retry")
    assert (again.status_code, again.json()["status"]) == (200, "pending")
    missing = await root.post(f"{path}/deliveries/{made['webhook']['id']}/retry")
    assert missing.status_code == 404
    await root.patch("/api/v1/queues/mail", json={"description": "post"})
    await WebhookGatherer(api.engine).gather(0)
    newest = (await root.get(f"{path}/deliveries", params={"limit": 1})).json()["items"][0]
    assert newest["body"]["type"] == "queue.updated"
    assert (newest["body"]["data"]["queue"], newest["tries"]) == ("mail", [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://hooks.example.com/"}, "use https"),
        ({"url": "https://192.168.0.1/"}, "which is private"),
        ({"url": "https://2130706433/"}, "is a number"),
        ({"kinds": []}, "use 1 to 50"),
        ({"kinds": ["jobz"]}, "did you mean 'job'?"),
        ({"report_seconds": 1}, "from 10 to"),
    ],
)
async def test_what_is_wrong_is_said(
    root: httpx.AsyncClient, change: dict[str, Any], said: str
) -> None:
    body = {"name": "x", "url": URL, "kinds": ["job"]} | change
    answer = await root.post("/api/v1/webhooks", json=body)
    assert (answer.status_code, said in answer.text) == (422, True), answer.text
    assert answer.json()["errors"][0]["pointer"] == f"#/{next(iter(change))}"


async def test_webhooks_go_with_a_project_that_was_never_used(root: httpx.AsyncClient) -> None:
    assert (await root.post("/api/v1/projects", json={"name": "idle"})).status_code == 201
    body = {"name": "x", "url": URL, "kinds": ["job"]}
    made = await root.post("/api/v1/webhooks", json=body, params={"project": "idle"})
    assert made.status_code == 201
    assert (await root.delete("/api/v1/projects/idle")).status_code == 204
    assert (await root.get(f"/api/v1/webhooks/{made.json()['webhook']['id']}")).status_code == 404
