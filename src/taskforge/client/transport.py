"""Sends requests, async or sync: TLS, proxies from the environment, connections that are used
again, and another try where that is safe. What a request is, and what its answer means, is decided
elsewhere, once for both."""

import asyncio
import logging
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from taskforge.client.problems import AnswerLost, error_of
from taskforge.client.requests import ROOT, Request, answer, wait_before_repeat
from taskforge.domain.errors import Invalid, StoreUnavailable, StoreUnsuitable, TaskForgeError
from taskforge.telemetry.outage import Outage
from taskforge.telemetry.tracing import trace_headers
from taskforge.version import __version__

T = TypeVar("T")
logger = logging.getLogger("taskforge.client")
CONNECT_SECONDS = 5.0
QUIET_SECONDS = 45.0  # a stream of events says something every 15 s
_chatter = logging.getLogger("httpx2")
if _chatter.level == logging.NOTSET:
    # it tells of every request, and a worker makes many: they would be in its jobs' logs too
    _chatter.setLevel(logging.WARNING)
# The server lets idle connections go after 30 s: ours go first, so that no request meets one that
# is about to close.
_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=20.0)
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_AWAY = (502, 503, 504)
_LOCAL = ("localhost", "127.0.0.1", "::1")


def options_for(url: str, token: str, verify: ssl.SSLContext | bool = True) -> dict[str, Any]:
    """How either client of httpx2 is made."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Invalid("url", f"is {url!r}", "use an address such as https://jobs.example.com")
    if token and parts.scheme == "http" and parts.hostname not in _LOCAL:
        logger.warning("the token goes to %s without encryption; use https", parts.hostname)
    headers = {"user-agent": f"taskforge/{__version__}", "accept": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    base = url.rstrip("/")
    return {
        "base_url": base,
        "headers": headers,
        "limits": _LIMITS,
        "verify": verify,
        "trust_env": True,
    }


class Transport:
    """For one event loop."""

    def __init__(
        self, options: dict[str, Any], chance: Callable[[], float] = random.random
    ) -> None:
        self._client = httpx2.AsyncClient(**options)
        self._chance = chance
        self.outage = Outage()

    async def send(self, request: Request[T]) -> T:
        sent = 0
        while True:
            sent += 1
            try:
                return await self._once(request)
            except TaskForgeError as error:
                wait = wait_before_repeat(request, sent, error, self._chance())
                if wait is None:
                    raise
                logger.debug("%s %s is sent again: %s", request.method, request.path, error)
            await asyncio.sleep(wait)

    async def _once(self, request: Request[T]) -> T:
        try:
            found = await self._client.request(request.method, request.target, **_parts(request))
        except httpx2.HTTPError as error:
            refused = _failure(error, self._client.base_url)
            if isinstance(refused, StoreUnavailable):
                broken = isinstance(
                    error, httpx2.NetworkError | httpx2.RemoteProtocolError
                ) and isinstance(refused, AnswerLost)
                self.outage.meet(
                    refused, unreachable=not isinstance(refused, AnswerLost), broken=broken
                )
            raise refused from None
        if 200 <= found.status_code < 300:
            self.outage.serve()
            self.outage.is_watching = True
        elif found.status_code in _AWAY:
            self.outage.meet(error_of(found.status_code, found.headers, found.content))
        return answer(request, found.status_code, found.headers, found.content)

    async def lines(self, path: str, headers: dict[str, str]) -> AsyncIterator[str]:
        """Those of an answer that goes on; it ends where the server ends it."""
        timeout = httpx2.Timeout(QUIET_SECONDS, connect=CONNECT_SECONDS)
        accept = {"accept": "text/event-stream", **headers}
        try:
            async with self._client.stream(
                "GET", ROOT + path, headers=accept, timeout=timeout
            ) as found:
                if found.status_code != 200:
                    body = await found.aread()
                    raise error_of(found.status_code, found.headers, body)
                async for line in found.aiter_lines():
                    yield line
        except httpx2.HTTPError as error:
            raise _failure(error, self._client.base_url) from None

    async def close(self) -> None:
        self.outage.is_watching = False
        await self._client.aclose()


class SyncTransport:
    def __init__(
        self, options: dict[str, Any], chance: Callable[[], float] = random.random
    ) -> None:
        self._client = httpx2.Client(**options)
        self._chance = chance

    def send(self, request: Request[T]) -> T:
        sent = 0
        while True:
            sent += 1
            try:
                return self._once(request)
            except TaskForgeError as error:
                wait = wait_before_repeat(request, sent, error, self._chance())
                if wait is None:
                    raise
            time.sleep(wait)

    def _once(self, request: Request[T]) -> T:
        try:
            found = self._client.request(request.method, request.target, **_parts(request))
        except httpx2.HTTPError as error:
            raise _failure(error, self._client.base_url) from None
        return answer(request, found.status_code, found.headers, found.content)

    def close(self) -> None:
        self._client.close()


def _parts(request: Request[Any]) -> dict[str, Any]:
    headers = dict(request.headers) | trace_headers()
    if request.body is not None:
        headers["content-type"] = "application/json"
    timeout = httpx2.Timeout(request.seconds, connect=CONNECT_SECONDS)
    return {"content": request.body, "headers": headers, "timeout": timeout}


def _failure(error: httpx2.HTTPError, url: httpx2.URL) -> TaskForgeError:
    """What never left can be sent again; of what did, nobody knows."""
    place = f"{url.scheme}://{url.netloc.decode().rpartition('@')[2]}"
    why = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return StoreUnsuitable(
                f"the certificate of {place} cannot be trusted: {cause.verify_message}"
            )
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return Invalid(
            "url", f"cannot be used ({why})", "use an address such as https://jobs.example.com"
        )
    if isinstance(error, _NOT_SENT):
        return StoreUnavailable(f"cannot connect to {place}: {why}")
    return AnswerLost(f"the connection to {place} broke: {why}")
