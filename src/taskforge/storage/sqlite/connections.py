"""Opens connections to the file, and says in the product's words what SQLite refuses."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from taskforge.domain.errors import (
    Conflict,
    StoreFault,
    StoreUnavailable,
    StoreUnsuitable,
    TaskForgeError,
)
from taskforge.storage.sqlite.numbered import CONNECTION

OLDEST = (3, 38, 0)
# On pages of 4 KB a row of more than 1,000 bytes spills into an overflow page of its own; on these,
# one of more than 2,000.
PAGE_BYTES = 8_192
# The writer copies the log into the file whenever it has grown this far: 16 MB, 17 to 40 ms on a
# disk that others use too.
CHECKPOINT_PAGES = 2_000
WAL_BYTES_KEPT = 64 * 1024 * 1024
OPEN_SECONDS = 10.0

logger = logging.getLogger("taskforge.store")
_told: set[str] = set()
TOLD_AT_MOST = 100
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_AWAY = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}


def check_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    if version < OLDEST:
        found, oldest = (".".join(map(str, one)) for one in (version, OLDEST))
        raise StoreUnsuitable(f"SQLite {found} is too old; TaskForge needs {oldest} or newer")


def can_write(path: Path) -> bool:
    """Whether this process may write the file, its log and its index, as far as they are there.
    Asked of the system, not tried: closing a file ends the locks that this process has on it."""
    real = os.path.realpath(path)
    return all(
        os.access(real + end, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        for end in ("", "-wal", "-shm")
        if os.path.exists(real + end)  # noqa: PTH110 - as a text, to which endings are added
    )


def pragma(connection: sqlite3.Connection, text: str) -> Any:
    """Set or read one of the settings and figures of a connection, which are no statements."""
    return connection.execute(f"pragma {text}").fetchone()


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """`mode` "rwc": a file that is not there is made. One that was there and is gone must not be:
    an empty one would take its place."""
    place = f"file:{quote(os.fspath(path))}?mode={mode}"
    # Transactions are opened by hand, and statements prepared once: `isolation_level` and the
    # cache's size say so.
    connection = sqlite3.connect(
        place,
        uri=True,
        timeout=5,
        isolation_level=None,
        cached_statements=512,
        check_same_thread=False,
        factory=CONNECTION,
    )
    try:
        pragma(connection, "temp_store = memory")
        pragma(connection, "foreign_keys = on")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(path: Path, *, durable: bool, make: bool = False) -> sqlite3.Connection:
    connection = connect(path, "rwc" if make else "rw")
    try:
        pragma(connection, f"page_size = {PAGE_BYTES}")
        # Of several processes that make the file together, all but one are told at once that it is
        # busy, whatever the timeout.
        _patiently(lambda: pragma(connection, "journal_mode = wal"), OPEN_SECONDS)
        # The build's default differs from one distribution to the next. FULL: a commit returns
        # after the log was forced to disk.
        pragma(connection, f"synchronous = {'full' if durable else 'normal'}")
        # Some builds overwrite what is deleted with zeros; `fast` does so only where it costs no
        # further writing.
        pragma(connection, "secure_delete = fast")
        pragma(connection, "cache_size = -65536")
        pragma(connection, f"wal_autocheckpoint = {CHECKPOINT_PAGES}")
        pragma(connection, f"journal_size_limit = {WAL_BYTES_KEPT}")
        # from here on `Turn` and `begin` do the waiting
        pragma(connection, "busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def open_log(connection: sqlite3.Connection) -> int:
    """A handle of the file's log, which lies where SQLite has put it: beside the file itself,
    wherever a link to that may be. What names it is on disk then, too: a log that is forced but not
    found would be lost."""
    _, _, path = pragma(connection, "database_list")
    log = os.open(
        f"{path}-wal", os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    if os.name == "posix":
        folder = os.open(Path(path).parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return log


def begin(connection: sqlite3.Connection, seconds: float) -> None:
    """Take the file's write lock, out of turn: for the rare work before there is a writer (see
    turn.py)."""
    _patiently(lambda: connection.execute("begin immediate"), seconds)


def _patiently(act: Callable[[], object], seconds: float) -> None:
    """Wait for a busy file. SQLite's own waiting sleeps up to 0.1 s at a time, in which a neighbour
    takes it again and again."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            act()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.001)
        else:
            return


def connect_reader(path: Path, *, writable: bool) -> sqlite3.Connection:
    # SQLite would fall back to "ro" by itself, and then not use the descriptors again that it
    # cannot close while another connection holds a lock: one more with every try.
    connection = connect(path, "rw" if writable else "ro")
    try:
        pragma(connection, "query_only = on")
        # 8 MiB: pages with large payloads fill it, in each of the readers.
        pragma(connection, "cache_size = -8192")
    except BaseException:
        connection.close()
        raise
    return connection


def is_busy(error: BaseException) -> bool:
    """Another process holds the file just now: trying again soon is right."""
    return isinstance(error, sqlite3.Error) and _code(error) in _BUSY


def is_away(error: BaseException) -> bool:
    """The disk is full, cannot be read or is not what it was: whatever was being written is in
    doubt."""
    return isinstance(error, sqlite3.Error) and _code(error) in _AWAY


def is_broken(error: BaseException) -> bool:
    """The disk failed: what was written before may not be there either."""
    return isinstance(error, OSError) or (
        isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_IOERR
    )


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def not_opened(error: BaseException, path: Path) -> BaseException:
    """Like `translated`, with the file, which SQLite does not name. Only where it is opened:
    whoever asks a server is told of later errors too, and must not learn where its files are."""
    if not isinstance(error, sqlite3.Error) or not (is_busy(error) or is_away(error)):
        return translated(error)
    hint = (
        "; does its folder exist, and may this process write there?"
        if _code(error) == sqlite3.SQLITE_CANTOPEN
        else ""
    )
    return StoreUnavailable(f"SQLite cannot open {path}: {error}{hint}")


def translated(error: BaseException) -> BaseException:
    """What a caller may see of it: no driver's error crosses the engine's interface."""
    if not isinstance(error, sqlite3.Error) or isinstance(error, TaskForgeError):
        return error
    # another file may be put in its place
    if is_busy(error) or is_away(error) or str(error).startswith("no such table"):
        made: TaskForgeError = StoreUnavailable(f"SQLite does not serve just now: {error}")
    elif isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        made = StoreUnavailable("the engine is closed")
    else:
        _tell(error)
        if isinstance(error, sqlite3.IntegrityError):
            made = Conflict(f"it does not fit what is stored ({error})")
        else:
            name = type(error).__name__
            made = StoreFault(
                f"the store refused a statement: {name}; this is a fault of TaskForge, please "
                f"report it"
            )
    made.__cause__ = error
    return made


def _tell(error: sqlite3.Error) -> None:
    """With its traceback, once: the same fault may be met by every call."""
    what = f"{type(error).__name__} {str(error)[:80]}"
    if what not in _told and len(_told) < TOLD_AT_MOST:
        _told.add(what)
        logger.error("the store refused a statement, please report this", exc_info=error)
