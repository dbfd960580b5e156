"""A receiver of webhooks on loopback, which answers as it is told."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec


class Received(msgspec.Struct, frozen=True):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """By the text of the specification alone: nothing of ours is used here."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{expected}" in self.headers["webhook-signature"].split(" ")


Respond = Callable[[Received], Awaitable[bytes]]


def answer(status: int, body: str = "", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Said"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(body.encode())}", "connection: close", "", body]
    return "\r\n".join(lines).encode()


class WebhookReceiver:
    def __init__(self) -> None:
        self.port = 0
        self.received: list[Received] = []
        self.status = 200
        self.respond: Respond = self._respond
        self.came = asyncio.Event()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def wait(self, count: int) -> list[Received]:
        while len(self.received) < count:
            self.came.clear()
            await self.came.wait()
        return self.received

    async def _respond(self, _received: Received) -> bytes:
        return answer(self.status, "as told")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                pairs = (line.partition(": ") for line in head[1:] if line)
                headers = {name.lower(): value for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                received = Received(head[0].split(" ")[1], headers, body)
                self.received.append(received)
                self.came.set()
                writer.write(await self.respond(received))
                await writer.drain()
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    tasks: set[asyncio.Task[None]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(receiver.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
