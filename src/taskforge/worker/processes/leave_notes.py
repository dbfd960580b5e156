"""Notes of workers that left in order while the store could not hear it: an orderly stop is no
crash.

A note is an empty file named after the incarnation, in a folder of this user among the machine's
temporary files. The next worker of the machine finds that the process has ended without having left
the store; where there is a note, the lease ends by itself and the jobs go back unspent.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

KEEP_SECONDS = 86_400.0


def note_leaves(incarnations: Iterable[UUID]) -> None:
    """Nothing depends on a note: where none can be written, the stop looks like a crash."""
    with contextlib.suppress(OSError):
        folder = _folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        _forget_old(folder)
        for incarnation in incarnations:
            (folder / str(incarnation)).touch(mode=0o600)


def is_leave_noted(incarnation: UUID) -> bool:
    try:
        return (_folder() / str(incarnation)).stat().st_uid == _user()
    except OSError:
        return False


def _forget_old(folder: Path) -> None:
    for note in folder.iterdir():
        with contextlib.suppress(OSError):  # another worker that stops may have removed it just now
            if time.time() - note.stat().st_mtime > KEEP_SECONDS:
                note.unlink()


def _folder() -> Path:
    return Path(tempfile.gettempdir(), f"taskforge-leaves-{_user()}")


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
