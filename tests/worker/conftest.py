import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskforge import TaskForge
from tests.worker.crew import Crew


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Where a test's jobs are, on each engine in turn."""
    if request.param == "sqlite":
        yield {"url": request.getfixturevalue("sqlite_url")}
    else:
        yield {"url": request.getfixturevalue("postgres_url"), "schema": f"test_{secrets.token_hex(6)}"}


@pytest.fixture
async def crew(sqlite_url: str) -> AsyncIterator[Crew]:
    """An app on SQLite with the workers that a test starts."""
    async with Crew(TaskForge(sqlite_url, lease_seconds=2, poll_seconds=0.2, upkeep_seconds=0.05)) as made:
        yield made


@pytest.fixture
async def crew_on_each(settings: dict[str, Any]) -> AsyncIterator[Crew]:
    async with Crew(TaskForge(**settings, lease_seconds=2, poll_seconds=0.2, upkeep_seconds=0.05)) as made:
        yield made
