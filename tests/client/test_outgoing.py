"""S4: what tenants name is not reached where the platform's owner did not open it. A canary listens
on loopback, and every connection that the door makes, wherever to, is led to it."""

import asyncio
import contextlib
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from taskforge.client import outgoing
from taskforge.client.outgoing import OutgoingDoor
from taskforge.domain.addresses import parse_networks
from taskforge.domain.errors import Invalid
from taskforge.domain.targets import TargetFailed, TargetRefused, check_target

LOOPBACK = parse_networks("outgoing_networks", "127.0.0.0/8")
_ADDRESSES_4 = """
127.0.0.1 127.0.0.2 127.1.2.3 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 172.16.0.1
172.31.255.254 192.168.0.1 192.168.255.1 169.254.169.254 169.254.0.1 100.64.0.1 100.100.100.200
100.127.255.254 192.0.0.1 192.0.0.170 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1
198.19.255.254 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
"""
_ADDRESSES_6 = """
::1 :: ::2 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1
::10.0.0.1 ::ffff:0:127.0.0.1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 febf::1 fec0::1 ff02::1
ff05::2 2002:7f00:1:: 2002:a9fe:a9fe:: 2002:a00:1:: 2001:0:4136:e378:8000:63bf:3fff:fdd2
2001:10::1 2001:20::1 2001:db8::1 3fff::1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe
64:ff9b::10.0.0.1 64:ff9b:1::1 100::1 4000::1 5f00::1 2600::5efe:127.0.0.1 2600::200:5efe:a00:1
"""
_NUMBERS = """
2130706433 0x7f000001 017700000001 0x7f.1 0x7f.0.0.1 0177.0.0.1 0177.0.0.01 127.1 127.0.1
00000177.0.0.1 0x7f.0x0.0x0.0x1 0 0x0 00 2852039166 0xa9fea9fe 0xA9.0xFE.0xA9.0xFE
0251.0376.0251.0376 169.254.43518 167772161 0x0a000001 012.1 127.0.0.1. 4294967295
"""
NAMES = ["localhost", "localhost.", "x.localhost", "metadata.google.internal", "rebound.test"]
ADDRESSES_4, ADDRESSES_6, NUMBERS = _ADDRESSES_4.split(), _ADDRESSES_6.split(), _NUMBERS.split()
SHAPES = [
    "http://public.test/",
    "http://127.0.0.1/",
    "https://user@127.0.0.1/",
    "https://public.test@127.0.0.1/",
    "https://127.0.0.1\\@public.test/",
    "https://127.0.0.1#@public.test/",
    "https://①②⑦.⓪.⓪.①/",
    "https://127。0。0。1/",
    "https://[fe80::1%25lo]/",
    "https://[::ffff:127.0.0.1]/?a=https://public.test",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1/",
    "unix:///var/run/docker.sock",
    "//127.0.0.1/",
    "https:///127.0.0.1/",
    "https://127.0.0.1:0/",
    " https://127.0.0.1/",
    "https://127.0.0.1/\r\nHost: x",
]


def targets() -> list[str]:
    literal = [f"https://{one}/hook" for one in ADDRESSES_4]
    literal += [f"https://[{one}]/hook" for one in ADDRESSES_6]
    # the same behind a name: nothing can be told before it is looked up
    named = [f"https://n{i}.test/hook" for i in range(len(ADDRESSES_4) + len(ADDRESSES_6))]
    return literal + named + [f"https://{one}/hook" for one in [*NUMBERS, *NAMES]] + SHAPES


TARGETS = targets()


async def look_up(host: str, _port: int) -> Sequence[str]:
    if host.startswith("n") and host.endswith(".test"):
        return [(ADDRESSES_4 + ADDRESSES_6)[int(host[1:-5])]]
    if host == "public.test":
        return ["93.184.216.34"]
    if host == "mixed.test":
        return ["93.184.216.34", "10.0.0.1"]
    return ["127.0.0.1"]


class Canary:
    """Listens on loopback, where all connections are led to."""

    def __init__(self) -> None:
        self.port = 0
        self.connected: list[str] = []
        self.answer = b""

    async def met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if self.answer:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer)
                await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def connect(
        self, host: str, _port: int, timeout: float | None, *_: Any
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append(host)
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.port, timeout)


@pytest.fixture
async def canary(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Canary]:
    canary = Canary()
    server = await asyncio.start_server(canary.met, "127.0.0.1", 0)
    canary.port = server.sockets[0].getsockname()[1]

    class Network(httpcore2.AnyIOBackend):
        connect_tcp = staticmethod(canary.connect)  # type: ignore[assignment]

    real = outgoing._JudgingBackend.__init__

    def led(self: Any, *values: Any) -> None:
        real(self, *values)
        self._inner = Network()

    monkeypatch.setattr(outgoing._JudgingBackend, "__init__", led)
    yield canary
    server.close()
    await server.wait_closed()


@contextlib.asynccontextmanager
async def opening(*values: Any, **named: Any) -> AsyncIterator[OutgoingDoor]:
    door = OutgoingDoor(*values, **{"resolve": look_up, "seconds": 5.0, **named})
    try:
        yield door
    finally:
        await door.close()


async def reached(door: OutgoingDoor, canary: Canary) -> list[str]:
    """Those of the targets that a connection was made for."""
    found: list[str] = []
    for target in TARGETS:
        before = len(canary.connected)
        with contextlib.suppress(
            TargetRefused, TargetFailed, TypeError, ValueError, httpcore2.UnsupportedProtocol
        ):
            await door.post(target, b"{}")
        if len(canary.connected) > before:
            found.append(target)
    return found


async def test_no_target_is_reached(canary: Canary, figure: Callable[[str], None]) -> None:
    async with opening() as door:
        assert await reached(door, canary) == []
        for target in TARGETS:
            with pytest.raises(TargetRefused):
                await door.post(target, b"{}")
        assert canary.connected == []
        # and the canary can be reached
        with pytest.raises(TargetFailed):
            await door.post("https://public.test/hook", b"{}")
        assert canary.connected == ["93.184.216.34"]
    figure(f"S4: 0 connections for {len(TARGETS)} targets (95 %: below {3 / len(TARGETS):.1%})")


async def test_a_door_that_does_not_judge_is_caught(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(outgoing, "refusal", lambda *_: None)
    monkeypatch.setattr(outgoing, "check_target", lambda *_: None)
    async with opening() as door:
        assert len(await reached(door, canary)) > 0.85 * len(TARGETS)


async def test_a_door_that_judges_only_what_is_written_is_caught(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "refusal", lambda *_: None)
    async with opening() as door:
        found = await reached(door, canary)
        assert {f"https://n{i}.test/hook" for i in range(65)} <= set(found)
        assert "https://rebound.test/hook" in found


async def test_what_a_name_means_after_it_was_judged_changes_nothing(canary: Canary) -> None:
    lookups: list[str] = []

    async def rebind(host: str, _port: int) -> Sequence[str]:
        lookups.append(host)
        return ["93.184.216.34"] if len(lookups) % 2 else ["127.0.0.1"]

    async with opening(resolve=rebind) as door:
        for _ in range(10):
            with pytest.raises((TargetFailed, TargetRefused)):
                await door.post("https://rebound.test/", b"{}")
    assert canary.connected == ["93.184.216.34"] * 5
    assert len(lookups) == 10  # one for each connection: the one that was judged is the one used


async def test_a_name_that_stands_for_a_private_address_too_is_not_reached(canary: Canary) -> None:
    async with opening() as door:
        with pytest.raises(TargetRefused, match=r"mixed\.test stands for 10\.0\.0\.1"):
            await door.post("https://mixed.test/", b"{}")
    assert canary.connected == []


async def test_a_redirect_is_an_answer(canary: Canary) -> None:
    canary.answer = (
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/inside\r\nContent-Length: 0\r\n"
        b"Set-Cookie: a=b\r\nRetry-After: 7\r\nConnection: close\r\n\r\n"
    )
    async with opening(LOOPBACK) as door:
        answer = await door.post("http://127.0.0.1:9/", b"{}")
        assert (answer.status, answer.is_success, answer.retry_after) == (302, False, "7")
        assert canary.connected == ["127.0.0.1"]


async def test_an_opened_network_is_reached_and_no_other(canary: Canary) -> None:
    canary.answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 10_000
    async with opening(LOOPBACK) as door:
        answer = await door.post("http://127.0.0.1:9/", b"{}")
        assert (answer.status, len(answer.body), answer.is_cut) == (200, 4_096, True)
        for other in ("http://10.0.0.1/", "https://10.0.0.1/", "http://93.184.216.34/"):
            with pytest.raises(TargetRefused):
                await door.post(other, b"{}")
        assert canary.connected == ["127.0.0.1"]


async def test_an_answer_that_does_not_end_is_broken_off(canary: Canary) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        over.set()

    over = asyncio.Event()
    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    canary.port = server.sockets[0].getsockname()[1]
    async with opening(LOOPBACK, seconds=0.3) as door:
        with pytest.raises(TargetFailed, match=r"no whole answer within 0\.3 s"):
            await door.post("http://127.0.0.1:9/", b"{}")
    await over.wait()
    server.close()
    await server.wait_closed()


async def test_no_proxy_of_the_environment_is_used(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    async with opening() as door:
        with pytest.raises(TargetFailed):
            await door.post("https://public.test/", b"{}")
    assert canary.connected == ["93.184.216.34"]


_HANGING = """
import asyncio, socket, time
from taskforge.client.outgoing import OutgoingDoor
from taskforge.domain.targets import TargetFailed

socket.getaddrinfo = lambda *_, **__: time.sleep(60)

async def main():
    door = OutgoingDoor(seconds=0.2, most_at_once=1)
    told = []
    for _ in range(4):
        try:
            await door.post("https://hangs.example/", b"")
        except TargetFailed as error:
            told.append(str(error))
    await door.close()
    print(told)

asyncio.run(main())
"""


def test_names_that_hang_end_no_process_late_and_are_bounded() -> None:
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", _HANGING], capture_output=True, text=True, check=True, timeout=50
    )
    assert time.monotonic() - began < 30
    late, last = "no whole answer within 0.2 s", "cannot be looked up: too many others are"
    assert run.stdout.count(late) == 3, run.stdout
    assert run.stdout.count(last) == 1, run.stdout


async def test_a_name_that_nobody_has_is_said_to_be_so() -> None:
    door = OutgoingDoor()
    with pytest.raises(TargetFailed, match=r"nobody\.invalid cannot be looked up"):
        await door.post("https://nobody.invalid/", b"")
    await door.close()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("http://example.com/", "use https"),
        ("https://10.0.0.1/", "which is private"),
        ("https://[::ffff:127.0.0.1]/", "which is loopback"),
        ("https://0x7f.1/", "is a number"),
        ("https://a:b@example.com/", "requests are signed"),
        ("https://example.com/#x", "leave it out"),
        ("https://example.com:99999/", "cannot be read"),
        ("ftp://example.com/", "use an address such as"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(target: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        check_target("url", target)


def test_usual_addresses_are_taken() -> None:
    for target in (
        "https://example.com/hooks?a=b%20c",
        "https://example.com:8443",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://[64:ff9b::8.8.8.8]/",
        "https://xn--bcher-kva.example/",
    ):
        assert check_target("url", target) == target


def make_certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server with this name, and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(names)
        .issuer_name(names)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "both.pem").write_bytes(private + certificate.public_bytes(pem))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "both.pem")
    client = ssl.create_default_context(cadata=certificate.public_bytes(pem).decode())
    return server, client


async def test_encryption_is_checked_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    seen: list[str] = []
    given, trusting = make_certificate(tmp_path, "hooks.test")
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=given)
    port = server.sockets[0].getsockname()[1]
    async with opening(LOOPBACK, tls=trusting) as door:
        assert (await door.post(f"https://hooks.test:{port}/x", b"{}")).status == 204
        with pytest.raises(TargetFailed, match=r"other\.test"):
            await door.post(f"https://other.test:{port}/x", b"{}")
    async with opening(LOOPBACK) as door:
        with pytest.raises(TargetFailed, match=r"(?i)certificate"):  # which nobody else trusts
            await door.post(f"https://hooks.test:{port}/x", b"{}")
    assert [f"hooks.test:{port}" in head for head in seen] == [True]
    server.close()
    await server.wait_closed()
