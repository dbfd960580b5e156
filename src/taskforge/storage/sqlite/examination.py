"""What the file knows of its own health: its room on the disk, its log, what is wrong in it."""

import os
import shutil
import sqlite3
from pathlib import Path

from taskforge.domain.finding import Finding, fault, fine, warning
from taskforge.storage.sqlite.connections import pragma
from taskforge.storage.sqlite.snapshot import ReadSnapshot

LEAST_FREE_BYTES = 500_000_000
MOST_LOG_BYTES = 1_000_000_000
LARGEST_CHECKED_BYTES = 2_000_000_000
MOST_UNUSED = 0.5  # of the file


def examine(snapshot: ReadSnapshot, path: Path) -> list[Finding]:
    connection = snapshot.connection
    return [
        fine("version", f"SQLite {sqlite3.sqlite_version}"),
        _room(path),
        _log(path),
        _unused(connection),
        _integrity(connection, path),
    ]


def _room(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / 1e9:.1f} GB are free beside the file of {path.stat().st_size / 1e6:,.0f} MB"
    if free < LEAST_FREE_BYTES:
        return fault("disk", text, "make room: a full disk stops every write")
    return fine("disk", text)


def _log(path: Path) -> Finding:
    log = Path(os.path.realpath(path) + "-wal")
    size = log.stat().st_size if log.exists() else 0
    text = f"the write-ahead log has {size / 1e6:,.0f} MB"
    if size > MOST_LOG_BYTES:
        return warning("log", text, "look for a process that keeps a read open: it cannot shrink")
    return fine("log", text)


def _unused(connection: sqlite3.Connection) -> Finding:
    [pages] = pragma(connection, "page_count")
    [unused] = pragma(connection, "freelist_count")
    share = unused / max(1, pages)
    text = f"{share:.0%} of the file is unused"
    if share > MOST_UNUSED and pages > 100_000:
        return warning("bloat", text, "it is used again; `vacuum` while nothing runs gives it back")
    return fine("bloat", text)


def _integrity(connection: sqlite3.Connection, path: Path) -> Finding:
    if path.stat().st_size > LARGEST_CHECKED_BYTES:
        return fine("integrity", "not checked: the file is large (`pragma quick_check` does it)")
    [answer] = pragma(connection, "quick_check(1)")
    if answer != "ok":
        return fault("integrity", f"the file is damaged: {answer}", "restore the last backup")
    return fine("integrity", "the file is whole")
