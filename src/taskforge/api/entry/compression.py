"""Compresses answers for those who take them so. What is large is compressed in a thread: on the
event loop a page of 4 MiB would keep everybody else waiting. In one thread, in turn: several at
once would leave the event loop no processor (four pages at once, a bystander's p99 on two cores:
99 ms)."""

import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES = 1_000
LEVEL = 5
IN_THREAD_BYTES = 32 * 1024
LEVEL_IN_THREAD = 1  # a third of the time, for a tenth more bytes


class Compression(ASGIMiddleware):
    """Of answers that come in one piece; streams go as they are."""

    exclude_path_pattern = ("/events$",)

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="taskforge-compression")

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        accepted = dict(scope["headers"]).get(b"accept-encoding", b"")
        if b"gzip" not in accepted:
            await next_app(scope, receive, send)
            return
        start: Any = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is None or message["type"] != "http.response.body":
                await send(message)
                return
            body = message["body"]
            begun, start = start, None
            names = {name.lower() for name, _ in begun["headers"]}
            if (
                not message.get("more_body")
                and len(body) >= LEAST_BYTES
                and b"content-encoding" not in names
            ):
                body = await self._compress(body)
                begun["headers"] = [
                    *(pair for pair in begun["headers"] if pair[0].lower() != b"content-length"),
                    (b"content-length", b"%d" % len(body)),
                    (b"content-encoding", b"gzip"),
                    (b"vary", b"Accept-Encoding"),
                ]
                message["body"] = body
            await send(begun)
            await send(message)

        await next_app(scope, receive, send_compressed)

    async def _compress(self, body: bytes) -> bytes:
        if len(body) < IN_THREAD_BYTES:
            return gzip.compress(body, LEVEL, mtime=0)
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: gzip.compress(body, LEVEL_IN_THREAD, mtime=0)
        )
