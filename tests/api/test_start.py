"""S9: a server that would not be safe does not start; one that starts shows its secrets once, and
what it sends is closed tight."""

import asyncio
import html.parser
import json
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import asyncpg
import httpx
import pytest

from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.operations.access.first_start import make_key
from taskforge.operations.platform import check_safe
from taskforge.settings import Settings
from taskforge.wiring import make_store
from tests.api.conftest import Api

TASKFORGE = str(Path(sys.executable).with_name("taskforge"))
SECRET = "canary-4d1f8a63b7e2495c-canary-secret"
WEAK = (
    "changeme",
    "password1",
    "a" * 64,
    "0123456789" * 3,
    "taskforge-taskforge-taskforge-taskforge"[:31],
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


def environment(**changes: str) -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith("TASKFORGE_")
    } | changes


async def run(folder: Path, *arguments: str, **changes: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        TASKFORGE,
        *arguments,
        cwd=folder,
        env=environment(**changes),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, output.decode()


@pytest.mark.parametrize("weak", WEAK)
def test_a_weak_secret_is_refused(weak: str) -> None:
    with pytest.raises(Invalid) as caught:
        Settings.load(environment={"TASKFORGE_SECRET": weak})
    assert weak not in str(caught.value)


async def test_a_server_with_a_weak_secret_does_not_start(tmp_path: Path) -> None:
    status, output = await run(
        tmp_path, "server", "--port", "0", TASKFORGE_SECRET="changeme-changeme-changeme-changeme"
    )
    assert status == 2
    assert "TASKFORGE_SECRET: is too easy to guess" in output
    assert "changeme" not in output
    assert not list(tmp_path.glob("*.db*")), "it did not even open its store"


def test_without_the_check_a_weak_secret_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    from taskforge import settings

    monkeypatch.setitem(settings._CHECKS, "secret", lambda _, value: value)
    assert Settings.load(environment={"TASKFORGE_SECRET": "changeme"}).secret == "changeme"


# --- The database's superuser ---


async def test_a_superuser_is_refused_beyond_this_machine(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_store(Settings(url=postgres_url, schema=f"s{uuid4().hex[:8]}"))
    await engine.open()
    try:
        for host in ("0.0.0.0", "192.0.2.7", "::", "jobs.example.com"):
            with pytest.raises(StoreUnsuitable, match="superuser"):
                await check_safe(engine, host)
        assert not caplog.records
        for host in ("127.0.0.1", "localhost", "::1"):
            await check_safe(engine, host)
        assert [one.levelno for one in caplog.records] == [logging.WARNING] * 3
    finally:
        await engine.close()


async def test_a_role_of_its_own_is_welcome(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"r{uuid4().hex[:8]}"
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(f"create role {name} login")
        await connection.execute(f"create database {name} owner {name}")
        parts = urlsplit(postgres_url)
        engine = make_store(
            Settings(url=f"postgresql://{name}@{parts.hostname}:{parts.port}/{name}")
        )
        await engine.open()
        try:
            await check_safe(engine, "0.0.0.0")
            assert not caplog.records
        finally:
            await engine.close()
    finally:
        await connection.execute(f"drop database if exists {name} with (force)")
        await connection.execute(f"drop role {name}")
        await connection.close()


async def test_the_command_refuses_too(postgres_url: str, tmp_path: Path) -> None:
    arguments = (
        "server",
        "--host",
        "0.0.0.0",
        "--port",
        "0",
        "--url",
        postgres_url,
        "--schema",
        f"s{uuid4().hex[:8]}",
    )
    status, output = await run(tmp_path, *arguments)
    assert status == 2
    assert "superuser" in output


async def test_without_asking_a_superuser_would_pass(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    from taskforge.storage.postgres.engine import PostgresEngine
    from taskforge.storage.sqlite.engine import SqliteEngine

    monkeypatch.setattr(PostgresEngine, "is_superuser", SqliteEngine.is_superuser)
    engine = make_store(Settings(url=postgres_url, schema=f"s{uuid4().hex[:8]}"))
    await check_safe(engine, "0.0.0.0")


# --- The first start ---


class Running:
    """`taskforge server` in a process of its own, with all that it wrote."""

    def __init__(self, folder: Path, *arguments: str, **changes: str) -> None:
        self._folder, self._arguments, self._changes = folder, arguments, changes
        self.output = ""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            TASKFORGE,
            "server",
            "--port",
            "0",
            *self._arguments,
            cwd=self._folder,
            env=environment(**self._changes),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            while not (found := re.findall(r"http://127\.0\.0\.1:\d+", self.output)):
                self.output += (await self._process.stdout.readline()).decode()
            self.address = found[0]
            async with httpx.AsyncClient(base_url=self.address) as client:
                while not await _lives(client):
                    await asyncio.sleep(0.05)
            while not self._arguments and "API key" not in self.output:
                self.output += (await self._process.stdout.readline()).decode()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        rest, _ = await self._process.communicate()
        self.output += rest.decode()
        assert self._process.returncode == 0, self.output


async def _lives(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/healthz")).status_code == 200
    except httpx.TransportError:
        return False


async def test_the_first_start_shows_link_and_key_once(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    async with Running(tmp_path, TASKFORGE_SECRET=SECRET) as server:
        key = re.findall(r"tfk_[\w-]+", server.output)
        link = re.findall(r"\S+/login\?token=tfl_[\w-]+", server.output)
        assert (len(key), len(link)) == (1, 1)
        token = parse_qs(urlsplit(link[0]).query)["token"][0]
        async with httpx.AsyncClient(base_url=server.address) as client:
            assert (
                await client.get("/api/v1/queues", headers={"authorization": f"Bearer {key[0]}"})
            ).status_code == 200
            shown = await client.get(link[0])
            assert (shown.status_code, shown.cookies) == (200, httpx.Cookies()), (
                "to look at the page uses nothing up"
            )
            tries = [client.post("/api/v1/session/link", json={"token": token}) for _ in range(8)]
            statuses = sorted([one.status_code for one in await asyncio.gather(*tries)])
            assert statuses == [201] + [401] * 7
            again = await client.post(
                "/login", data={"token": token}, headers={"origin": server.address}
            )
            assert again.status_code == 401
    first = server.output
    assert first.count(key[0]) == 1
    assert first.count(token) == 1
    async with Running(tmp_path, "--json", TASKFORGE_SECRET=SECRET) as server:
        told = json.loads(
            server.output.splitlines()[0]
            if server.output.startswith("{")
            else _line_of_json(server.output)
        )
        assert (told["login_link"], told["api_key"]) == (None, None)
    assert "tfk_" not in server.output
    assert "tfl_" not in server.output
    assert SECRET not in first + server.output
    figure(
        "S9 first start: link and key shown once; of n=9 tries at once with the link, 1 got in; "
        "second start shows neither"
    )


def _line_of_json(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("{"))


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_the_form_behind_the_link_logs_in_once(api: Api) -> None:
    credentials = await api.made.first_credentials(api.address)
    assert credentials is not None
    assert await api.made.first_credentials(api.address) is None
    token = credentials[0].partition("token=")[2]
    client = api.client()
    headers = {"origin": api.address, "sec-fetch-site": "same-origin"}
    first = await client.post("/login", data={"token": token}, headers=headers)
    assert first.status_code == 303, first.text
    cookie = first.headers["set-cookie"].lower()
    assert all(one in cookie for one in ("taskforge_session=", "httponly", "samesite=lax"))
    assert (await client.get("/api/v1/session")).json()["label"] == "user:owner@localhost"
    assert (await client.post("/login", data={"token": token}, headers=headers)).status_code == 401


async def test_config_check_masks_the_secret(tmp_path: Path) -> None:
    for extra in ((), ("--json",)):
        status, output = await run(tmp_path, "config", "check", *extra, TASKFORGE_SECRET=SECRET)
        assert status == 0, output
        assert SECRET not in output
        assert "***" in output


# --- What every answer carries ---


async def answers(api: Api, root: httpx.AsyncClient) -> list[httpx.Response]:
    """Every kind of answer: successes, errors from the front, the guard, the router and the
    handlers, a fault, pages."""
    nobody = api.client()
    found = [
        await nobody.get(path)
        for path in (
            "/",
            "/login",
            "/login?token=x",
            "/healthz",
            "/readyz",
            "/nowhere",
            "/api/v1/queues",
        )
    ]
    found += [
        await nobody.get(path)
        for path in (
            "/api/v1/openapi.json",
            "/api/v1/docs",
            "/assets/style.css",
            "/assets/icon.svg",
        )
    ]
    found += [
        await root.get(path)
        for path in ("/api/v1/queues", "/api/v1/jobs/x", "/api/v1/jobs?limit=x", "/api/v1/session")
    ]
    found.append(await root.post("/api/v1/queues", json={"name": "mail"}))
    for body in ({"queue": "mail", "job_type": "x"}, {"queue": "none", "job_type": "x"}, [], "x"):
        found.append(await root.post("/api/v1/jobs", json=body))
        found.append(await root.post("/api/v1/queues", json=body))
    for content in (b"{", b"x" * (9 * 2**20)):
        found.append(await root.post("/api/v1/jobs", content=content))
        found.append(await root.post("/api/v1/queues", content=content))
    found.append(
        await root.post("/api/v1/jobs", content=b"{}", headers={"content-type": "text/plain"})
    )
    found.append(await root.put("/api/v1/jobs", json={}))
    found.append(await root.request("OPTIONS", "/api/v1/jobs"))
    found.append(await root.get("/api/v1/queues", headers={"x-long": "y" * 100_000}))
    found += [await sent(api, raw) for raw in MALFORMED]
    return found


MALFORMED = (
    b"GET / HTTP/1.1\r\nhost : x\r\n\r\n",
    b"GET /\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n{}",
)


async def sent(api: Api, raw: bytes) -> httpx.Response:
    """What comes back for bytes that are no HTTP."""
    address = httpx.URL(api.address)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(raw)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode().splitlines()
        headers = [(name, value.strip()) for name, _, value in (x.partition(":") for x in head[1:])]
        return httpx.Response(
            int(head[0].split()[1]),
            headers=[pair for pair in headers if pair[0]],
            request=httpx.Request("GET", api.address),
        )
    finally:
        writer.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_every_answer_is_closed_tight(
    api: Api,
    root: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    found = await answers(api, root)

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(api.engine, "queues", broken)
    monkeypatch.setattr(api.engine, "insert", broken)
    found += [
        await root.get("/api/v1/queues"),
        await root.post("/api/v1/jobs", json={"queue": "mail", "job_type": "x"}),
    ]
    statuses = {one.status_code for one in found}
    assert statuses >= {200, 201, 400, 401, 404, 405, 413, 415, 422, 431, 500}
    for one in found:
        check_headers(one)
    figure(
        f"S9 headers: n={len(found)} answers with {len(statuses)} statuses, all with a strict "
        f"policy; no script within a page"
    )


def check_headers(answer: httpx.Response) -> None:
    where = f"{answer.request.method} {answer.request.url.path} {answer.status_code}"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy, where
    assert "unsafe" not in policy, where
    # Only the dashboard and the reference have scripts, and only files of their own.
    if "script-src" in policy:
        assert "script-src 'self';" in policy, where
        of_dashboard = answer.url.path.startswith(("/o/", "/dashboard/"))
        assert of_dashboard or answer.url.path in ("/", "/api/v1/docs"), where
    for name, value in HEADERS.items():
        if name == "cache-control" and answer.url.path.startswith(("/assets/", "/api/v1/docs")):
            continue
        if name == "cache-control" and "script-src" in policy:
            assert answer.headers[name] == "no-cache", where
            continue
        if name == "referrer-policy" and answer.headers["content-type"].startswith("text/html"):
            assert answer.headers[name] in ("no-referrer", "strict-origin"), where
            continue
        assert answer.headers[name] == value, where
    assert "server" not in answer.headers
    if answer.headers["content-type"].startswith("text/html"):
        Scripts().feed(answer.text)


class Scripts(html.parser.HTMLParser):
    """Fails on a script, a handler or a style in a page; a script may only be a file of ours."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        source = dict(attrs).get("src") or ""
        if tag == "script" and source.startswith(("/dashboard/", "/assets/")):
            tag = "link"
        assert tag not in ("script", "style", "iframe", "object", "embed"), tag
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name != "style", (tag, value)
            assert not (value or "").strip().lower().startswith(("javascript:", "data:text")), (
                tag,
                name,
                value,
            )


def test_a_script_in_a_page_is_noticed() -> None:
    """The twin."""
    for page in (
        "<script>1</script>",
        "<p onclick='x()'>",
        "<a href=' JavaScript:x'>",
        "<p style='color:red'>",
    ):
        with pytest.raises(AssertionError):
            Scripts().feed(page)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_token_is_written_into_a_page_as_text(api: Api) -> None:
    shown = await api.client().get("/login", params={"token": '"><script>alert(1)</script>'})
    Scripts().feed(shown.text)


async def test_an_answer_without_a_policy_is_noticed(
    serve: Callable[..., Awaitable[Api]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    from taskforge.api.entry import front

    monkeypatch.setattr(front, "SECURITY", front.SECURITY[1:])
    api = await serve(f"sqlite:///{tmp_path / 'twin.db'}")
    with pytest.raises(KeyError):
        check_headers(await api.client(await make_key(api.platform, "k")).get("/api/v1/queues"))


async def test_a_full_server_says_so(serve: Callable[..., Awaitable[Api]], tmp_path: Path) -> None:
    api = await serve(
        f"sqlite:///{tmp_path / 'api.db'}", max_connections=40, connections_per_address=100
    )
    serving = api.made.server._server
    assert serving is not None
    connections, port = serving.server_state.connections, httpx.URL(api.address).port
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
    async with asyncio.timeout(5):
        while len(connections) < 40:
            await asyncio.sleep(0.005)
    refused = await api.client().get("/healthz", headers={"x-request-id": "mine"})
    assert (refused.status_code, refused.headers["content-type"]) == (
        503,
        "application/problem+json",
    )
    assert (refused.headers["retry-after"], refused.headers["x-request-id"]) == ("2", "mine")
    assert (refused.json()["type"], refused.json()["request_id"]) == (
        "urn:taskforge:problem:full",
        "mine",
    )
    check_headers(refused)
    held.append(await asyncio.open_connection("127.0.0.1", port))
    held[0][1].write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b" 200 " in await held[0][0].readline()  # those who have a connection are served
    for _, writer in held:
        writer.close()
    async with asyncio.timeout(5):
        while len(connections) >= 40:
            await asyncio.sleep(0.005)
    assert (await api.client().get("/healthz")).status_code == 200
