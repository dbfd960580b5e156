"""How a helper process notices that the process it serves is gone, or stands still."""

import ctypes
import os
import signal
import sys

import psutil

STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


def heard() -> list[signal.Signals]:
    """The signals that ask a process to stop. A terminal that closes is a wish to stop as well,
    unless nohup said otherwise."""
    return [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]


def die_with_parent() -> None:
    """Ask the kernel to end this process with its parent. Only Linux can; elsewhere a closed pipe
    must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def lead_a_group() -> None:
    """So that whoever ends this process ends what it started as well."""
    if hasattr(os, "setsid"):
        os.setsid()


def outlive_signals() -> None:
    """A terminal's Ctrl-C or end, and a service manager's SIGTERM, reach every process of the
    worker. The worker alone decides how it stops; its helpers end with it."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


def is_stopped(pid: int) -> bool:
    """Whether a process is there and stopped (SIGSTOP, a debugger)."""
    return _status(pid) in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def is_standing_still(pid: int) -> bool:
    """Whether a process is stopped or gone: its lease must not be renewed for it."""
    return is_stopped(pid) or _status(pid) in (psutil.STATUS_ZOMBIE, None)


def _status(pid: int) -> str | None:
    try:
        return psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return None


def has_left(pid: int) -> bool:
    return os.getppid() != pid
