"""Many jobs in one call, pages, and changes of everything that matches."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import Api


@pytest.fixture
async def filled(root: httpx.AsyncClient) -> list[str]:
    for name in ("mail", "other"):
        await root.post("/api/v1/queues", json={"name": name})
    jobs = [
        {"queue": "mail", "job_type": "send", "payload": n, "tags": ["even"] if n % 2 == 0 else []}
        for n in range(25)
    ]
    answer = (await root.post("/api/v1/jobs/bulk", json=jobs)).json()
    assert answer["errors"] == answer["existed"] == []
    return list(answer["ids"])


async def test_pages_go_through_all_jobs_once(root: httpx.AsyncClient, filled: list[str]) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = (
            await root.get(
                "/api/v1/jobs", params={"limit": 10} | ({"cursor": cursor} if cursor else {})
            )
        ).json()
        seen += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(filled)
    assert (await root.get("/api/v1/jobs?cursor=nonsense")).status_code == 422
    assert [
        one["payload"]
        for one in (await root.get("/api/v1/jobs?limit=2&offset=3&include=payload")).json()["items"]
    ] == [21, 20]
    assert len((await root.get("/api/v1/jobs?tag=even")).json()["items"]) == 13


async def test_a_call_sent_again_with_its_key_makes_nothing_new(
    root: httpx.AsyncClient, filled: list[str]
) -> None:
    body = [
        {"queue": "mail", "job_type": "send", "payload": 1},
        {"queue": "mail", "job_type": "send", "payload": 2, "delay_seconds": 5},
    ]
    first = (
        await root.post("/api/v1/jobs/bulk", json=body, headers={"idempotency-key": "k"})
    ).json()
    again = (
        await root.post("/api/v1/jobs/bulk", json=body, headers={"idempotency-key": "k"})
    ).json()
    assert (again["ids"], again["existed"]) == (first["ids"], [0, 1])
    one = {"queue": "mail", "job_type": "send", "payload": 1}
    made = await root.post("/api/v1/jobs", json=one, headers={"idempotency-key": "one"})
    assert (
        await root.post("/api/v1/jobs", json=one, headers={"idempotency-key": "one"})
    ).json() == {
        "id": made.json()["id"],
        "existed": True,
    }
    other = await root.post(
        "/api/v1/jobs", json=one | {"payload": 2}, headers={"idempotency-key": "one"}
    )
    assert (other.status_code, other.json()["type"]) == (409, "urn:taskforge:problem:key-taken")


async def test_one_bad_job_does_not_hold_up_the_others(
    root: httpx.AsyncClient, filled: list[str]
) -> None:
    body = [
        {"queue": "mail", "job_type": "send"},
        {"queue": "nowhere", "job_type": "send"},
        {"queue": "mail", "job_type": "send", "priority": 10},
        {"queue": "mail", "job_type": "send", "payload": {"ok": True}},
    ]
    answer = (await root.post("/api/v1/jobs/bulk", json=body)).json()
    assert [one is not None for one in answer["ids"]] == [True, False, False, True]
    assert [one["index"] for one in answer["errors"]] == [1, 2]
    assert answer["errors"][1]["errors"][0]["pointer"] == "#/2/priority"
    assert (await root.get(f"/api/v1/jobs/{answer['ids'][3]}")).json()["payload"] == {"ok": True}


async def test_what_matches_is_changed_and_the_rest_is_not(
    api: Api, root: httpx.AsyncClient, filled: list[str]
) -> None:
    async def change(**body: Any) -> httpx.Response:
        return await root.post("/api/v1/jobs/change", json=body)

    assert (await change(action="cancel", where={})).status_code == 422
    assert (await change(action="explode", where={"tag": "even"})).status_code == 422
    before = await api.audit_count()
    assert (await change(action="move", where={"tag": "even"}, queue="other")).json() == {
        "changed": 13,
        "refused": 0,
    }
    assert await api.audit_count() == before + 1
    assert (await change(action="cancel", where={"queue": "mail"})).json() == {
        "changed": 12,
        "refused": 0,
    }
    assert (await change(action="retry", where={"status": ["cancelled"]})).json() == {
        "changed": 12,
        "refused": 0,
    }
    assert (await change(action="cancel", where={"everything": True})).json() == {
        "changed": 25,
        "refused": 0,
    }
    assert (await change(action="delete", where={"everything": True})).json() == {
        "changed": 25,
        "refused": 0,
    }
    assert (await root.get("/api/v1/jobs")).json()["items"] == []
    stats = (await root.get("/api/v1/stats")).json()
    assert stats["totals"]["total"] == sum(one["total"] for one in stats["items"]) == 0


async def test_a_dry_run_changes_nothing_and_leaves_no_trace(
    api: Api, root: httpx.AsyncClient, filled: list[str]
) -> None:
    async def change(**body: Any) -> Any:
        return (await root.post("/api/v1/jobs/change", json=body | {"dry_run": True})).json()

    before = await api.audit_count()
    would = {"changed": 13, "refused": 0, "dry_run": True}
    assert await change(action="cancel", where={"tag": ["even", "odd"]}) == would
    would = {"changed": 0, "refused": 25, "dry_run": True}
    assert await change(action="retry", where={"everything": True}) == would
    would = {"changed": 2, "refused": 1, "dry_run": True}
    unknown = "01a1e2be-3d77-74b2-b190-1dcf91000000"
    assert await change(action="cancel", ids=[*filled[:2], unknown]) == would
    assert (await root.get("/api/v1/stats")).json()["totals"]["pending"] == 25
    assert await api.audit_count() == before


async def test_named_jobs_are_changed_with_one_entry_in_the_audit_log(
    api: Api, root: httpx.AsyncClient, filled: list[str]
) -> None:
    before = await api.audit_count()
    body: dict[str, Any] = {"action": "cancel", "ids": filled[:3]}
    assert (await root.post("/api/v1/jobs/change", json=body)).json() == {
        "changed": 3,
        "refused": 0,
    }
    assert await api.audit_count() == before + 1
    for wrong, pointer in (
        ({"where": {"tag": "even"}}, "#/where"),
        ({"ids": None}, "#/where"),
        ({"limit": 5}, "#/limit"),
        ({"cursor": "x"}, "#/cursor"),
    ):
        answer = await root.post("/api/v1/jobs/change", json=body | wrong)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_a_large_change_goes_in_parts_by_cursor(
    root: httpx.AsyncClient, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskforge.operations.jobs.SLICE", 5)
    body: dict[str, Any] = {"action": "cancel", "where": {"everything": True}, "limit": 10}
    changed = []
    while True:
        answer = (await root.post("/api/v1/jobs/change", json=body)).json()
        changed.append(answer["changed"])
        if "next_cursor" not in answer:
            break
        body["cursor"] = answer["next_cursor"]
    assert (sum(changed), max(changed)) == (25, 10)


async def test_several_values_are_alternatives_and_a_count_goes_by_the_same_filters(
    root: httpx.AsyncClient, filled: list[str]
) -> None:
    for params, count in (
        ({}, 25),
        ({"tag": "even"}, 13),
        ({"tag": ["even", "odd"]}, 13),
        ({"queue": ["mail", "other"]}, 25),
        ({"job_type": ["send", "none"], "priority": [0, 3]}, 25),
        ({"job_type": "none"}, 0),
        ({"status": ["pending", "failed"]}, 25),
    ):
        answer = await root.get("/api/v1/jobs/count", params=params)
        assert answer.json() == {"count": count, "more": False}, params
        listed = (await root.get("/api/v1/jobs", params=params)).json()
        assert (len(listed["items"]), listed["next_cursor"]) == (count, None), params
    many = await root.get("/api/v1/jobs/count", params={"tag": ["x"] * 51})
    assert (many.status_code, many.json()["errors"][0]["pointer"]) == (422, "tag")


async def test_a_field_that_an_action_does_not_take_is_refused(
    root: httpx.AsyncClient, filled: list[str]
) -> None:
    for action in ("cancel", "retry", "delete", "redrive", "erase"):
        body = {"action": action, "queue": "other", "where": {"status": ["pending"]}}
        misplaced = await root.post("/api/v1/jobs/change", json=body)
        assert (misplaced.status_code, misplaced.json()["errors"][0]["pointer"]) == (422, "#/queue")
        assert "where.queue" in misplaced.json()["detail"]
    for action in ("cancel", "delete", "move", "redrive", "erase"):
        body = {"action": action, "attempts": 3, "where": {"status": ["pending"]}}
        answer = await root.post("/api/v1/jobs/change", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/attempts")
    assert (await root.get("/api/v1/stats")).json()["totals"]["pending"] == 25


async def test_a_job_is_edited_until_it_runs(root: httpx.AsyncClient, filled: list[str]) -> None:
    path = f"/api/v1/jobs/{filled[0]}"
    edited = await root.patch(path, json={"priority": 9, "payload": {"new": 1}, "queue": "other"})
    assert (edited.json()["priority"], edited.json()["payload"], edited.json()["queue"]) == (
        9,
        {"new": 1},
        "other",
    )
    assert (await root.patch(path, json={})).status_code == 422
    # no time zone
    assert (
        await root.patch(path, json={"scheduled_for": "2027-01-01T00:00:00"})
    ).status_code == 422
    await root.post(f"{path}/cancel")
    assert (await root.patch(path, json={"priority": 1})).status_code == 409
    assert (await root.delete(f"{path}/payload")).status_code == 200
    assert (await root.get(path)).json()["payload"] is None
    assert (await root.delete(path)).status_code == 204
    assert (await root.get(path)).status_code == 404
