"""Makes a file that was restored from a backup safe to go on with. Nothing in it tells that it was:
whoever restored it says so (`taskforge migrate --restored`)."""

from pathlib import Path

from taskforge.domain.ids import RAISED_BY_RESTORE
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.connections import begin, connect_writer
from taskforge.storage.sqlite.migrator import split_statements

WAIT_SECONDS = 60.0


def adopt(path: Path, now: int) -> None:
    """Whatever was handed out since the backup was made is never handed out again; the leases and
    nodes of before are over, and no silence is bridged for them. `now`: by the clock that leases go
    by."""
    connection = connect_writer(path, durable=True)
    try:
        connection.create_function("raised_fence", 1, _raised_fence, deterministic=True)
        begin(connection, WAIT_SECONDS)
        try:
            values = {"now": now, "raised": RAISED_BY_RESTORE}
            for statement in split_statements(sql("raise_handed_out")):
                connection.execute(statement, values)
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise
    finally:
        connection.close()


def _raised_fence(fence: bytes) -> bytes:
    return (int.from_bytes(fence) + RAISED_BY_RESTORE).to_bytes(16)
