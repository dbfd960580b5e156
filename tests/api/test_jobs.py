import httpx

from taskforge.domain.worker import NewWorker
from tests.api.conftest import Api


async def test_a_job_is_created_read_and_cancelled(api: Api, root: httpx.AsyncClient) -> None:
    made = await root.post("/api/v1/queues", json={"name": "mail"})
    assert made.status_code == 201, made.text
    created = await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send", "payload": {"to": "a@b", "n": 1.5}})
    assert created.status_code == 201, created.text
    job = (await root.get(f"/api/v1/jobs/{created.json()['id']}")).json()
    assert (job["queue"], job["status"], job["payload"]) == ("mail", "pending", {"to": "a@b", "n": 1.5})
    cancelled = await root.post(f"/api/v1/jobs/{job['id']}/cancel", json={"reason": "not needed"})
    assert cancelled.json()["status"] == "cancelled"
    again = await root.post(f"/api/v1/jobs/{job['id']}/cancel")
    assert (again.status_code, again.headers["content-type"]) == (409, "application/problem+json")


async def test_a_job_that_waits_says_why_and_only_those_who_may_see_workers_see_them(api: Api, root: httpx.AsyncClient) -> None:
    queue = (await root.post("/api/v1/queues", json={"name": "mail"})).json()
    job = (await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "send"})).json()["id"]
    why = (await root.get(f"/api/v1/jobs/{job}/explain")).json()
    assert [reason["code"] for reason in why["reasons"]] == ["no_worker"]
    await api.engine.register(api.engine.home, NewWorker(name="anna", types=("other",)), 60)
    assert (await root.post(f"/api/v1/queues/{queue['id']}/pause")).status_code == 200
    why = (await root.get(f"/api/v1/jobs/{job}/explain")).json()
    assert [reason["code"] for reason in why["reasons"]] == ["paused", "no_handler"]
    assert [(one["name"], one["hindrance"]) for one in why["workers"]] == [("anna", "no_handler")]
    made = await root.post("/api/v1/keys", json={"name": "reader", "permissions": ["job:read"]})
    answer = await root.get(f"/api/v1/jobs/{job}/explain", headers={"authorization": f"Bearer {made.json()['secret']}"})
    assert (answer.status_code, answer.json()["workers"]) == (200, [])
    assert [reason["code"] for reason in answer.json()["reasons"]] == ["paused", "no_handler"]
    assert "anna" not in answer.text
