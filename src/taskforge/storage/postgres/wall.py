"""A wall between projects that does not depend on the statements: readers take a role which row-level security shows only the rows
of the projects they were told. A statement that forgets its predicate then finds nothing of others."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from taskforge.storage.postgres.connections import Connection

# Its name cannot be written like those of tables, in whose place the configured schema is put.
PROJECTS = "taskforge" + ".projects"

log = logging.getLogger(__name__)


class Wall:
    def __init__(self, schema: str) -> None:
        self.role = f"{schema}_reader"[:63]
        self._schema = schema

    async def stands(self, connection: Connection) -> bool:
        """Whether this session can go behind it; says so when not."""
        try:
            async with self.around(connection, []):
                await connection.execute(f'select version from "{self._schema}".catalog')
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
            log.warning(
                "reads are not walled off by row-level security: %s; let a user who may create roles run the migration, "
                'and grant "%s" to the user of the store',
                error,
                self.role,
            )
            return False
        return True

    @asynccontextmanager
    async def around(self, connection: Connection, projects: Sequence[int]) -> AsyncIterator[None]:
        """A transaction that sees these projects only. One round trip before it and one behind."""
        listed = ",".join(str(int(project)) for project in projects)
        try:
            await connection.execute(
                f"begin read only; set local role \"{self.role}\"; select set_config('{PROJECTS}', '{listed}', true)"
            )
            yield
        except BaseException:
            await connection.execute("rollback")
            raise
        await connection.execute("commit")
