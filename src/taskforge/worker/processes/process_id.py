"""Processes of this machine: which one it is, whether it still lives, and how it and what it
started are ended."""

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from pathlib import Path

import msgspec
import psutil

LOOK_SECONDS = 0.1  # where the kernel cannot say when a process ends


class ProcessId(msgspec.Struct, frozen=True):
    """A pid alone may be another process's by now; together with when it began it is not."""

    pid: int
    started: str


def process_of(pid: int) -> ProcessId:
    return ProcessId(pid, _started(pid) or "")


def this_process() -> ProcessId:
    return process_of(os.getpid())


def this_machine() -> str:
    """The same text in every process that can see this one by its pid, and in no other; empty where
    that cannot be known."""
    try:
        if Path("/proc/self").readlink() != Path(str(os.getpid())):
            return ""  # another namespace's processes are shown there
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot}{namespace}".encode(), digest_size=16).hexdigest()


def has_ended(process: ProcessId) -> bool:
    """Whether it surely has: one that nobody has waited for yet has ended as well."""
    if not psutil.pid_exists(process.pid):
        return True
    started = _started(process.pid)
    if started is None:
        return False  # another user's, which we may not look at
    if started != process.started:
        return True
    try:
        found = psutil.Process(process.pid)
        # The first thread of several may end before the others.
        return (
            found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            and found.num_threads() <= 1
        )
    except psutil.NoSuchProcess:
        return True


async def end_of(process: ProcessId) -> None:
    """Until it surely has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, an old kernel, a container that forbids it
        while not has_ended(process):  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(LOOK_SECONDS)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        # else the pid was another's before we held on to it
        if _started(process.pid) == process.started:
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def kill_group(process: ProcessId) -> None:
    """Kill it and all that it started and that stayed in its group. A group outlives its leader,
    and as long as it does no other process gets that pid; a pid that is another's by now is left
    alone."""
    started = _started(process.pid)
    if started is not None and started != process.started:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    if started is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _started(pid: int) -> str | None:
    """When a process began, in whatever its kernel counts; None if there is none. Linux: not
    psutil's time of day, which moves when the clock is set."""
    if sys.platform != "linux":
        try:
            return repr(psutil.Process(pid).create_time())
        except psutil.Error:
            return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return stat[stat.rindex(b")") :].split()[20].decode()
