"""What lies between us and a server: certificates, proxies, connections."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from taskforge.client import queues
from taskforge.client.transport import Transport, options_for
from taskforge.domain.errors import StoreUnsuitable
from taskforge.settings import Settings
from taskforge.wiring import make_engine

Serve = Callable[..., Awaitable[str]]


class Heads(list[str]):
    connections = 0


@pytest.fixture
def heads() -> Heads:
    return Heads()


@pytest.fixture
async def serve(heads: Heads) -> AsyncIterator[Serve]:
    """Something that answers every request alike; `heads` has what was asked."""
    servers: list[asyncio.Server] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.connections += 1
        try:
            while True:
                heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
                    b'12\r\n\r\n{"items":[]}'
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def start(context: ssl.SSLContext | None = None) -> str:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return public, private


async def test_a_certificate_must_be_trusted(
    serve: Serve, certificate: tuple[Path, Path], monkeypatch: Any
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    place = await serve(context)
    transport = Transport(options_for(f"https://{place}", "tfk_x"))
    with pytest.raises(StoreUnsuitable, match="cannot be trusted"):
        await transport.send(queues.stats())
    await transport.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    transport = Transport(options_for(f"https://{place}", "tfk_x"))
    assert await transport.send(queues.stats()) == []
    await transport.close()


async def test_the_environments_proxy_is_used(serve: Serve, heads: Heads, monkeypatch: Any) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{await serve()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    transport = Transport(options_for("http://jobs.example.com", ""))
    assert await transport.send(queues.stats()) == []
    assert heads[0].startswith("GET http://jobs.example.com/api/v1/stats HTTP/1.1")
    await transport.close()


async def test_connections_are_used_again(serve: Serve, heads: Heads) -> None:
    transport = Transport(options_for(f"http://{await serve()}", "tfk_x"))
    for _ in range(5):
        await transport.send(queues.stats())
    assert (len(heads), heads.connections) == (5, 1)
    assert "authorization: bearer tfk_x" in heads[0].lower()
    await transport.close()


def test_without_httpx2_the_message_says_what_to_install(monkeypatch: Any) -> None:
    for name in [name for name in sys.modules if name.startswith("taskforge.client")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(
        StoreUnsuitable,
        match=r"httpx2 is not installed; run `pip install 'taskforge-platform\[client\]'`",
    ):
        make_engine(Settings(url="https://jobs.example.com"))
