"""Compresses answers for those who take them so. What is large is compressed in a thread: on the
event loop a page of 4 MiB would keep everybody else waiting."""

import asyncio
import gzip
from typing import Any

from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES = 1_000
LEVEL = 5
IN_THREAD_BYTES = 32 * 1024


class Compression(ASGIMiddleware):
    """Of answers that come in one piece; streams go as they are."""

    exclude_path_pattern = ("/events$",)

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
                large = len(body) >= IN_THREAD_BYTES
                body = await asyncio.to_thread(_compress, body) if large else _compress(body)
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


def _compress(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)
