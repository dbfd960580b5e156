"""One of everything in an organization, every text of it marked: what others must neither see nor
change."""

import sqlite3
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import asyncpg
import httpx
import msgspec

from taskforge.domain.access import Role
from taskforge.domain.claim import Claim
from taskforge.domain.execution import Beat
from taskforge.domain.job import ErrorInfo
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Finish, ToDeadLetter, ToFailed, ToSucceeded
from taskforge.domain.worker import NewWorker
from taskforge.storage.records.failures import FailureRecords
from taskforge.wiring import sqlite_path
from tests.support.serving import SETUP, Api

PASSWORD = "correct horse battery staple"
EVERYTHING = ["job:*", "queue:*", "worker:*", "project:*", "admin:*"]


class MarkedTenant(msgspec.Struct, kw_only=True):
    """`values`: for each name of a parameter or a field what it could hold. `marks`: what no one
    else may ever read."""

    mark: str
    organization: int
    projects: list[int]
    key: str
    token: str
    email: str
    worker_key: str = ""
    values: dict[str, list[Any]]
    jobs: dict[str, str] = {}
    marks: set[str] = set()
    client: Any = None

    def first(self, name: str) -> Any:
        return self.values[name][0]


async def make_tenant(api: Api) -> MarkedTenant:
    """An organization with one project that has one of everything in it."""
    mark = f"canary{uuid4().hex[:8]}"
    made = await api.platform.records.organizations.create(f"{mark}-organization", SETUP)
    api.platform.forget()
    email = f"{mark}-ada@example.com"
    user, token = await join(api, made.number, email, Role.OWNER)
    world = MarkedTenant(
        mark=mark,
        organization=made.number,
        projects=[],
        key="",
        token=token,
        email=email,
        values={},
        marks={mark, str(made.id)},
    )
    client = world.client = api.client(token)
    await answer(client, "PATCH", "/api/v1/projects/default", {"name": f"{mark}-project"})
    other, _ = await join(api, made.number, f"{mark}-bob@example.com", Role.OPERATOR)
    invitation = await answer(
        client,
        "POST",
        "/api/v1/invitations",
        {"email": f"{mark}-eve@example.com", "role": "viewer"},
    )
    key = await answer(
        client, "POST", "/api/v1/keys", {"name": f"{mark}-key", "permissions": EVERYTHING}
    )
    world.key = key["secret"]
    mine = await answer(client, "GET", "/api/v1/organization")
    world.values = {
        "organization_id": [mine["id"]],
        "user_id": [str(other), str(user)],
        "invitation_id": [invitation["invitation"]["id"]],
        "organization": [f"{mark}-organization"],
        "email": [email, f"{mark}-eve@example.com"],
        "owner_email": [email],
        "actor": [f"key:{key['key']['prefix']}", f"user:{email}"],
        "key_id": [key["key"]["id"]],
    }
    world.marks |= {
        str(user),
        str(other),
        invitation["invitation"]["id"],
        key["key"]["id"],
        key["key"]["prefix"],
    }
    await furnish(api, world, f"{mark}-project")
    audit = await answer(client, "GET", "/api/v1/audit?limit=1")
    world.values["before"] = [audit["items"][0]["number"] + 1]
    return world


async def furnish(api: Api, world: MarkedTenant, project: str) -> None:
    """Queues, jobs in every status, executions, logs, a worker, an assignment and keys in a project
    of the world."""
    mark, client, engine = world.mark, world.client, api.engine
    described = await answer(client, "GET", f"/api/v1/projects/{project}")
    number = next(
        one.number
        for one in await api.platform.records.projects.all()
        if str(one.id) == described["id"]
    )
    world.projects.append(number)
    query = f"?project={project}"
    dead = await answer(client, "POST", f"/api/v1/queues{query}", {"name": f"{mark}-dead"})
    body = {
        "name": f"{mark}-mail",
        "description": f"{mark}-text",
        "settings": {"dead_letter_queue_id": dead["id"]},
    }
    mail = await answer(client, "POST", f"/api/v1/queues{query}", body)
    new = NewWorker(
        name=f"{mark}-worker",
        host=f"{mark}-host",
        machine=f"{mark}-machine",
        pid=1,
        version=mark,
        capabilities={"place": mark},
        queues=(f"{mark}-mail",),
        depends_on={f"{mark}-type": (f"{mark}-dependency",)},
    )
    worker = await engine.register(number, new, 600.0)
    await answer(
        client, "PUT", f"/api/v1/queues/{mail['id']}/assignments/{worker.worker}", {"weight": 7}
    )
    key = await answer(
        client,
        "POST",
        "/api/v1/keys",
        {"name": f"{mark}-worker", "kind": "worker", "project": project},
    )
    world.worker_key = key["secret"]
    schedule = await answer(
        client,
        "POST",
        f"/api/v1/schedules{query}",
        {
            "name": f"{mark}-schedule",
            "cron": "@yearly",
            "queue": f"{mark}-mail",
            "job_type": f"{mark}-type",
            "payload": {"secret": mark},
        },
    )
    rule = await answer(
        client,
        "POST",
        f"/api/v1/alerts{query}",
        {"name": f"{mark}-rule", "kind": "queue_size", "queue": f"{mark}-mail"},
    )
    await answer(client, "PUT", f"/api/v1/queues/{mail['id']}/scaling", {"max_workers": 2})
    hook = await answer(
        client,
        "POST",
        f"/api/v1/webhooks{query}",
        {"name": f"{mark}-hook", "url": f"https://{mark}.example/{mark}", "kinds": ["job"]},
    )
    world.marks |= {hook["secret"]}
    at = f"/api/v1/webhooks/{hook['webhook']['id']}/ping"
    ping = await answer(client, "POST", at)
    fences = await _work(api, world, number, project, worker.incarnation, UUID(dead["id"]))
    await FailureRecords(engine).fold(100)
    failures = await answer(client, "GET", f"/api/v1/failures{query}")
    group = failures["items"][0]["id"]
    listed = await answer(client, "GET", f"/api/v1/jobs{query}&limit=3")
    jobs = list(world.jobs.values())
    world.values |= {
        "project": [described["id"], project],
        "queue_id": [mail["id"]],
        "worker_id": [str(worker.worker)],
        "job_id": jobs,
        "ids": [[job] for job in jobs],
        "id": jobs,
        "webhook": [hook["webhook"]["id"]],
        "delivery_id": [ping["delivery_id"]],
        "execution_id": [str(fence) for fence in fences],
        "execution": [str(fence) for fence in fences],
        "held": [[str(fence) for fence in fences]],
        "blocking": [str(fences[0])],
        "machine": [f"{mark}-machine"],
        "incarnation": [str(worker.incarnation)],
        "key_id": [*world.values["key_id"], key["key"]["id"]],
        "queue": [f"{mark}-mail", mail["id"]],
        "schedule": [f"{mark}-schedule", schedule["id"]],
        "rule": [f"{mark}-rule", rule["id"]],
        "rule_id": [rule["id"]],
        "group_id": [group],
        "failure_group": [group],
        "dependency": [f"{mark}-dependency"],
        "name": [f"{mark}-mail", project, f"{mark}-organization"],
        "job_type": [f"{mark}-type"],
        "tag": [f"{mark}-tag"],
        "tags": [[f"{mark}-tag"]],
        "unique_key": [f"{mark}-unique"],
        "idempotency_key": [f"{mark}-again"],
        "Idempotency-Key": [f"{mark}-again"],
        "fairness_key": [f"{mark}-fair"],
        "cursor": [listed["next_cursor"]],
        "queues": [[f"{mark}-mail"]],
        "settings": [{"dead_letter_queue_id": mail["id"]}],
        "dead_letter_queue_id": [mail["id"]],
        "If-Match": ['"1"'],
        "Last-Event-ID": ["0"],
        "lastEventId": ["0"],
    }
    world.marks |= {
        described["id"],
        dead["id"],
        mail["id"],
        schedule["id"],
        rule["id"],
        group,
        str(worker.worker),
        str(worker.incarnation),
        key["key"]["id"],
    }
    world.marks |= {key["key"]["prefix"], *jobs, *map(str, fences)}


async def _work(
    api: Api, world: MarkedTenant, number: int, project: str, incarnation: UUID, dead: UUID
) -> list[UUID]:
    mark, client, engine = world.mark, world.client, api.engine

    async def enqueue(status: str, **more: Any) -> None:
        body = {
            "queue": f"{mark}-mail",
            "job_type": f"{mark}-type",
            "payload": {"status": status, "secret": mark},
            **more,
        }
        world.jobs[status] = (
            await answer(client, "POST", f"/api/v1/projects/{project}/jobs", body)
        )["id"]

    for status in ("processing", "succeeded", "failed", "buried"):
        await enqueue(status, tags=[f"{mark}-tag"])
    claimed = {
        msgspec.json.decode(one.payload)["status"]: one.fence
        for one in await engine.claim(Claim(incarnation, 4))
    }
    assert len(claimed) == 4
    beats = [
        Beat(fence=fence, started_seconds_ago=0.1, progress=0.5, message=f"{mark}-progress")
        for fence in claimed.values()
    ]
    assert not await engine.beat(beats)
    assert not await engine.log(
        [NewLine(fence, Level.INFO, f"{mark}-line", b'{"a":1}') for fence in claimed.values()]
    )
    error = ErrorInfo(f"{mark}.Error", f"{mark}-message", f"{mark}-trace")
    assert not await engine.finish(
        [
            Finish(claimed["succeeded"], ToSucceeded(f'"{mark}-result"'.encode()), 0.1),
            Finish(claimed["failed"], ToFailed(error, f"{mark}-reason"), 0.1),
            Finish(claimed["buried"], ToDeadLetter(dead, error, f"{mark}-reason"), 0.1),
        ]
    )
    await enqueue("cancelled")
    await answer(
        client,
        "POST",
        f"/api/v1/jobs/{world.jobs['cancelled']}/cancel",
        {"reason": f"{mark}-reason"},
    )
    await enqueue("scheduled", delay_seconds=3600)
    await enqueue(
        "pending",
        unique_key=f"{mark}-unique",
        idempotency_key=f"{mark}-again",
        fairness_key=f"{mark}-fair",
    )
    return [claimed["processing"], claimed["succeeded"]]


async def join(api: Api, organization: int, email: str, role: Role) -> tuple[UUID, str]:
    """A new user of an organization, with an access token."""
    _, token = await api.platform.accounts.invite(organization, email, role, SETUP)
    await api.platform.accounts.accept(token, "Someone", PASSWORD, "-", lambda *_: SETUP)
    user = await api.platform.records.users.with_email(email)
    assert user is not None
    return user.id, (await api.platform.accounts.grant(user, organization, SETUP)).access_token


async def answer(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    response = await client.request(method, path, json=body)
    assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
    return response.json() if response.content else None


# --- The store itself ---

# What servers write on their own time: which keys were used, seals of the log.
_UPKEEP = ("audit_seals",)
_TIMES = ("last_used_at",)


async def dump(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    if url.startswith("sqlite"):
        return _dump_sqlite(url)
    connection = await asyncpg.connect(urlsplit(url).geturl())
    try:
        tables = await connection.fetch(
            "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = 'taskforge' and c.relkind in ('r', 'p') and not c.relispartition"
        )
        return {
            name: [
                _plain(row) for row in await connection.fetch(f'select * from taskforge."{name}"')
            ]
            for (name,) in tables
            if name not in _UPKEEP
        }
    finally:
        await connection.close()


def _dump_sqlite(url: str) -> dict[str, list[dict[str, Any]]]:
    connection = sqlite3.connect(sqlite_path(url))
    connection.row_factory = sqlite3.Row
    try:
        tables = [
            name
            for (name,) in connection.execute("select name from sqlite_master where type = 'table'")
        ]
        return {
            name: [_plain(row) for row in connection.execute(f'select * from "{name}"')]
            for name in tables
            if name not in _UPKEEP and not name.startswith("sqlite_")
        }
    finally:
        connection.close()


def _plain(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in row.keys() if name not in _TIMES}  # noqa: SIM118 - iterating a row gives its values


def rows_of(
    tables: dict[str, list[dict[str, Any]]], world: MarkedTenant, *, projects_only: bool = False
) -> dict[str, list[str]]:
    """The rows that are this world's: by their project, their organization, or by what is in
    them."""
    found: dict[str, list[str]] = {}
    for table, rows in tables.items():
        mine = [repr(row) for row in rows if _is_of(table, row, world, projects_only=projects_only)]
        if mine:
            found[table] = sorted(mine)
    return found


def _is_of(table: str, row: dict[str, Any], world: MarkedTenant, *, projects_only: bool) -> bool:
    if table == "projects":
        return row["number"] in world.projects
    if row.get("project") is not None:
        return row["project"] in world.projects
    if row.get("organization") is not None:
        # What a project's key does is rightly told in its organization's log; what it signs in as
        # is nobody's but its own.
        return row["organization"] == world.organization and not (
            projects_only and table in ("audit", "audit_numbers", "tokens", "api_keys")
        )
    return any(mark in _text(value) for value in row.values() for mark in world.marks)


def _text(value: Any) -> str:
    if isinstance(value, bytes) and len(value) == 16:
        return str(UUID(bytes=value))
    return str(value)


def changed(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    tables: Sequence[str] = sorted({*before, *after})
    return [
        f"{table}: {sorted(set(before.get(table, [])) ^ set(after.get(table, [])))[:2]}"
        for table in tables
        if before.get(table) != after.get(table)
    ]
