"""Serves the API with uvicorn inside a process that may have other things to do."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn

from taskforge.api.app import build
from taskforge.api.backend import Backend
from taskforge.api.wire import Wire
from taskforge.domain.access import KEY_PERMISSIONS, PLATFORM_ORGANIZATION, system
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.settings import is_loopback
from taskforge.storage.engine import Engine

logger = logging.getLogger("taskforge.api")
OWNER = "owner@localhost"
_SYSTEM = Note("system", "first.start", PLATFORM_ORGANIZATION)


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
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._socket: socket.socket | None = None
        self._server: _Guest | None = None
        self._is_told_to_stop = False
        self.started = asyncio.Event()

    def bind(self, *, or_any: bool = False) -> str:
        """Take the port; the address that was taken. `or_any`: when the port is in use, any other will do."""
        settings = self._backend.settings
        try:
            self._socket = _bound(settings.host, settings.port)
        except OSError as error:
            if not or_any:
                raise Invalid(
                    "port", f"{settings.host}:{settings.port} cannot be used ({error.strerror})", "use another --port"
                ) from None
            self._socket = _bound(settings.host, 0)
        return settings.public_url or f"http://{_written(settings.host)}:{self._socket.getsockname()[1]}"

    async def run(self) -> None:
        """Until stopped; requests that are under way end first."""
        assert self._socket is not None
        config = uvicorn.Config(
            build(self._backend),
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            http=Wire,
            limit_concurrency=self._backend.settings.max_connections,
        )
        self._server = _Guest(config, self.started)
        self._server.should_exit = self._is_told_to_stop
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        self._is_told_to_stop = True
        self._backend.end_waits()
        if self._server is not None:
            self._server.should_exit = True


async def first_credentials(backend: Backend, address: str) -> tuple[str, str] | None:
    """On the first start: a one-time login link and an API key, which nobody sees again."""
    if not await backend.accounts.is_first_start():
        return None
    token = await backend.accounts.login_secret(OWNER, PLATFORM_ORGANIZATION, _SYSTEM)
    return f"{address}/login?token={token}", await make_key(backend, "first key")


async def make_key(backend: Backend, name: str) -> str:
    """A key with every right in the first organization, for whoever has the store in hand."""
    _, secret = await backend.keys.create(system(), None, name, "key", sorted(KEY_PERMISSIONS), None, _SYSTEM)
    return secret


async def check_safe(engine: Engine, host: str) -> None:
    """A server that others can reach does not run with the database's superuser: that walks through every wall."""
    is_superuser = getattr(engine, "is_superuser", None)
    if is_superuser is None or not await is_superuser():
        return
    if is_loopback(host):
        logger.warning("connected to PostgreSQL as a superuser; use a role of its own before others can reach this server")
        return
    raise StoreUnsuitable(
        "the server would connect to PostgreSQL as a superuser, past every wall; use a role of its own, or listen on 127.0.0.1"
    )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio sets TCP_NODELAY on what says so, and without it an answer on a kept connection waits 40 ms.
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
