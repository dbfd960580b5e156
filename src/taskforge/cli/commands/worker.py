"""taskforge worker"""

import logging
import sys
import time
from typing import Annotated

from cyclopts import Parameter

from taskforge.cli.application import load
from taskforge.cli.failure import CommandError
from taskforge.cli.logs import LogFormat, begin_log, log_as_set
from taskforge.cli.selection import listed
from taskforge.cli.session import connected, run
from taskforge.cli.store import STORE, Store, masked
from taskforge.cli.ui.terminal import emit
from taskforge.domain import rules
from taskforge.domain.words import counted
from taskforge.sdk.app import TaskForge
from taskforge.telemetry.trace_export import export_traces
from taskforge.worker.metrics_server import HOST, MetricsServer
from taskforge.worker.processes.supervision import LEFT, Supervision, take_supervision
from taskforge.worker.processes.supervisor import DEREGISTERED, REPLACE, supervise

logger = logging.getLogger("taskforge.cli")
MOST_SLOTS = MOST_PROCESSES = 1_000


def worker(
    app: Annotated[
        str, Parameter(help="Where the TaskForge object is: module:name, such as app:forge.")
    ],
    /,
    *,
    slots: Annotated[int, Parameter(help="How many jobs run at once.")] = 10,
    queues: Annotated[
        str | None,
        Parameter(help="Only these queues: a list with commas. Dead letter queues must be named."),
    ] = None,
    processes: Annotated[
        int,
        Parameter(
            help="Run this many worker processes, and replace those that end. 0: this one alone, "
            "which a limit stops."
        ),
    ] = 1,
    name: Annotated[
        str | None, Parameter(help="A name that stays the same across restarts.")
    ] = None,
    max_jobs: Annotated[
        int | None, Parameter(help="Replace the process after this many jobs.")
    ] = None,
    max_memory_mb: Annotated[
        int | None, Parameter(help="Replace the process when it has grown beyond this.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        Parameter(
            help="Answer GET /metrics on this port of 127.0.0.1, and on the next ones for more "
            "processes."
        ),
    ] = None,
    log_format: LogFormat = None,
    store: Store = STORE,
) -> int:
    """Run an app's jobs until stopped. SIGTERM or Ctrl-C lets running jobs finish within the grace
    time; twice stops at once."""
    supervision = take_supervision()
    begin_log(log_format)
    rules.integer("--slots", slots, 1, MOST_SLOTS)
    rules.integer("--processes", processes, 0, MOST_PROCESSES)
    wanted = listed("--queues", queues, "emails,default")
    forge = load(app, store)
    log_as_set(forge, log_format)
    forge.settings = forge.settings.changed(metrics_port=metrics_port)
    is_limited = max_jobs is not None or max_memory_mb is not None
    if processes > 1 or (processes == 1 and is_limited and supervision is None):
        return _supervise(processes, name, max_memory_mb)
    if forge.settings.tracing:
        export_traces("taskforge-worker")
    return run(_work(forge, slots, wanted, name, max_jobs, max_memory_mb, supervision, store))


def _supervise(processes: int, name: str | None, max_memory_mb: int | None) -> int:
    """The same command, once for each process, without what the supervisor itself sees to."""
    if name is not None and processes > 1:
        raise CommandError(
            "--name is given together with --processes",
            "leave one out: each process needs a name of its own",
        )
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
    supervision: Supervision | None,
    store: Store,
) -> int:
    async with connected(
        forge,
        supervision,
        slots=slots,
        queues=queues,
        name=name,
        max_jobs=max_jobs,
        supervised=supervision is not None,
    ) as session:
        types = (
            ", ".join(forge.registry.types() or ())
            or "no job types: decorate a function with @forge.job()"
        )
        logger.info(
            "worker %s on %s with %d slots runs %s",
            session.worker.name,
            masked(forge.settings.url),
            slots,
            types,
        )
        beside = [session.memory_watch(max_memory_mb)] if max_memory_mb is not None else []
        if forge.settings.metrics_port:
            number = 0 if supervision is None else supervision.number
            metrics = MetricsServer(session.worker, forge.settings.metrics_port + number)
            logger.info("metrics on http://%s:%d/metrics", HOST, metrics.port)
            beside += metrics.services()
        if supervision is not None:
            beside.append(session.supervisor_watch(supervision))
            beside.append(session.supervisor_news(supervision))
        await session.run(*beside)
        done = session.worker.executor.done
        logger.info("stopped in %.1f s after %s", session.stop_took, counted(done, "job", "jobs"))
    if store.json:
        seconds = round(time.monotonic() - session.started, 3)
        emit(
            {
                "worker": session.worker.name,
                "jobs": done,
                "seconds": seconds,
                "stop_seconds": round(session.stop_took, 3),
            }
        )
    status = (
        DEREGISTERED if session.worker.was_deregistered else REPLACE if session.worker.hangs else 0
    )
    if supervision is not None:
        supervision.tell(LEFT)
    return session.leave(status)
