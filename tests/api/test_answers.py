"""One rule for what is wrong with a body or a parameter, on routes of the framework and on those
that the front answers: 422, with a pointer to the field."""

import asyncio
import logging
import uuid
from typing import Any

import httpx
import pytest

from taskforge.domain.access import Role
from tests.api.conftest import Api
from tests.api.operations import operations

JOB = {"queue": "mail", "job_type": "send"}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def mail(root: httpx.AsyncClient) -> None:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201


def told(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["errors"][0]["pointer"]


async def test_every_route_answers_broken_json_alike(api: Api) -> None:
    owner = api.client(await api.user(1, Role.OWNER))
    ids = {name: uuid.uuid4() for one in operations() for name in one.named("path")}
    seen = 0
    for one in operations():
        if not one.body or one.path.startswith("/api/v1/worker/"):
            continue
        for body in (b"{", b"{,}", b"\xff", b'"\\ud800"', b"[" * 100_000):
            answer = await owner.request(one.method, one.at(ids), content=body, headers=JSON)
            if answer.status_code == 403:
                continue  # a platform's own route: who asks is known before
            assert told(answer) == (422, "#"), (one.name, body[:10], answer.text)
            seen += 1
        if one.method == "POST" and one.name in ("create_queue", "create_job", "register_worker"):
            assert told(await owner.request(one.method, one.at(ids))) == (422, "#"), one.name
    assert seen > 50


@pytest.mark.parametrize("path", ["/api/v1/queues", "/api/v1/jobs"])
async def test_unknown_fields_and_wrong_types_are_told_alike(
    root: httpx.AsyncClient, mail: None, path: str
) -> None:
    good: dict[str, Any] = {"name": "other"} if path.endswith("queues") else JOB
    for wrong, pointer in (
        ({"colour": 1}, "#/colour"),
        ({"priority": "3"}, "#/priority"),
        ({"priority": 3.5}, "#/priority"),
        ({"priority": True}, "#/priority"),
        ({"priority": 10}, "#/priority"),
    ):
        assert told(await root.post(path, json=good | wrong)) == (422, pointer), wrong
    missing = dict(list(good.items())[1:])
    assert told(await root.post(path, json=missing)) == (422, f"#/{next(iter(good))}")


async def test_texts_are_not_taken_for_values(root: httpx.AsyncClient, mail: None) -> None:
    for value in ("false", "0", 0):
        answer = await root.patch("/api/v1/queues/mail", json={"is_active": value})
        assert told(answer) == (422, "#/is_active"), value
    assert (await root.get("/api/v1/queues/mail")).json()["is_active"]
    where = {"action": "cancel", "where": {"everything": "true"}}
    assert told(await root.post("/api/v1/jobs/change", json=where)) == (422, "#/where/everything")
    for query, name in (("limit=1e3", "limit"), ("limit=+5", "limit"), ("offset=1.0", "offset")):
        assert told(await root.get(f"/api/v1/jobs?{query}")) == (422, name), query
    assert told(await root.get("/api/v1/workers?healthy=on")) == (422, "healthy")
    assert told(await root.get("/api/v1/workers?worker_type=bogus")) == (422, "worker_type")
    assert told(await root.get("/api/v1/jobs?priority=12")) == (422, "priority")


async def test_a_time_out_of_range_names_the_field_it_was_given_in(
    root: httpx.AsyncClient, mail: None
) -> None:
    job = (await root.post("/api/v1/jobs", json=JOB)).json()["id"]
    for instant, seconds in (
        ("scheduled_for", "delay_seconds"),
        ("timeout_at", "deadline_seconds"),
        ("expires_at", "expires_seconds"),
    ):
        for field, value in ((instant, "9999-01-01T00:00:00Z"), (seconds, 1e12)):
            assert told(await root.post("/api/v1/jobs", json=JOB | {field: value})) == (
                422,
                f"#/{field}",
            )
            bulk = (await root.post("/api/v1/jobs/bulk", json=[JOB, JOB | {field: value}])).json()
            assert bulk["errors"][0]["errors"][0]["pointer"] == f"#/1/{field}"
    for field, value in (("scheduled_for", "9999-01-01T00:00:00Z"), ("delay_seconds", 1e12)):
        answer = await root.patch(f"/api/v1/jobs/{job}", json={field: value})
        assert told(answer) == (422, f"#/{field}")
    empty = await root.patch(f"/api/v1/jobs/{job}", json={})
    assert told(empty) == (422, "#")
    assert "scheduled_for" in empty.json()["detail"]


async def test_a_bulk_call_refuses_only_its_bad_items(root: httpx.AsyncClient, mail: None) -> None:
    body = [
        JOB,
        {"queue": "mail"},
        JOB | {"priority": "3"},
        JOB | {"tags": ["a", 7]},
        JOB | {"colour": "red"},
        "no job",
        JOB | {"tags": ["a"]},
    ]
    for headers in ({}, {"idempotency-key": "k"}):
        answer = await root.post("/api/v1/jobs/bulk", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        made = answer.json()
        assert [one is not None for one in made["ids"]] == [True, *[False] * 5, True]
        assert [(one["index"], one["errors"][0]["pointer"]) for one in made["errors"]] == [
            (1, "#/1/job_type"),
            (2, "#/2/priority"),
            (3, "#/3/tags/1"),
            (4, "#/4/colour"),
            (5, "#/5"),
        ]
    assert told(await root.post("/api/v1/jobs/bulk", json={"no": "list"})) == (422, "#")


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ["/api/v1/queues", "/api/v1/jobs", "/api/v1/session"])
async def test_whoever_breaks_off_a_body_leaves_no_traceback(
    api: Api, root: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    host, port = api.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: {root.headers['authorization']}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: 99\r\n\r\n{{".encode())
    await writer.drain()
    with caplog.at_level(logging.WARNING):
        assert (await root.get("/api/v1/queues")).status_code == 200
        writer.close()
        await writer.wait_closed()
        assert await reader.read() == b""
        for _ in range(5):
            assert (await root.get("/api/v1/queues")).status_code == 200
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []
