"""A wall between projects that does not depend on the statements: readers take a role which
row-level security shows only the rows of the projects they were told. A statement that forgets its
predicate then finds nothing of others."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from taskforge.storage.postgres import migrator
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.statements import put_in, statement

log = logging.getLogger(__name__)


class Wall:
    def __init__(self, schema: str) -> None:
        self.role = f"{schema}_reader"[:63]
        self._schema = schema
        self._begin = put_in(statement(migrator.PACKAGE, "begin_behind_wall"), ROLE=self.role)
        self._look = migrator.in_schema(statement(migrator.PACKAGE, "pruned_event"), schema)

    async def stands(self, connection: Connection) -> bool:
        """Whether this session can go behind it. It is made where it is
        not there; where that is refused, what to run is said."""
        if await self._stands(connection):
            return True
        problem = await migrator.make_wall(connection, self._schema)
        if problem is None and await self._stands(connection):
            return True
        log.warning(
            "reads are not walled off by row-level security (%s): let a user who may create roles "
            "run this once, and start the server again: %s",
            problem or f'the role "{self.role}" cannot be taken',
            await self._remedy(connection),
        )
        return False

    async def _stands(self, connection: Connection) -> bool:
        try:
            async with self.around(connection, []):
                await connection.execute(self._look)
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError):
            return False
        return True

    async def _remedy(self, connection: Connection) -> str:
        """The statement that only another user may run. The policies are for the tables' owner to
        make, at its next start."""
        found = await connection.fetchrow(statement(migrator.PACKAGE, "wall_role"), self.role)
        assert found is not None
        old = connection.get_server_version().major < 16
        grant = "grant_wall_role_before_16" if old else "grant_wall_role"
        needed = [grant] if found["is_there"] else ["make_wall_role", grant]
        return " ".join(
            put_in(statement(migrator.PACKAGE, name), ROLE=self.role, USER=found["connected"])
            for name in needed
        )

    @asynccontextmanager
    async def around(self, connection: Connection, projects: Sequence[int]) -> AsyncIterator[None]:
        """A transaction that sees these projects only. One round trip before it and one behind."""
        listed = ",".join(str(int(project)) for project in projects)
        try:
            await connection.execute(put_in(self._begin, PROJECTS=listed))
            yield
        except BaseException:
            await connection.execute("rollback")
            raise
        await connection.execute("commit")
