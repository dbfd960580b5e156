"""Handlers that run in processes of their own: a child finds them by module and name."""

import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from taskforge import Cancel, Context, Fail, Retry, Skip, Snooze, TaskForge

VERDICTS = {
    "snooze": Snooze(600, "later"),
    "retry": Retry(600, "once more"),
    "fail": Fail("no"),
    "cancel": Cancel("off"),
    "skip": Skip("not me"),
}


@dataclass
class Doubled:
    pid: int
    doubled: int


def double(ctx: Context, number: int, *, note: str = "") -> Doubled:
    logging.getLogger("child").info("doubling %d%s", number, note)
    ctx.progress(0.5, "half way")
    ctx.log("from the child", level="warn", number=number)
    ctx.update_metrics("doubled", 2)
    return Doubled(os.getpid(), 2 * number)


def sleep_in_process(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def verdict_in_process(what: str, *, raised: bool) -> object:
    if raised:
        raise VERDICTS[what]
    return VERDICTS[what]


def fail_in_process() -> None:
    raise LookupError("not in this process")


class MuteError(Exception):
    """One that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def mute_in_process() -> None:
    raise MuteError


class OwnFail(Fail):
    """One whose own class does not survive a pipe."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def own_verdict_in_process() -> None:
    raise OwnFail(404, "gone")


def chatter_in_process(ctx: Context, lines: int) -> int:
    """Four threads that speak at the same time, in words too long for one write."""

    def speak() -> None:
        for _ in range(lines):
            ctx.log("x" * 100_000)

    threads = [threading.Thread(target=speak) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 4 * lines


def leave_a_child_in_process() -> None:
    """What it starts inherits its pipe, and outlives it for a while: it has left its group."""
    subprocess.Popen(["sleep", "5"], close_fds=False, start_new_session=True)
    time.sleep(60)


def start_in_process(path: str) -> None:
    started = subprocess.Popen(["sleep", "60"])
    Path(path).write_text(str(started.pid))
    started.wait()


def take_much_in_process(text: str, seconds: float) -> int:
    time.sleep(seconds)
    return len(text)


def die_in_process() -> None:
    os._exit(7)


def leave_in_process() -> None:
    sys.exit(3)


IN_PROCESSES = (
    double,
    sleep_in_process,
    verdict_in_process,
    fail_in_process,
    mute_in_process,
    own_verdict_in_process,
    chatter_in_process,
    leave_a_child_in_process,
    start_in_process,
    take_much_in_process,
    die_in_process,
    leave_in_process,
)


def add_to(forge: TaskForge) -> None:
    for handler in IN_PROCESSES:
        forge.job(kind="process")(handler)
