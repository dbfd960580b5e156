"""Serves the API with uvicorn inside a process that may have other things to do."""

import asyncio
import contextlib
import ctypes
import socket
from collections.abc import Iterator

import uvicorn

from taskforge.api.app import build
from taskforge.api.entry.http_protocol import HttpProtocol, WireConfig
from taskforge.domain.errors import Invalid
from taskforge.operations.platform import Platform

# glibc's mallopt: what is larger has pages of its own, which go back when it is freed.
_MMAP_THRESHOLD, _OWN_PAGES_BYTES = -3, 1 << 20


class _Guest(uvicorn.Server):
    """Signals belong to whoever runs us; and they want to know when we are there."""

    def __init__(self, config: uvicorn.Config, there: asyncio.Event) -> None:
        super().__init__(config)
        self._there = there

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._there.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ApiServer:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._socket: socket.socket | None = None
        self._server: _Guest | None = None
        self._is_told_to_stop = False
        self.address: str | None = None  # once it is bound
        self.started = asyncio.Event()

    def bind(self, *, or_any: bool = False) -> str:
        """Take the port; the address that was taken. `or_any`: when the port is in use, any other
        will do."""
        settings = self._platform.settings
        try:
            self._socket = _bound(settings.host, settings.port)
        except OSError as error:
            if not or_any:
                raise Invalid(
                    "port",
                    f"{settings.host}:{settings.port} cannot be used ({error.strerror})",
                    "use another --port",
                ) from None
            self._socket = _bound(settings.host, 0)
        self.address = (
            settings.public_url
            or f"http://{_written(settings.host)}:{self._socket.getsockname()[1]}"
        )
        return self.address

    async def run(self) -> None:
        """Until stopped; requests that are under way end first."""
        assert self._socket is not None
        _return_large_memory()
        settings = self._platform.settings
        config = WireConfig(
            build(self._platform),
            shares=self._platform.shares,
            proxies=settings.proxies,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            http=HttpProtocol,
            limit_concurrency=settings.max_connections,
        )
        self._server = _Guest(config, self.started)
        self._server.should_exit = self._is_told_to_stop
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        self._is_told_to_stop = True
        self._platform.end_waits()
        if self._server is not None:
            self._server.should_exit = True


def _return_large_memory() -> None:
    """glibc raises its threshold to the largest buffer that was freed, and keeps such buffers from
    then on: a body of 7 MiB left a server with three times that. Other libraries have no such
    thing."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _OWN_PAGES_BYTES)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio sets TCP_NODELAY on what says so, and without it an answer on a kept
    # connection waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(2048)
    except BaseException:
        made.close()
        raise
    return made


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host
