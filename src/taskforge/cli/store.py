"""Which store a command talks to, and finding in it what the user named."""

import logging
import os
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from uuid import UUID

from cyclopts import Parameter

from taskforge.cli.failure import CommandError
from taskforge.cli.ui.terminal import patience
from taskforge.domain.errors import Invalid, StoreUnavailable, nearest
from taskforge.domain.ids import is_job_id
from taskforge.ports.engine import AnyEngine
from taskforge.settings import Settings
from taskforge.wiring import make_engine, sqlite_path

_SQLITE = b"SQLite format 3\0"
Json = Annotated[bool, Parameter(name="--json", help="Print one JSON document instead of text.")]
Url = Annotated[
    str | None,
    Parameter(
        name="--url",
        help="sqlite:///file.db, postgresql://user@host/database or https://server; else "
        "TASKFORGE_URL or taskforge.toml.",
    ),
]
Schema = Annotated[
    str | None, Parameter(name="--schema", help="The PostgreSQL schema that holds the tables.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Store:
    """The options that every command on a store has."""

    url: Url = None
    schema: Schema = None
    json: Json = False

    @property
    def settings(self) -> Settings:
        return Settings.load({"url": self.url, "schema": self.schema})


STORE = Store()


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[AnyEngine]:
    """The engine of a store that is there already: a mistyped URL must not leave an empty file
    behind."""
    settings = store.settings
    if settings.url.startswith("sqlite:"):
        path = sqlite_path(settings.url)
        if not path.exists():
            raise CommandError(f"there is no store at {path}", _other_stores(path, store.url))
    engine = make_engine(settings)
    async with patience(f"opening {masked(settings.url)}"):
        with explained(settings.url):
            await engine.open(migrate=False)
    try:
        with _without_outages():
            yield engine
    finally:
        await engine.close()


@contextmanager
def _without_outages() -> Iterator[None]:
    """A command does not try again: what it meets is its error, and all there is to tell."""
    log = logging.getLogger("taskforge.store")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def explained(url: str) -> Iterator[None]:
    """When a SQLite file cannot be opened: why, where that can be seen from its path."""
    try:
        yield
    except StoreUnavailable:
        problem = problem_with(sqlite_path(url)) if url.startswith("sqlite:") else None
        if problem is None:
            raise
        raise problem from None


def problem_with(path: Path) -> CommandError | None:
    if path.is_dir():
        return CommandError(
            f"{path} is a folder",
            f"name a file in it: --url sqlite:///{quote(str(path / 'taskforge.db'))}",
        )
    if not path.parent.is_dir():
        return CommandError(
            f"there is no folder {path.parent}",
            f"make it with `mkdir -p {path.parent}`, or name another with --url",
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return CommandError(
            f"{path} cannot be read and written by this user",
            "change its permissions, or name another with --url",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        needs = "SQLite needs to write beside its file"
        return CommandError(
            f"the folder {path.parent} of {path.name} cannot be written by this user",
            f"{needs}: change the permissions of the folder, or name another with --url",
        )
    if path.exists() and not _looks_like_sqlite(path):
        return CommandError(
            f"{path} is not a SQLite file", "name another with --url or TASKFORGE_URL"
        )
    return None


def _looks_like_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) in (_SQLITE, b"")


def _other_stores(path: Path, flag: str | None) -> str:
    known = sorted(one.name for one in path.parent.glob("*.db")) if path.parent.is_dir() else []
    found = nearest(path.name, known) or (known[0] if len(known) == 1 else None)
    near = (
        f"did you mean --url sqlite:///{quote(str(path.parent / found))}? Otherwise "
        if found
        else ""
    )
    same = "" if flag is None else f" --url {shlex.quote(flag)}"
    return (
        f"{near}make it with `taskforge migrate{same}`, or name another with --url or TASKFORGE_URL"
    )


def masked(url: str) -> str:
    """A URL that may be shown: without its password, wherever it stands."""
    parts = urlsplit(url)
    place = parts.netloc
    if parts.password is not None:
        user, _, host = place.rpartition("@")
        place = f"{user.partition(':')[0]}:***@{host}"
    query = parts.query
    if "password" in query.lower():
        pairs = parse_qsl(query, keep_blank_values=True)
        query = urlencode(
            [(name, "***" if "password" in name.lower() else value) for name, value in pairs],
            safe="*/",
        )
    if not place and not parts.scheme.startswith("postgres"):
        return url  # urlunsplit would drop the empty place of sqlite:///file.db
    return urlunsplit(parts._replace(netloc=place, query=query))


def job_id(text: str) -> UUID:
    try:
        identifier = UUID(text)
    except ValueError:
        identifier = UUID(int=0)
    if not is_job_id(identifier):
        raise Invalid("job", f"{text!r} is not a job's id", "use an id from `taskforge jobs list`")
    return identifier
