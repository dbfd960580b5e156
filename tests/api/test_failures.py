"""Groups of failures over HTTP, and from Python through a server: found, looked into, run again,
deleted; and what is refused."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from taskforge import TaskForge
from taskforge.domain.claim import Claim
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.job import error_info
from taskforge.domain.outcome import Finish, ToFailed
from taskforge.domain.worker import NewWorker
from taskforge.operations.access.first_start import make_key
from taskforge.storage.records.failures import FailureRecords
from tests.api.conftest import Api

SECRET = "card 4111-1111-1111-1111"


@pytest.fixture
async def group(api: Api, root: httpx.AsyncClient) -> dict[str, Any]:
    """Three letters that failed alike, and a report that failed otherwise."""
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    kinds = ["letter"] * 3 + ["report"]
    jobs = [{"queue": "mail", "job_type": kind, "payload": {}} for kind in kinds]
    assert (await root.post("/api/v1/jobs/bulk", json=jobs)).status_code in (200, 201)
    worker = await api.engine.register(api.engine.home, NewWorker(name="w"), 600.0)
    claimed = await api.engine.claim(Claim(worker.incarnation, 9))
    assert len(claimed) == 4
    finishes = [
        Finish(one.fence, ToFailed(error_info("Refused", f"{place}: {SECRET}", SECRET), "no"))
        for place, one in enumerate(claimed)
    ]
    assert await api.engine.finish(finishes) == []
    assert await FailureRecords(api.engine).fold(100) == 2
    listed = (await root.get("/api/v1/failures", params={"sort": "count"})).json()
    assert [one["count"] for one in listed["items"]] == [3, 1]
    return dict(listed["items"][0])


async def test_a_group_is_read_retried_and_deleted(
    root: httpx.AsyncClient, group: dict[str, Any]
) -> None:
    assert (group["job_type"], group["error_type"], group["trend"]) == ("letter", "Refused", "new")
    assert group["queues"] == ["mail"]
    assert "4111" not in group["message"]
    path = f"/api/v1/failures/{group['id']}"
    whole = (await root.get(path)).json()
    assert whole["failed"] == {"count": 3, "more": False}
    assert whole["example"]["traceback"] == SECRET
    execution = await root.get(f"/api/v1/executions/{whole['example']['execution_id']}")
    assert execution.json()["error"]["message"] == whole["example"]["message"]
    page = (await root.get("/api/v1/failures?limit=1")).json()
    behind = await root.get("/api/v1/failures", params={"cursor": page["next_cursor"]})
    assert len(behind.json()["items"]) == 1
    narrowed = await root.get("/api/v1/failures?job_type=report")
    assert [one["job_type"] for one in narrowed.json()["items"]] == ["report"]
    asked = {"failure_group": group["id"]}
    assert len((await root.get("/api/v1/jobs", params=asked)).json()["items"]) == 3
    assert (await root.get("/api/v1/jobs/count", params=asked)).json()["count"] == 3
    by_filter = {"where": asked, "action": "retry", "dry_run": True}
    assert (await root.post("/api/v1/jobs/change", json=by_filter)).json()["changed"] == 3
    would = (await root.post(f"{path}/retry", json={"dry_run": True})).json()
    assert would == {"changed": 3, "refused": 0, "dry_run": True}
    assert (await root.post(f"{path}/retry")).json() == {"changed": 3, "refused": 0}
    assert (await root.get(path)).json()["failed"] == {"count": 0, "more": False}
    report = (await root.get("/api/v1/failures?job_type=report")).json()["items"][0]["id"]
    deleted = await root.post(f"/api/v1/failures/{report}/delete", json={"limit": 5})
    assert deleted.json() == {"changed": 1, "refused": 0}
    assert (await root.get(f"/api/v1/failures/{report}")).json()["example"] is None


async def test_what_errors_say_is_for_those_who_may_see_payloads(
    api: Api, root: httpx.AsyncClient, group: dict[str, Any]
) -> None:
    asked = {"name": "reader", "permissions": ["job:read"]}
    key = (await root.post("/api/v1/keys", json=asked)).json()["secret"]
    async with api.client(key) as reader:
        for path in (
            "/api/v1/failures",
            f"/api/v1/failures/{group['id']}",
            f"/api/v1/jobs/{group['job_id']}",
            f"/api/v1/jobs/{group['job_id']}/executions",
            f"/api/v1/jobs/{group['job_id']}/explain",
        ):
            answer = await reader.get(path)
            assert answer.status_code == 200
            assert "card" not in answer.text
            assert "card" in (await root.get(path)).text
        whole = (await reader.get(f"/api/v1/failures/{group['id']}")).json()
        assert (whole["redacted"], whole["message"], whole["example"]) == (True, "", None)
        assert (whole["error_type"], whole["count"]) == ("Refused", 3)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"attempts": 0}, "attempts"),
        ({"limit": 0}, "/limit"),
        ({"dry_run": True, "limit": 5}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"atempts": 3}, "/atempts"),
    ],
)
async def test_what_is_wrong_is_named(
    root: httpx.AsyncClient, group: dict[str, Any], body: dict[str, Any], pointer: str
) -> None:
    refused = await root.post(f"/api/v1/failures/{group['id']}/retry", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["pointer"].lstrip("#/") == pointer.lstrip("/")
    unknown = await root.post(f"/api/v1/failures/{uuid4()}/retry")
    assert unknown.status_code == 404
    tagged = {"failure_group": group["id"], "tag": "a"}
    assert (await root.get("/api/v1/jobs", params=tagged)).status_code == 422


async def test_groups_from_python_through_a_server(api: Api, group: dict[str, Any]) -> None:
    async with TaskForge(api.address, token=await make_key(api.platform, "mender")) as forge:
        found = [one async for one in forge.failures.list(sort="count")]
        assert [one.count for one in found] == [3, 1]
        assert str(found[0].id) == group["id"]
        details = await forge.failures.get(found[0])
        assert details.example is not None
        assert (details.failed.count, details.example.traceback) == (3, SECRET)
        listed = [one.id async for one in forge.jobs.list(failure_group=group["id"])]
        assert len(listed) == 3
        assert (await forge.failures.retry(group["id"], dry_run=True)).changed == 3
        assert (await forge.failures.retry(found[0], attempts=2)).changed == 3
        assert (await forge.failures.delete(found[1].id)).changed == 1
        with pytest.raises(NotFound):
            await forge.failures.get(UUID(int=1))
        with pytest.raises(Invalid, match="group"):
            await forge.failures.get("letters")
        with pytest.raises(Invalid, match="failure_group"):
            forge.jobs.list(failure_group="letters")
