"""Celery on Redis: no results, no events, no gossip. It has no bulk call; a group of 1,000 comes
nearest."""

import os
import sys
import time

from celery import Celery, group  # type: ignore[import-not-found]

from bench.peers.tally import BATCH, Tally, tell, url

tally = Tally()
app = Celery("bench", broker=url())
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "100")),
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
noop = app.task(name="noop", ignore_result=True)(tally.tick)


def main(mode: str, count: int) -> None:
    if mode == "worker":
        pool = ["-P", "solo", "-n", f"bench{os.getpid()}@localhost"]
        app.worker_main(
            [
                "worker",
                "-l",
                "ERROR",
                "--without-gossip",
                "--without-mingle",
                "--without-heartbeat",
                *pool,
            ]
        )
        return
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        group(noop.s(0) for _ in range(min(BATCH, count - start))).apply_async()
    tell(count, time.perf_counter() - started)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
