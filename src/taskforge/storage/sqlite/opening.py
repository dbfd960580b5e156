"""Prepares the file before anybody reads or writes it: its tables, and the clock its leases go
by. Opens it again for the writer."""

import logging
import sqlite3
from pathlib import Path

from taskforge.domain.errors import StoreUnavailable, StoreUnsuitable
from taskforge.storage.sqlite import migrator
from taskforge.storage.sqlite.boot import steady_clock
from taskforge.storage.sqlite.connections import (
    can_write,
    check_version,
    connect_writer,
    not_opened,
)
from taskforge.storage.sqlite.permissions import make_private, warn_of_others
from taskforge.storage.sqlite.transaction import Stamp
from taskforge.storage.sqlite.whereabouts import GONE, Identity, Whereabouts

logger = logging.getLogger("taskforge.store")
UNWRITABLE = "its file, or the log or index beside it, cannot be written by this process"


def prepare_file(
    path: Path, stamp: Stamp, *, durable: bool, migrate: bool, injected_clock: bool
) -> None:
    """`migrate`: make the file and bring its tables up to date. Leases go by an injected clock, if
    there is one, and else by the machine's."""
    check_version()
    if not migrate and path.parent.is_dir() and not path.exists():
        raise StoreUnsuitable(f"there is no store at {path}; run `taskforge migrate`")
    if migrate:
        make_private(path)
    try:
        connection = connect_writer(path, durable=durable, make=migrate)
        try:
            if migrate:
                migrator.migrate(connection, stamp.now())
            migrator.check(connection)
            if not injected_clock:
                stamp.steady = steady_clock(connection, stamp.now())
        finally:
            connection.close()
    except Exception as error:
        raise not_opened(error, path) from error
    warn_of_others(path)


def open_for_writing(
    path: Path, known: Identity | None, *, durable: bool
) -> tuple[sqlite3.Connection, Whereabouts]:
    """The file that was known before, or what an operator has put in its place."""
    if not path.exists():
        raise StoreUnavailable(GONE)
    # SQLite would open it for reading, and keep the descriptor for as long as anybody reads.
    if not can_write(path):
        raise StoreUnavailable(UNWRITABLE)
    connection = connect_writer(path, durable=durable)
    try:
        whereabouts = Whereabouts(path, connection)
        if whereabouts.file != known:
            migrator.check(connection)
            logger.warning(
                "the store's file was replaced by another; going on with the one that is there now"
            )
    except BaseException:
        connection.close()
        raise
    return connection, whereabouts
