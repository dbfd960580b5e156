"""A PostgreSQL server and its replica, which has all that was committed before the answer."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg

from taskforge.testing.postgres import LocalServer

SETTINGS = {"fsync": "off", "wal_keep_size": "256MB", "max_connections": 60}


class Pair:
    def __init__(self, primary: LocalServer, replica: LocalServer) -> None:
        self.primary = primary
        self.replica = replica

    @classmethod
    @contextlib.contextmanager
    def start(cls, directory: Path) -> "Iterator[Pair]":
        directory.chmod(0o755)
        with LocalServer.start(directory / "primary", settings=SETTINGS) as primary:
            replica = LocalServer(directory / "replica", primary.binaries, 0, SETTINGS)
            copy_cluster(primary, replica.directory / "cluster")
            with LocalServer.start(
                replica.directory, settings=SETTINGS, binaries=primary.binaries
            ) as replica:
                yield cls(primary, replica)

    @property
    def url(self) -> str:
        """Of both, as an application names them."""
        ports = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.replica.port}"
        return f"postgresql://postgres@{ports}/postgres"

    async def synchronize(self) -> None:
        """From here on no commit is answered before the replica has it."""
        await run(
            self.primary,
            "alter system set synchronous_standby_names = '*'",
            "select pg_reload_conf()",
        )
        async with asyncio.timeout(20):
            while not await run(
                self.primary, "select 1 from pg_stat_replication where sync_state = 'sync'"
            ):
                await asyncio.sleep(0.02)

    async def cut(self) -> None:
        """Nothing that is written from here on reaches the replica."""
        [row] = await run(self.primary, "select pid from pg_stat_replication")
        os.kill(row["pid"], signal.SIGSTOP)

    async def promote(self) -> None:
        await run(self.replica, "select pg_promote()")

    async def demote(self) -> None:
        """The old primary goes on and can only be read, as one that was fenced off."""
        await run(
            self.primary,
            "alter system set synchronous_standby_names = ''",
            "alter system set default_transaction_read_only = on",
            "select pg_reload_conf()",
        )


def copy_cluster(server: LocalServer, target: Path) -> None:
    """A base backup of a running server, which begins as its replica."""
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if server._account is not None:
        os.chown(target.parent, server._account.pw_uid, server._account.pw_gid)
    options = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--wal-method=stream")
    made = server._spawn("pg_basebackup", "-d", server.url(), "-D", str(target), *options)
    assert made.wait() == 0, server._last_output()


async def run(server: LocalServer, *statements: str) -> list[asyncpg.Record]:
    """The rows of the last."""
    connection = await asyncpg.connect(server.url())
    try:
        rows: list[asyncpg.Record] = []
        for statement in statements:
            rows = await connection.fetch(statement)
        return rows
    finally:
        await connection.close()
