"""HTTP as it comes over the wire, before it is a request: a head must come soon and be short, and
what is not HTTP is told so."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskforge.api.entry.front import FULL_SECONDS, SECURITY, full
from taskforge.api.entry.heads import MAX_HEAD_BYTES
from taskforge.api.entry.problems import MEDIA_TYPE, Problem
from taskforge.domain.addresses import Network, is_among
from taskforge.operations.limits.connection_limits import AddressShare, AddressShares

logger = logging.getLogger("taskforge.api")
# A connection that does not say what it wants holds a place: a thousand of them would hold them
# all.
HEAD_SECONDS = 10.0
_LINES = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    429: b"HTTP/1.1 429 Too Many Requests\r\n",
    431: b"HTTP/1.1 431 Too Large\r\n",
}
_TITLES = {429: "Too many connections"}
_WARN_EVERY_SECONDS = 60.0


class WireConfig(uvicorn.Config):
    """With how many connections an address may hold, and whose connections are not counted because
    they bring the requests of others."""

    def __init__(
        self, app: Any, *, shares: AddressShares, proxies: Sequence[Network], **options: Any
    ) -> None:
        super().__init__(app, proxy_headers=False, **options)
        self.shares = shares
        self.proxies = proxies
        self.warned_at = float("-inf")


class HttpProtocol(HttpToolsProtocol):
    _waiting: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _began_just_now = False
    _came_late = False  # when all connections were taken
    _share: AddressShare | None = None
    config: WireConfig

    def __init__(self, *details: Any, **more: Any) -> None:
        super().__init__(*details, **more)
        # uvicorn's own answer is no problem document
        self._most, self.limit_concurrency = self.limit_concurrency or 0, None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._came_late = len(self.connections) > self._most
        address = self.client[0] if self.client else ""
        if address and not is_among(address, self.config.proxies):
            self._share = self.config.shares.take(address)
            if self._share is None:
                self._refuse_address(address)
                return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        if self._share is not None:
            self._share.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._began_just_now = False
        super().data_received(data)
        # What began within this piece may be the smaller part of it; its next piece counts.
        if self._waiting is not None and not self._began_just_now:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(
                    431,
                    "too-long",
                    f"the request's head is longer than {MAX_HEAD_BYTES // 1024} KiB",
                )

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
            logger.warning(
                "all %d connections are taken (max_connections); a request was refused", self._most
            )
        scope: Any = self.scope
        scope["share"] = self._share
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
        self._refuse(
            408, "too-slow", f"the request's head did not come within {HEAD_SECONDS:.0f} s"
        )

    def _refuse_address(self, address: str) -> None:
        """At once, before it says anything: whoever waits to be refused holds a place too."""
        most = self.config.shares.of_address
        if self.loop.time() - self.config.warned_at > _WARN_EVERY_SECONDS:
            self.config.warned_at = self.loop.time()
            logger.warning(
                "%s holds %d connections, which is its share (connections_per_address); more are "
                "refused. If it is a proxy of yours, name it in trusted_proxies",
                address,
                most,
            )
        self._refuse(
            429,
            "crowded",
            f"your address holds {most:,} connections of this server, which is its share; "
            f"end some, or wait",
        )

    def _refuse(self, status: int, slug: str, detail: str) -> None:
        self._arrived()
        if self.transport.is_closing():
            return
        problem = Problem(
            type=f"urn:taskforge:problem:{slug}",
            title=_TITLES.get(status, "The request cannot be read"),
            status=status,
            detail=detail,
            request_id="-",
        )
        body = msgspec.json.encode(problem)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *([(b"retry-after", b"%d" % FULL_SECONDS)] if status == 429 else ()),
        ]
        lines = [b"%s: %s\r\n" % pair for pair in (*headers, *SECURITY)]
        self.transport.write(b"".join([_LINES[status], *lines, b"\r\n", body]))
        self.transport.close()
