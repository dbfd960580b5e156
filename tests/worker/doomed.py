"""An app whose worker process ends in one of several ways: `python -m tests.worker.doomed WAY`. It
writes the pids that matter into a file, one line, when its job runs."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from taskforge import TaskForge

forge = TaskForge()
forge.queue("default", retry_delay_seconds=0, retry_jitter=0)
running = threading.Event()


def say(*pids: int) -> None:
    path = Path(os.environ["DOOMED_FILE"])
    path.with_suffix(".new").write_text(" ".join(map(str, pids)))
    path.with_suffix(".new").rename(path)


@forge.job(max_attempts=5)
async def wait() -> None:
    """Until this process is killed, or its interpreter ends around it."""
    say(os.getpid())
    running.set()
    await asyncio.sleep(60)


@forge.job(max_attempts=5)
async def fork() -> None:
    """A process that holds on to all that this one has open, the keeper's pipe among it."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    say(os.getpid(), child)
    await asyncio.sleep(60)


@forge.job(max_attempts=5)
async def become() -> None:
    """Another program in the same process."""
    say(os.getpid())
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"])


@forge.job(max_attempts=5, kind="process")
def start() -> None:
    """A process that starts another."""
    started = subprocess.Popen(["sleep", "60"])
    say(os.getpid(), started.pid)
    started.wait()


async def give_up() -> None:
    """The worker is cancelled with a job in its hands, as by a fault in the app around it, and the
    process ends."""
    working = asyncio.create_task((await forge.worker()).run())
    await asyncio.to_thread(running.wait)
    working.cancel()
    await asyncio.wait([working])


async def stop() -> None:
    """In order, when it is told to."""
    worker = await forge.worker()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


if __name__ == "__main__":
    if sys.argv[1:] == ["gives up"]:
        asyncio.run(give_up())
    elif sys.argv[1:] == ["stops"]:
        asyncio.run(stop())
    elif sys.argv[1:] == ["ends"]:
        threading.Thread(target=lambda: asyncio.run(forge.work()), daemon=True).start()
        running.wait()
    else:
        asyncio.run(forge.work())
