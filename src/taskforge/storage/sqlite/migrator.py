"""Brings a SQLite file up to date. Safe when several processes start at once: one migrates, the
others wait for it."""

import sqlite3
from collections.abc import Iterator

from taskforge.domain.errors import StoreUnsuitable
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.connections import begin
from taskforge.storage.statements import migrations

PACKAGE = "taskforge.storage.sqlite"
WAIT_SECONDS = 60.0


def migrate(connection: sqlite3.Connection, now: int) -> list[str]:
    """Apply what is missing, all of it in one transaction, and return its names."""
    applied: list[str] = []
    begin(connection, WAIT_SECONDS)
    try:
        done = _version(connection)
        if done == 0:
            connection.execute(sql("make_migrations"))
        for migration in migrations(PACKAGE):
            if migration.number > done:
                for statement in split_statements(migration.sql):
                    connection.execute(statement)
                row = (migration.number, migration.name, now)
                connection.execute(sql("add_migration"), row)
                applied.append(f"{migration.number:04}_{migration.name}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return applied


def check(connection: sqlite3.Connection) -> None:
    known, found = len(migrations(PACKAGE)), _version(connection)
    if found < known:
        raise StoreUnsuitable(
            f"the file is at migration {found}, this release needs {known}; run `taskforge migrate`"
        )
    if found > known:
        raise StoreUnsuitable(
            f"the file is at migration {found}, newer than this release knows ({known})"
        )


def _version(connection: sqlite3.Connection) -> int:
    if not connection.execute(sql("has_migrations")).fetchone():
        return 0
    found: int = connection.execute(sql("migration_number")).fetchone()[0]
    return found


def split_statements(text: str) -> Iterator[str]:
    """One statement at a time: `executescript` would commit the transaction it is called in."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
