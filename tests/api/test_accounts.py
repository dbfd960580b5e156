"""People: invited, logged in, throttled, reset, removed."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from taskforge.domain.access import Role
from taskforge.domain.tenancy import Project
from taskforge.operations.access import gatekeeper
from taskforge.operations.access import tenant_cache as tenants
from tests.api.conftest import SETUP, Api

PASSWORD = "correct horse battery staple"


async def join(api: Api, admin: httpx.AsyncClient, email: str, role: str) -> httpx.AsyncClient:
    invited = await admin.post("/api/v1/invitations", json={"email": email, "role": role})
    assert invited.status_code == 201, invited.text
    visitor = api.client()
    body = {"token": invited.json()["token"], "name": "Someone", "password": PASSWORD}
    assert (await visitor.post("/api/v1/invitations/accept", json=body)).status_code == 201
    assert (await visitor.post("/api/v1/invitations/accept", json=body)).status_code == 401
    return visitor


@pytest.fixture
async def owner(api: Api) -> httpx.AsyncClient:
    return api.client(await api.user(1, Role.OWNER))


async def test_someone_is_invited_logs_in_and_out(api: Api, owner: httpx.AsyncClient) -> None:
    ada = await join(api, owner, "Ada@Example.com", "operator")
    assert (
        await ada.post(
            "/api/v1/session", json={"email": "ada@example.com", "password": "wrong but long"}
        )
    ).status_code == 401
    answer = await ada.post(
        "/api/v1/session", json={"email": "ada@example.com", "password": PASSWORD}
    )
    assert answer.status_code == 201
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    me = (await ada.get("/api/v1/session")).json()
    assert (me["label"], me["role"], me["projects"]) == (
        "user:ada@example.com",
        "operator",
        ["default"],
    )
    # a form on another site could send that
    assert (await ada.post("/api/v1/queues", json={"name": "q"})).status_code == 403
    marked = {"x-csrf-token": me["csrf_token"]}
    assert (await ada.post("/api/v1/queues", json={"name": "q"}, headers=marked)).status_code == 201
    assert (await ada.post("/api/v1/jobs", json={"queue": "q", "job_type": "t"})).status_code == 403
    assert (
        await ada.post("/api/v1/jobs", json={"queue": "q", "job_type": "t"}, headers=marked)
    ).status_code == 201
    assert (await ada.get("/api/v1/members")).status_code == 403
    assert (await ada.delete("/api/v1/session", headers=marked)).status_code == 204
    assert (await ada.get("/api/v1/session")).status_code == 401


async def test_tokens_are_refreshed_and_a_stolen_one_ends_them_all(
    api: Api, owner: httpx.AsyncClient
) -> None:
    visitor = await join(api, owner, "ada@example.com", "viewer")
    first = (
        await visitor.post(
            "/api/v1/tokens", json={"email": "ada@example.com", "password": PASSWORD}
        )
    ).json()
    assert (await api.client(first["access_token"]).get("/api/v1/queues")).status_code == 200
    second = (
        await visitor.post("/api/v1/tokens/refresh", json={"refresh_token": first["refresh_token"]})
    ).json()
    stolen = await visitor.post(
        "/api/v1/tokens/refresh", json={"refresh_token": first["refresh_token"]}
    )
    assert stolen.status_code == 401
    assert (
        await visitor.post(
            "/api/v1/tokens/refresh", json={"refresh_token": second["refresh_token"]}
        )
    ).status_code == 401
    assert (await api.client(second["access_token"]).get("/api/v1/queues")).status_code == 401
    third = (
        await visitor.post(
            "/api/v1/tokens", json={"email": "ada@example.com", "password": PASSWORD}
        )
    ).json()
    assert (
        await visitor.post("/api/v1/tokens/revoke", json={"refresh_token": third["refresh_token"]})
    ).status_code == 204
    assert (await api.client(third["access_token"]).get("/api/v1/queues")).status_code == 401


async def test_a_password_is_changed_and_reset(api: Api, owner: httpx.AsyncClient) -> None:
    visitor = await join(api, owner, "ada@example.com", "viewer")
    grant = (
        await visitor.post(
            "/api/v1/tokens", json={"email": "ada@example.com", "password": PASSWORD}
        )
    ).json()
    ada = api.client(grant["access_token"])
    weak = await ada.post(
        "/api/v1/password", json={"current_password": PASSWORD, "new_password": "short"}
    )
    assert weak.status_code == 422
    wrong = await ada.post(
        "/api/v1/password",
        json={"current_password": "not it at all", "new_password": "a new long password"},
    )
    assert wrong.status_code == 401
    good = await ada.post(
        "/api/v1/password",
        json={"current_password": PASSWORD, "new_password": "a new long password"},
    )
    assert good.status_code == 204
    assert (await ada.get("/api/v1/queues")).status_code == 401
    user = next(
        one
        for one in (await owner.get("/api/v1/members")).json()["items"]
        if one["email"] == "ada@example.com"
    )
    offer = (await owner.post(f"/api/v1/members/{user['id']}/password-reset")).json()["token"]
    body = {"token": offer, "new_password": "yet another long one"}
    assert (await visitor.post("/api/v1/password/reset", json=body)).status_code == 204
    assert (await visitor.post("/api/v1/password/reset", json=body)).status_code == 401
    login = {"email": "ada@example.com", "password": "yet another long one"}
    assert (await visitor.post("/api/v1/tokens", json=login)).status_code == 201


async def test_a_removed_member_is_out_at_once(api: Api, owner: httpx.AsyncClient) -> None:
    visitor = await join(api, owner, "ada@example.com", "admin")
    grant = (
        await visitor.post(
            "/api/v1/tokens", json={"email": "ada@example.com", "password": PASSWORD}
        )
    ).json()
    ada = api.client(grant["access_token"])
    members = {
        one["email"]: one["id"] for one in (await ada.get("/api/v1/members")).json()["items"]
    }
    boss = next(one for email, one in members.items() if email != "ada@example.com")
    # only owners do this to owners
    assert (await ada.delete(f"/api/v1/members/{boss}")).status_code == 403
    assert (
        await ada.patch(f"/api/v1/members/{members['ada@example.com']}", json={"role": "owner"})
    ).status_code == 403
    assert (
        await ada.post("/api/v1/invitations", json={"email": "x@example.com", "role": "owner"})
    ).status_code == 403
    assert (await owner.delete(f"/api/v1/members/{members['ada@example.com']}")).status_code == 204
    assert (await ada.get("/api/v1/queues")).status_code == 401
    alone = next(
        one["id"]
        for one in (await owner.get("/api/v1/members")).json()["items"]
        if one["role"] == "owner"
    )
    assert (await owner.delete(f"/api/v1/members/{alone}")).status_code == 409


async def test_nobody_gives_away_more_than_they_have(api: Api) -> None:
    admin = api.client(await api.key(1, ["admin:*", "job:read"]))
    assert (
        await admin.post("/api/v1/keys", json={"name": "k", "permissions": ["job:write"]})
    ).status_code == 403


async def test_a_key_that_was_used_just_now_ends_at_once_when_it_is_rotated_or_revoked(
    api: Api,
) -> None:
    """What is used is remembered for a while; what ends it must end that too."""
    admin = api.client(await api.key(1, ["admin:*", "job:read"]))
    made = (
        await admin.post("/api/v1/keys", json={"name": "k", "permissions": ["job:read"]})
    ).json()
    old = api.client(made["secret"])
    assert (await old.get("/api/v1/jobs")).status_code == 200
    rotated = (
        await admin.post(f"/api/v1/keys/{made['key']['id']}/rotate", json={"overlap_seconds": 0})
    ).json()
    assert (await old.get("/api/v1/jobs")).status_code == 401
    new = api.client(rotated["secret"])
    assert (await new.get("/api/v1/jobs")).status_code == 200
    assert (await admin.delete(f"/api/v1/keys/{rotated['key']['id']}")).status_code == 204
    assert (await new.get("/api/v1/jobs")).status_code == 401


async def test_a_workers_key_is_made_and_rotated_by_those_who_may_work(
    api: Api, root: httpx.AsyncClient
) -> None:
    """Whoever works sees payloads."""
    body = {"name": "w", "kind": "worker", "project": "default"}
    made = (await root.post("/api/v1/keys", json=body)).json()["key"]["id"]
    clerk = api.client(await api.key(1, ["admin:*", "job:read"]))
    for refused in (
        await clerk.post("/api/v1/keys", json=body),
        await clerk.post(f"/api/v1/keys/{made}/rotate"),
    ):
        assert refused.status_code == 403
        assert "cannot give away what it does not have: worker:run" in refused.json()["detail"]
    foreman = api.client(await api.key(1, ["admin:*", "worker:run"]))
    admin = api.client(await api.user(1, Role.ADMIN))
    for able in (foreman, admin):
        fresh = await able.post("/api/v1/keys", json=body)
        assert fresh.status_code == 201
        assert (
            await able.post(f"/api/v1/keys/{fresh.json()['key']['id']}/rotate")
        ).status_code == 201


async def test_a_rotation_sent_twice_names_the_new_key(api: Api, root: httpx.AsyncClient) -> None:
    made = (
        await root.post("/api/v1/keys", json={"name": "ci", "permissions": ["job:read"]})
    ).json()["key"]["id"]
    first = await root.post(f"/api/v1/keys/{made}/rotate", json={"overlap_seconds": 0})
    again = await root.post(f"/api/v1/keys/{made}/rotate", json={"overlap_seconds": 0})
    fresh = first.json()["key"]["id"]
    assert (first.status_code, again.status_code) == (201, 409)
    assert f"rotate key {fresh}" in again.json()["detail"]
    assert (await root.get(f"/api/v1/keys/{made}")).json()["rotated_to"] == fresh
    assert (await api.client(first.json()["secret"]).get("/api/v1/jobs")).status_code == 200


async def test_what_one_server_makes_works_on_another_at_once(
    api: Api,
    root: httpx.AsyncClient,
    serve: Callable[..., Awaitable[Api]],
    store_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenants, "STALE_SECONDS", 600.0)
    other = await serve(store_url)
    there = other.client(root.headers["authorization"].removeprefix("Bearer "))
    reads = 0
    projects = other.platform.records.projects.all

    async def counted() -> list[Project]:
        nonlocal reads
        reads += 1
        return await projects()

    monkeypatch.setattr(other.platform.records.projects, "all", counted)
    assert (await there.get("/api/v1/keys")).status_code == 200
    assert reads == 1

    assert (await root.post("/api/v1/projects", json={"name": "team"})).status_code == 201
    team = api.client(await api.key(1, ["job:*", "queue:*", "project:*"], project="team"))
    assert (await team.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    listed = (await there.get("/api/v1/keys")).json()["items"]
    assert "team" in {one["project"] for one in listed}
    assert reads == 2

    assert (await root.post("/api/v1/projects", json={"name": "crew"})).status_code == 201
    key = await api.key(1, ["job:*", "queue:*", "project:*"], project="crew")
    assert (await api.client(key).post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    crew = other.client(key)
    assert [one["project"] for one in (await crew.get("/api/v1/queues")).json()["items"]] == [
        "crew"
    ]
    assert (
        await crew.post("/api/v1/jobs", json={"queue": "mail", "job_type": "t"})
    ).status_code == 201
    assert [one["name"] for one in (await crew.get("/api/v1/projects")).json()["items"]] == ["crew"]
    assert reads == 3

    acme = other.client((await api.tenant("acme")).key)
    assert (await acme.get("/api/v1/session")).json()["organization"] == "acme"
    assert (await acme.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    assert reads == 4

    for name in ("nowhere", str(uuid4())):  # what a caller makes up has nothing read again
        assert (await there.get(f"/api/v1/projects/{name}")).status_code == 404
        assert (await there.get(f"/api/v1/keys/{uuid4()}")).status_code == 404
    assert reads == 4


async def test_a_project_deleted_elsewhere_is_not_asked_for(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gatekeeper, "REMEMBER_SECONDS", 600.0)
    for name in ("kept", "gone"):
        assert (await root.post("/api/v1/projects", json={"name": name})).status_code == 201
    assert (await root.get("/api/v1/queues")).status_code == 200
    gone = next(one for one in await api.platform.records.projects.all() if one.name == "gone")
    await api.platform.records.projects.delete(gone, SETUP)
    api.platform.tenants.forget()
    answer = await root.post("/api/v1/queues", json={"name": "mail"})
    assert answer.status_code == 422
    assert "name one of default, kept" in answer.json()["detail"]


async def test_an_organization_is_made_by_the_platforms_owners(
    api: Api, owner: httpx.AsyncClient
) -> None:
    made = await owner.post(
        "/api/v1/organizations", json={"name": "acme", "owner_email": "eve@acme.com"}
    )
    assert made.status_code == 201, made.text
    visitor = api.client()
    body = {"token": made.json()["invitation_token"], "name": "Eve", "password": PASSWORD}
    assert (await visitor.post("/api/v1/invitations/accept", json=body)).status_code == 201
    grant = (
        await visitor.post("/api/v1/tokens", json={"email": "eve@acme.com", "password": PASSWORD})
    ).json()
    eve = api.client(grant["access_token"])
    assert (await eve.get("/api/v1/organization")).json()["name"] == "acme"
    assert (await eve.get("/api/v1/organizations")).status_code == 403
    assert (await eve.post("/api/v1/queues", json={"name": "mine"})).status_code == 201
    assert (await owner.get("/api/v1/queues")).json()["items"] == []


async def test_without_the_permission_payloads_stay_closed(
    api: Api, root: httpx.AsyncClient
) -> None:
    await root.post("/api/v1/queues", json={"name": "q"})
    job = (
        await root.post(
            "/api/v1/jobs", json={"queue": "q", "job_type": "t", "payload": {"secret": 1}}
        )
    ).json()["id"]
    viewer = api.client(await api.user(1, Role.VIEWER))
    seen = (await viewer.get(f"/api/v1/jobs/{job}")).json()
    assert (seen["payload"], seen["redacted"]) == (None, True)
    assert (await viewer.get("/api/v1/jobs?include=payload")).json()["items"][0]["payload"] is None


async def test_what_changes_while_it_is_read_is_not_remembered_as_it_was(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gatekeeper, "REMEMBER_SECONDS", 600.0)
    monkeypatch.setattr(tenants, "STALE_SECONDS", 600.0)
    made = (
        await root.post(
            "/api/v1/keys", json={"name": "ci", "permissions": ["job:read", "project:read"]}
        )
    ).json()
    key_with, projects = (
        api.platform.records.api_keys.with_secret,
        api.platform.records.projects.all,
    )

    async def revoked_meanwhile(secret: bytes) -> Any:
        found = await key_with(secret)
        monkeypatch.setattr(api.platform.records.api_keys, "with_secret", key_with)
        assert (await root.delete(f"/api/v1/keys/{made['key']['id']}")).status_code == 204
        return found

    async def renamed_meanwhile() -> list[Project]:
        found = await projects()
        monkeypatch.setattr(api.platform.records.projects, "all", projects)
        await api.platform.records.projects.update(found[0], "renamed", None, SETUP)
        api.platform.tenants.forget()
        return found

    monkeypatch.setattr(api.platform.records.api_keys, "with_secret", revoked_meanwhile)
    late = api.client(made["secret"])
    assert [(await late.get("/api/v1/jobs")).status_code for _ in range(2)] == [200, 401]
    api.platform.tenants.forget()
    monkeypatch.setattr(api.platform.records.projects, "all", renamed_meanwhile)
    assert (await root.get("/api/v1/projects")).status_code == 200
    assert [one["name"] for one in (await root.get("/api/v1/projects")).json()["items"]] == [
        "renamed"
    ]
