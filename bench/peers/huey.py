"""Huey on SQLite, with its own choice of `synchronous` or with it off."""

import os
import sys
import time

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.peers.tally import Tally, tell, url

tally = Tally()
# Huey's own default is None: it then leaves the setting as SQLite has it, which is FULL.
queue = SqliteHuey(
    "bench",
    filename=url(),
    results=False,
    fsync=False if os.environ.get("BENCH_SYNCHRONOUS") == "off" else None,
)
noop = queue.task(name="noop")(tally.tick)


def main(mode: str, count: int) -> None:
    if mode == "worker":
        queue.create_consumer(
            workers=int(os.environ["BENCH_THREADS"]),
            initial_delay=0.001,
            max_delay=0.01,
            periodic=False,
        ).run()
        return
    started = time.perf_counter()
    for _ in range(count):
        noop(0)
    tell(count, time.perf_counter() - started)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
