"""Notices that a store was restored from a backup, and makes it safe to go on with.

Whoever held a job, led, or read events when the backup was made may have gone on since then, and
may still be there: its fences, its term and its place in the events must not mean something else
now. A dump that was put into another cluster, database or schema is noticed by itself; a copy of a
whole cluster that was set back to an earlier time must be said (`taskforge migrate --restored`).
"""

import logging
from collections.abc import Callable
from datetime import datetime

import asyncpg

from taskforge.domain.errors import StoreUnavailable, StoreUnsuitable
from taskforge.domain.ids import RAISED_BY_RESTORE
from taskforge.storage.postgres import migrator
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.statements import put_in

logger = logging.getLogger("taskforge.store")


class Restores:
    def __init__(
        self, schema: str, sql: Callable[[str], str], now: Callable[[], datetime | None]
    ) -> None:
        self._schema = schema
        self._now = now  # None: the database's clock
        self._sql = sql
        self._identity: str | None = None  # of the store that was opened

    async def greet(self, connection: asyncpg.Connection) -> None:
        """A new connection leads to the store that was opened, or is not used."""
        if self._identity is None:
            return
        if await self._identify(connection) != self._identity:
            raise StoreUnavailable(
                "the database is another than the one that was opened, as after a restore: start "
                "this process again"
            )

    async def look(self, connection: Connection, *, migrate: bool) -> None:
        """When a store is opened. `migrate`: whether what was restored may be made ready here."""
        self._identity = None
        here = await self._identify(connection)
        known = await connection.fetchval(self._sql("known_store"))
        if known is not None and known != here:
            if not migrate:
                raise StoreUnsuitable(
                    "the store was restored from a backup; run `taskforge migrate`"
                )
            await self.adopt(connection, unless=here)
        elif known is None and migrate:
            await connection.execute(self._sql("note_store"), here)
        self._identity = here

    async def adopt(self, connection: Connection, unless: str | None = None) -> None:
        """Go on with a restored store. `unless`: not if another process has done so here."""
        here = await self._identify(connection)
        async with connection.transaction():
            await connection.execute(self._sql("lock_ordered"))
            known = await connection.fetchval(self._sql("known_store"))
            if unless is not None and known == unless:
                return
            [row] = await connection.fetch(self._sql("last_xact"))
            added = max(0, row["last"] - row["here"])
            await connection.execute(put_in(self._sql("add_to_xacts"), ADDED=str(added)))
            await connection.execute(
                self._sql("raise_handed_out"), RAISED_BY_RESTORE, here, added, self._now()
            )
        # Roles are the cluster's, and in no dump.
        await migrator.make_wall(connection, self._schema)
        logger.warning("the store was restored from a backup: leases of before are over")

    async def _identify(self, connection: asyncpg.Connection | Connection) -> str:
        try:
            found = await connection.fetchval(self._sql("store_identity"), self._schema)
        except asyncpg.InsufficientPrivilegeError:
            found = await connection.fetchval(self._sql("identity_on_server"), self._schema)
        return str(found)
