"""Brings a PostgreSQL schema up to date. Safe when several processes start at once: one migrates,
the others wait for it."""

import re

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.storage.statements import migrations, put_in, statement

PACKAGE = "taskforge.storage.postgres"
_LOCK = 0x7A5F0B6E


def check_schema_name(schema: str) -> None:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise Invalid(
            "schema", f"is {schema!r}", "use 1 to 63 lower-case letters, digits and underscores"
        )


async def migrate(connection: PoolConnectionProxy, schema: str) -> list[str]:
    """Apply what is missing, all of it in one transaction, and return its names."""
    check_schema_name(schema)
    applied = []
    async with connection.transaction():
        await connection.execute(statement(PACKAGE, "wait_for_migration"))
        await connection.execute(statement(PACKAGE, "lock_migrations"), _LOCK)
        done = await _version(connection, schema)
        if done == 0:
            await connection.execute(_sql("make_migrations", schema))
        for migration in migrations(PACKAGE):
            if migration.number > done:
                await connection.execute(in_schema(migration.sql, schema))
                row = migration.number, migration.name
                await connection.execute(_sql("add_migration", schema), *row)
                applied.append(f"{migration.number:04}_{migration.name}")
        if applied:
            await make_wall(connection, schema)
    return applied


async def make_wall(connection: PoolConnectionProxy, schema: str) -> str | None:
    """The role and the policies of `wall.Wall`. Returns why they cannot be made, or None."""
    try:
        async with connection.transaction():
            await connection.execute(_sql("make_wall", schema))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidGrantOperationError) as error:
        return str(error.args[0])
    return None


async def check(connection: PoolConnectionProxy, schema: str) -> None:
    known, found = len(migrations(PACKAGE)), await _version(connection, schema)
    if found < known:
        raise StoreUnsuitable(
            f"schema {schema!r} is at migration {found}, this release needs {known}; run "
            f"`taskforge migrate`"
        )
    if found > known:
        raise StoreUnsuitable(
            f"schema {schema!r} is at migration {found}, newer than this release knows ({known})"
        )


async def _version(connection: PoolConnectionProxy, schema: str) -> int:
    if not await connection.fetchval(_sql("has_migrations", schema)):
        return 0
    return int(await connection.fetchval(_sql("migration_number", schema)))


def in_schema(text: str, schema: str) -> str:
    """Statements and migrations name the schema "taskforge"; the configured one takes its place."""
    return put_in(text.replace("taskforge.", f'"{schema}".'), SCHEMA=schema)


def _sql(name: str, schema: str) -> str:
    return in_schema(statement(PACKAGE, name), schema)
