"""HTTP as it comes over the wire, before it is a request: a head must come soon and be short, and what is not HTTP is told so."""

import asyncio
import logging
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskforge.api.front import MAX_HEAD_BYTES, SECURITY, full
from taskforge.api.problems import MEDIA_TYPE, Problem

logger = logging.getLogger("taskforge.api")
# A connection that does not say what it wants holds a place: a thousand of them would hold them all.
HEAD_SECONDS = 10.0
_LINES = {400: b"HTTP/1.1 400 Bad Request\r\n", 408: b"HTTP/1.1 408 Request Timeout\r\n", 431: b"HTTP/1.1 431 Too Large\r\n"}


class Wire(HttpToolsProtocol):
    _waiting: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _began_just_now = False
    _came_late = False  # when all connections were taken

    def __init__(self, *details: Any, **more: Any) -> None:
        super().__init__(*details, **more)
        self._most, self.limit_concurrency = self.limit_concurrency or 0, None  # uvicorn's own answer is no problem document

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._came_late = len(self.connections) > self._most
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._began_just_now = False
        super().data_received(data)
        # What began within this piece may be the smaller part of it; its next piece counts.
        if self._waiting is not None and not self._began_just_now:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, "too-long", f"the request's head is longer than {MAX_HEAD_BYTES // 1024} KiB")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes, self._began_just_now = 0, True
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._arrived()
        is_full = self._came_late or len(self.tasks) > self._most
        self.app = full if is_full else self.config.loaded_app
        if is_full:
            logger.warning("all %d connections are taken (max_connections); a request was refused", self._most)
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "malformed", msg)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _arrived(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_slow(self) -> None:
        self._refuse(408, "too-slow", f"the request's head did not come within {HEAD_SECONDS:.0f} s")

    def _refuse(self, status: int, slug: str, detail: str) -> None:
        self._arrived()
        if self.transport.is_closing():
            return
        problem = Problem(
            type=f"urn:taskforge:problem:{slug}", title="The request cannot be read", status=status, detail=detail, request_id="-"
        )
        body = msgspec.json.encode(problem)
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        lines = [b"%s: %s\r\n" % pair for pair in (*headers, *SECURITY)]
        self.transport.write(b"".join([_LINES[status], *lines, b"\r\n", body]))
        self.transport.close()
