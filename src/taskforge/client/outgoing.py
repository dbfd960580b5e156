"""The one door through which the platform sends to addresses that tenants name. It looks up the
name itself when it connects, judges every address that the name stands for, and connects to one of
those: a name that means something else a moment later (rebinding) changes nothing. It follows no
redirect, uses no proxy, keeps no cookies, and keeps little of an answer.

A private address, or any without encryption, is reached only where the platform's owner opened its
network (the setting `outgoing_networks`)."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import httpcore2
import httpx2
import msgspec

from taskforge.domain.addresses import Address, Network
from taskforge.domain.errors import Invalid
from taskforge.domain.targets import (
    TargetFailed,
    TargetRefused,
    check_target,
    read_address,
    refusal,
)
from taskforge.version import __version__

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0  # for all of an exchange
MOST_KEPT = 4_096  # bytes of an answer
MOST_AT_ONCE = 64
MOST_TRIED = 4  # addresses of one name
LOOKUPS_EACH = 3  # for each request at once: some are still under way when theirs is over
_IDLE_SECONDS = 5.0
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_Option = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class OutgoingAnswer(msgspec.Struct, frozen=True):
    """What came back: the status, and the beginning of the body."""

    status: int
    body: bytes
    is_cut: bool  # the body was longer
    seconds: float
    retry_after: str | None = None  # the header, as it came

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class OutgoingDoor:
    """For one event loop; close it when done."""

    def __init__(
        self,
        opened: Sequence[Network] = (),
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
        seconds: float = ANSWER_SECONDS,
        most_kept: int = MOST_KEPT,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        """`opened`: networks that may be reached although they are private, and without
        encryption."""
        self._opened = tuple(opened)
        self._seconds = seconds
        self._most_kept = most_kept
        self._lookups = 0  # under way
        self._resolve = resolve or self._look_up
        self._tls = tls
        self._most_at_once = most_at_once
        self._pools: dict[str, httpcore2.AsyncConnectionPool] = {}

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> OutgoingAnswer:
        return await self.send("POST", url, body, headers)

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> OutgoingAnswer:
        """One request, once. `TargetRefused`: the platform does not go there. `TargetFailed`: no
        answer came, and whether the request arrived is not known."""
        try:
            check_target("url", url, self._opened)
        except Invalid as error:
            raise TargetRefused(str(error)) from None
        sent = {
            "user-agent": f"taskforge/{__version__}",
            "accept-encoding": "identity",
            **(headers or {}),
        }
        limits = dict.fromkeys(("read", "write", "pool"), self._seconds)
        pool = self._pool(url.partition(":")[0].lower())
        began = time.monotonic()
        try:
            async with (
                asyncio.timeout(self._seconds),
                pool.stream(
                    method,
                    url,
                    headers=[(name.encode(), value.encode()) for name, value in sent.items()],
                    content=body,
                    extensions={"timeout": {"connect": CONNECT_SECONDS, **limits}},
                ) as response,
            ):
                kept, is_cut = await self._read(response)
        except (TimeoutError, httpcore2.TimeoutException):
            raise TargetFailed(f"no whole answer within {self._seconds:g} s") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            raise TargetFailed(_words_of(error)) from None
        given = {name.lower(): value for name, value in response.headers}
        retry_after = given.get(b"retry-after")
        return OutgoingAnswer(
            response.status,
            kept,
            is_cut,
            time.monotonic() - began,
            None if retry_after is None else retry_after[:100].decode("latin-1"),
        )

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()

    async def _read(self, response: httpcore2.Response) -> tuple[bytes, bool]:
        """Not more than is kept: what is behind that is left unread, and its connection is
        closed."""
        kept = bytearray()
        async for part in response.aiter_stream():
            kept += part
            if len(kept) > self._most_kept:
                return bytes(kept[: self._most_kept]), True
        return bytes(kept), False

    def _pool(self, scheme: str) -> httpcore2.AsyncConnectionPool:
        """One for each scheme: what is not encrypted goes to opened networks alone."""
        if scheme not in self._pools:
            judge = self._judge if scheme == "https" else self._judge_unencrypted
            if scheme == "https" and self._tls is None:
                self._tls = httpx2.create_ssl_context()
            self._pools[scheme] = httpcore2.AsyncConnectionPool(
                ssl_context=self._tls,
                max_connections=self._most_at_once,
                max_keepalive_connections=self._most_at_once // 4,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=_JudgingBackend(self._find, judge),
            )
        return self._pools[scheme]

    def _judge(self, address: Address) -> str | None:
        return refusal(address, self._opened)

    def _judge_unencrypted(self, address: Address) -> str | None:
        if any(address in network for network in self._opened):
            return None
        return f"{address}, which is not reached without encryption"

    async def _find(self, host: str, port: int) -> Sequence[str]:
        return [host] if read_address(host) is not None else await self._resolve(host, port)

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        """In a thread of its own. A lookup cannot be broken off: its thread may outlive the
        request, whose others need not wait for it, and neither does the process when it ends."""
        if self._lookups >= LOOKUPS_EACH * self._most_at_once:
            raise TargetFailed(f"{host} cannot be looked up: too many others are")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()

        def settle(addresses: list[str] | None, error: Exception | None) -> None:
            self._lookups -= 1
            if found.done():
                return
            if error is not None:
                told = f"{host} cannot be looked up: {_words_of(error)}"
                found.set_exception(TargetFailed(told))
            else:
                found.set_result(addresses or [])

        def look() -> None:
            addresses, failure = None, None
            try:
                each = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(address[0]) for *_, address in each))
            except (OSError, UnicodeError) as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, addresses, failure)

        self._lookups += 1
        threading.Thread(target=look, name="outgoing lookup", daemon=True).start()
        return await found


class _JudgingBackend(httpcore2.AsyncNetworkBackend):
    """Makes the connections of a pool, each to an address that was judged just before."""

    def __init__(self, find: Resolve, judge: Callable[[Address], str | None]) -> None:
        self._find = find
        self._judge = judge
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[_Option] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = [self._judged(host, text) for text in await self._find(host, port)]
        if not addresses:
            raise TargetFailed(f"{host} stands for no address")
        failure: Exception | None = None
        for address in addresses[:MOST_TRIED]:
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002 - as the interface has it
        socket_options: Iterable[_Option] | None = None,  # noqa: ARG002
    ) -> httpcore2.AsyncNetworkStream:
        raise TargetRefused(f"{path} is no address of a host")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    def _judged(self, host: str, text: str) -> str:
        """The address in the form that means nothing but itself."""
        address = read_address(text)
        why = f"{text!r}, which is no address" if address is None else self._judge(address)
        if why is not None:
            raise TargetRefused(f"{host} stands for {why}")
        return str(address)


def _words_of(error: BaseException) -> str:
    return str(error) or type(error).__name__
