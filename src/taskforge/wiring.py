"""The composition root: the only module that names concrete engines."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.settings import Settings
from taskforge.storage.engine import Engine


def make_engine(settings: Settings) -> Engine:
    """The engine for a URL, not yet open. Drivers are imported only when they are needed."""
    scheme = urlsplit(settings.url).scheme
    if scheme == "sqlite":
        from taskforge.storage.sqlite.engine import SqliteEngine

        return SqliteEngine(sqlite_path(settings.url), durable=settings.durable)
    if scheme in ("postgresql", "postgres"):
        try:
            from taskforge.storage.postgres.engine import PostgresEngine
        except ModuleNotFoundError as error:
            raise StoreUnsuitable(f"{error.name} is not installed; run `pip install 'taskforge-platform[postgres]'`") from None
        return PostgresEngine(settings.url, schema=settings.schema, poll_only=settings.poll_only, pool_size=settings.pool_size)
    raise Invalid("url", f"begins with {scheme or 'nothing'!r}", "use sqlite:///path/to/file.db or postgresql://user@host/database")


def make_temporary_engine(path: Path, clock: Callable[[], datetime]) -> Engine:
    """The engine for users' tests: quick, because nothing in it outlives them, and with a clock that they can move."""
    from taskforge.storage.sqlite.engine import SqliteEngine

    return SqliteEngine(path, durable=False, clock=clock)


def sqlite_path(url: str) -> Path:
    """sqlite:///relative.db and sqlite:////absolute.db, as everyone writes them."""
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or len(parts.path) < 2:
        raise Invalid("url", f"is {url!r}", "use sqlite:///relative.db or sqlite:////absolute/path.db (three or four slashes)")
    return Path(unquote(parts.path[1:]))
