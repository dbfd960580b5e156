"""S6: bodies and heads that are made to hurt. All are refused as the caller's mistake, cost little
and keep nobody waiting."""

import asyncio
import json
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskforge.api.entry import http_protocol, patient_body
from tests.api.conftest import Api
from tests.support.target import JOB, MIB, Target, serve_alone

MOST_GROWTH_BYTES = 50 * 2**20
MOST_OTHERS_WAIT_SECONDS = 5.0


@pytest.fixture
async def target(store_url: str, tmp_path: Path) -> AsyncIterator[Target]:
    async with serve_alone(store_url, tmp_path) as target:
        yield target


def raw(target: Target, parts: Iterator[bytes], wait: float = 20) -> int:
    """Send bytes as they are; the status of the answer, or 0 when the server just hung up."""
    with socket.create_connection((target.host, int(target.port)), timeout=wait) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                connection.sendall(part)
        answer = b""
        with suppress(ConnectionResetError, TimeoutError):
            while b"\r\n" not in answer:
                piece = connection.recv(4_096)
                if not piece:
                    break
                answer += piece
    return int(answer.split(b" ")[1]) if answer else 0


def head(target: Target, path: str, *lines: str, method: str = "POST") -> bytes:
    wanted = [
        f"{method} {path} HTTP/1.1",
        "host: x",
        f"authorization: Bearer {target.key}",
        "content-type: application/json",
    ]
    return ("\r\n".join([*wanted, *lines]) + "\r\n\r\n").encode()


def chunks(size: int) -> Iterator[bytes]:
    piece = b"[" * 65_536
    for _ in range(size // len(piece)):
        yield b"10000\r\n" + piece + b"\r\n"
    yield b"0\r\n\r\n"


def floods(target: Target) -> dict[str, Callable[[], int]]:
    """What is larger than a client of httpx would send."""
    found: dict[str, Callable[[], int]] = {}
    for path in ("/api/v1/jobs", "/api/v1/jobs/bulk", "/api/v1/queues", "/api/v1/session"):
        found[f"100 MB declared, {path}"] = lambda path=path: raw(target, _declared(target, path))
        found[f"100 MB in chunks, {path}"] = lambda path=path: raw(target, _chunked(target, path))
    found["a URL of 1 MB"] = lambda: raw(
        target, iter([b"GET /api/v1/queues?x=" + b"a" * MIB + b" HTTP/1.1\r\nhost: x\r\n\r\n"])
    )
    found["a URL of 100 kB"] = lambda: raw(
        target, iter([head(target, "/api/v1/queues?x=" + "a" * 100_000, method="GET")])
    )
    found["a header of 100 MB"] = lambda: raw(target, _long_header(target))
    found["a cookie of 200 kB"] = lambda: raw(
        target, iter([head(target, "/api/v1/queues", "cookie: a=" + "b" * 200_000, method="GET")])
    )
    found["50,000 headers"] = lambda: raw(
        target,
        iter([head(target, "/api/v1/queues", *(f"h{n}: 1" for n in range(50_000)), method="GET")]),
    )
    found["not HTTP"] = lambda: raw(target, iter([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"]))
    found["a length that is none"] = lambda: raw(
        target, iter([head(target, "/api/v1/jobs", "content-length: -1")])
    )
    found["two lengths"] = lambda: raw(
        target,
        iter([head(target, "/api/v1/jobs", "content-length: 2", "content-length: 9"), b"{}"]),
    )
    return found


def _declared(target: Target, path: str) -> Iterator[bytes]:
    yield head(target, path, f"content-length: {100_000_000}")
    for _ in range(1_525):
        yield b"[" * 65_536


def _chunked(target: Target, path: str) -> Iterator[bytes]:
    yield head(target, path, "transfer-encoding: chunked")
    yield from chunks(100_000_000)


def _long_header(target: Target) -> Iterator[bytes]:
    yield b"GET /api/v1/queues HTTP/1.1\r\nhost: x\r\nx-long: "
    for _ in range(1_525):
        yield b"a" * 65_536


def bodies() -> dict[str, tuple[str, bytes, dict[str, str]]]:
    """What fits into a request."""
    job = b'{"queue":"mail","job_type":"send","payload":%s}'
    deep = b"[" * 10_000 + b"]" * 10_000
    # Short keys, so that a million of them fit below the limit of a body.
    keys = b"{" + b",".join(b'"%x":0' % number for number in range(600_000)) + b"}"
    million = b"{" + b",".join(b'"%d":0' % number for number in range(1_000_000)) + b"}"
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    squeezed = bomb.compress(b"0" * (64 * MIB)) + bomb.flush()
    return {
        "depth 10,000 in a payload": ("/api/v1/jobs", job % deep, {}),
        "depth 10,000 as a body": ("/api/v1/jobs", deep, {}),
        "depth 10,000 in a list of jobs": ("/api/v1/jobs/bulk", b"[" + job % deep + b"]", {}),
        "depth 10,000 in settings": (
            "/api/v1/queues",
            b'{"name":"q","settings":{"max_retries":' + deep + b"}}",
            {},
        ),
        "depth 100,000 objects": ("/api/v1/queues", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, {}),
        "1e6 keys": ("/api/v1/jobs", job % million, {}),
        "1e6 keys as a body": ("/api/v1/queues", million, {}),
        "600,000 keys": ("/api/v1/jobs", job % keys, {}),
        "600,000 settings": ("/api/v1/queues", b'{"name":"q","settings":' + keys + b"}", {}),
        "1e999 as a payload": ("/api/v1/jobs", job % b"1e999", {}),
        "1e999 deep in a payload": ("/api/v1/jobs", job % b'{"a":[1,{"b":-1e999}]}', {}),
        "1e999 as a priority": (
            "/api/v1/jobs",
            b'{"queue":"mail","job_type":"send","priority":1e999}',
            {},
        ),
        "5,000 digits": ("/api/v1/jobs", job % (b"9" * 5_000), {}),
        "400 digits and a half": ("/api/v1/jobs", job % (b"9" * 400 + b".5"), {}),
        "a huge priority": (
            "/api/v1/jobs",
            b'{"queue":"mail","job_type":"send","priority":%s}' % (b"9" * 5_000),
            {},
        ),
        "a huge delay": (
            "/api/v1/jobs",
            b'{"queue":"mail","job_type":"send","delay_seconds":1e308}',
            {},
        ),
        "a huge weight": ("/api/v1/queues", b'{"name":"q","priority":%s}' % (b"9" * 400), {}),
        "the year 9999": (
            "/api/v1/jobs",
            b'{"queue":"mail","job_type":"send","scheduled_for":"9999-12-31T23:59:59-23:59"}',
            {},
        ),
        "a gzip bomb": ("/api/v1/jobs", squeezed, {"content-encoding": "gzip"}),
        "a gzip bomb elsewhere": ("/api/v1/queues", squeezed, {"content-encoding": "gzip"}),
        "8 MiB and a byte": ("/api/v1/jobs/bulk", b" " * (8 * MIB + 1), {}),
        "8 MiB and a byte elsewhere": ("/api/v1/queues", b" " * (8 * MIB + 1), {}),
        "10,001 jobs": ("/api/v1/jobs/bulk", json.dumps([JOB] * 10_001).encode(), {}),
        "bytes that are not UTF-8": ("/api/v1/jobs", job % b'"\xff\xfe"', {}),
        "NUL bytes": ("/api/v1/jobs", b'{"queue":"ma\x00il"}', {}),
        "nothing": ("/api/v1/jobs", b"", {}),
        "no JSON": ("/api/v1/queues", b"name=q", {}),
        "another type": ("/api/v1/queues", b"<a/>", {"content-type": "application/xml"}),
    }


@asynccontextmanager
async def others(target: Target) -> AsyncIterator[list[float]]:
    """Someone else who enqueues and reads meanwhile, and how long each call took."""
    waits: list[float] = []

    async def go_on() -> None:
        async with target.client() as client:
            while True:
                begun = asyncio.get_running_loop().time()
                made = await client.post("/api/v1/jobs", json=JOB)
                assert made.status_code == 201, made.text
                assert (await client.get(f"/api/v1/jobs/{made.json()['id']}")).status_code == 200
                waits.append(asyncio.get_running_loop().time() - begun)
                await asyncio.sleep(0.02)

    task = asyncio.create_task(go_on())
    try:
        yield waits
    finally:
        if task.done():
            await task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert max(waits) < MOST_OTHERS_WAIT_SECONDS


async def test_what_is_made_to_hurt_is_refused(
    target: Target, figure: Callable[[str], None]
) -> None:
    statuses: dict[str, int] = {}
    before, most = target.memory(), 0
    async with target.client() as client, others(target) as waits:
        for name, (path, body, headers) in bodies().items():
            answer = await client.post(
                path, content=body, headers={"content-type": "application/json"} | headers
            )
            statuses[name] = answer.status_code
            assert answer.headers["content-type"] == "application/problem+json", name
            assert len(answer.content) < 10_000, name
            most = max(most, target.memory() - before)
        for name, flood in floods(target).items():
            statuses[name] = await asyncio.to_thread(flood)
            most = max(most, target.memory() - before)
    refused = {name: status for name, status in statuses.items() if name != "600,000 keys"}
    assert {name: status for name, status in refused.items() if not 400 <= status < 500} == {}
    assert statuses["600,000 keys"] in (201, 422), (
        "large, but no mistake; the queue's limit for payloads decides"
    )
    assert most < MOST_GROWTH_BYTES, f"{most / MIB:.0f} MiB"
    figure(
        f"S6 {target.address}: n={len(statuses)} hostile requests, all 4xx; memory "
        f"+{most / MIB:.0f} MiB at most; "
        f"others waited {max(waits) * 1e3:.0f} ms at most (n={len(waits)})"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_slow_connections_keep_nobody_waiting(
    target: Target, figure: Callable[[str], None]
) -> None:
    before, slow = target.memory(), []
    try:
        for number in range(800):
            writer = (await asyncio.open_connection(target.host, int(target.port)))[1]
            writer.write(
                b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\n"
                if number % 2
                else head(target, "/api/v1/jobs", "content-length: 99")
            )
            slow.append(writer)
        async with others(target) as waits:
            for _ in range(8):
                for number, writer in enumerate(slow):
                    writer.write(b"x: y\r\n" if number % 2 else b" ")
                await asyncio.sleep(0.2)
        grown = target.memory() - before
        assert grown < MOST_GROWTH_BYTES
        figure(
            f"S6 slow-loris: n={len(slow)} slow connections, +{grown / MIB:.0f} MiB, others wait "
            f"{max(waits) * 1e3:.0f} ms at most"
        )
    finally:
        for writer in slow:
            writer.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_slow_heads_and_bodies_end(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(patient_body, "BODY_SECONDS", 0.3)
    key = root.headers["authorization"]
    begun = (
        f"POST %s HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\ncontent-type: application/json\r\n"
    )
    for sent in (
        "",
        "GET / HT",
        "GET / HTTP/1.1\r\nhost: x\r\n",
        begun % "/api/v1/jobs" + "content-length: 9\r\n\r\n{",
    ):
        assert await _left_alone(api, sent) == 408, sent
    assert await _left_alone(api, begun % "/api/v1/queues" + "content-length: 9\r\n\r\n{") == 408


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_without_a_limit_of_time_a_slow_head_stays(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    monkeypatch.setattr(http_protocol.HttpProtocol, "_wait", lambda _: None)
    with pytest.raises(TimeoutError):
        await _left_alone(api, "GET / HT", seconds=1.0)


async def _left_alone(api: Api, sent: str, seconds: float = 5.0) -> int:
    host, port = api.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(sent.encode())
        line = await asyncio.wait_for(reader.readline(), seconds)
        return int(line.split(b" ")[1])
    finally:
        writer.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_without_a_limit_of_size_a_body_is_read(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the same body is refused for its size, and for what it says once nobody counts."""
    body, headers = b" " * (8 * MIB + 1), {"content-type": "application/json"}
    assert (await root.post("/api/v1/jobs/bulk", content=body, headers=headers)).status_code == 413
    monkeypatch.setattr(patient_body, "MAX_BODY_BYTES", 2**40)
    assert (await root.post("/api/v1/jobs/bulk", content=body, headers=headers)).status_code == 422


# --- Every text field ---

NASTY = ("a\x00b", "\ud800", "a\udfffb", "\x00", "\x01", "\x7f", "x" * 100_000, "")
UUID = "01900000-0000-7000-8000-000001000000"
TEXTS: list[tuple[str, str, Any]] = [
    ("POST", "/api/v1/jobs", {"queue": "mail", "job_type": "send", "payload": "?"}),
    ("POST", "/api/v1/jobs", {"queue": "mail", "job_type": "send", "payload": {"?": ["?"]}}),
    *(
        ("POST", "/api/v1/jobs", JOB | {name: "?"})
        for name in ("queue", "job_type", "unique_key", "idempotency_key", "trace")
    ),
    *(("POST", "/api/v1/jobs", JOB | {name: "?"}) for name in ("fairness_key", "scheduled_for")),
    ("POST", "/api/v1/jobs", JOB | {"tags": ["?"]}),
    ("POST", "/api/v1/jobs", JOB | {"requires": {"?": "?"}}),
    ("POST", "/api/v1/jobs/bulk", [JOB | {"payload": "?", "tags": ["?"]}]),
    ("POST", "/api/v1/jobs/bulk", [JOB | {"payload": {"?": "?"}}]),
    ("POST", "/api/v1/queues", {"name": "?"}),
    ("POST", "/api/v1/queues", {"name": "a", "description": "?"}),
    ("POST", "/api/v1/queues", {"name": "a", "settings": {"?": 1}}),
    ("POST", "/api/v1/queues", {"name": "a", "settings": {"rate_limit_algorithm": "?"}}),
    ("POST", "/api/v1/jobs/change", {"action": "cancel", "where": {"queue": "?"}}),
    ("POST", "/api/v1/jobs/change", {"action": "cancel", "where": {"tag": "?", "job_type": "?"}}),
    (
        "POST",
        "/api/v1/jobs/change",
        {"action": "move", "queue": "?", "where": {"everything": True}},
    ),
    ("PATCH", "/api/v1/organization", {"name": "?"}),
    ("POST", "/api/v1/projects", {"name": "?"}),
    ("PATCH", "/api/v1/projects/default", {"name": "?"}),
    ("POST", "/api/v1/invitations", {"email": "?@b", "role": "viewer"}),
    ("POST", "/api/v1/invitations", {"email": "a@b", "role": "?"}),
    ("POST", "/api/v1/invitations/accept", {"token": "?", "name": "?", "password": "?"}),
    ("POST", "/api/v1/keys", {"name": "?", "permissions": ["job:read"]}),
    ("POST", "/api/v1/keys", {"name": "a", "permissions": ["?"]}),
    ("POST", "/api/v1/keys", {"name": "a", "permissions": ["job:read"], "project": "?"}),
    ("POST", "/api/v1/session", {"email": "?", "password": "?", "organization": "?"}),
    ("POST", "/api/v1/session/link", {"token": "?"}),
    ("POST", "/api/v1/tokens", {"email": "?", "password": "?"}),
    ("POST", "/api/v1/tokens/refresh", {"refresh_token": "?"}),
    ("POST", "/api/v1/tokens/revoke", {"refresh_token": "?"}),
    ("POST", "/api/v1/password/reset", {"token": "?", "new_password": "?"}),
    ("PATCH", f"/api/v1/workers/{UUID}", {"name": "?", "capabilities": {"?": "?"}}),
]
QUERIES = [
    *(
        f"/api/v1/jobs?{name}="
        for name in (
            "queue",
            "job_type",
            "tag",
            "project",
            "cursor",
            "status",
            "created_after",
            "limit",
        )
    ),
    *(
        f"/api/v1/{name}?project="
        for name in (
            "queues",
            "workers",
            "stats",
            "assignments",
            "executions/active",
            "assignments/matrix",
        )
    ),
    "/api/v1/queues?name=",
    "/api/v1/workers?worker_type=",
    "/api/v1/audit?action=",
    "/api/v1/audit?actor=",
    "/api/v1/projects/",
    "/api/v1/jobs/",
    f"/api/v1/jobs/{UUID}/logs?level=",
]


def filled(template: Any, value: str) -> Any:
    if isinstance(template, str):
        return template.replace("?", value)
    if isinstance(template, list):
        return [filled(one, value) for one in template]
    if isinstance(template, dict):
        return {filled(name, value): filled(one, value) for name, one in template.items()}
    return template


async def sent(client: httpx.AsyncClient) -> dict[str, int]:
    """Every text field with every nasty text, escaped and, where that can be written, plain."""
    statuses: dict[str, int] = {}
    for method, path, template in TEXTS:
        for value in NASTY:
            bodies = [json.dumps(filled(template, value)).encode()]
            bodies.append(
                json.dumps(filled(template, value), ensure_ascii=False).encode(
                    "utf-8", "surrogatepass"
                )
            )
            for number, body in enumerate(bodies):
                answer = await client.request(
                    method, path, content=body, headers={"content-type": "application/json"}
                )
                statuses[f"{method} {path} {template} {value[:5]!r} {number}"] = answer.status_code
    for path in QUERIES:
        for value in ("%00", "a%00b", "%ED%A0%80", "%FF", "%01", "x" * 30_000):
            statuses[f"GET {path}{value[:9]}"] = (await client.get(path + value)).status_code
    return statuses


async def test_texts_that_no_store_can_keep(
    api: Api, root: httpx.AsyncClient, figure: Callable[[str], None]
) -> None:
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    statuses = await sent(root)
    assert [name for name, status in statuses.items() if status >= 500] == []
    listed = await root.get("/api/v1/jobs?limit=1000&include=payload")
    assert listed.status_code == 200
    json.loads(listed.content)["items"][0]["payload"]
    huge = ["1e999", "-1E0999", "9" * 5_000, "9" * 400 + ".5"]
    many = ",".join(
        '{"queue":"mail","job_type":"send","payload":[' + number + "]}" for number in huge
    )
    refused = await root.post(
        "/api/v1/jobs/bulk", content=f"[{many}]", headers={"content-type": "application/json"}
    )
    assert (refused.status_code, refused.json()["ids"]) == (200, [None] * len(huge))
    for header in (
        "idempotency-key",
        "if-match",
        "last-event-id",
        "x-csrf-token",
        "x-request-id",
        "cookie",
    ):
        for value in (b"\x80\xff", b"a" * 20_000, b"", b"\xc3\xa9"):
            answer = await root.post("/api/v1/jobs", json=JOB, headers=[(header.encode(), value)])
            assert answer.status_code in (201, 422), (header, value, answer.text)
    figure(
        f"S6 {type(api.engine).__name__}: n={len(statuses)} nasty texts in {len(TEXTS)} bodies "
        f"and {len(QUERIES)} addresses, 0 5xx"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_an_unchecked_field_takes_anything(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    from taskforge.domain import rules

    monkeypatch.setattr(rules, "text", lambda _, value, **__: value)
    assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
    made = await root.post("/api/v1/queues", json={"name": "a\x00b"})
    assert (made.status_code, made.json().get("name")) == (201, "a\x00b"), "SQLite keeps it"
