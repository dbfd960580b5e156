"""What a route does not know is refused, not ignored; how many slashes a path has makes no
difference."""

import uuid

import httpx
import pytest

from taskforge.api.routes import PREFIX, hot
from taskforge.domain.access import Role
from tests.api.conftest import Api
from tests.api.operations import operations

JOB = {"queue": "mail", "job_type": "send"}


@pytest.fixture
async def mail(root: httpx.AsyncClient) -> None:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201


async def test_slashes_too_many_make_no_difference(root: httpx.AsyncClient, mail: None) -> None:
    quick_paths = [
        f"{PREFIX}{path}".replace("{project:str}", "default")
        for one in hot.HANDLERS
        for path in one.paths
    ]
    for path in (*quick_paths, f"{PREFIX}/queues"):
        usual = await root.post(path, json={})
        assert usual.status_code in (403, 422)
        for spelt in (f"{path}/", path.replace("/v1/", "//v1///") + "//"):
            answer = await root.post(spelt, json={})
            assert (answer.status_code, answer.json()["detail"]) == (
                usual.status_code,
                usual.json()["detail"],
            ), spelt
    assert (await root.post(f"{PREFIX}/jobs/", json=JOB)).status_code == 201
    assert (await root.post(f"{PREFIX}/projects//default/jobs/bulk/", json=[JOB])).json()[
        "errors"
    ] == []


async def test_every_route_refuses_what_it_does_not_declare(api: Api) -> None:
    owner = api.client(await api.user(1, Role.OWNER))
    ids = {name: uuid.uuid4() for one in operations() for name in one.named("path")}
    for one in operations():
        if not one.path.startswith(PREFIX):
            continue
        answer = await owner.request(
            one.method, f"{one.at(ids)}?colour=red", json={} if one.body else None
        )
        assert answer.status_code == 422, (one.name, answer.text)
        assert answer.json()["errors"][0]["pointer"] == "colour", (one.name, answer.text)
    assert (await owner.get("/healthz?verbose")).status_code == 200


async def test_a_parameter_that_is_misspelt_given_twice_or_null_is_named(
    root: httpx.AsyncClient, mail: None
) -> None:
    misspelt = await root.get("/api/v1/jobs?statu=failed")
    (fault,) = misspelt.json()["errors"]
    assert (misspelt.status_code, fault["pointer"]) == (422, "statu")
    assert fault["expected"].startswith("did you mean 'status'? it takes project, queue, status, ")
    twice = await root.get("/api/v1/jobs?limit=5&limit=6")
    assert (twice.status_code, twice.json()["detail"]) == (
        422,
        "limit: is given more than once; give it once",
    )
    several = "status=failed&status=pending&job_type=x&job_type=a&tag=b&tag=c"
    assert (await root.get(f"/api/v1/jobs?{several}")).status_code == 200
    assert (await root.get("/api/v1/jobs?status")).status_code == 422
    nothing = await root.get("/api/v1/jobs?priority=null&job_type=null")
    assert (nothing.status_code, nothing.json()["detail"]) == (
        422,
        "priority: is null; leave it out, or give it a value",
    )
    assert (await root.get("/api/v1/jobs?job_type=null")).status_code == 200


async def test_times_and_numbers_are_written_as_the_document_says(root: httpx.AsyncClient) -> None:
    for name, value in (
        ("since", "0.5"),
        ("since", "1767225600"),
        ("until", "2026-01-01"),
        ("until", "2026-01-01T00:00:00"),
        ("until", "2026-01-01T00:00:00+00:00"),  # whose + is a space here
        ("last_seconds", "nan"),
        ("last_seconds", "inf"),
        ("last_seconds", "1_000"),
    ):
        refused = await root.get(f"/api/v1/metrics?{name}={value}")
        assert refused.status_code == 422, (name, value, refused.text)
        assert refused.json()["errors"][0]["pointer"] == name
    assert "2026-11-18T06:30:00Z" in (await root.get("/api/v1/metrics?since=1")).json()["detail"]
    for query in ("until=2026-01-01T00:00:00Z", "until=2026-01-01T00:00:00.5%2B01:00&since="):
        since = "2025-12-31T00:00:00Z" if query.endswith("=") else ""
        assert (await root.get(f"/api/v1/metrics?{query}{since}")).status_code == 200, query
    refused = await root.get("/api/v1/jobs?created_after=5")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "created_after")


async def test_an_enqueue_goes_to_the_project_that_its_query_names(
    root: httpx.AsyncClient, mail: None
) -> None:
    assert (await root.post("/api/v1/projects", json={"name": "shop"})).status_code == 201
    assert (
        await root.post("/api/v1/queues?project=shop", json={"name": "mail"})
    ).status_code == 201
    for path, body in (("/api/v1/jobs", JOB), ("/api/v1/jobs/bulk", [JOB])):
        assert (await root.post(f"{path}?project=shop", json=body)).is_success
        assert (await root.post(f"{path}?project=nowhere", json=body)).status_code == 404
        assert (
            await root.post(f"{path}?project=shop&project=default", json=body)
        ).status_code == 422
    assert (
        await root.post("/api/v1/projects/shop/jobs?project=default", json=JOB)
    ).status_code == 422
    assert [one["project"] for one in (await root.get("/api/v1/jobs")).json()["items"]] == [
        "shop",
        "shop",
    ]


async def test_who_asks_is_known_before_what_is_refused(api: Api) -> None:
    for method, path in (("GET", "/api/v1/jobs?statu=x"), ("POST", "/api/v1/jobs?statu=x")):
        assert (await api.client().request(method, path, json=None)).status_code == 401


async def test_a_key_as_long_as_the_document_allows_is_taken(
    root: httpx.AsyncClient, mail: None
) -> None:
    for one in operations():
        for parameter in one.parameters:
            if parameter["name"] == "Idempotency-Key":
                most = parameter["schema"]["maxLength"]
                body = [JOB] if "bulk" in one.path else JOB
                path = one.at({"project": "default"})
                for length, expected in ((most, True), (most + 1, False)):
                    answer = await root.post(
                        path, json=body, headers={"idempotency-key": "k" * length}
                    )
                    assert answer.is_success is expected, (one.name, length, answer.text)
