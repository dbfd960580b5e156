"""S2: every role and every kind of key at every operation. `permissions.txt` is the table that
people have agreed on."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from litestar import get

from taskforge.api.app import check_declared, make_app
from taskforge.api.entry import caller, front, hot_routes
from taskforge.api.entry.caller import ANYONE, PUBLIC
from taskforge.api.routes import hot as routes_hot
from taskforge.domain.access import (
    KEY_PERMISSIONS,
    ROLE_PERMISSIONS,
    WORKER_PERMISSIONS,
    Permission,
    Role,
)
from taskforge.operations.access import gatekeeper
from tests.api.operations import Operation, operations
from tests.support.line import Headers, Line
from tests.support.serving import SETUP, Api

TABLE = Path(__file__).with_name("permissions.txt")
# Routes that are not of the API: pages for people, and the API's own description. Whoever adds one
# adds it here.
PAGES = {
    "GET /",
    "GET /api/v1/docs",
    "GET /api/v1/openapi.json",
    "GET /assets/icon.svg",
    "GET /assets/reference.js",
    "GET /assets/style.css",
    "GET /dashboard/{name}",
    "GET /login",
    "GET /o/{path}",
    "POST /login",
    "POST /logout",
}
# What is for people who are logged in, and for nobody else.
OF_USERS, OF_SESSIONS = ("change_password",), ("log_out",)


class Someone(msgspec.Struct, frozen=True):
    """A credential, and what it may do by the table."""

    name: str
    credential: str | None
    permissions: frozenset[str]

    @property
    def is_user(self) -> bool:
        return self.name.split()[0] in list(Role)

    @property
    def headers(self) -> Headers:
        return (
            []
            if self.credential is None
            else [(b"authorization", f"Bearer {self.credential}".encode())]
        )

    def may(self, operation: Operation) -> bool:
        if operation.permission == PUBLIC:
            return True
        if operation.permission == ANYONE:
            return self.credential is not None
        return operation.permission in self.permissions


def declared() -> str:
    """The table as the code has it."""
    lines = [f"{role:<9}  {' '.join(sorted(ROLE_PERMISSIONS[role]))}" for role in Role]
    lines += [
        f"{'key':<9}  {' '.join(sorted(KEY_PERMISSIONS))}",
        f"{'worker':<9}  {' '.join(sorted(WORKER_PERMISSIONS))}",
        "",
    ]
    lines += [
        f"{one.method:<6} {one.path:<50} {one.name:<22} {one.permission}" for one in operations()
    ]
    return "\n".join(lines) + "\n"


def test_the_declared_permissions_are_the_agreed_ones() -> None:
    assert declared() == TABLE.read_text(), (
        f"if the change is meant, write it into {TABLE.name} where it is reviewed"
    )


def test_a_route_without_a_permission_is_not_built() -> None:
    @get("/open")
    async def forgotten() -> None: ...

    with pytest.raises(TypeError, match="forgotten declares no permission"):
        check_declared([forgotten])


async def test_every_route_is_in_the_document(api: Api) -> None:
    described = {f"{one.method} {one.path}" for one in operations()}
    assert set(routes(make_app(api.platform))) == described | PAGES
    assert all(
        permission == PUBLIC
        for name, permission in routes(make_app(api.platform)).items()
        if name in PAGES
    )

    @get("/api/v1/hidden", permission=PUBLIC, include_in_schema=False)
    async def hidden() -> None: ...

    app = make_app(api.platform)
    app.register(hidden)
    assert set(routes(app)) - described - PAGES == {"GET /api/v1/hidden"}


def test_the_front_answers_what_is_described_as_its_own() -> None:
    """Each by the permission and with the status that the document declares; and nothing else."""
    own = {handler.fn.__name__: handler for handler in routes_hot.HANDLERS}
    for operation in operations():
        found = hot_routes.find(
            operation.method, operation.at({name: f"a {name}" for name in operation.named("path")})
        )
        if operation.name not in own:
            assert found is None, operation.name
            continue
        assert found is not None, operation.name
        route, project = found
        assert (route.permission, route.status) == (
            operation.permission,
            own[operation.name].status_code,
        )
        assert project == ("a project" if "{project}" in operation.path else None)
        assert route.waits == (operation.name == "worker_claim")


def routes(app: Any) -> dict[str, str]:
    """Method and path of everything that is served, with its permission."""
    return {
        f"{method} {_plain(route.path_format)}": str(handler.opt["permission"])
        for route in app.routes
        for method, (handler, _) in route.route_handler_map.items()
        if method != "OPTIONS"
    }


def _plain(path: str) -> str:
    return path if path == "/" else path.rstrip("/")


async def everyone(api: Api) -> list[Someone]:
    tenant = (await api.platform.records.organizations.create(f"t{uuid4().hex[:8]}", SETUP)).number
    api.platform.forget()
    found = [Someone("nobody", None, frozenset())]
    found += [
        Someone(role, await api.user(tenant, role), frozenset(map(str, ROLE_PERMISSIONS[role])))
        for role in Role
    ]
    platform = {*map(str, ROLE_PERMISSIONS[Role.OWNER]), str(Permission.PLATFORM)}
    found.append(Someone("owner of the first", await api.user(1, Role.OWNER), frozenset(platform)))
    found.append(
        Someone(
            "admin of the first",
            await api.user(1, Role.ADMIN),
            frozenset(map(str, ROLE_PERMISSIONS[Role.ADMIN])),
        )
    )
    owner = api.client(found[1].credential)
    for permission in sorted(KEY_PERMISSIONS):
        made = await owner.post("/api/v1/keys", json={"name": "one", "permissions": [permission]})
        found.append(
            Someone(f"key {permission}", made.json()["secret"], frozenset({str(permission)}))
        )
    made = await owner.post(
        "/api/v1/keys", json={"name": "work", "kind": "worker", "project": "default"}
    )
    found.append(
        Someone("worker key", made.json()["secret"], frozenset(map(str, WORKER_PERMISSIONS)))
    )
    return found


async def wrongs(api: Api, people: list[Someone]) -> tuple[int, list[str]]:
    """How many were asked, and where the answer differs from the table. Ids are nobody's and bodies
    empty, so nothing changes."""
    found: list[str] = []
    asked = 0
    async with Line(api.address) as line:
        for someone, operation in itertools.product(people, operations()):
            asked += 1
            path = operation.at({name: str(uuid4()) for name in operation.named("path")})
            status, text = await line.ask(
                operation.method, path, someone.headers, None if operation.body is None else b"{}"
            )
            let_in = status not in (401, 403)
            if status == 403:  # not for lack of a permission, but of a password or a session
                let_in = (
                    operation.name in (OF_SESSIONS if someone.is_user else OF_SESSIONS + OF_USERS)
                    and b"permission" not in text
                )
            if operation.permission == PUBLIC:
                let_in = let_in or b"this needs a valid credential" not in text
            if let_in != someone.may(operation) or status >= 500:
                found.append(f"{someone.name}: {operation.name}: {status} {text[:200]!r}")
    return asked, found


async def test_everyone_may_do_what_the_table_says(
    api: Api, store_url: str, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    people = await everyone(api)
    asked, found = await wrongs(api, people)
    assert not found, "\n".join(found)
    counted = f"{len(people)} credentials × {len(operations())} operations, n = {asked}"
    figure(f"S2 {store_url.partition(':')[0]}: {counted}: 0 differ from the declared table")
    twins = list(TWINS.items())
    for name, (where, attribute, broken, whom) in twins:
        api.platform.forget()
        with monkeypatch.context() as patch:
            patch.setattr(where, attribute, broken)
            _, found = await wrongs(api, [one for one in people if one.name == whom])
        assert found, name
    figure(
        f"S2 {store_url.partition(':')[0]}: {len(twins)} of n = {len(twins)} broken guards noticed"
    )


def _as_owner(role: Role, organization: int) -> frozenset[Permission]:
    return ROLE_PERMISSIONS[Role.OWNER]


TWINS: dict[str, tuple[Any, str, Any, str]] = {
    "the guard lets everyone through": (caller, "need", lambda *_: None, "viewer"),
    "the front lets everyone through": (front, "need", lambda *_: None, "worker key"),
    "every role may what owners may": (gatekeeper, "permissions_of", _as_owner, "operator"),
    "a worker's key may what others may": (
        gatekeeper,
        "WORKER_PERMISSIONS",
        KEY_PERMISSIONS,
        "worker key",
    ),
}


async def test_nobody_gives_away_more_than_they_have(api: Api) -> None:
    """A key that may only administer must not make itself an account, a key or a password that may
    more."""
    tenant = await api.tenant("more")
    members = (await api.client(tenant.key).get("/api/v1/members")).json()["items"]
    owner = members[0]["id"]
    await api.user(tenant.number, Role.ADMIN)
    admin = next(
        one["id"]
        for one in (await api.client(tenant.key).get("/api/v1/members")).json()["items"]
        if one["role"] == "admin"
    )
    weak = api.client(await api.key(tenant.number, ["admin:read", "admin:write"]))
    for method, path, body in (
        ("POST", "/api/v1/invitations", {"email": "x@example.com", "role": "admin"}),
        ("POST", "/api/v1/invitations", {"email": "x@example.com", "role": "owner"}),
        ("POST", "/api/v1/keys", {"name": "more", "permissions": ["job:read"]}),
        ("POST", f"/api/v1/members/{admin}/password-reset", None),
        ("POST", f"/api/v1/members/{owner}/password-reset", None),
        ("PATCH", f"/api/v1/members/{admin}", {"role": "owner"}),
        ("DELETE", f"/api/v1/members/{owner}", None),
    ):
        response = await weak.request(method, path, json=body)
        assert response.status_code == 403, (method, path, response.text)
