import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import asyncpg
import pytest

from taskforge.testing.postgres import LocalServer
from taskforge.testing.postgres_binaries import LocalServerError, copy_binaries, find_binaries


async def run(server: LocalServer, statement: str) -> object:
    connection = await asyncpg.connect(server.url())
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def refuses_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_serves_only_the_loopback_address_and_forces_writes_to_disk(
    server_directory: Path,
) -> None:
    with LocalServer.start(server_directory, settings={"max_connections": 17}) as server:
        assert await run(server, "show listen_addresses") == "127.0.0.1"
        assert await run(server, "show fsync") == "on"
        assert await run(server, "show server_encoding") == "UTF8"
        assert await run(server, "show max_connections") == "17"


@pytest.mark.parametrize("end", ["fast", "immediate", "kill"])
async def test_data_is_there_again_after(
    end: Literal["fast", "immediate", "kill"], server_directory: Path
) -> None:
    with LocalServer.start(server_directory) as server:
        await run(server, "create table kept as select 42 as value")
        address = server.url()
        # A backend in the middle of a statement must not hold up the next start.
        statement = asyncio.create_task(run(server, "select pg_sleep(60)"))
        while not await run(
            server, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
        ):
            pass
        if end == "kill":
            server.kill()
        else:
            server.stop(end)
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await statement
        assert not server.is_running()
        assert refuses_connections(server.port)
        server.restart()
        assert server.is_running()
        assert server.url() == address
        assert await run(server, "select value from kept") == 42
    assert refuses_connections(server.port)


async def test_starts_again_on_an_existing_directory(server_directory: Path) -> None:
    with LocalServer.start(server_directory) as server:
        await run(server, "create table kept as select 42 as value")
    with LocalServer.start(server_directory) as server:
        assert await run(server, "select value from kept") == 42


def test_a_directory_in_use_is_refused_and_its_server_stays(server_directory: Path) -> None:
    with LocalServer.start(server_directory) as server:
        with pytest.raises(LocalServerError, match=r"postmaster\.pid"):
            LocalServer.start(server_directory)
        assert server.is_running()


def test_an_unknown_setting_is_named(server_directory: Path) -> None:
    with pytest.raises(LocalServerError, match="shared_bufers"):
        LocalServer.start(server_directory, settings={"shared_bufers": "1MB"})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_a_killed_parent_leaves_no_server_behind(server_directory: Path) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from taskforge.testing.postgres import LocalServer\n"
        "print(LocalServer.start(pathlib.Path(sys.argv[1])).port, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, server_directory], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        assert not refuses_connections(port)
        parent.send_signal(signal.SIGKILL)
    lock_file = server_directory / "cluster" / "postmaster.pid"
    give_up = time.monotonic() + 30
    while lock_file.exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not lock_file.exists()
    assert refuses_connections(port)


def test_an_exiting_parent_stops_its_server(server_directory: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from taskforge.testing.postgres import LocalServer\n"
        "print(LocalServer.start(pathlib.Path(sys.argv[1])).port)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program, server_directory], check=True, capture_output=True
    ).stdout
    assert refuses_connections(int(output))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server as another user")
async def test_root_may_keep_the_programs_where_nobody_cannot_enter(
    tmp_path: Path, server_directory: Path
) -> None:
    closed = copy_binaries(find_binaries(), tmp_path / "closed")
    tmp_path.chmod(0o700)
    with LocalServer.start(server_directory, binaries=closed) as server:
        assert await run(server, "select 1") == 1
    assert server.binaries != closed
    assert not server.binaries.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server as another user")
def test_root_is_told_of_a_data_directory_that_nobody_cannot_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(LocalServerError, match="user nobody, which cannot enter"):
        LocalServer.start(tmp_path / "data")


def test_a_configured_folder_without_programs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LocalServerError, match="configured folder"):
        find_binaries(tmp_path)
    monkeypatch.setenv("TASKFORGE_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(LocalServerError, match="configured folder"):
        find_binaries()
