"""What all Python drivers share: a count of handled jobs that another process can read, and the
clients that enqueue.

Standard library only, because it runs in the peers' environments. One clock everywhere:
`time.time_ns`, as one process stamps a job and another reads the stamp.
"""

import asyncio
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

BATCH = 1_000
WARM_UP = 20
PAUSE_SECONDS = 0.010  # between two jobs of a pickup run, so that the worker is idle again
COUNTS = struct.Struct("<qqq")  # handled, first and last handler start

Single = Callable[[int], Awaitable[Any]]
Bulk = Callable[[int], Awaitable[Any]]


def url() -> str:
    return os.environ["BENCH_URL"]


class Tally:
    """Counts in memory shared with a file: reading it costs the worker nothing, and writing it less
    than a microsecond."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["BENCH_RUN"])
        self._handled = self._first = 0
        self._guard = threading.Lock()
        self._shared: mmap.mmap | None = None
        self._delays: int | None = None

    def tick(self, stamp: int = 0) -> None:
        """Called first thing by every handler. A stamp is the time just before the job was
        enqueued."""
        now = time.time_ns()
        with self._guard:
            if self._shared is None:
                self._shared = self._open()
                self._first = now
            self._handled += 1
            COUNTS.pack_into(self._shared, 0, self._handled, self._first, now)
            if stamp:
                if self._delays is None:
                    self._delays = os.open(
                        self._folder / f"delays-{os.getpid()}",
                        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                    )
                os.write(self._delays, b"%d\n" % (now - stamp))

    def _open(self) -> mmap.mmap:
        with (self._folder / f"counts-{os.getpid()}").open("w+b") as file:
            file.write(bytes(COUNTS.size))
            file.flush()
            return mmap.mmap(file.fileno(), COUNTS.size)


async def client(mode: str, count: int, single: Single, bulk: Bulk | None = None) -> None:
    """Enqueue `count` jobs the way `mode` says, and print how long that took."""
    if mode == "bulk":
        assert bulk is not None
        started = time.perf_counter()
        for start in range(0, count, BATCH):
            await bulk(min(BATCH, count - start))
        tell(count, time.perf_counter() - started)
        return
    for _ in range(WARM_UP):
        await single(0)
    started = time.perf_counter()
    for _ in range(count):
        if mode == "pickup":
            await single(time.time_ns())
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            await single(0)
    tell(count, time.perf_counter() - started)


def tell(count: int, seconds: float) -> None:
    print(json.dumps({"count": count, "seconds": seconds}), flush=True)
