"""An application on each kind of store and behind a server: fixtures that the conftest.py of
tests/worker, tests/sdk and tests/client take from here."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskforge import TaskForge
from tests.support.crew import Crew
from tests.support.served import Servers

OPTIONS: dict[str, Any] = {"lease_seconds": 2, "poll_seconds": 0.2, "upkeep_seconds": 0.05}


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.close()


@pytest.fixture
def served(servers: Servers, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A server with a store of its own."""
    made = servers.start(tmp_path)
    yield dict(made)
    servers.stop(made["url"])


@pytest.fixture(params=["sqlite", "postgres", "http"])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Where a test's jobs are: on each engine in turn, and behind a server."""
    if request.param == "sqlite":
        yield {"url": request.getfixturevalue("sqlite_url")}
    elif request.param == "http":
        yield request.getfixturevalue("served")
    else:
        yield {
            "url": request.getfixturevalue("postgres_url"),
            "schema": f"test_{secrets.token_hex(6)}",
        }


@pytest.fixture(params=["sqlite", "http"])
async def crew(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[Crew]:
    """An app on SQLite, or behind a server, with the workers that a test starts."""
    place = (
        request.getfixturevalue("served")
        if request.param == "http"
        else {"url": request.getfixturevalue("sqlite_url")}
    )
    async with _crew(place, servers) as made:
        yield made


@pytest.fixture
async def crew_on_each(settings: dict[str, Any], servers: Servers) -> AsyncIterator[Crew]:
    async with _crew(settings, servers) as made:
        yield made


def _crew(place: dict[str, Any], servers: Servers) -> Crew:
    forge = TaskForge(**place, **OPTIONS)
    return Crew(forge, (lambda: servers.keep(place["url"])) if "token" in place else None)
