"""Connects to whichever of a URL's hosts can be written to.

The driver takes several hosts too, but has one time limit for all of them: a machine that says
nothing at all would use it up, and the next host would never be asked. It also begins with the
first host each time, which after a failover is the one that is gone.
"""

import asyncio
import contextlib
import socket
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import asyncpg

CONNECT_SECONDS = 9.0  # whoever waits for a connection does so for a little longer
HOST_SECONDS = 3.0  # of each of several, if they are not too many
# A machine that vanished neither answers nor refuses: what was sent to it, and connections on which
# nothing is sent, are given up after about ten seconds instead of the system's many minutes.
UNHEARD_MILLISECONDS = 10_000
KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
WRITABLE = "target_session_attrs=read-write"
_FAILURES = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class NoHostServes(ConnectionError):
    """None of several hosts can be written to; says of each why."""


class Hosts:
    """The hosts of one URL, the one that served last first."""

    def __init__(self, url: str) -> None:
        self._urls = _single_urls(_with_wish(url))
        each = CONNECT_SECONDS / len(self._urls)
        self._seconds = min(HOST_SECONDS, each) if len(self._urls) > 1 else CONNECT_SECONDS

    async def connect(self, *_: object, **options: Any) -> asyncpg.Connection:
        """As the driver's own `connect`, for whose pool it stands in."""
        options["timeout"] = self._seconds
        met: list[tuple[str, Exception]] = []
        for url in tuple(self._urls):
            try:
                connection: asyncpg.Connection = await asyncpg.connect(url, **options)
            except _FAILURES as error:
                if len(self._urls) == 1 or isinstance(error, asyncpg.ClientConfigurationError):
                    raise
                met.append((url, error))
            else:
                self._prefer(url)
                _give_up_sooner(connection)
                return connection
        raise _summed_up(met)

    def _prefer(self, url: str) -> None:
        if self._urls[0] != url:
            self._urls = [url, *(other for other in self._urls if other != url)]


def _with_wish(url: str) -> str:
    """Of several hosts one is wanted that can be written to, unless the URL says otherwise."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    is_choice = "," in parts.netloc or "," in given.get("host", "")
    if not is_choice or "target_session_attrs" in given:
        return url
    query = f"{parts.query}&{WRITABLE}" if parts.query else WRITABLE
    return urlunsplit(parts._replace(query=query))


def _single_urls(url: str) -> list[str]:
    """One URL for each host, alike in all else."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    return [urlunsplit(parts._replace(netloc=f"{login}{at}{host}")) for host in hosts.split(",")]


def _summed_up(met: list[tuple[str, Exception]]) -> Exception:
    """What a server refuses for is told as it is, before what kept us from others."""
    for _, error in met:
        is_refusal = isinstance(error, asyncpg.PostgresError)
        if is_refusal and not isinstance(error, asyncpg.CannotConnectNowError):
            return error
    told = [f"{urlsplit(url).netloc.rpartition('@')[2]} {_why(error)}" for url, error in met]
    return NoHostServes("; ".join(told))


def _why(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "can only be read"
    if isinstance(error, TimeoutError):
        return "says nothing"
    return str(error) or type(error).__name__


def _give_up_sooner(connection: asyncpg.Connection) -> None:
    """Where the system has such options, and this is no local socket."""
    transport: asyncio.Transport = getattr(connection, "_transport")  # noqa: B009 - the driver has no name for it
    found = transport.get_extra_info("socket")
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if (option := getattr(socket, name, None)) is not None:
                found.setsockopt(socket.IPPROTO_TCP, option, value)
        if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
            found.setsockopt(socket.IPPROTO_TCP, option, UNHEARD_MILLISECONDS)
