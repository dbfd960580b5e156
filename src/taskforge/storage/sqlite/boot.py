"""The clock that leases go by on one machine: it counts from the machine's start, and nobody sets
it."""

import contextlib
import ctypes
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.connections import begin

BUSY_SECONDS = 5.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """A name for the time since this machine was started."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    if sys.platform == "darwin":
        text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        if (
            ctypes.CDLL(None).sysctlbyname(
                b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0
            )
            == 0
        ):
            return text.value.decode()
    # Reckoned back from the wall's clock: one that was stepped looks like another start. Leases
    # then end too early, not too late.
    return f"started {round(psutil.boot_time() / 10)}"


def since_boot() -> int:
    """Microseconds, those in which the machine slept included where the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)) // 1_000


def steady_clock(connection: sqlite3.Connection, now: int) -> Callable[[], int]:
    """The same for every process on this file: microseconds that began, in this boot, at what the
    wall's clock said then. In another boot than before every lease is over."""
    boot = boot_id()
    behind = _behind(connection, boot)
    if behind is None:
        begin(connection, BUSY_SECONDS)
        try:
            behind = _behind(connection, boot)  # another process may have come first
            if behind is None:
                behind = now - since_boot()
                connection.execute(sql("end_leases"), (now,))
                connection.execute(sql("set_boot"), (boot, behind))
                connection.execute(sql("looked"), (now, now))
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise
    since = since_boot  # found once: this is asked for with every transaction
    return lambda: since() + behind


def _behind(connection: sqlite3.Connection, boot: str) -> int | None:
    row = connection.execute(sql("boot_behind"), (boot,)).fetchone()
    return None if row is None else int(row[0])
