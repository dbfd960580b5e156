"""S1: every operation with what belongs to others, in the path, the body, the query, the headers
and the cursor."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from taskforge.api.entry.caller import Caller
from taskforge.domain.access import Permission, Role
from taskforge.domain.tenancy import Project
from taskforge.operations.access.gatekeeper import Gatekeeper
from taskforge.operations.access.tenant_cache import Tenants
from taskforge.operations.work.enrolled_workers import EnrolledWorkers
from taskforge.storage.records.api_keys import ApiKeys
from taskforge.storage.records.members import Members
from tests.api.marked_tenant import (
    EVERYTHING,
    PASSWORD,
    MarkedTenant,
    answer,
    changed,
    dump,
    furnish,
    join,
    make_tenant,
    rows_of,
)
from tests.api.operations import Operation, fields, foreign_bodies, operations, resolved, usual_body
from tests.support.serving import Api

# Names of parameters and fields that cannot name anything of someone else's; every other one must
# be in a world's values.
HARMLESS = {
    "target",
    "worker_cursor",
    "worker_name",
    "action",
    "after",
    "beats",
    "capabilities",
    "ceiling",
    "cron",
    "declared_by",
    "current_password",
    "description",
    "fairness",
    "head",
    "host",
    "include",
    "kind",
    "kinds",
    "level",
    "lines",
    "max_concurrent_per_key",
    "message",
    "metadata",
    "new_password",
    "circuit_breaker",
    "load_balancing",
    "depends_on",
    "mode",
    "outcome",
    "outcomes",
    "password",
    "payload",
    "permissions",
    "cost",
    "priority",
    "priority_pacing",
    "provider",  # those of others are refused: tests/api/test_scaling.py
    "pid_started",
    "quota",
    "rate_limit_burst_per_key",
    "rate_limit_per_key",
    "reason",
    "refresh_token",
    "requires",
    "result",
    "role",
    "sort",
    "status",
    "token",
    "topic",
    "trace",
    "types",
    "values",
    "url",
    "version",
    "weights",
    "where",
    "windows",
    "worker_type",
    "zone",
}
# What a world has values for.
TELLING = {
    "id",
    "dead_letter_queue_id",
    "user_id",
    "invitation_id",
    "organization",
    "organization_id",
    "email",
    "owner_email",
    "actor",
    "key_id",
    "project",
    "queue_id",
    "worker_id",
    "job_id",
    "ids",
    "execution_id",
    "queue",
    "name",
    "job_type",
    "tag",
    "tags",
    "unique_key",
    "idempotency_key",
    "Idempotency-Key",
    "fairness_key",
    "cursor",
    "settings",
    "If-Match",
    "Last-Event-ID",
    "lastEventId",
    "before",
    "blocking",
    "execution",
    "held",
    "incarnation",
    "machine",
    "queues",
    "schedule",
    "rule",
    "rule_id",
    "webhook",
    "delivery_id",
    "group_id",
    "failure_group",
    "dependency",
}
OF_ORGANIZATION = {
    "rename_organization",
    "list_members",
    "update_member",
    "remove_member",
    "offer_reset",
    "list_invitations",
    "create_invitation",
    "delete_invitation",
    "create_project",
    "delete_project",
    "list_audit",
}


class Shot(msgspec.Struct, frozen=True, kw_only=True):
    """One request that names what is not the caller's, and the answers that are right."""

    operation: Operation
    path: str
    query: dict[str, Any] = {}
    headers: dict[str, str] = {}
    body: Any = None
    right: tuple[int, ...] = ()  # any refusal or an answer without anything of theirs, when empty

    def __str__(self) -> str:
        return (
            f"{self.operation.name} {self.path} {self.query or ''} {self.headers or ''} "
            f"{self.body or ''}"
        )

    @property
    def sent(self) -> set[str]:
        """Every text of the others' in it: what an answer may repeat."""
        found = [
            *self.path.split("/")[3:],
            *map(str, self.query.values()),
            *self.headers.values(),
            *_texts(self.body),
        ]
        # The id of an execution begins with its job's.
        return {one for one in found if len(one) > 8} | {
            f"{one[:-6]}000000" for one in found if _is_id(one)
        }


class Callers(msgspec.Struct, frozen=True):
    """Whoever may call an operation at all; a worker's key is for the worker protocol alone, and
    nothing else is for it."""

    users: list[httpx.AsyncClient]
    worker: httpx.AsyncClient

    def of(self, operation: Operation) -> list[httpx.AsyncClient]:
        return [self.worker] if operation.permission == Permission.WORKER_RUN else self.users


def shots(
    own: MarkedTenant, foreign: MarkedTenant, *, named: tuple[int, ...] = (404,)
) -> Iterator[Shot]:
    for operation in operations():
        names = operation.named("path")
        mine = {name: own.first(name) for name in ("incarnation", "execution")}
        usual = usual_body(operation.body, mine)
        at = operation.at({name: own.first(name) for name in names})
        yield from _in_path(operation, names, usual, own, foreign, named)
        if not names or operation.method in ("GET", "PATCH", "PUT"):
            for name in operation.named("query"):
                for value in foreign.values.get(name, []):
                    yield Shot(operation=operation, path=at, query={name: value}, body=usual)
            for name in operation.named("header"):
                for value in foreign.values.get(name, []):
                    yield Shot(operation=operation, path=at, headers={name: value}, body=usual)
            for body in foreign_bodies(operation.body, foreign.values, mine):
                right: tuple[int, ...] = (
                    (403, 404, 409, 422) if "dead_letter_queue_id" in str(body) else ()
                )
                if (
                    isinstance(body, dict)
                    and body.get("incarnation") in foreign.values["incarnation"]
                ):
                    right = (403,)
                yield Shot(operation=operation, path=at, body=body, right=right)
        if not names:
            yield Shot(operation=operation, path=at, body=usual)


def _in_path(
    operation: Operation,
    names: list[str],
    usual: Any,
    own: MarkedTenant,
    foreign: MarkedTenant,
    named: tuple[int, ...],
) -> Iterator[Shot]:
    for values in itertools.product(*([own.first(name), *foreign.values[name]] for name in names)):
        theirs = [value in foreign.values[name] for name, value in zip(names, values, strict=True)]
        if not any(theirs):
            continue
        right: tuple[int, ...] = (403,) if all(map(_is_id, values)) else named
        yield Shot(
            operation=operation,
            path=operation.at(dict(zip(names, values, strict=True))),
            body=usual,
            right=right if all(theirs) else (403, 404),
        )
    if names:
        yield Shot(
            operation=operation,
            path=operation.at({name: str(uuid4()) for name in names}),
            body=usual,
            right=(403,) if operation.permission == Permission.PLATFORM else (404,),
        )
    if names == ["project"]:  # a name that is nearly right must not bring the right one as a hint
        yield Shot(
            operation=operation,
            path=operation.at({"project": foreign.values["project"][1][:-1]}),
            body=usual,
            right=(404,),
        )


async def fire(client: httpx.AsyncClient, shot: Shot) -> httpx.Response:
    if shot.operation.is_stream:
        async with client.stream(
            "GET", shot.path, params=shot.query, headers=shot.headers
        ) as response:
            text = await _some(response, 0.25)
        return httpx.Response(response.status_code, content=text)
    body = {} if shot.operation.body is None else {"json": shot.body}
    return await client.request(
        shot.operation.method, shot.path, params=shot.query, headers=shot.headers, **body
    )


async def _some(response: httpx.Response, seconds: float, until: str = "\0") -> bytes:
    """What a stream says for so long, or until it says this."""
    text = b""
    try:
        async with asyncio.timeout(seconds):
            async for part in response.aiter_bytes():
                text += part
                if until.encode() in text:
                    break
    except TimeoutError:
        pass
    return text


def seen(response: httpx.Response, sent: set[str], foreign: MarkedTenant) -> list[str]:
    """Marks of the others in an answer, besides what requests themselves named."""
    text = response.text + json.dumps(dict(response.headers))
    for one in sorted(sent, key=len, reverse=True):
        text = text.replace(one, "")
    return [mark for mark in foreign.marks if mark in text]


async def attack(clients: Callers, planned: list[Shot], foreign: MarkedTenant) -> list[str]:
    """What was wrong. Reading goes before writing: afterwards one's own things may bear their
    names."""
    found: list[str] = []
    named: set[str] = set()
    for shot, client in [
        (one, client) for one in sorted(planned, key=_order) for client in clients.of(one.operation)
    ]:
        response = await fire(client, shot)
        if response.status_code >= 500:
            found.append(f"fault: {shot}: {response.text}")
        if shot.right and response.status_code not in shot.right:
            found.append(f"status {response.status_code}: {shot}: {response.text}")
        named |= shot.sent if shot.operation.is_mutating else set()
        found += [
            f"read of {mark}: {shot}: {response.text}"
            for mark in seen(response, shot.sent | named, foreign)
        ]
    return found


@pytest.fixture
async def own(api: Api) -> MarkedTenant:
    return await make_tenant(api)


@pytest.fixture
async def foreign(api: Api) -> MarkedTenant:
    return await make_tenant(api)


def test_every_parameter_and_field_is_known() -> None:
    """A new one that holds a text must be said to be harmless, or be given a value of someone
    else's in `world.py`."""
    for operation in operations():
        for name, schema in [
            *((one["name"], resolved(one["schema"])) for one in operation.parameters),
            *fields(operation.body),
        ]:
            plain = schema.get("type") in ("integer", "number", "boolean") or schema.keys() & {
                "enum",
                "const",
            }
            known = plain or schema.get("format") == "date-time" or name in HARMLESS | TELLING
            assert known, (
                f"{operation.name} has a new {name!r}: could it name what is someone else's?"
            )


async def test_nobody_reads_or_writes_what_is_another_tenants(
    api: Api,
    store_url: str,
    own: MarkedTenant,
    foreign: MarkedTenant,
    figure: Callable[[str], None],
) -> None:
    assert set(foreign.values) == TELLING
    await api.engine.event_sums.tell()  # what counts its jobs comes half a second later
    before = rows_of(await dump(store_url), foreign)
    assert len(before) >= 24, "the world has something in nearly every table"
    planned = list(shots(own, foreign))
    callers = Callers([api.client(own.key), api.client(own.token)], api.client(own.worker_key))
    found = await attack(callers, planned, foreign)
    named = {"email": own.email, "password": PASSWORD}
    response = await api.client().post(
        "/api/v1/tokens", json={**named, "organization": foreign.first("organization")}
    )
    found += [] if response.status_code == 401 else [f"logged in elsewhere: {response.text}"]
    assert (await api.client().post("/api/v1/tokens", json=named)).status_code == 201
    assert not found, "\n".join(found)
    assert changed(before, rows_of(await dump(store_url), foreign)) == []
    n = sum(len(callers.of(one.operation)) for one in planned)
    counted = f"{len(operations())} operations, n = {n} requests with another tenant's ids"
    figure(f"S1 {store_url.partition(':')[0]}: {counted}: 0 reads, 0 writes")


async def test_a_key_of_one_project_does_not_reach_another(
    api: Api,
    store_url: str,
    own: MarkedTenant,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """Two projects of one organization; the key is bound to the first, and has every right
    there."""
    name = f"canary{uuid4().hex[:8]}-second"
    second = msgspec.structs.replace(
        own,
        mark=name.removesuffix("-second"),
        projects=[],
        jobs={},
        values={**own.values, "key_id": []},
        marks=set(),
    )
    await answer(own.client, "POST", "/api/v1/projects", {"name": name})
    await furnish(api, second, name)
    second.marks |= {second.mark}
    body = {"name": "bound", "permissions": EVERYTHING, "project": own.values["project"][0]}
    bound = (await answer(own.client, "POST", "/api/v1/keys", body))["secret"]
    await api.engine.event_sums.tell()  # what counts its jobs comes half a second later
    before = rows_of(await dump(store_url), second, projects_only=True)
    planned = list(shots(own, second, named=(403, 404)))
    # Its organization's members and name are not this key's to see or change, whichever project is
    # meant.
    planned = [one for one in planned if one.operation.name not in OF_ORGANIZATION]
    planned += [
        msgspec.structs.replace(one, right=(403,))
        for one in shots(own, second)
        if one.operation.name in OF_ORGANIZATION and one.right != (404,)
    ]
    callers = Callers([api.client(bound)], api.client(own.worker_key))
    found = await attack(callers, planned, second)
    assert not found, "\n".join(found)
    assert changed(before, rows_of(await dump(store_url), second, projects_only=True)) == []
    counted = f"n = {len(planned)} requests of a key bound to another project"
    figure(f"S1 {store_url.partition(':')[0]}: {counted}: 0 reads, 0 writes")

    async def unbound(gatekeeper: Gatekeeper, credential: str) -> Any:
        return msgspec.structs.replace(
            await by_key(gatekeeper, credential), projects=(*own.projects, *second.projects)
        )

    by_key: Any = Gatekeeper._by_key
    monkeypatch.setattr(Gatekeeper, "_by_key", unbound)
    api.platform.forget()
    assert await attack(callers, [one for one in planned if not one.operation.is_mutating], second)


async def test_events_of_others_do_not_come_through(
    api: Api,
    store_url: str,
    own: MarkedTenant,
    foreign: MarkedTenant,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    text, theirs = await _followed(api, own, foreign)
    assert not [mark for mark in foreign.marks if mark in text], text
    figure(
        f"S1 {store_url.partition(':')[0]}: events of another tenant on a stream: 0 of n = {theirs}"
    )

    async def everyones(gatekeeper: Gatekeeper, credential: str) -> Any:
        return msgspec.structs.replace(
            await find(gatekeeper, credential), projects=(*own.projects, *foreign.projects)
        )

    find: Any = Gatekeeper._find
    monkeypatch.setattr(Gatekeeper, "_find", everyones)
    api.platform.forget()
    text, _ = await _followed(api, own, foreign)
    assert [mark for mark in foreign.marks if mark in text]


async def _followed(api: Api, own: MarkedTenant, foreign: MarkedTenant) -> tuple[str, int]:
    """What a stream tells while both are busy, and how many events were the others'."""
    n, queue = 10, foreign.first("queue_id")
    async with own.client.stream(
        "GET", "/api/v1/events", headers={"Last-Event-ID": "0"}
    ) as response:
        for _ in range(n):
            await answer(foreign.client, "POST", f"/api/v1/queues/{queue}/pause")
            await answer(foreign.client, "POST", f"/api/v1/queues/{queue}/resume")
        job = own.jobs.popitem()[1]
        await answer(own.client, "POST", f"/api/v1/jobs/{job}/cancel")
        text = (await _some(response, 10, until=job)).decode()
    assert job in text
    return text, 2 * n


async def test_a_reset_offered_by_one_tenant_does_not_open_another(
    api: Api, own: MarkedTenant, foreign: MarkedTenant
) -> None:
    """Offered while the user was a member of one alone, and kept until they had joined the
    other."""
    email = f"{uuid4().hex[:10]}@example.com"
    user, _ = await join(api, own.organization, email, Role.VIEWER)
    offer = await answer(own.client, "POST", f"/api/v1/members/{user}/password-reset")
    await join(api, foreign.organization, email, Role.VIEWER)
    body = {"token": offer["token"], "new_password": "a phrase that the offerer knows"}
    assert (await own.client.post("/api/v1/password/reset", json=body)).status_code == 401
    assert (
        await api.client().post("/api/v1/tokens", json={"email": email, "password": PASSWORD})
    ).status_code == 201


# --- Twins: each takes one wall away, and must be noticed ---


async def _job_of_anyone(caller: Caller, identifier: UUID) -> Any:
    return (
        await caller.platform.engine.get(
            (*caller.principal.projects, *await caller._others()), [identifier]
        )
    )[0]


async def _queue_of_anyone(caller: Caller, name: UUID | str) -> Any:
    queues = await caller.platform.engine.queues(
        (*caller.principal.projects, *await caller._others())
    )
    return next(one for one in queues if str(name) in (one.name, str(one.id)))


async def _worker_of_anyone(caller: Caller, identifier: UUID) -> Any:
    workers = await caller.platform.engine.workers(
        (*caller.principal.projects, *await caller._others())
    )
    return next(one for one in workers if one.id == identifier)


async def _any_project(tenants: Tenants, principal: Any, name: str) -> Project:
    await tenants._refresh()
    return next(one for one in tenants._projects.values() if name in (one.name, str(one.id)))


async def _no_others(tenants: Tenants, principal: Any) -> tuple[int, ...]:
    return ()


async def _keys_of_all(api_keys: ApiKeys, organization: int) -> Any:
    found = [await whole(api_keys, number) for number in range(1, 10)]
    return [key for keys in found for key in keys]


async def _members_of_all(members: Members, organization: int) -> Any:
    found = [await everyone(members, number) for number in range(1, 10)]
    return [member for members in found for member in members]


async def _find_anyone(enrolled: EnrolledWorkers, principal: Any, incarnation: UUID) -> Any:
    everywhere = (*principal.projects, *await enrolled._tenants.others(principal))
    return await find_enrolled(
        enrolled, msgspec.structs.replace(principal, projects=everywhere), incarnation
    )


find_enrolled = EnrolledWorkers.find
whole, everyone = ApiKeys.of_organization, Members.of_organization
TWINS: dict[str, tuple[Any, str, Any, str]] = {
    "a job is looked up everywhere": (Caller, "job", _job_of_anyone, "get_job"),
    "logs are looked up everywhere": (Caller, "job", _job_of_anyone, "list_logs"),
    "a queue is looked up everywhere": (Caller, "queue", _queue_of_anyone, "pause_queue"),
    "a worker is looked up everywhere": (Caller, "worker", _worker_of_anyone, "drain_worker"),
    "any project may be named in the path": (Tenants, "project", _any_project, "get_project"),
    "any project may be named in the query": (Tenants, "project", _any_project, "list_queues"),
    "any project may be enqueued to": (Tenants, "project", _any_project, "create_job_in"),
    "what is forbidden is said to be absent": (Tenants, "others", _no_others, "get_job"),
    "keys of all organizations": (ApiKeys, "of_organization", _keys_of_all, "revoke_key"),
    "members of all organizations": (Members, "of_organization", _members_of_all, "list_members"),
    "a worker may be anyone": (EnrolledWorkers, "find", _find_anyone, "worker_heartbeat"),
}


async def test_each_missing_wall_is_noticed(
    api: Api,
    store_url: str,
    own: MarkedTenant,
    foreign: MarkedTenant,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    for name, (where, attribute, broken, operation) in TWINS.items():
        await api.engine.event_sums.tell()
        before = rows_of(await dump(store_url), foreign)
        planned = [one for one in shots(own, foreign) if one.operation.name == operation]
        with monkeypatch.context() as patch:
            patch.setattr(where, attribute, broken)
            found = await attack(
                Callers([api.client(own.key)], api.client(own.worker_key)), planned, foreign
            )
        assert found or changed(before, rows_of(await dump(store_url), foreign)), name
    figure(
        f"S1 {store_url.partition(':')[0]}: {len(TWINS)} of n = {len(TWINS)} missing walls noticed"
    )


def _order(shot: Shot) -> tuple[bool, bool]:
    return shot.operation.is_mutating, not shot.right


def _is_id(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value
