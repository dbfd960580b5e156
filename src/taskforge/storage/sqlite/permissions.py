"""Who may read the store's file: its owner. It holds payloads, password hashes and the key that
signs tokens; SQLite would make it as wide as the umask lets it."""

import contextlib
import logging
import os
import stat
from pathlib import Path

OWNER_ONLY = 0o600
logger = logging.getLogger("taskforge.store")
_told: set[str] = set()


def make_private(path: Path) -> None:
    """Make the file for its owner alone, if it is not there. SQLite gives its log and index the
    same mode."""
    with contextlib.suppress(OSError):  # what is wrong with the place, SQLite tells
        made = os.open(
            os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, OWNER_ONLY
        )
        os.close(made)


def warn_of_others(path: Path) -> None:
    """Once a process and file: other users of this machine may read or write it."""
    if os.name != "posix":
        return
    real = os.path.realpath(path)
    wide = [name for name in (real, f"{real}-wal", f"{real}-shm") if _mode(name) & 0o077]
    if wide and real not in _told:
        _told.add(real)
        logger.warning(
            "other users of this machine may open %s (mode %04o), which holds payloads and "
            "secrets; next: chmod 600 %s",
            path,
            _mode(wide[0]),
            " ".join(wide),
        )


def folder_mode(path: Path) -> int:
    """For a folder beside the file: whoever may write the file may use it."""
    mode = beside_mode(path)
    return mode | ((mode & 0o222) >> 1)


def beside_mode(path: Path) -> int:
    """For a file beside it: as wide as the file itself, which an operator may have shared."""
    return _mode(os.path.realpath(path)) or OWNER_ONLY


def _mode(name: str) -> int:
    try:
        return stat.S_IMODE(os.stat(name).st_mode) & 0o666  # noqa: PTH116 - as a text, to which endings are added
    except OSError:
        return 0
