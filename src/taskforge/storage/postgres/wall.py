"""A wall between projects that does not depend on the statements: readers take a role which
row-level security shows only the rows of the projects they were told. A statement that forgets its
predicate then finds nothing of others."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from taskforge.storage.postgres import migrator
from taskforge.storage.postgres.connection_pool import Connection
from taskforge.storage.statements import statement

# Its name cannot be written like those of tables, in whose place the configured schema is put.
PROJECTS = "taskforge" + ".projects"

log = logging.getLogger(__name__)


class Wall:
    def __init__(self, schema: str) -> None:
        self.role = f"{schema}_reader"[:63]
        self._schema = schema

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
                await connection.execute(f'select pruned_event from "{self._schema}".horizons')
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError):
            return False
        return True

    async def _remedy(self, connection: Connection) -> str:
        """The statement that only another user may run. The policies are for the tables' owner to
        make, at its next start."""
        found = await connection.fetchrow(statement(migrator.PACKAGE, "wall_role"), self.role)
        assert found is not None
        terms = (
            " with inherit false, set true" if connection.get_server_version().major >= 16 else ""
        )
        grant = f'grant "{self.role}" to {found["connected"]}{terms};'
        return grant if found["is_there"] else f'create role "{self.role}" nologin; {grant}'

    @asynccontextmanager
    async def around(self, connection: Connection, projects: Sequence[int]) -> AsyncIterator[None]:
        """A transaction that sees these projects only. One round trip before it and one behind."""
        listed = ",".join(str(int(project)) for project in projects)
        try:
            await connection.execute(
                f'begin read only; set local role "{self.role}"; select '
                f"set_config('{PROJECTS}', '{listed}', true)"
            )
            yield
        except BaseException:
            await connection.execute("rollback")
            raise
        await connection.execute("commit")
