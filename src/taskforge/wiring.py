"""The composition root: the only module that names concrete engines."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.domain.node import ClusterState
from taskforge.domain.urls import check_sqlite_url
from taskforge.operations.bulk import StoreBulkChanges
from taskforge.operations.failures import StoreFailures
from taskforge.operations.scaling import StoreScaling
from taskforge.operations.store_metrics import StoreMetrics
from taskforge.operations.work.completion import StoreSource
from taskforge.ports.alerts import AlertRules
from taskforge.ports.bulk import BulkChanges
from taskforge.ports.circuits import Circuits
from taskforge.ports.engine import AnyEngine, Engine, is_store
from taskforge.ports.failures import Failures
from taskforge.ports.metrics import MetricsSource
from taskforge.ports.scaling import Scaling
from taskforge.ports.schedules import Schedules
from taskforge.ports.webhooks import WebhookDoor
from taskforge.ports.work_source import WorkSource
from taskforge.settings import Settings
from taskforge.storage.event_sums import TICK_SECONDS
from taskforge.storage.records.alerts import AlertRecords
from taskforge.storage.records.circuits import CircuitRecords
from taskforge.storage.records.schedules import ScheduleRecords
from taskforge.storage.records.webhooks import WebhookRecords

if TYPE_CHECKING:
    from taskforge.api.server import ApiServer
    from taskforge.client.outgoing import OutgoingDoor
    from taskforge.operations.access.oidc import Fetch
    from taskforge.operations.platform import Platform


def make_engine(settings: Settings) -> AnyEngine:
    """The engine for a URL, not yet open: a store, or a server in front of one."""
    if not is_remote(settings):
        return make_store(settings)
    try:
        from taskforge.client.remote import RemoteEngine
    except ModuleNotFoundError as error:
        raise _needs_the_extra("client", error) from None
    return RemoteEngine(_with_project_of_url(settings).url, settings.token)


def make_store(settings: Settings, *, walled: bool = False) -> Engine:
    """The engine for the URL of a store, not yet open. Drivers are imported only when they are
    needed.

    `walled` lets the database itself keep projects apart in what is read, where it can
    (PostgreSQL)."""
    if is_remote(settings):
        raise _needs_the_store()
    settings = _with_project_of_url(settings)
    scheme = urlsplit(settings.url).scheme
    if scheme == "sqlite":
        from taskforge.storage.sqlite.engine import SqliteEngine

        return SqliteEngine(
            sqlite_path(settings.url),
            durable=settings.durable,
            project=settings.project,
            heartbeat_timeout_seconds=settings.silence_seconds,
            tell_seconds=TICK_SECONDS,
        )
    if scheme in ("postgresql", "postgres"):
        try:
            from taskforge.storage.postgres.engine import PostgresEngine
        except ModuleNotFoundError as error:
            raise _needs_the_extra("postgres", error) from None
        return PostgresEngine(
            settings.url,
            schema=settings.schema,
            poll_only=settings.poll_only,
            pool_size=settings.pool_size,
            project=settings.project,
            walled=walled,
            heartbeat_timeout_seconds=settings.silence_seconds,
            tell_seconds=TICK_SECONDS,
        )
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
    return msgspec.structs.replace(
        settings, url=f"{base}?{rest}" if rest else base, project=named[-1]
    )


def with_absolute_path(settings: Settings) -> Settings:
    """A relative SQLite file is where the process is now, wherever it goes later."""
    if not settings.url.lower().startswith("sqlite:///") or len(urlsplit(settings.url).path) < 2:
        return settings
    path = sqlite_path(settings.url)
    if path.is_absolute():
        return settings
    _, mark, query = settings.url.partition("?")
    return msgspec.structs.replace(
        settings, url=f"sqlite:///{quote(str(path.absolute()))}{mark}{query}"
    )


def is_remote(settings: Settings) -> bool:
    """Whether the jobs are behind a server, which does its own upkeep."""
    return urlsplit(settings.url).scheme in ("http", "https")


def _needs_the_store() -> StoreUnsuitable:
    return StoreUnsuitable(
        "this needs the store itself, and the jobs are behind a server",
        "run it where the server's store can be reached, with that --url; keys are also made "
        "over HTTP, by POST /api/v1/keys",
    )


def _needs_the_extra(extra: str, error: ModuleNotFoundError) -> StoreUnsuitable:
    return StoreUnsuitable(
        f"{error.name} is not installed; run `pip install 'taskforge-platform[{extra}]'`"
    )


def work_source(engine: AnyEngine, *, standing: bool = False) -> WorkSource:
    """Where a worker gets its jobs. `standing`: see `StoreSource`."""
    if is_store(engine):
        return StoreSource(engine, engine.home, standing=standing)
    from taskforge.client.remote import RemoteEngine
    from taskforge.worker.http_source import HttpSource

    assert isinstance(engine, RemoteEngine)
    return HttpSource(engine.transport)


class Made(msgspec.Struct, frozen=True):
    """A server that is ready to be bound and run."""

    platform: "Platform"
    server: "ApiServer"

    async def first_credentials(self, address: str) -> tuple[str, str] | None:
        from taskforge.operations.access.first_start import first_credentials

        return await first_credentials(self.platform, address)


async def make_server(engine: AnyEngine, settings: Settings) -> Made:
    """The REST API on an open engine."""
    if not is_store(engine):
        raise _needs_the_store()
    try:
        from taskforge.api.server import ApiServer
        from taskforge.operations.audit import tell_unkeyed
    except ModuleNotFoundError as error:
        raise _needs_the_extra("server", error) from None
    platform = await make_platform(engine, settings)
    tell_unkeyed(settings)
    return Made(platform, ApiServer(platform))


async def make_platform(engine: AnyEngine, settings: Settings) -> "Platform":
    """Accounts, keys and all else that a server works with, on an open engine and without a
    server."""
    if not is_store(engine):
        raise _needs_the_store()
    try:
        from taskforge.operations.platform import Platform, check_safe
    except ModuleNotFoundError as error:
        raise _needs_the_extra("server", error) from None
    await check_safe(engine, settings.host)
    return await Platform.open(engine, settings, fetch=_provider_fetch(settings))


def _provider_fetch(settings: Settings) -> "Fetch | None":
    """How the server reaches the provider of single sign-on, where one is set."""
    if not settings.has_single_sign_on():
        return None
    try:
        from taskforge.client.fetch import fetch
    except ModuleNotFoundError as error:
        raise _needs_the_extra("oidc", error) from None
    return fetch


def make_temporary_engine(path: Path, clock: Callable[[], datetime]) -> Engine:
    """The engine for users' tests: quick, because nothing in it outlives them, and with a clock
    that they can move."""
    from taskforge.storage.sqlite.engine import SqliteEngine

    return SqliteEngine(path, durable=False, clock=clock)


def sqlite_path(url: str) -> Path:
    """sqlite:///relative.db and sqlite:////absolute.db, as everyone writes them."""
    check_sqlite_url("url", url)
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or len(parts.path) < 2:
        raise Invalid(
            "url",
            f"is {url!r}",
            "use sqlite:///relative.db or sqlite:////absolute/path.db (three or four slashes)",
        )
    return Path(unquote(parts.path[1:]))


def schedules_of(engine: AnyEngine) -> Schedules:
    """The schedules of a store, or of the server in front of one."""
    if is_store(engine):
        return ScheduleRecords(engine)
    from taskforge.client.remote import RemoteEngine
    from taskforge.client.schedules import RemoteSchedules

    assert isinstance(engine, RemoteEngine)
    return RemoteSchedules(engine.transport)


def alerts_of(engine: AnyEngine) -> AlertRules:
    """The alert rules of a store, or of the server in front of one."""
    if is_store(engine):
        return AlertRecords(engine)
    from taskforge.client.alerts import RemoteAlerts
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return RemoteAlerts(engine.transport)


def webhooks_of(engine: AnyEngine, settings: Settings) -> WebhookDoor:
    """The webhooks of a store, or of the server in front of one."""
    if is_store(engine):
        return WebhookRecords(engine, settings.opened)
    from taskforge.client.remote import RemoteEngine
    from taskforge.client.webhooks import RemoteWebhooks

    assert isinstance(engine, RemoteEngine)
    return RemoteWebhooks(engine.transport)


def make_outgoing_door(settings: Settings) -> "OutgoingDoor | None":
    """What sends to addresses that tenants name; None where what it needs is not installed."""
    try:
        from taskforge.client.outgoing import OutgoingDoor
    except ModuleNotFoundError:
        return None
    return OutgoingDoor(settings.opened)


def circuits_of(engine: AnyEngine) -> Circuits:
    """The circuits of a store, or of the server in front of one."""
    if is_store(engine):
        return CircuitRecords(engine)
    from taskforge.client.circuits import RemoteCircuits
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return RemoteCircuits(engine.transport)


def scaling_of(engine: AnyEngine, settings: Settings) -> Scaling:
    """The scaling policies of a store, or of the server in front of one."""
    if is_store(engine):
        return StoreScaling(engine, settings.providers)
    from taskforge.client.remote import RemoteEngine
    from taskforge.client.scaling import RemoteScaling

    assert isinstance(engine, RemoteEngine)
    return RemoteScaling(engine.transport)


def bulk_changes_of(engine: AnyEngine) -> BulkChanges:
    """Changes of many jobs, in a store or by the server in front of one."""
    if is_store(engine):
        return StoreBulkChanges(engine)
    from taskforge.client.bulk import RemoteBulkChanges
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return RemoteBulkChanges(engine.transport)


def failures_of(engine: AnyEngine) -> Failures:
    """The groups of failures of a store, or of the server in front of one."""
    if is_store(engine):
        return StoreFailures(engine)
    from taskforge.client.failures import RemoteFailures
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return RemoteFailures(engine.transport)


def metrics_of(engine: AnyEngine) -> MetricsSource:
    """How executions went, by a store or by the server in front of one."""
    if is_store(engine):
        return StoreMetrics(engine)
    from taskforge.client.metrics import RemoteMetrics
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return RemoteMetrics(engine.transport)


def event_stream(
    engine: AnyEngine, after: str | None, topic: str, queues: Sequence[str]
) -> AsyncIterator[tuple[str, str]]:
    """The events of the server that this engine is in front of: cursor and data."""
    from taskforge.client.events import stream_events
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return stream_events(engine.transport, after, topic, queues)


async def read_cluster(engine: AnyEngine) -> ClusterState:
    """The nodes of a store, or of the server in front of one, and who leads."""
    if is_store(engine):
        from taskforge.operations import cluster

        return await cluster.read_cluster(engine)
    from taskforge.client import cluster as remote_cluster
    from taskforge.client.remote import RemoteEngine

    assert isinstance(engine, RemoteEngine)
    return await remote_cluster.read_cluster(engine.transport)
