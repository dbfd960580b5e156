"""S11: secrets that go through a server are not in its logs, its audit log, or what it answers to
others."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from taskforge.domain.access import Role
from taskforge.domain.errors import StoreUnavailable
from taskforge.operations.access import secret
from taskforge.operations.access.first_start import make_key
from tests.api.conftest import SETUP, Api
from tests.support.adhoc_statements import step_of

FAKE_KEYS = [
    secret.API_KEY,
    secret.SESSION,
    secret.REFRESH,
    secret.LOGIN,
    secret.INVITATION,
    secret.RESET,
]


class Canaries:
    """Secrets to look for, each told apart by its name."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def __call__(self, name: str, prefix: str = "") -> str:
        return self.add(name, f"{prefix}canary{uuid4().hex}")

    def add(self, name: str, value: str) -> str:
        self.known[name] = value
        return value

    def within(self, text: str) -> list[str]:
        return [name for name, value in self.known.items() if value in text]


class Heard:
    """All that was logged, and all that was answered."""

    def __init__(self, handler: logging.Handler, records: list[str]) -> None:
        self.handler, self.records = handler, records
        self.answers: list[httpx.Response] = []

    async def note(self, response: httpx.Response) -> None:
        await response.aread()
        self.answers.append(response)


class _Everything(logging.Handler):
    def __init__(self, records: list[str]) -> None:
        super().__init__(logging.NOTSET)
        self._records = records
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        # What the test's own clients log about themselves is not the server's.
        if not record.name.startswith(("httpcore", "httpx")):
            self._records.append(f"{self.format(record)} {record.args!r}")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Any:
    records: list[str] = []
    handler, root = _Everything(records), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.NOTSET)
    named = [
        one
        for one in logging.Logger.manager.loggerDict.values()
        if isinstance(one, logging.Logger) and one.level
    ]
    levels = [(one, one.level) for one in named]
    for one in named:
        one.setLevel(logging.DEBUG)
    yield Heard(handler, records)
    root.removeHandler(handler)
    root.setLevel(level)
    for one, before in levels:
        one.setLevel(before)


async def audited(api: Api) -> str:
    columns = "actor, action, target, before, after, origin, request"
    rows = (
        await api.engine.write([step_of(f"select {columns} from taskforge.audit order by number")])
    )[0]
    return "\n".join(map(str, rows))


async def provoke(
    api: Api, canaries: Canaries, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> dict[int, int]:
    """Use every kind of secret, rightly and wrongly, with the store well, broken and away. Returns
    how often each status came."""
    key = canaries.add("key", await make_key(api.platform, "canary"))
    root = api.client(key, event_hooks={"response": [heard.note]})
    nobody = api.client(event_hooks={"response": [heard.note]})
    await root.post("/api/v1/queues", json={"name": "mail"})

    # Payloads and what goes with a job, accepted and refused.
    body = {
        "queue": "mail",
        "job_type": "send",
        "payload": {"password": canaries("payload"), canaries("payload key"): 1},
    }
    await root.post(
        "/api/v1/jobs", json=body, headers={"idempotency-key": canaries("idempotency key")}
    )
    await root.post(
        "/api/v1/jobs/bulk",
        json=[body, body | {"priority": 99}],
        headers={"idempotency-key": canaries("bulk key")},
    )
    await root.post("/api/v1/jobs", json=body | {"queue": "none"})
    await root.post("/api/v1/jobs", json=body | {"unknown": canaries("unknown field")})
    await root.post(
        "/api/v1/jobs",
        content=f'{{"queue": "mail", "job_type": "send", "payload": {canaries("broken JSON")}',
    )
    await root.post(
        "/api/v1/queues",
        content=f'{{"name": "x", "description": {canaries("broken JSON elsewhere")}',
    )

    # Credentials, valid, wrong and misplaced.
    for kind in FAKE_KEYS:
        await nobody.get(
            "/api/v1/queues", headers={"authorization": f"Bearer {canaries(f'wrong {kind}', kind)}"}
        )
        await nobody.post(
            "/api/v1/jobs",
            json=body,
            headers={"authorization": f"Basic {canaries(f'basic {kind}', kind)}"},
        )
        await nobody.get(
            "/api/v1/queues",
            headers={
                "cookie": f"taskforge_session={canaries(f'cookie {kind}', kind)}; a={canaries('a')}"
            },
        )
    await nobody.get(
        "/api/v1/queues",
        headers={"authorization": canaries("bare header"), "x-csrf-token": canaries("csrf")},
    )
    await nobody.get(
        "/api/v1/nowhere",
        headers={"x-api-key": canaries("other header")},
        params={"api_key": canaries("query")},
    )

    # Passwords and one-time tokens.
    email, password = f"{uuid4().hex[:8]}@example.com", canaries("password")
    _, token = await api.platform.accounts.invite(1, email, Role.OWNER, SETUP)
    canaries.add("invitation", token)
    await nobody.post(
        "/api/v1/invitations/accept", json={"token": token, "name": "Someone", "password": password}
    )
    logged_in = await nobody.post("/api/v1/session", json={"email": email, "password": password})
    canaries.add("session", logged_in.cookies["taskforge_session"])
    canaries.add("csrf token", logged_in.json()["csrf_token"])
    tokens = (
        await nobody.post("/api/v1/tokens", json={"email": email, "password": password})
    ).json()
    canaries.add("access token", tokens["access_token"])
    canaries.add("refresh token", tokens["refresh_token"])
    await nobody.post("/api/v1/tokens/refresh", json={"refresh_token": tokens["refresh_token"]})
    await nobody.post("/api/v1/tokens/refresh", json={"refresh_token": tokens["refresh_token"]})
    await nobody.post(
        "/api/v1/session", json={"email": email, "password": canaries("wrong password")}
    )
    await nobody.post(
        "/api/v1/session",
        json={"email": email, "password": canaries("extra"), canaries("extra field"): 1},
    )
    await nobody.post(
        "/api/v1/password/reset",
        json={"token": canaries("reset", secret.RESET), "new_password": canaries("short")[:8]},
    )
    await nobody.post("/api/v1/session/link", json={"token": canaries("link", secret.LOGIN)})
    await nobody.get("/login", params={"token": canaries("link in an address", secret.LOGIN)})
    made = (await root.post("/api/v1/keys", json={"name": "k", "permissions": ["job:read"]})).json()
    canaries.add("made key", made["secret"])
    turned = (await root.post(f"/api/v1/keys/{made['key']['id']}/rotate")).json()
    canaries.add("rotated key", turned["secret"])

    # A fault, and the store away.
    insert, queues = api.engine.insert, api.engine.queues

    async def broken(*arguments: Any, **_: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")

    async def absent(*arguments: Any, **_: Any) -> Any:
        raise StoreUnavailable("the store is away")

    for act in (broken, absent):
        monkeypatch.setattr(api.engine, "insert", act)
        monkeypatch.setattr(api.engine, "queues", act)
        await root.post(
            "/api/v1/jobs", json=body, headers={"idempotency-key": canaries(f"key {act.__name__}")}
        )
        await root.post("/api/v1/jobs/bulk", json=[body])
        await root.get(
            "/api/v1/queues", headers={"cookie": f"x={canaries(f'cookie {act.__name__}')}"}
        )
    monkeypatch.setattr(api.engine, "insert", insert)
    monkeypatch.setattr(api.engine, "queues", queues)

    found: dict[int, int] = {}
    for one in heard.answers:
        found[one.status_code] = found.get(one.status_code, 0) + 1
    return found


def in_problems(heard: Heard, canaries: Canaries) -> list[str]:
    """Secrets in what is said about mistakes. A field that the caller invented is named to them,
    and to nobody else."""
    problems = [
        one
        for one in heard.answers
        if one.headers.get("content-type") == "application/problem+json"
    ]
    own = {"unknown field", "extra field"}
    return [
        f"{one.status_code} {one.request.url.path}: {name}"
        for one in problems
        for name in canaries.within(one.text)
        if name not in own
    ]


async def test_no_secret_is_told(
    api: Api, heard: Heard, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    canaries = Canaries()
    canaries.add("environment", "canary" + uuid4().hex)
    monkeypatch.setenv("DATABASE_PASSWORD", canaries.known["environment"])
    statuses = await provoke(api, canaries, heard, monkeypatch)
    assert set(statuses) >= {200, 201, 401, 404, 422, 500, 503}, statuses
    assert any("ZeroDivisionError" in one for one in heard.records), "faults are logged"
    logged = "\n".join(heard.records)
    assert canaries.within(logged) == []
    assert in_problems(heard, canaries) == []
    assert canaries.within(await audited(api)) == []
    figure(
        f"S11 {type(api.engine).__name__}: n={len(canaries.known)} secrets in "
        f"{sum(statuses.values())} requests with "
        f"{len(statuses)} statuses: 0 in {len(heard.records):,} log records, the audit log or "
        f"problem documents"
    )


async def test_others_do_not_see_a_payload(api: Api, root: httpx.AsyncClient) -> None:
    canaries = Canaries()
    await root.post("/api/v1/queues", json={"name": "mail"})
    body = {"queue": "mail", "job_type": "send", "payload": canaries("payload")}
    job = (await root.post("/api/v1/jobs", json=body, headers={"idempotency-key": "once"})).json()[
        "id"
    ]
    viewer, other = (
        api.client(await api.key(1, ["job:read"])),
        api.client((await api.tenant("Other")).key),
    )
    for client in (viewer, other):
        answers = [
            await client.get(path)
            for path in (f"/api/v1/jobs/{job}", "/api/v1/jobs", f"/api/v1/jobs/{job}/executions")
        ]
        answers.append(
            await client.post(
                "/api/v1/jobs", json=body | {"payload": 1}, headers={"idempotency-key": "once"}
            )
        )
        assert [one.text for one in answers if canaries.within(one.text)] == []


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_log_of_requests_would_be_noticed(
    api: Api, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a line for each request that has its headers."""
    from taskforge.api.entry import front

    request_id, canaries = front.find_request_id, Canaries()

    def telling(headers: dict[bytes, bytes]) -> str:
        logging.getLogger("taskforge.api").debug("request with %s", headers)
        return request_id(headers)

    monkeypatch.setattr(front, "find_request_id", telling)
    await provoke(api, canaries, heard, monkeypatch)
    assert {"key", "idempotency key", "wrong tfk_"} <= set(
        canaries.within("\n".join(heard.records))
    )


def test_a_settings_file_is_not_told_either(tmp_path: Path) -> None:
    from taskforge.domain.errors import Invalid
    from taskforge.settings import Settings

    canary, file = "canary" + uuid4().hex[:8], tmp_path / "taskforge.toml"
    file.write_text(f'secret = "{canary}"\n')
    with pytest.raises(Invalid) as caught:
        Settings.load(file=file, environment={})
    assert canary not in str(caught.value)
