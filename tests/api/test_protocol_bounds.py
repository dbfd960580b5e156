"""What the API's document says of the worker protocol is what the server takes, and no more."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from taskforge.api.schema.document import document
from tests.api.conftest import Api

EXECUTION = str(uuid4())
OUTCOMES: dict[str, dict[str, Any]] = {
    "WireTimeout": {"kind": "timeout", "seconds": 1},
    "WireHeartbeatMissed": {"kind": "heartbeat_missed", "seconds": 1},
    "WireRetry": {"kind": "retry", "seconds": 1, "error": {"type": "E", "message": "m"}},
    "WireSnooze": {"kind": "snooze", "seconds": 1},
}


@pytest.fixture
async def worker(api: Api, root: httpx.AsyncClient) -> httpx.AsyncClient:
    return api.client(await api.key(1, [], project="default", kind="worker"))


def beyond(schema: dict[str, Any]) -> list[Any]:
    """Values just outside of what a field's schema allows."""
    found: list[Any] = []
    for kind in schema.get("oneOf", [schema]):
        whole = kind.get("type") == "integer"
        if "minimum" in kind:
            found.append(kind["minimum"] - (1 if whole else 0.001))
        if "maximum" in kind:
            found.append(kind["maximum"] + (1 if whole else max(0.001, kind["maximum"] / 1e6)))
        if "enum" in kind:
            found.append("bogus")
        if "maxLength" in kind:
            found.append("x" * (kind["maxLength"] + 1))
        if kind.get("minLength"):
            found.append("")
        if "maxItems" in kind and kind["items"].get("type") == "string":
            found += [["x"] * (kind["maxItems"] + 1), ["x" * 101]]
        if kind.get("type") in ("integer", "number"):
            found.append("3")
        if kind.get("type") == "boolean":
            found.append("true")
    return found


async def test_what_lies_beyond_a_bound_of_the_document_is_refused_by_name(
    worker: httpx.AsyncClient,
) -> None:
    made = await worker.post("/api/v1/worker/register", json={"name": "w"})
    life = {"incarnation": made.json()["incarnation"]}
    schemas = document()["components"]["schemas"]

    def calls() -> Any:
        """The schema, where its fields stand, and a call that carries it."""
        for name, verb, base in (
            ("Register", "register", {"name": "w"}),
            ("Heartbeat", "heartbeat", life),
            ("ClaimBody", "claim", life),
        ):
            yield name, verb, "#", lambda body, base=base: base | body
        for name, verb, many in (("WireBeat", "progress", "beats"), ("WireLine", "logs", "lines")):
            good = {"execution": EXECUTION} | ({"message": "m"} if many == "lines" else {})
            yield (
                name,
                verb,
                f"#/{many}/1",
                lambda body, many=many, good=good: life | {many: [good, good | body]},
            )
        for name, outcome in OUTCOMES.items():
            good = {"execution": EXECUTION, "outcome": {"kind": "deadline"}}
            yield (
                name,
                "complete",
                "#/outcomes/1/outcome",
                lambda body, outcome=outcome, good=good: (
                    life | {"outcomes": [good, {"execution": EXECUTION, "outcome": outcome | body}]}
                ),
            )

    tried = 0
    for name, verb, place, call in calls():
        for field, schema in schemas[name]["properties"].items():
            for value in beyond(schema):
                answer = await worker.post(f"/api/v1/worker/{verb}", json=call({field: value}))
                assert answer.status_code == 422, (name, field, value, answer.text)
                pointer = answer.json()["errors"][0]["pointer"]
                assert pointer.startswith(f"{place}/{field}"), (name, field, pointer)
                tried += 1
    assert tried > 60
    for many, verb in (("outcomes", "complete"), ("beats", "progress"), ("lines", "logs")):
        items = [{"execution": EXECUTION, "outcome": {"kind": "deadline"}}] * 1_001
        if many != "outcomes":
            items = [
                {"execution": EXECUTION} | ({"message": "m"} if many == "lines" else {})
            ] * 1_001
        answer = await worker.post(f"/api/v1/worker/{verb}", json=life | {many: items})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, f"#/{many}")


async def test_a_worker_may_name_a_queue_before_it_is_there(
    root: httpx.AsyncClient, worker: httpx.AsyncClient
) -> None:
    made = await worker.post("/api/v1/worker/register", json={"name": "w", "queues": ["later"]})
    life = {"incarnation": made.json()["incarnation"]}
    assert (await root.post("/api/v1/queues", json={"name": "later"})).status_code == 201
    job = (await root.post("/api/v1/jobs", json={"queue": "later", "job_type": "a"})).json()["id"]
    answer = await worker.post("/api/v1/worker/claim", json=life | {"wait_seconds": 5})
    assert [one["job"] for one in answer.json()["jobs"]] == [job]
    unwell = life | {"healthy": False}
    assert (await worker.post("/api/v1/worker/heartbeat", json=unwell)).status_code == 200
    await root.post("/api/v1/jobs", json={"queue": "later", "job_type": "a"})
    assert (await worker.post("/api/v1/worker/claim", json=life)).json()["jobs"] == []
    assert (await worker.post("/api/v1/worker/heartbeat", json=life)).status_code == 200
    assert len((await worker.post("/api/v1/worker/claim", json=life)).json()["jobs"]) == 1
    left = await worker.post("/api/v1/worker/deregister", json=life)
    assert (left.status_code, "hand them back" in left.json()["detail"]) == (409, True)
