"""A command whose store refuses says so once, and does not say that it tries again."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskforge.cli.failure import next_step_of
from taskforge.domain.errors import StoreUnsuitable
from taskforge.settings import Settings
from taskforge.wiring import make_server
from tests.support.refusals import Refusing
from tests.support.shell import Shell


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Refusing]:
    async with Refusing(postgres_url, f"refused_{secrets.token_hex(4)}") as made:
        yield made


async def test_a_command_says_in_two_lines_that_its_store_refuses(
    tmp_path: Path, database: Refusing
) -> None:
    shell = Shell(tmp_path, database.url)
    await asyncio.to_thread(shell.run, "migrate")
    await asyncio.to_thread(shell.run, "queues", "create", "default")
    async with database.refusal("read_only"):
        for words in (
            ("enqueue", "add"),
            ("enqueue", "add", "--wait"),
            ("queues", "create", "other"),
        ):
            told = await asyncio.to_thread(shell.error, *words)
            assert len(told.splitlines()) == 2, told
            assert "read-only" in told


async def test_what_needs_the_store_itself_says_so() -> None:
    unused: Any = None
    with pytest.raises(StoreUnsuitable, match="needs the store itself") as caught:
        await make_server(unused, Settings(url="http://127.0.0.1:9"))
    assert "run it where the server's store can be reached" in next_step_of(caught.value)
