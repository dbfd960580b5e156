"""Brings a PostgreSQL schema up to date. Safe when several processes start at once: one migrates,
the others wait for it."""

import re

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.storage.statements import migrations, statement

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
        # Waiting here is the point, so the usual lock timeout must not cut it short.
        await connection.execute(
            "set local lock_timeout = '60s'; set local statement_timeout = '10min'"
        )
        await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
        done = await _version(connection, schema)
        if done == 0:
            await connection.execute(f'create schema if not exists "{schema}"')
            await connection.execute(
                f'create table if not exists "{schema}".migrations '
                "(number int primary key, name text not null, applied_at timestamptz not null "
                "default now())"
            )
        for migration in migrations(PACKAGE):
            if migration.number > done:
                text = migration.sql.replace("taskforge.", f'"{schema}".').replace(
                    "SCHEMA_", f"{schema}_"
                )
                await connection.execute(text)
                await connection.execute(
                    f'insert into "{schema}".migrations (number, name) values ($1, $2)',
                    migration.number,
                    migration.name,
                )
                applied.append(f"{migration.number:04}_{migration.name}")
        if applied:
            await make_wall(connection, schema)
    return applied


async def make_wall(connection: PoolConnectionProxy, schema: str) -> str | None:
    """The role and the policies of `wall.Wall`. Returns why they cannot be made, or None."""
    text = statement(PACKAGE, "make_wall")
    named = text.replace("taskforge.", f'"{schema}".').replace("SCHEMA_", f"{schema}_")
    try:
        async with connection.transaction():
            await connection.execute(named)
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
    if await connection.fetchval("select to_regclass($1)", f'"{schema}".migrations') is None:
        return 0
    return int(
        await connection.fetchval(f'select coalesce(max(number), 0) from "{schema}".migrations')
    )
