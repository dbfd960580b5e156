"""Whether the file that is open is still the one that its path leads to.

Whoever removes or replaces a file that is in use gets no error, and neither does who writes on into
it: everything seems to be written, and is gone when the last one closes it. So before a group of
calls that waited for the disk is acknowledged the two are compared (1 to 6 µs); and now and then
for those that need not last, and for the log and its index beside the file.
"""

import os
import sqlite3
import time
from pathlib import Path

from taskforge.domain.errors import StoreUnavailable
from taskforge.storage.sqlite.connections import pragma

Identity = tuple[int, int]
GONE = (
    "its file was removed or moved away while it was in use; put it back, or restore a backup: "
    "no new one is made in its place"
)
REPLACED = (
    "its file was replaced by another while it was in use, and nothing more can be written "
    "to the old one"
)
BESIDE = ("-wal", "-shm")
NOW_AND_THEN_SECONDS = 0.1


def identity(path: str) -> Identity | None:
    """Which file is there; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the cost, before every acknowledgement
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Whereabouts:
    """Of the files behind one connection."""

    __slots__ = ("_all_by", "_beside", "_path", "file")

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        # not what it leads to: a link may be made to lead elsewhere
        self._path = str(path.absolute())
        self.file = identity(self._path)
        if self.file is None:
            raise StoreUnavailable(GONE)
        _, _, name = pragma(connection, "database_list")
        self._all_by = 0.0  # when all of them are due
        self._beside: dict[str, Identity | None] = {name + end: None for end in BESIDE}

    def check(self, *, lazy: bool) -> None:
        """Raises when what is written now would be lost. `lazy`: it need not last."""
        now = time.monotonic()
        is_due = now >= self._all_by
        if is_due or not lazy:
            found = identity(self._path)
            if found != self.file:
                raise StoreUnavailable(GONE if found is None else REPLACED)
        if is_due:
            self._all_by = now + NOW_AND_THEN_SECONDS
            self._check_beside()

    def _check_beside(self) -> None:
        for path, known in self._beside.items():
            there = identity(path)
            if known is None:
                self._beside[path] = there  # made with the first transaction
            elif there != known:
                raise StoreUnavailable("its log was removed or replaced while it was in use")

    @property
    def hold(self) -> bool:
        """The same for who only reads: whether the path still leads here."""
        return identity(self._path) == self.file
