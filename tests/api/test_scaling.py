"""Scaling policies over HTTP: every verb, what is refused and why, and who may name which
provider."""

from typing import Any

import httpx
import msgspec
import pytest

from taskforge.domain.scaling_provider import read_declarations
from taskforge.operations.scaling import StoreScaling
from tests.api.conftest import Api

PATH = "/api/v1/queues/mail/scaling"
PROVIDERS = {
    "near": {"kind": "local", "app": "app:forge", "projects": ["default"]},
    "pods": {"kind": "kubernetes", "deployment": "workers", "projects": ["default"]},
    "theirs": {"kind": "local", "app": "app:forge", "projects": ["acme/other"]},
}


@pytest.fixture
async def made(api: Api, root: httpx.AsyncClient) -> dict[str, Any]:
    api.platform.scaling = StoreScaling(api.engine, read_declarations("p", PROVIDERS))
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    answer = await root.put(PATH, json={"max_workers": 6, "provider": "near"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_policy_is_made_read_changed_and_deleted(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    assert (made["min_workers"], made["max_workers"], made["provider"]) == (0, 6, "near")
    assert (made["state"]["action"], made["state"]["draining"]) == ("hold", [])
    read = await root.get(PATH)
    assert read.json() == made
    etag = {"if-match": read.headers["etag"]}
    window = {"cron": "* 8-17 * * 1-5", "zone": "Europe/Berlin", "min_workers": 2}
    changed = await root.patch(PATH, json={"windows": [window]}, headers=etag)
    assert changed.json()["windows"] == [{**window, "max_workers": None}]
    assert changed.json()["max_workers"] == 6
    assert (await root.patch(PATH, json={"is_paused": True}, headers=etag)).status_code == 412
    replaced = (await root.put(PATH, json={"max_workers": 3})).json()
    assert (replaced["windows"], replaced["provider"], replaced["version"]) == ([], "none", 3)
    listed = (await root.get("/api/v1/scaling?limit=1")).json()
    assert listed["items"] == [replaced]
    behind = await root.get("/api/v1/scaling", params={"cursor": listed["next_cursor"]})
    assert behind.json()["items"] == []
    assert (await root.delete(PATH)).status_code == 204
    assert (await root.get(PATH)).status_code == 404


async def test_advice_says_what_would_be_done_and_with_which_figures(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    jobs = [{"queue": "mail", "job_type": "letter", "payload": {}}] * 250
    assert (await root.post("/api/v1/jobs/bulk", json=jobs)).status_code in (200, 201)
    advice = (await root.get(f"{PATH}/advice")).json()
    assert (advice["action"], advice["count"], advice["desired"]) == ("scale_up", 3, 3)
    assert (advice["figures"]["pending"], advice["figures"]["workers"]) == (250, 0)
    assert (await root.get("/api/v1/scaling/advice")).json()["items"] == [advice]
    assert (await root.post("/api/v1/queues/mail/pause")).status_code == 200
    assert (await root.get(f"{PATH}/advice")).json()["action"] == "hold"
    for rest in ("history", "series"):
        assert (await root.get(f"{PATH}/{rest}")).json()["items"] == []
    assert (await root.get("/api/v1/scaling/history")).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({}, "max_workers", ""),
        ({"max_workers": 2, "min_workers": 3}, "min_workers", "use at most as many"),
        ({"max_workers": 2, "scale_down_threshold": 20}, "scale_down_threshold", "at most"),
        ({"max_workers": 2, "target_queue_length": 0}, "target_queue_length", "from 1"),
        ({"max_workers": 2, "target_utilisation_percent": 5}, "target_utilisation_percent", ""),
        ({"max_workers": 2, "windows": [{"cron": "* 8 * *"}]}, "windows[0].cron", ""),
        (
            {"max_workers": 2, "windows": [{"cron": "* 8 * * *", "min_workers": 3}]},
            "windows[0].min_workers",
            "max_workers is 2",
        ),
        ({"max_workers": 2, "provider": "neer"}, "provider", "did you mean 'near'"),
        ({"max_workers": 2, "provider": "theirs"}, "provider", "may use"),
    ],
)
async def test_what_is_wrong_is_named(
    root: httpx.AsyncClient, made: dict[str, Any], body: dict[str, Any], pointer: str, said: str
) -> None:
    refused = await root.put(PATH, json=body)
    assert refused.status_code == 422, refused.text
    assert pointer in refused.text
    assert said in refused.text
    assert (await root.get(PATH)).json() == made


@pytest.mark.usefixtures("made")
async def test_a_series_ends_in_a_year_that_stores_can_hold(root: httpx.AsyncClient) -> None:
    refused = await root.get(f"{PATH}/series", params={"until": "0001-01-01T00:00:00Z"})
    assert refused.status_code == 422, refused.text
    assert "until" in refused.text


async def test_a_fleet_that_there_is_once_serves_one_policy(
    root: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    named = [one["name"] for one in (await root.get("/api/v1/scaling/providers")).json()["items"]]
    assert named == ["none", "near", "pods"]
    assert (await root.patch(PATH, json={"provider": "pods"})).status_code == 200
    assert (await root.post("/api/v1/queues", json={"name": "other"})).status_code == 201
    other = "/api/v1/queues/other/scaling"
    refused = await root.put(other, json={"max_workers": 2, "provider": "pods"})
    assert (refused.status_code, "'mail'" in refused.text) == (409, True)
    assert (await root.put(other, json={"max_workers": 2, "provider": "near"})).status_code == 200
    assert (await root.delete("/api/v1/queues/mail")).status_code in (200, 204)
    assert (await root.patch(other, json={"provider": "pods"})).status_code == 200
    assert msgspec.json.decode((await root.get("/api/v1/scaling")).content)["items"][0][
        "queue"
    ] == ("other")
