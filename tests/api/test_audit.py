"""S12: whatever changes something leaves one entry in the log, whatever is refused leaves none, and
tampering shows."""

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec
import pytest

from taskforge.api.entry.caller import COOKIE, CSRF_HEADER, Caller
from taskforge.domain.access import Permission, Role
from taskforge.domain.audit import AuditEntry, Note
from taskforge.domain.audit_chain import SealKeys, next_seal
from taskforge.domain.worker import NewWorker
from taskforge.ports.records import Step
from taskforge.storage.records import api_keys, invitations
from taskforge.storage.records.audit_log import AuditLog, audit_step
from taskforge.storage.records.audit_seals import AuditSeals
from taskforge.wiring import sqlite_path
from tests.api.marked_tenant import PASSWORD, MarkedTenant, answer, join, make_tenant
from tests.api.operations import Operation, operations, usual_body
from tests.support.adhoc_statements import step_of
from tests.support.serving import SETUP, Api

NEW_PASSWORD = "another phrase that is long"


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """A change that succeeds: what it takes, and what the log must say of it."""

    action: str
    body: Any = None
    at: dict[str, Any] = {}
    headers: dict[str, str] = {}
    credential: str | None = None  # of the world's owner, if not given; "" is nobody's
    actor: str | None = None
    organization: int | None = None


class Stage:
    """The world in which deeds are done, and the secrets that were told on the way."""

    def __init__(self, api: Api, world: MarkedTenant, platform: str) -> None:
        self.api = api
        self.world = world
        self.platform = platform  # a token of an owner of the first organization
        self.visitor = api.client()
        self.secrets: set[str] = {PASSWORD, NEW_PASSWORD}

    async def user(self, role: Role = Role.VIEWER) -> tuple[str, str, str]:
        """The id, the address and an access token of a new member."""
        email = f"{uuid4().hex[:10]}@example.com"
        identifier, token = await join(self.api, self.world.organization, email, role)
        return str(identifier), email, token

    async def queue(self, **more: Any) -> str:
        made = await answer(
            self.world.client, "POST", "/api/v1/queues", {"name": f"q{uuid4().hex[:8]}", **more}
        )
        return str(made["id"])

    async def named_queue(self) -> str:
        made = await answer(
            self.world.client, "POST", "/api/v1/queues", {"name": f"q{uuid4().hex[:8]}"}
        )
        return str(made["name"])

    async def schedule(self, **more: Any) -> str:
        body = {"name": f"s{uuid4().hex[:8]}", "cron": "@daily", "job_type": "report", **more}
        body["queue"] = await self.named_queue()
        made = await answer(self.world.client, "POST", "/api/v1/schedules", body)
        return str(made["id"])

    async def alert_rule(self) -> str:
        body = {"name": f"a{uuid4().hex[:8]}", "kind": "queue_size"}
        made = await answer(self.world.client, "POST", "/api/v1/alerts", body)
        return str(made["id"])

    async def scaled(self) -> str:
        queue = await self.queue()
        path = f"/api/v1/queues/{queue}/scaling"
        await answer(self.world.client, "PUT", path, {"max_workers": 2})
        return queue

    async def webhook(self) -> str:
        body = {"name": f"h{uuid4().hex[:8]}", "url": f"https://{ADDRESS}", "kinds": ["job"]}
        made = await answer(self.world.client, "POST", "/api/v1/webhooks", body)
        self.secrets |= {made["secret"], ADDRESS}
        return str(made["webhook"]["id"])

    async def delivery(self) -> dict[str, str]:
        webhook = await self.webhook()
        path = f"/api/v1/webhooks/{webhook}/ping"
        made = await answer(self.world.client, "POST", path)
        return {"webhook": webhook, "delivery_id": str(made["delivery_id"])}

    async def key(self) -> str:
        made = await answer(
            self.world.client, "POST", "/api/v1/keys", {"name": "k", "permissions": ["job:read"]}
        )
        self.secrets.add(made["secret"])
        return str(made["key"]["id"])

    async def worker(self) -> str:
        worker = NewWorker(name=f"w{uuid4().hex[:8]}", queues=("none",))
        return str((await self.api.engine.register(self.world.projects[0], worker, 600.0)).worker)

    async def assigned(self) -> dict[str, str]:
        at = {"queue": await self.queue(), "worker_id": await self.worker()}
        await answer(
            self.world.client,
            "PUT",
            f"/api/v1/queues/{at['queue']}/assignments/{at['worker_id']}",
            {},
        )
        return at

    async def entries(self, after: int) -> list[AuditEntry]:
        store: Any = self.api.engine
        found: list[AuditEntry] = await store.look(
            AuditEntry, "sealed_audit_entries", -1, 0, 100_000, 2**62, 2**62
        )
        return sorted((one for one in found if one.number > after), key=lambda one: one.number)

    async def last(self) -> int:
        return max((one.number for one in await self.entries(0)), default=0)


ADDRESS = "hooks.example.com/services/T00/B00/secret-path"
Case = Callable[[Stage], Awaitable[Deed]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    """A function that prepares the deed of the operation of the same name."""
    CASES[make.__name__] = make
    return make


# --- Scaling policies ---


@case
async def put_scaling(stage: Stage) -> Deed:
    at = {"queue": await stage.queue()}
    return Deed(action="scaling_policy.put", at=at, body={"max_workers": 2})


@case
async def update_scaling(stage: Stage) -> Deed:
    at = {"queue": await stage.scaled()}
    return Deed(action="scaling_policy.update", at=at, body={"max_workers": 3})


@case
async def delete_scaling(stage: Stage) -> Deed:
    return Deed(action="scaling_policy.delete", at={"queue": await stage.scaled()})


# --- Webhooks ---


@case
async def create_webhook(stage: Stage) -> Deed:
    stage.secrets.add(ADDRESS)
    body = {"name": "hook", "url": f"https://{ADDRESS}", "kinds": ["job"]}
    return Deed(action="webhook.create", body=body)


@case
async def update_webhook(stage: Stage) -> Deed:
    at, body = {"webhook": await stage.webhook()}, {"url": f"https://{ADDRESS}/2"}
    return Deed(action="webhook.update", at=at, body=body)


@case
async def rotate_webhook_secret(stage: Stage) -> Deed:
    return Deed(action="webhook.rotate", at={"webhook": await stage.webhook()}, body={})


@case
async def ping_webhook(stage: Stage) -> Deed:
    return Deed(action="webhook.ping", at={"webhook": await stage.webhook()})


@case
async def retry_webhook_delivery(stage: Stage) -> Deed:
    return Deed(action="webhook.retry", at=await stage.delivery())


@case
async def delete_webhook(stage: Stage) -> Deed:
    return Deed(action="webhook.delete", at={"webhook": await stage.webhook()})


# --- Alert rules and schedules ---


@case
async def create_alert_rule(stage: Stage) -> Deed:
    return Deed(action="alert_rule.create", body={"name": "deep", "kind": "queue_size"})


@case
async def update_alert_rule(stage: Stage) -> Deed:
    return Deed(
        action="alert_rule.update", at={"rule": await stage.alert_rule()}, body={"threshold": 7}
    )


@case
async def silence_alert_rule(stage: Stage) -> Deed:
    return Deed(
        action="alert_rule.silence", at={"rule": await stage.alert_rule()}, body={"seconds": 60}
    )


@case
async def delete_alert_rule(stage: Stage) -> Deed:
    return Deed(action="alert_rule.delete", at={"rule": await stage.alert_rule()})


@case
async def create_schedule(stage: Stage) -> Deed:
    body = {"name": f"s{uuid4().hex[:8]}", "cron": "@daily", "queue": await stage.named_queue()}
    return Deed(action="schedule.create", body={**body, "job_type": "report"})


@case
async def update_schedule(stage: Stage) -> Deed:
    at = {"schedule": await stage.schedule()}
    return Deed(action="schedule.update", at=at, body={"cron": "@hourly"})


@case
async def pause_schedule(stage: Stage) -> Deed:
    return Deed(action="schedule.pause", at={"schedule": await stage.schedule()})


@case
async def resume_schedule(stage: Stage) -> Deed:
    return Deed(action="schedule.resume", at={"schedule": await stage.schedule(is_paused=True)})


@case
async def run_schedule(stage: Stage) -> Deed:
    return Deed(action="schedule.run", at={"schedule": await stage.schedule()})


@case
async def delete_schedule(stage: Stage) -> Deed:
    return Deed(action="schedule.delete", at={"schedule": await stage.schedule()})


# --- Circuits ---


@case
async def open_circuit(stage: Stage) -> Deed:
    body = {"queue": await stage.named_queue(), "job_type": "report"}
    return Deed(action="circuit.open", body=body)


@case
async def close_circuit(stage: Stage) -> Deed:
    body = {"queue": await stage.queue(), "job_type": "report"}
    return Deed(action="circuit.close", body=body)


@case
async def set_dependency(stage: Stage) -> Deed:
    body = {"name": f"d{uuid4().hex[:8]}", "circuit_breaker": {"probes": 2}}
    return Deed(action="dependency.set", body=body)


@case
async def delete_dependency(stage: Stage) -> Deed:
    name = f"d{uuid4().hex[:8]}"
    await answer(stage.world.client, "POST", "/api/v1/dependencies", {"name": name})
    return Deed(action="dependency.delete", at={"dependency": name})


# --- Queues, jobs, workers ---


@case
async def create_queue(stage: Stage) -> Deed:
    return Deed(action="queue.create", body={"name": f"q{uuid4().hex[:8]}"})


@case
async def update_queue(stage: Stage) -> Deed:
    return Deed(action="queue.update", at={"queue": await stage.queue()}, body={"priority": 5})


@case
async def delete_queue(stage: Stage) -> Deed:
    return Deed(action="queue.delete", at={"queue": await stage.queue()})


@case
async def pause_queue(stage: Stage) -> Deed:
    return Deed(action="queue.pause", at={"queue": await stage.queue()})


@case
async def resume_queue(stage: Stage) -> Deed:
    return Deed(action="queue.resume", at={"queue": await stage.queue(is_active=False)})


def _job(stage: Stage) -> dict[str, Any]:
    return {
        "queue": stage.world.first("queue"),
        "job_type": "t",
        "payload": {"secret": f"{stage.world.mark}-payload"},
    }


@case
async def create_job(stage: Stage) -> Deed:
    return Deed(action="job.create", body=_job(stage))


@case
async def create_jobs(stage: Stage) -> Deed:
    return Deed(action="job.create", body=[_job(stage)] * 3)


@case
async def create_job_in(stage: Stage) -> Deed:
    return Deed(action="job.create", at={"project": stage.world.first("project")}, body=_job(stage))


@case
async def create_jobs_in(stage: Stage) -> Deed:
    return Deed(
        action="job.create", at={"project": stage.world.first("project")}, body=[_job(stage)] * 3
    )


@case
async def edit_job(stage: Stage) -> Deed:
    body = {"priority": 3, "payload": {"secret": f"{stage.world.mark}-payload"}}
    return Deed(action="job.edit", at={"job_id": stage.world.jobs["pending"]}, body=body)


@case
async def cancel_job(stage: Stage) -> Deed:
    return Deed(
        action="job.cancel",
        at={"job_id": stage.world.jobs["scheduled"]},
        body={"reason": "not needed"},
    )


@case
async def retry_job(stage: Stage) -> Deed:
    return Deed(action="job.retry", at={"job_id": stage.world.jobs["failed"]}, body={"attempts": 1})


@case
async def redrive_job(stage: Stage) -> Deed:
    return Deed(action="job.redrive", at={"job_id": stage.world.jobs["buried"]})


@case
async def erase_payload(stage: Stage) -> Deed:
    return Deed(action="job.erase", at={"job_id": stage.world.jobs["succeeded"]})


@case
async def delete_job(stage: Stage) -> Deed:
    return Deed(action="job.delete", at={"job_id": stage.world.jobs["cancelled"]})


@case
async def change_jobs(stage: Stage) -> Deed:
    return Deed(action="jobs.cancel", body={"where": {"job_type": "t"}, "action": "cancel"})


@case
async def retry_failure_group(stage: Stage) -> Deed:
    return Deed(action="failures.retry", at={"group_id": stage.world.first("group_id")})


@case
async def delete_failure_group(stage: Stage) -> Deed:
    return Deed(action="failures.delete", at={"group_id": stage.world.first("group_id")})


@case
async def register_worker(stage: Stage) -> Deed:
    return Deed(
        action="worker.register",
        body={"name": f"w{uuid4().hex[:8]}", "capabilities": {"gpu": True}},
    )


@case
async def update_worker(stage: Stage) -> Deed:
    return Deed(
        action="worker.update",
        at={"worker_id": await stage.worker()},
        body={"max_concurrent_jobs": 3},
    )


@case
async def drain_worker(stage: Stage) -> Deed:
    return Deed(action="worker.drain", at={"worker_id": await stage.worker()})


@case
async def undrain_worker(stage: Stage) -> Deed:
    worker = await stage.worker()
    await answer(stage.world.client, "POST", f"/api/v1/workers/{worker}/drain")
    return Deed(action="worker.undrain", at={"worker_id": worker})


@case
async def deregister_worker(stage: Stage) -> Deed:
    return Deed(action="worker.deregister", at={"worker_id": await stage.worker()})


@case
async def create_assignment(stage: Stage) -> Deed:
    return Deed(
        action="assignment.create",
        at={"queue": await stage.queue(), "worker_id": await stage.worker()},
        body={},
    )


@case
async def update_assignment(stage: Stage) -> Deed:
    return Deed(action="assignment.update", at=await stage.assigned(), body={"weight": 3})


@case
async def delete_assignment(stage: Stage) -> Deed:
    return Deed(action="assignment.delete", at=await stage.assigned())


# --- The organization ---


@case
async def rename_organization(stage: Stage) -> Deed:
    return Deed(action="organization.update", body={"name": f"{stage.world.mark}-renamed"})


@case
async def create_organization(stage: Stage) -> Deed:
    body = {"name": f"o{uuid4().hex[:8]}", "owner_email": "first@example.com"}
    return Deed(action="organization.create", body=body, credential=stage.platform, organization=1)


@case
async def update_organization(stage: Stage) -> Deed:
    client = stage.api.client(stage.platform)
    known = (await answer(client, "GET", "/api/v1/organizations"))["items"]
    return Deed(
        action="organization.ceiling",
        at={"organization_id": known[-1]["id"]},
        body={"ceiling": {"projects": 1_000}},
        credential=stage.platform,
        organization=1,
    )


@case
async def create_project(stage: Stage) -> Deed:
    return Deed(action="project.create", body={"name": "unused"})


@case
async def update_project(stage: Stage) -> Deed:
    return Deed(
        action="project.update", at={"project": "unused"}, body={"quota": {"pending_jobs": 5}}
    )


@case
async def delete_project(stage: Stage) -> Deed:
    return Deed(action="project.delete", at={"project": "unused"})


@case
async def update_member(stage: Stage) -> Deed:
    return Deed(
        action="member.update", at={"user_id": (await stage.user())[0]}, body={"role": "operator"}
    )


@case
async def remove_member(stage: Stage) -> Deed:
    return Deed(action="member.delete", at={"user_id": (await stage.user())[0]})


@case
async def offer_reset(stage: Stage) -> Deed:
    return Deed(action="member.reset", at={"user_id": (await stage.user())[0]})


@case
async def create_invitation(stage: Stage) -> Deed:
    return Deed(action="invitation.create", body={"email": "next@example.com", "role": "viewer"})


@case
async def delete_invitation(stage: Stage) -> Deed:
    return Deed(
        action="invitation.delete", at={"invitation_id": stage.world.first("invitation_id")}
    )


@case
async def accept_invitation(stage: Stage) -> Deed:
    email = f"{uuid4().hex[:10]}@example.com"
    _, token = await stage.api.platform.accounts.invite(
        stage.world.organization, email, Role.VIEWER, SETUP
    )
    stage.secrets.add(token)
    body = {"token": token, "name": "Next", "password": PASSWORD}
    return Deed(action="invitation.accept", body=body, credential="", actor=f"user:{email}")


@case
async def create_key(stage: Stage) -> Deed:
    return Deed(action="key.create", body={"name": "k", "permissions": ["job:read"]})


@case
async def rotate_key(stage: Stage) -> Deed:
    return Deed(action="key.rotate", at={"key_id": await stage.key()}, body={})


@case
async def revoke_key(stage: Stage) -> Deed:
    return Deed(action="key.revoke", at={"key_id": await stage.key()})


# --- Logging in and out ---


@case
async def log_in(stage: Stage) -> Deed:
    body = {"email": stage.world.email, "password": PASSWORD}
    return Deed(
        action="session.create", body=body, credential="", actor=f"user:{stage.world.email}"
    )


@case
async def log_in_by_link(stage: Stage) -> Deed:
    token = await stage.api.platform.accounts.login_secret(
        stage.world.email, stage.world.organization, SETUP
    )
    stage.secrets.add(token)
    return Deed(
        action="session.create",
        body={"token": token},
        credential="",
        actor=f"user:{stage.world.email}",
    )


@case
async def log_out(stage: Stage) -> Deed:
    accounts = stage.api.platform.accounts
    user = await stage.api.platform.records.users.with_email(stage.world.email)
    assert user is not None
    session = (await accounts.begin_session(user, stage.world.organization, SETUP)).secret
    headers = {"cookie": f"{COOKIE}={session}", CSRF_HEADER: accounts.csrf_token(session)}
    stage.secrets |= {session, headers[CSRF_HEADER]}
    return Deed(action="session.delete", headers=headers, credential="", actor=f"user:{user.email}")


@case
async def create_tokens(stage: Stage) -> Deed:
    return msgspec.structs.replace(await log_in(stage), action="token.create")


async def _granted(stage: Stage, action: str) -> Deed:
    made = await answer(
        stage.visitor, "POST", "/api/v1/tokens", {"email": stage.world.email, "password": PASSWORD}
    )
    stage.secrets |= {made["access_token"], made["refresh_token"]}
    body = {"refresh_token": made["refresh_token"]}
    return Deed(action=action, body=body, credential="", actor=f"user:{stage.world.email}")


@case
async def refresh_tokens(stage: Stage) -> Deed:
    return await _granted(stage, "token.refresh")


@case
async def revoke_tokens(stage: Stage) -> Deed:
    return await _granted(stage, "token.revoke")


@case
async def change_password(stage: Stage) -> Deed:
    _, email, token = await stage.user()
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    return Deed(action="password.change", body=body, credential=token, actor=f"user:{email}")


@case
async def reset_password(stage: Stage) -> Deed:
    identifier, email, _ = await stage.user()
    made = await answer(stage.world.client, "POST", f"/api/v1/members/{identifier}/password-reset")
    stage.secrets.add(made["token"])
    body = {"token": made["token"], "new_password": NEW_PASSWORD}
    return Deed(action="password.reset", body=body, credential="", actor=f"user:{email}")


# --- The tests ---


def mutating() -> list[Operation]:
    return [one for one in operations() if one.is_mutating]


def audited_ones() -> list[Operation]:
    """What workers do is their jobs' own history: executions, not the log, tell of it."""
    return [one for one in mutating() if one.permission != Permission.WORKER_RUN]


@pytest.fixture
async def stage(api: Api) -> Stage:
    return Stage(api, await make_tenant(api), await api.user(1, Role.OWNER))


def test_every_mutating_operation_has_a_case() -> None:
    assert {one.name for one in audited_ones()} == set(CASES)


async def do(stage: Stage, operation: Operation) -> list[str]:
    """Do it once; what is wrong with what the log says of it."""
    deed = await CASES[operation.name](stage)
    identifier = uuid4().hex
    before = await stage.last()
    credential = stage.world.token if deed.credential is None else deed.credential
    headers = {"x-request-id": identifier, **deed.headers} | (
        {"authorization": f"Bearer {credential}"} if credential else {}
    )
    body = {} if deed.body is None else {"json": deed.body}
    response = await stage.visitor.request(
        operation.method, operation.at(deed.at), headers=headers, **body
    )
    stage.visitor.cookies.clear()
    assert response.is_success, f"{operation.name}: {response.text}"
    stage.secrets |= _secrets(response)
    entries = await stage.entries(before)
    who = deed.actor or await _whose(stage, credential)
    organization = stage.world.organization if deed.organization is None else deed.organization
    right = (who, deed.action, organization, "127.0.0.1", identifier)
    if [(one.actor, one.action, one.organization, one.origin, one.request) for one in entries] == [
        right
    ]:
        return []
    return [f"{operation.name}: not one entry {right}, but {entries}"]


async def _whose(stage: Stage, credential: str) -> str:
    response = await stage.visitor.get(
        "/api/v1/session", headers={"authorization": f"Bearer {credential}"}
    )
    return str(response.json()["label"])


def _secrets(response: httpx.Response) -> set[str]:
    """What an answer tells once, in its body or as a cookie."""
    told = response.json() if response.content else {}
    names = ("secret", "token", "invitation_token", "access_token", "refresh_token", "csrf_token")
    return {told[name] for name in names if isinstance(told, dict) and name in told} | {
        *dict(response.cookies).values()
    }


async def test_every_change_leaves_one_entry(
    stage: Stage, store_url: str, figure: Callable[[str], None]
) -> None:
    # with two projects, "the only one" is none
    order = ["create_project", "update_project", "delete_project"]
    last = ["retry_failure_group", "delete_failure_group"]  # changes jobs of other deeds
    planned = sorted(
        audited_ones(),
        key=lambda one: (
            order.index(one.name) if one.name in order else len(order) + (one.name in last)
        ),
    )
    wrong = [text for operation in planned for text in await do(stage, operation)]
    assert not wrong, "\n".join(wrong)
    log = [
        repr(
            [
                bytes(value) if isinstance(value, msgspec.Raw) else value
                for value in msgspec.structs.astuple(one)
            ]
        )
        for one in await stage.entries(0)
    ]
    told = [secret for secret in stage.secrets if any(secret in text for text in log)]
    assert not told, "secrets in the log"
    assert not any(f"{stage.world.mark}-payload" in text for text in log), "payloads in the log"
    counted = f"n = {len(planned)} operations that change something: one entry each"
    figure(
        f"S12 {store_url.partition(':')[0]}: {counted}; 0 of {len(stage.secrets)} secrets in "
        f"{len(log)} entries"
    )


async def test_what_is_refused_leaves_no_entry(
    stage: Stage, store_url: str, figure: Callable[[str], None]
) -> None:
    client, world = stage.world.client, stage.world
    _, _, viewer = await stage.user()
    key = await stage.key()
    await answer(client, "DELETE", f"/api/v1/keys/{key}")
    before = await stage.last()
    asked = 0
    nobody, weak = stage.api.client(), stage.api.client(viewer)
    for operation in mutating():
        path = operation.at({name: str(uuid4()) for name in operation.named("path")})
        usual = usual_body(operation.body)
        for caller, body in ((nobody, usual), (weak, usual), (client, {})):
            response = await caller.request(
                operation.method, path, json=None if operation.body is None else body
            )
            assert 400 <= response.status_code < 500, (
                f"{operation.name}: {response.status_code} {response.text}"
            )
            asked += 1
    for expected, method, path, sent in (
        (409, "POST", "/api/v1/queues", {"name": world.first("queue")}),
        (409, "POST", f"/api/v1/jobs/{world.jobs['succeeded']}/cancel", {}),
        (409, "POST", f"/api/v1/jobs/{world.jobs['pending']}/redrive", None),
        (409, "DELETE", f"/api/v1/jobs/{world.jobs['processing']}", None),
        (404, "PATCH", f"/api/v1/jobs/{world.jobs['pending']}", {"queue": "nowhere"}),
        (404, "POST", "/api/v1/jobs", {"queue": "nowhere", "job_type": "t"}),
        (409, "DELETE", f"/api/v1/keys/{key}", None),
        (409, "POST", f"/api/v1/keys/{key}/rotate", {}),
        (409, "DELETE", f"/api/v1/projects/{world.first('project')}", None),
        (409, "DELETE", f"/api/v1/members/{world.values['user_id'][1]}", None),
        (409, "DELETE", f"/api/v1/workers/{world.first('worker_id')}", None),
        (409, "PATCH", "/api/v1/organization", {"name": "default"}),
    ):
        response = await client.request(method, path, json=sent)
        assert response.status_code == expected, (
            f"{method} {path}: {response.status_code} {response.text}"
        )
        asked += 1
    assert await stage.entries(before) == []
    figure(f"S12 {store_url.partition(':')[0]}: n = {asked} refused changes left 0 entries")


# --- Tampering ---

LOG = ("audit", "audit_seals")
TAMPERING = {
    "an actor changed": "update taskforge.audit set actor = 'user:someone@example.com' where "
    "number = {number}",
    "a target changed": "update taskforge.audit set target = target || '.' where number = {number}",
    "an address removed": "update taskforge.audit set origin = 'elsewhere' where number = {number}",
    "an organization changed": "update taskforge.audit set organization = 999 where number = "
    "{number}",
    "what was after changed": "update taskforge.audit set after = '[]' where number = {number}",
    "an entry removed": "delete from taskforge.audit where number = {number}",
    "the log's end removed": "delete from taskforge.audit where number >= {number}",
    "a seal removed": "delete from taskforge.audit_seals where number = 1",
    "a seal changed": "update taskforge.audit_seals set entries = entries + 1 where number = 1",
}


async def _verdict(stage: Stage) -> bool:
    told = await answer(stage.api.client(stage.platform), "GET", "/api/v1/audit/verification")
    return bool(told["intact"])


async def _seal_twice(stage: Stage) -> int:
    """Two seals with entries behind each, and the number of an entry under the first."""
    await stage.api.platform.records.audit_seals.seal()
    await answer(stage.world.client, "POST", "/api/v1/queues", {"name": f"q{uuid4().hex[:8]}"})
    await stage.api.platform.records.audit_seals.seal()
    return (await stage.entries(0))[3].number


async def test_tampering_shows(
    stage: Stage, store_url: str, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    number = await _seal_twice(stage)
    await _run(
        store_url,
        *(
            f"create table taskforge.kept_{table} as select * from taskforge.{table}"
            for table in LOG
        ),
    )
    assert await _verdict(stage)
    for name, statement in TAMPERING.items():
        await _run(store_url, statement.format(number=number))
        assert not await _verdict(stage), name
        # the twin: a check that does not look at what entries say, or at how seals follow
        with monkeypatch.context() as patch:
            patch.setattr(AuditSeals, "_problem_of_chain", _no_problem)
            assert await _verdict(stage)
        await _run(
            store_url, *(f"delete from taskforge.{table}" for table in LOG), *map(_put_back, LOG)
        )
        assert await _verdict(stage), f"{name}: put back, and still not well"
    figure(
        f"S12 {store_url.partition(':')[0]}: {len(TAMPERING)} of n = {len(TAMPERING)} ways to "
        f"tamper with the log shown"
    )


async def test_a_past_that_was_rewritten_with_its_seal_shows_in_the_seal_behind_it(
    stage: Stage, store_url: str
) -> None:
    number = await _seal_twice(stage)
    await _run(store_url, TAMPERING["an actor changed"].format(number=number))
    audit_seals = stage.api.platform.records.audit_seals
    seals = await audit_seals.seals_behind(0)  # the server's own upkeep may have sealed meanwhile
    at = next(at for at, seal in enumerate(seals) if seal.last_number >= number)
    seal, before = seals[at], seals[at - 1] if at else None
    entries = await audit_seals.entries_of(seal, before)
    rewritten = next_seal(SealKeys(), before, entries, seal.at)
    values = (rewritten.digest, rewritten.hash, seal.number)
    engine: Any = stage.api.engine
    await engine.write(
        [
            step_of(
                "update taskforge.audit_seals set digest = $1, hash = $2 where number = $3", *values
            )
        ]
    )
    told = await answer(stage.api.client(stage.platform), "GET", "/api/v1/audit/verification")
    assert (told["intact"], told["problem"]) == (
        False,
        f"seal {seal.number + 1} does not follow from the one before it",
    )


async def _no_problem(*_: Any) -> None:
    return None


def _put_back(table: str) -> str:
    return (
        f"insert into taskforge.{table} overriding system value select * from "
        f"taskforge.kept_{table}"
    )


async def _run(url: str, *statements: str) -> None:
    """Past the server, as someone would who has the store in hand."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(sqlite_path(url))) as file, file:
            for one in statements:
                file.execute(one.replace("taskforge.", "").replace("overriding system value ", ""))
        return
    connection = await asyncpg.connect(url)
    try:
        for one in statements:
            await connection.execute(one)
    finally:
        await connection.close()


# --- Twins ---


def _unsigned(caller: Caller, action: str) -> Note:
    return Note("system", action, caller.principal.organization, caller.origin, caller.request)


def _elsewhere(caller: Caller, action: str) -> Note:
    return Note(caller.principal.label, action, 1, caller.origin, caller.request)


def _untold(caller: Caller, action: str) -> None:
    return None


def _nothing(*_: Any, **__: Any) -> Step:
    return step_of("select 1")


def _all_alike(note: Note, *rest: Any, **more: Any) -> Step:
    return audit_step(msgspec.structs.replace(note, action="changed", request=None), *rest, **more)


async def _twice(self: AuditLog, note: Note, target: str, **more: Any) -> None:
    await record(self, note, target, **more)
    await record(self, note, target, **more)


record = AuditLog.add
TWINS: dict[str, tuple[Any, str, Any, str]] = {
    "nobody is said to have done it": (Caller, "note", _unsigned, "create_queue"),
    "another organization is told": (Caller, "note", _elsewhere, "create_job"),
    "a change of a queue is not told": (Caller, "note", _untold, "pause_queue"),
    "a new project is not told": (invitations, "audit_step", _nothing, "create_invitation"),
    "a new key is not told": (api_keys, "audit_step", _nothing, "create_key"),
    "all changes are told alike": (api_keys, "audit_step", _all_alike, "revoke_key"),
    "told twice": (AuditLog, "add", _twice, "change_jobs"),
}


async def test_each_missing_or_wrong_entry_is_noticed(
    stage: Stage, store_url: str, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    by_name = {one.name: one for one in operations()}
    for name, (where, attribute, broken, operation) in TWINS.items():
        assert not await do(stage, by_name[operation])
        with monkeypatch.context() as patch:
            patch.setattr(where, attribute, broken)
            assert await do(stage, by_name[operation]), name
    figure(
        f"S12 {store_url.partition(':')[0]}: {len(TWINS)} of n = {len(TWINS)} missing or wrong "
        f"entries noticed"
    )
