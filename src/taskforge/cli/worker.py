"""taskforge worker"""

import logging
import os
import sys
import time
from typing import Annotated

from cyclopts import Parameter

from taskforge.cli.application import load
from taskforge.cli.failure import CommandError
from taskforge.cli.selection import listed
from taskforge.cli.service import connected, run
from taskforge.cli.store import STORE, Store, masked
from taskforge.cli.terminal import emit
from taskforge.domain import rules
from taskforge.sdk.app import TaskForge
from taskforge.telemetry.logs import LINE
from taskforge.worker.supervisor import DEREGISTERED, REPLACE, supervise

logger = logging.getLogger("taskforge.cli")
MOST_SLOTS = MOST_PROCESSES = 1_000
SUPERVISOR = "_TASKFORGE_SUPERVISOR"


def worker(
    app: Annotated[str, Parameter(help="Where the TaskForge object is: module:name, such as app:forge.")],
    /,
    *,
    slots: Annotated[int, Parameter(help="How many jobs run at once.")] = 10,
    queues: Annotated[
        str | None, Parameter(help="Only these queues: a list with commas. Dead letter queues must be named.")
    ] = None,
    processes: Annotated[
        int, Parameter(help="Run this many worker processes, and replace those that end. 0: this one alone, which a limit stops.")
    ] = 1,
    name: Annotated[str | None, Parameter(help="A name that stays the same across restarts.")] = None,
    max_jobs: Annotated[int | None, Parameter(help="Replace the process after this many jobs.")] = None,
    max_memory_mb: Annotated[int | None, Parameter(help="Replace the process when it has grown beyond this.")] = None,
    store: Store = STORE,
) -> int:
    """Run an app's jobs until stopped. SIGTERM or Ctrl-C lets running jobs finish within the grace time; twice stops at once."""
    supervisor = os.environ.pop(SUPERVISOR, None)  # nothing further down is its child
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LINE)
    rules.integer("--slots", slots, 1, MOST_SLOTS)
    rules.integer("--processes", processes, 0, MOST_PROCESSES)
    wanted = listed("--queues", queues, "emails,default")
    forge = load(app, store)
    is_limited = max_jobs is not None or max_memory_mb is not None
    if processes > 1 or (processes == 1 and is_limited and supervisor is None):
        return _supervise(processes, name, max_memory_mb)
    return run(_work(forge, slots, wanted, name, max_jobs, max_memory_mb, supervisor, store))


def _supervise(processes: int, name: str | None, max_memory_mb: int | None) -> int:
    """The same command, once for each process, without what the supervisor itself sees to."""
    if name is not None and processes > 1:
        raise CommandError("--name is given together with --processes", "leave one out: each process needs a name of its own")
    os.environ[SUPERVISOR] = str(os.getpid())
    command = [sys.executable, "-m", "taskforge.cli", *_without("--processes", "--max-memory-mb")]
    supervise(command, processes=processes, max_memory_mb=max_memory_mb)
    return 0


def _without(*flags: str) -> list[str]:
    """The arguments of this process, less these flags and their values."""
    kept: list[str] = []
    words = iter(sys.argv[1:])
    for word in words:
        flag, sign, _ = word.partition("=")
        if flag not in flags:
            kept.append(word)
        elif not sign:
            next(words, None)
    return kept


async def _work(
    forge: TaskForge,
    slots: int,
    queues: tuple[str, ...] | None,
    name: str | None,
    max_jobs: int | None,
    max_memory_mb: int | None,
    supervisor: str | None,
    store: Store,
) -> int:
    supervised = supervisor is not None
    async with connected(forge, slots=slots, queues=queues, name=name, max_jobs=max_jobs, supervised=supervised) as service:
        types = ", ".join(forge.registry.types() or ()) or "no job types: decorate a function with @forge.job()"
        logger.info("worker %s on %s with %d slots runs %s", service.worker.name, masked(forge.settings.url), slots, types)
        beside = [service.watch_memory(max_memory_mb)] if max_memory_mb is not None else []
        beside += [service.watch_supervisor(int(supervisor))] if supervisor is not None else []
        await service.run(*beside)
        done = service.worker.executor.done
        logger.info("stopped in %.1f s after %s jobs", service.stop_took, f"{done:,}")
    if store.json:
        seconds = round(time.monotonic() - service.started, 3)
        emit({"worker": service.worker.name, "jobs": done, "seconds": seconds, "stop_seconds": round(service.stop_took, 3)})
    status = DEREGISTERED if service.worker.was_deregistered else REPLACE if service.worker.hangs else 0
    return service.leave(status)
