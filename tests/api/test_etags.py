"""A change with If-Match is made to the version that was read, or not at all; one without undoes
nothing that it does not name."""

import asyncio
from typing import Any

import httpx
import pytest

from taskforge.domain.worker import NewWorker
from tests.api.conftest import Api
from tests.api.operations import operations

# What is patched to make another version of it, and again with the number of the try.
EDITS: dict[str, Any] = {
    "queue": lambda n: {"priority": 1 + n},
    "project": lambda n: {"quota": {"pending_jobs": 100 + n}},
    "worker": lambda n: {"max_concurrent_jobs": 20 + n},
    "assignment": lambda n: {"weight": 10 + n},
}


@pytest.fixture
async def places(api: Api, root: httpx.AsyncClient) -> dict[str, str]:
    """Where there is one of each that carries an ETag."""
    queue = (await root.post("/api/v1/queues", json={"name": "mail"})).json()["id"]
    assert (await root.post("/api/v1/projects", json={"name": "shop"})).status_code == 201
    worker = (await api.engine.register(1, NewWorker(name="w"), 60)).worker
    pair = f"/api/v1/queues/{queue}/assignments/{worker}"
    assert (await root.put(pair, json={})).status_code == 201
    return {
        "queue": f"/api/v1/queues/{queue}",
        "project": "/api/v1/projects/shop",
        "worker": f"/api/v1/workers/{worker}",
        "assignment": pair,
    }


@pytest.mark.parametrize("kind", EDITS)
async def test_of_many_changes_to_one_version_one_is_made(
    root: httpx.AsyncClient, places: dict[str, str], kind: str
) -> None:
    path = places[kind]
    read = (await root.get(path)).headers["etag"]
    answers = await asyncio.gather(
        *(root.patch(path, headers={"if-match": read}, json=EDITS[kind](n)) for n in range(6))
    )
    assert sorted(one.status_code for one in answers) == [200] + [412] * 5
    [made] = [one for one in answers if one.status_code == 200]
    now = await root.get(path)
    assert (now.json(), now.headers["etag"]) == (made.json(), made.headers["etag"])
    assert (
        await root.patch(path, headers={"if-match": now.headers["etag"]}, json=EDITS[kind](7))
    ).status_code == 200


@pytest.mark.parametrize("kind", EDITS)
async def test_every_change_is_made_to_the_version_that_was_read(
    root: httpx.AsyncClient, places: dict[str, str], kind: str
) -> None:
    path = places[kind]
    stale = (await root.get(path)).headers["etag"]
    assert (await root.patch(path, json=EDITS[kind](0))).status_code == 200
    before = await root.get(path)
    verbs = {"queue": ("/pause", "/resume"), "worker": ("/drain", "/undrain")}.get(kind, ())
    for method, verb in (("PATCH", ""), *(("POST", verb) for verb in verbs), ("DELETE", "")):
        body = EDITS[kind](5) if method == "PATCH" else None
        refused = await root.request(method, path + verb, headers={"if-match": stale}, json=body)
        assert (refused.status_code, refused.json()["type"]) == (
            412,
            "urn:taskforge:problem:stale",
        ), (method, verb)
        for tag, status in (
            ("nonsense", 422),
            ('"0", "1"', 422),
            ('"3-gzip"', 412),
            (f'W/"other", {stale}', 412),
        ):
            assert (
                await root.request(method, path + verb, headers={"if-match": tag}, json=body)
            ).status_code == status
    assert (await root.get(path)).headers["etag"] == before.headers["etag"]
    etag = before.headers["etag"]
    for verb in verbs:
        made = await root.post(path + verb, headers={"if-match": etag})
        assert made.status_code == 200
        etag = made.headers["etag"]
    assert (await root.delete(path, headers={"if-match": etag})).status_code == 204


async def test_changes_at_once_keep_what_the_other_made(
    root: httpx.AsyncClient, places: dict[str, str]
) -> None:
    path = f"/api/v1/projects/{(await root.get(places['project'])).json()['id']}"
    for n in range(8):
        one, other = await asyncio.gather(
            root.patch(path, json={"quota": {"pending_jobs": 7 + n}}),
            root.patch(path, json={"name": f"shop{n}"}),
        )
        assert (one.status_code, other.status_code) == (200, 200)
        now = (await root.get(path)).json()
        assert (now["name"], now["quota"]["pending_jobs"]) == (f"shop{n}", 7 + n)
    changes = [
        one
        for one in (await root.get("/api/v1/audit?action=project.update")).json()["items"]
        if one["before"]
    ]
    for older, newer in zip(changes[1:], changes, strict=False):
        assert older["after"] == newer["before"]


async def test_an_etag_is_of_one_project_whatever_its_name(
    root: httpx.AsyncClient, places: dict[str, str]
) -> None:
    path = places["project"]
    assert (await root.post("/api/v1/projects", json={"name": "other"})).status_code == 201
    read = (await root.get(path)).headers["etag"]
    assert (await root.patch(path, json={"name": "old"})).status_code == 200
    assert (await root.patch("/api/v1/projects/other", json={"name": "shop"})).status_code == 200
    assert (await root.patch("/api/v1/projects/old", json={"name": "older"})).status_code == 200
    other = await root.patch(path, json={"name": "shop"})
    assert other.status_code == 200
    for method in ("PATCH", "DELETE"):
        refused = await root.request(
            method,
            path,
            headers={"if-match": read},
            json={"name": "x"} if method == "PATCH" else None,
        )
        assert refused.status_code == 412


async def test_what_has_no_etag_refuses_the_header(root: httpx.AsyncClient) -> None:
    assert (
        await root.patch("/api/v1/organization", json={"name": "x"}, headers={"if-match": '"1"'})
    ).status_code == 422
    carry = {
        one.path
        for one in operations()
        if one.method == "PATCH" and "If-Match" in one.named("header")
    }
    changes = [
        one for one in operations() if one.method in ("PATCH", "DELETE") and one.path in carry
    ]
    assert len(carry) == 8
    assert all("If-Match" in one.named("header") for one in changes)
