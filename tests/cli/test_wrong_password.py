"""A PostgreSQL whose password is not the one in the URL: at the start, and changed under those who
run."""

import asyncio
import json
import secrets
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_worker import APP
from tests.support.refusals import PASSWORD, Refusing
from tests.support.shell import Process, Shell

GONE, BACK = "the store does not serve", "the store serves again"


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Refusing]:
    async with Refusing(postgres_url, f"password_{secrets.token_hex(4)}") as made:
        yield made


@pytest.fixture
def app(tmp_path: Path, database: Refusing) -> Shell:
    (tmp_path / "app.py").write_text(APP)
    return Shell(tmp_path, database.url)


async def test_whoever_starts_is_told_in_two_lines_what_to_correct(
    app: Shell, database: Refusing
) -> None:
    commands = (
        "jobs list",
        "migrate",
        "config check --connect",
        "worker app:forge",
        "server --port 0",
    )
    async with database.wrong_password():
        for words in commands:
            told = await asyncio.to_thread(app.error, *words.split())
            assert len(told.splitlines()) == 2, (words, told)
            assert f'password authentication failed for user "{database.name}"' in told, words
            assert "correct the user or the password in the URL" in told, words
            assert PASSWORD not in told
        assert (await asyncio.to_thread(app.json, "jobs", "list", status=2))["error"][
            "kind"
        ] == "StoreUnsuitable"


async def test_whoever_runs_goes_on_trying_and_is_back_by_itself(
    app: Shell, database: Refusing
) -> None:
    """Worker and server outlive it; one line when the store goes, one when it is back, and no
    password in any."""
    await asyncio.to_thread(app.run, "migrate")
    with (
        app.started("worker", "app:forge") as worker,
        app.started("server", "--port", "0", "--json") as server,
    ):
        await asyncio.to_thread(worker.until, "slots")
        await asyncio.to_thread(server.until, '"address"')
        address = json.loads(
            next(line for line in server.text.splitlines() if line.startswith("{"))
        )["address"]
        async with database.wrong_password():
            for process in (worker, server):
                await asyncio.to_thread(process.until, GONE)
            assert await asyncio.to_thread(_status, address) == 503
        for process in (worker, server):
            await asyncio.to_thread(process.until, BACK)
        assert await asyncio.to_thread(_status, address) == 200
        added: Any = await asyncio.to_thread(
            app.json, "enqueue", "add", "--payload", '{"a": 2, "b": 3}', "--wait"
        )
        assert added["job"]["result"] == 5
        for process in (worker, server):
            await asyncio.to_thread(_check, process)


def _check(process: Process) -> None:
    text = process.text
    assert (text.count(GONE), text.count(BACK)) == (1, 1), text
    assert "Traceback" not in text
    assert PASSWORD not in text
    process.signal(signal.SIGTERM)
    assert process.ended() == 0, process.text


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
