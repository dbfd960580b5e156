"""taskforge jobs …: listing and showing. The other commands are in jobs_tail, jobs_explain and
jobs_change."""

from datetime import datetime
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.text import Text

from taskforge.cli import shapes
from taskforge.cli.selection import SELECTION, Selection
from taskforge.cli.store import STORE, Store, job_id, opened
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import STYLES, clock, emit, status, table
from taskforge.domain.durations import span
from taskforge.domain.errors import NotFound
from taskforge.domain.execution import Execution
from taskforge.domain.job import KEPT_AS_IS, ErrorInfo, Extras, JobStatus, StoredJob
from taskforge.domain.job_parts import JobPart
from taskforge.domain.log import Line
from taskforge.domain.query import Page, check_page
from taskforge.operations.executions import read_history
from taskforge.operations.jobs import fill_page

SEARCH_SECONDS = 10.0  # for a page that is not full yet
app = App(name="jobs", help="List, count, show, explain, follow, cancel, retry and redrive jobs.")
app.command(
    "taskforge.cli.commands.jobs_tail:tail",
    name="tail",
    help="Follow the status changes of recent jobs.",
)
app.command(
    "taskforge.cli.commands.jobs_explain:explain",
    name="explain",
    help="Say why a job is not running.",
)
app.command(
    "taskforge.cli.commands.jobs_change:cancel",
    name="cancel",
    help="Cancel jobs, by id or by filter.",
)
app.command(
    "taskforge.cli.commands.jobs_change:retry",
    name="retry",
    help="Run failed jobs again, by id or by filter; cancelled ones when their id or --status "
    "cancelled is given.",
)
app.command(
    "taskforge.cli.commands.jobs_change:redrive",
    name="redrive",
    help="Send dead letters back to the queues they came from.",
)


@app.command(name="list")
async def list_(
    *,
    selection: Selection = SELECTION,
    limit: Annotated[int, Parameter(help="At most 1,000.")] = 50,
    cursor: Annotated[str | None, Parameter(help="What the page before named as next.")] = None,
    include: Annotated[
        list[JobPart] | None,
        Parameter(
            negative="",
            help="With --json: payload, result or both, which a list leaves out. A page with them "
            "ends at 4 MiB.",
        ),
    ] = None,
    store: Store = STORE,
) -> None:
    """List jobs, newest first."""
    async with opened(store) as engine:
        page = Page(limit=limit, cursor=cursor, include=frozenset(include or ()))
        check_page(page)
        wanted = await selection.filter(engine)
        listed = await fill_page(engine, [engine.home], wanted, page, seconds=SEARCH_SECONDS)
        now = await engine.now()
    found, following = listed.jobs, listed.cursor
    if store.json:
        emit({"jobs": [shapes.listed_job(job, page) for job in found], "next": following})
        return
    out = console()
    if not found and following is None:
        out.print("no job matches", style="yellow")
        return
    if not found:
        out.print(f"none so far; search on: --cursor {following}", style="yellow")
        return
    columns = ("id", "type", "queue", "status", "try", "age", "note")
    rows = table(
        *columns,
        right=("try", "age"),
        flexible=("note",),
        spare=("try", "queue", "age"),
        whole=("id",),
    )
    for job in found:
        age = span((now - job.created_at).total_seconds())
        attempts = f"{job.attempt_count}/{job.max_attempts}"
        rows.add_row(
            str(job.id),
            Text(job.job_type),
            Text(job.queue),
            status(job.status),
            attempts,
            age,
            Text(note(job, now)),
        )
    out.print(rows)
    if following is not None:
        out.print(f"older ones: --cursor {following}", style="bright_black")


@app.command
async def count(*, selection: Selection = SELECTION, store: Store = STORE) -> None:
    """Count jobs, up to 10,000."""
    async with opened(store) as engine:
        counted = await engine.count_jobs([engine.home], await selection.filter(engine))
    if store.json:
        emit({"count": counted.count, "more": counted.more})
        return
    console().print(f"{counted.count:,}{' or more' if counted.more else ''}")


def note(job: StoredJob, now: datetime) -> str:
    """What one would want to know next about a job that stands like this."""
    if job.error is not None:
        return f"{job.error.type}: {job.error.message}".partition("\n")[0]
    if job.scheduled_for is not None and job.status == "scheduled":
        due = f"due in {span(max(0.0, (job.scheduled_for - now).total_seconds()))}"
        return f"attempt {job.attempt_count + 1} {due}" if job.attempt_count else due
    if job.progress is not None and not job.status.is_final:
        return f"{job.progress:.0%} {job.progress_message or ''}".rstrip()
    if job.reason:
        return job.reason
    return f"from {job.origin_queue}" if job.origin_queue else ""


@app.command
async def show(
    job: Annotated[str, Parameter(help="The job's id.")], /, *, store: Store = STORE
) -> None:
    """Show all that is known of a job: facts, executions, logs, and the error with its
    traceback."""
    identifier = job_id(job)
    async with opened(store) as engine:
        found = await engine.get([engine.home], [identifier])
        if not found:
            raise NotFound("job", job)
        executions = await engine.executions([engine.home], identifier)
        lines = await read_history(engine, [engine.home], identifier)
        waits = not found[0].status.is_final and found[0].status is not JobStatus.PROCESSING
        why = (
            (await engine.explain([engine.home], identifier)).reasons[0].text
            if waits and not store.json
            else None
        )
    if store.json:
        attempts = {one.id: one.attempt_number for one in executions}
        emit(
            {
                "job": shapes.job(found[0]),
                "executions": [shapes.execution(one) for one in executions],
                "logs": [shapes.line(line, attempts) for line in lines],
            }
        )
        return
    out = console()
    _show_facts(out, found[0], why)
    _show_executions(out, executions)
    _show_logs(out, lines)
    _show_error(
        out,
        found[0].error
        or next((one.error for one in reversed(executions) if one.error is not None), None),
    )


def _show_facts(out: Console, job: StoredJob, why: str | None) -> None:
    out.print(
        Text(f"{job.id} ", style="bold"),
        status(job.status),
        f" {job.reason}" if job.reason else "",
        sep="",
    )
    facts = {
        "waits": why,
        "type": job.job_type,
        "queue": job.queue + (f" (from {job.origin_queue})" if job.origin_queue else ""),
        "priority": job.priority,
        "attempts": f"{job.attempt_count} of {job.max_attempts}"
        + (f", {job.crash_count} crashes" if job.crash_count else ""),
        "progress": None
        if job.progress is None
        else f"{job.progress:.0%} {job.progress_message or ''}",
        "worker": job.worker_name or job.worker,
        "enqueued": clock(job.created_at),
        "due": clock(job.scheduled_for),
        "started": clock(job.started_at),
        "ended": clock(job.completed_at),
        "expires": clock(job.expires_at),
        "deadline": clock(job.timeout_at),
        "timeout": None if job.timeout_seconds is None else span(job.timeout_seconds),
        "tags": ", ".join(job.tags),
        "requires": job.requires,
        **{
            name.replace("_", " "): getattr(job, name)
            for name in (*KEPT_AS_IS, *Extras.__struct_fields__)
            if name != "timeout_seconds"
        },
        "payload": "(erased)" if job.payload_erased else _json(job.payload),
        "result": _json(job.result),
    }
    if job.cancel_requested and not job.status.is_final:
        facts["asked"] = "to stop"
    for name, value in facts.items():
        if value not in (None, ""):
            out.print(
                Text(f"  {name:<16}", style="bright_black") + Text(str(value)), soft_wrap=True
            )


def _json(value: msgspec.Raw | None) -> str | None:
    return None if value is None else bytes(value).decode()


def _show_executions(out: Console, executions: list[Execution]) -> None:
    if not executions:
        return
    rows = table(
        "attempt",
        "status",
        "worker",
        "started",
        "took",
        "why",
        right=("attempt", "took"),
        flexible=("why",),
        spare=("worker",),
    )
    for one in executions:
        took = None if one.duration_ms is None else one.duration_ms / 1000
        why = one.reason or (
            "" if one.error is None else f"{one.error.type}: {one.error.message}".partition("\n")[0]
        )
        worker = one.worker_name or str(one.worker or "")
        rows.add_row(
            str(one.attempt_number),
            status(one.status),
            worker,
            clock(one.started_at or one.created_at),
            span(took),
            Text(why),
        )
    out.print(rows)


def _show_logs(out: Console, lines: list[Line]) -> None:
    for line in lines:
        level = line.level.name.lower()
        text = Text(f"{line.logged_at.astimezone():%H:%M:%S.%f}"[:12], style="bright_black")
        text.append(f" {level:<5} ", style=STYLES[level])
        text.append(line.message, style="" if line.ended is None else "italic")
        out.print(text, soft_wrap=True)


def _show_error(out: Console, error: ErrorInfo | None) -> None:
    """The job's, or that of the last try that had one: a job that is to run again has none of its
    own."""
    if error is None:
        return
    out.print()
    out.print(Text(f"{error.type}: {error.message}", style="bold red"), soft_wrap=True)
    if error.traceback:
        out.print(Text(error.traceback.rstrip(), style="red"), soft_wrap=True)
