"""taskforge jobs explain"""

import shlex
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from taskforge.cli.store import STORE, Store, job_id, opened
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import clock, emit, slots, status, table
from taskforge.domain.durations import span
from taskforge.domain.errors import NotFound
from taskforge.domain.explanation import Explanation, Reason
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.operations.explaining import explain_job

# As it should be: nothing to mend.
_QUIET = (
    "next",
    "behind",
    "turns",
    "key_concurrency",
    "key_rate_limit",
    "other_queues",
    "running",
    "scheduled",
    "retry",
    "ended",
    "busy",
    "waiting",
    "circuit_probing",
    "unplaced",
    "misplaced",
    "paced",
    "risen",
    "scaling",
)
_STEPS = {
    "paused": "taskforge queues resume {queue}",
    "waiting": "see what they run: taskforge jobs list --status processing",
    "not_assigned": "assign one that is online: taskforge assignments add {queue} WORKER",
    "skipped": "start a worker whose handler takes it",
    "concurrency": "wait, or raise the queue's max_concurrent_jobs",
    "circuit_open": "mend what fails; if it was opened by hand, close it: taskforge circuits close",
    "rate_limit": "wait, or raise the queue's rate_limit",
    "unplaced": "nothing, while somebody leads: taskforge cluster",
    "misplaced": "nothing, while somebody leads: taskforge cluster",
    "busy": "wait, or start another worker",
    "paced": "wait, or start another worker; or change the queue's priority_pacing",
    "worker_lost": "nothing: any worker or server takes care of it within seconds",
    "no_worker": "start one: taskforge worker app:forge",
    "no_handler": "start a worker of the code that has the handler, or see where the type is "
    "misspelled",
    "lacks_capability": "start a worker with these capabilities",
    "not_subscribed": "start a worker with --queues {queue}",
    "dead_letters": "start a worker with --queues {queue}",
    "draining": "let it take jobs again: taskforge workers drain NAME --off; or start "
    "another worker",
    "stuck": "see its log for the handlers; a worker with a supervisor (--processes) is replaced "
    "by itself, restart others",
    "unhealthy": "see why its health check fails: taskforge workers list",
    "no_able_worker": "taskforge workers list",
    "scaling_paused": "taskforge scaling resume {queue}",
    "scaling_fails": "see what it refuses: taskforge scaling history {queue}",
    "scaling_full": "wait, or allow more: taskforge scaling edit {queue} --max N",
    "overdue": "start one: taskforge worker app:forge",
    "ended": "taskforge jobs show {id}",
}


async def explain(
    job: Annotated[str, Parameter(help="The job's id.")], /, *, store: Store = STORE
) -> None:
    """Say why a job is not running, what each worker says to it, and what to do."""
    identifier = job_id(job)
    async with opened(store) as engine:
        found = await engine.get([engine.home], [identifier])
        if not found:
            raise NotFound("job", job)
        explanation = await explain_job(engine, [engine.home], identifier)
        now = await engine.now()
    if store.json:
        emit(msgspec.to_builtins(explanation))
        return
    out = console()
    one = found[0]
    age = span((now - one.created_at).total_seconds())
    out.print(
        Text(f"{one.id} ", style="bold"),
        status(explanation.status),
        Text(f" {one.job_type} in {one.queue}, enqueued {age} ago"),
        sep="",
    )
    for reason in explanation.reasons:
        _show_reason(out, reason, one, explanation.status)
    if explanation.expected_start is not None and explanation.expected_start > now:
        out.print(
            Text(f"  expected to start {clock(explanation.expected_start)}", style="bright_black")
        )
    _show_workers(out, explanation)


def _show_reason(out: Console, reason: Reason, job: StoredJob, standing: JobStatus) -> None:
    mark, style = ("·", "bright_black") if reason.code in _QUIET else ("✗", "bold red")
    line = Text("  ") + Text(f"{mark} ", style=style) + Text(reason.text)
    if reason.until is not None and standing is not JobStatus.PENDING:
        line.append(f", {clock(reason.until)}", style="bright_black")
    out.print(line, soft_wrap=True)
    step = _STEPS.get(reason.code)
    if step is not None:
        out.print(
            Text(f"    → {step.format(queue=shlex.quote(job.queue), id=job.id)}", style="cyan"),
            soft_wrap=True,
        )


def _show_workers(out: Console, explanation: Explanation) -> None:
    if not explanation.workers:
        return
    rows = table(
        "worker", "slots", "this job", right=("slots",), flexible=("this job",), spare=("slots",)
    )
    if (
        explanation.workers_online > len(explanation.workers)
        and explanation.status is not JobStatus.PROCESSING
    ):
        out.print(
            Text(
                f"  {len(explanation.workers):,} of {explanation.workers_online:,} workers online:",
                style="bright_black",
            )
        )
    for one in explanation.workers:
        style = "green" if one.hindrance is None else ""
        rows.add_row(
            Text(one.name),
            slots(one.active_jobs, one.stuck_slots, one.max_concurrent_jobs),
            Text(one.text, style=style),
        )
    out.print(rows)
