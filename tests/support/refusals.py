"""Ways in which a PostgreSQL that runs refuses to serve, each for the length of a block."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg

REFUSALS = ("read_only", "closed", "renamed", "locked_out", "cancelling")
PASSWORD = "geheim"  # which nobody looks at, but in `wrong_password`


class Refusing:
    """A database with an owner of its own, and someone else's connection by which it is made to
    refuse."""

    def __init__(self, url: str, name: str) -> None:
        self._admin_url = url
        self.name = name
        parts = urlsplit(url)
        self.url = urlunsplit(
            parts._replace(
                netloc=f"{name}:{PASSWORD}@{parts.netloc.rpartition('@')[2]}", path=f"/{name}"
            )
        )

    async def __aenter__(self) -> Self:
        self._admin = await asyncpg.connect(self._admin_url)
        await self._admin.execute(f"create role {self.name} login createrole")
        await self._admin.execute(f"create database {self.name} owner {self.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._admin.execute(f"drop database {self.name} with (force)")
        with contextlib.suppress(asyncpg.PostgresError):
            await self._admin.execute(
                f"drop role if exists taskforge_reader; drop role {self.name}"
            )
        await self._admin.close()

    def refusal(self, name: str) -> AbstractAsyncContextManager[None]:
        return getattr(self, name)()  # type: ignore[no-any-return]

    @asynccontextmanager
    async def read_only(self) -> AsyncIterator[None]:
        """As after a failover to a standby. Sessions that were made meanwhile stay so."""
        await self._admin.execute(
            f"alter database {self.name} set default_transaction_read_only = on"
        )
        await self._end_sessions()
        yield
        await self._admin.execute(f"alter database {self.name} reset default_transaction_read_only")

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """It does not accept connections."""
        await self._admin.execute(f"alter database {self.name} allow_connections false")
        await self._end_sessions()
        yield
        await self._admin.execute(f"alter database {self.name} allow_connections true")

    @asynccontextmanager
    async def renamed(self) -> AsyncIterator[None]:
        """There is none of this name, as while a backup is put in its place."""
        async with self.closed():
            await self._without_sessions(f"alter database {self.name} rename to {self.name}_old")
            yield
            await self._admin.execute(f"alter database {self.name}_old rename to {self.name}")

    @asynccontextmanager
    async def locked_out(self) -> AsyncIterator[None]:
        """The login is refused."""
        await self._admin.execute(f"alter role {self.name} nologin")
        await self._end_sessions()
        yield
        await self._admin.execute(f"alter role {self.name} login")

    @asynccontextmanager
    async def wrong_password(self) -> AsyncIterator[None]:
        """The login's password was changed, and is asked for."""
        rules = Path(await self._admin.fetchval("show hba_file"))
        before = rules.read_text()
        await self._admin.execute(f"alter role {self.name} password 'another'")
        rules.write_text(f"host all {self.name} all scram-sha-256\n{before}")
        # Closed for as long as it lasts: a session that was let in by the old rules and only now
        # begins is in no list yet, and would be served to the end.
        async with self.closed():
            await self._reload(lets_in=False)
            await self._end_all_sessions()
            yield
        rules.write_text(before)
        await self._reload(lets_in=True)

    async def _reload(self, *, lets_in: bool) -> None:
        """PostgreSQL reads its rules in its own time."""
        await self._admin.execute("select pg_reload_conf()")
        async with asyncio.timeout(10):
            while True:
                try:
                    await (await asyncpg.connect(self.url)).close()
                except asyncpg.InvalidPasswordError:
                    if not lets_in:
                        return
                else:
                    if lets_in:
                        return
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def cancelling(self) -> AsyncIterator[None]:
        """Statements that touch jobs wait for a lock, and are cancelled as a statement's timeout
        does it."""
        inside = await asyncpg.connect(
            urlunsplit(urlsplit(self._admin_url)._replace(path=f"/{self.name}"))
        )
        try:
            schema = await inside.fetchval(
                "select schemaname from pg_tables where tablename = 'ready'"
            )
            await _lock(inside, f'"{schema}".jobs, "{schema}".ready, "{schema}".running')
            ending = asyncio.create_task(self._cancel_those_who_wait())
            try:
                yield
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)
        finally:
            await inside.close()

    async def _cancel_those_who_wait(self) -> None:
        while True:
            await self._admin.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity where datname = $1 and "
                "wait_event_type = 'Lock'",
                self.name,
            )
            await asyncio.sleep(0.05)

    async def _end_sessions(self) -> None:
        await self._admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", self.name
        )

    async def _end_all_sessions(self) -> None:
        """Also those that were let in before and only now begin: nobody else comes any more."""
        begun = "select count(*) from pg_stat_activity where (datname = $1 or datname is null)"
        backends = f"{begun} and backend_type = 'client backend'"
        async with asyncio.timeout(10):
            while await self._admin.fetchval(backends, self.name):
                await self._end_sessions()
                await asyncio.sleep(0.02)

    async def _without_sessions(self, statement: str) -> None:
        """Sessions that were told to end take a moment."""
        async with asyncio.timeout(10):
            while True:
                try:
                    await self._admin.execute(statement)
                except asyncpg.ObjectInUseError:
                    await asyncio.sleep(0.01)
                else:
                    return


async def _lock(connection: asyncpg.Connection, tables: str) -> None:
    """Hold these tables from here on. Who holds one of them and waits for another would wait for
    ever, so try anew."""
    while True:
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(f"lock table {tables}")
        except asyncpg.DeadlockDetectedError:
            await transaction.rollback()
        else:
            return
