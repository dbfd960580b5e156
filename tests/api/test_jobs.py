import httpx

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
