"""The composition root: the only module that names concrete engines."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.settings import Settings, check_sqlite_url
from taskforge.storage.engine import Engine
from taskforge.worker.source import WorkSource

if TYPE_CHECKING:
    from taskforge.api.backend import Backend
    from taskforge.api.oidc import Fetch
    from taskforge.api.server import ApiServer


def make_engine(settings: Settings, *, walled: bool = False) -> Engine:
    """The engine for a URL, not yet open. Drivers are imported only when they are needed.

    `walled` lets the database itself keep projects apart in what is read, where it can (PostgreSQL)."""
    settings = _with_project_of_url(settings)
    scheme = urlsplit(settings.url).scheme
    if scheme == "sqlite":
        from taskforge.storage.sqlite.engine import SqliteEngine

        return SqliteEngine(
            sqlite_path(settings.url),
            durable=settings.durable,
            project=settings.project,
            heartbeat_timeout_seconds=settings.silence_seconds,
        )
    if scheme in ("postgresql", "postgres"):
        try:
            from taskforge.storage.postgres.engine import PostgresEngine
        except ModuleNotFoundError as error:
            raise StoreUnsuitable(f"{error.name} is not installed; run `pip install 'taskforge-platform[postgres]'`") from None
        return PostgresEngine(
            settings.url,
            schema=settings.schema,
            poll_only=settings.poll_only,
            pool_size=settings.pool_size,
            project=settings.project,
            walled=walled,
            heartbeat_timeout_seconds=settings.silence_seconds,
        )
    if scheme in ("http", "https"):
        try:
            from taskforge.client.remote import RemoteEngine
        except ModuleNotFoundError as error:
            raise StoreUnsuitable(f"{error.name} is not installed; run `pip install 'taskforge-platform[client]'`") from None
        return RemoteEngine(settings.url, settings.token)
    expected = "use sqlite:///path/to/file.db, postgresql://user@host/database or https://server"
    raise Invalid("url", f"begins with {scheme or 'nothing'!r}", expected)


def _with_project_of_url(settings: Settings) -> Settings:
    """`postgresql://…/database?project=mail` says it too, and goes before the setting."""
    base, _, query = settings.url.partition("?")
    given = parse_qsl(query)
    named = [value for name, value in given if name == "project"]
    if not named:
        return settings
    rest = urlencode([(name, value) for name, value in given if name != "project"])
    return msgspec.structs.replace(settings, url=f"{base}?{rest}" if rest else base, project=named[-1])


def with_absolute_path(settings: Settings) -> Settings:
    """A relative SQLite file is where the process is now, wherever it goes later."""
    if not settings.url.lower().startswith("sqlite:///") or len(urlsplit(settings.url).path) < 2:
        return settings
    path = sqlite_path(settings.url)
    if path.is_absolute():
        return settings
    _, mark, query = settings.url.partition("?")
    return msgspec.structs.replace(settings, url=f"sqlite:///{quote(str(path.absolute()))}{mark}{query}")


def is_remote(settings: Settings) -> bool:
    """Whether the jobs are behind a server, which does its own upkeep."""
    return urlsplit(settings.url).scheme in ("http", "https")


def remote_source(engine: Engine) -> WorkSource | None:
    """Where a worker gets its jobs when they are behind a server."""
    transport = getattr(engine, "transport", None)
    if transport is None:
        return None
    from taskforge.worker.http_source import HttpSource

    return HttpSource(transport)


class Made(msgspec.Struct, frozen=True):
    """A server that is ready to be bound and run."""

    backend: "Backend"
    server: "ApiServer"

    async def first_credentials(self, address: str) -> tuple[str, str] | None:
        from taskforge.api.server import first_credentials

        return await first_credentials(self.backend, address)


async def make_server(engine: Engine, settings: Settings) -> Made:
    """The REST API on an open engine."""
    if is_remote(settings):
        raise StoreUnsuitable(
            "this needs the store itself, and the jobs are behind a server",
            "run it where the server's store can be reached, with that --url; keys are also made over HTTP, by POST /api/v1/keys",
        )
    try:
        from taskforge.api.backend import Backend
        from taskforge.api.server import ApiServer, check_safe
    except ModuleNotFoundError as error:
        raise StoreUnsuitable(f"{error.name} is not installed; run `pip install 'taskforge-platform[server]'`") from None
    await check_safe(engine, settings.host)
    backend = await Backend.open(engine, engine, settings, fetch=_provider_fetch(settings))
    return Made(backend, ApiServer(backend))


def _provider_fetch(settings: Settings) -> "Fetch | None":
    """How the server reaches the provider of single sign-on, where one is set."""
    if not settings.has_single_sign_on():
        return None
    try:
        from taskforge.client.fetch import fetch
    except ModuleNotFoundError as error:
        raise StoreUnsuitable(f"{error.name} is not installed; run `pip install 'taskforge-platform[oidc]'`") from None
    return fetch


def make_temporary_engine(path: Path, clock: Callable[[], datetime]) -> Engine:
    """The engine for users' tests: quick, because nothing in it outlives them, and with a clock that they can move."""
    from taskforge.storage.sqlite.engine import SqliteEngine

    return SqliteEngine(path, durable=False, clock=clock)


def sqlite_path(url: str) -> Path:
    """sqlite:///relative.db and sqlite:////absolute.db, as everyone writes them."""
    check_sqlite_url("url", url)
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or len(parts.path) < 2:
        raise Invalid("url", f"is {url!r}", "use sqlite:///relative.db or sqlite:////absolute/path.db (three or four slashes)")
    return Path(unquote(parts.path[1:]))
