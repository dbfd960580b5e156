"""Draws the live view: what is in a snapshot, on a screen of a given size. Pure; every row is one
line."""

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from taskforge.cli.commands.jobs import note
from taskforge.cli.ui.snapshot import Snapshot
from taskforge.cli.ui.terminal import STYLES, slots, status
from taskforge.domain.durations import span
from taskforge.domain.job import JobStatus, StoredJob
from taskforge.domain.worker import Worker

WIDE = 140
WITH_IDS = 120  # columns from which on an id has room
FRAME_LINES = 3  # a panel's two borders and its table's heading
BAR = 10
LONG_SECONDS = 1.0


class ViewLine(msgspec.Struct, frozen=True):
    """One line of the log pane."""

    at: str
    level: str
    source: str
    message: str


class Heading(msgspec.Struct, frozen=True):
    title: str
    place: str
    up_seconds: float
    stopping: str | None = None
    # How to get in, which is told once and must not be covered: what, and the secret or address
    ways_in: tuple[tuple[str, str], ...] = ()


def draw(
    snapshot: Snapshot, lines: Sequence[ViewLine], heading: Heading, width: int, height: int
) -> Layout:
    """Queues and workers side by side where there is room, else one above the other; jobs and the
    log share what is left."""
    wide = width >= WIDE
    queue_lines = min(len(snapshot.queues), max(3, height // 4)) or 1
    worker_lines = min(len(snapshot.workers), max(1, height // 8)) or 1
    if wide:
        upper = max(queue_lines, worker_lines) + FRAME_LINES
        top = Layout(name="top", size=upper)
        top.split_row(
            Layout(
                _panel(
                    _title("queues", queue_lines, len(snapshot.queues)),
                    _queues(snapshot, queue_lines),
                ),
                ratio=4,
            ),
            Layout(
                _panel("workers", _workers(snapshot.workers, upper - FRAME_LINES, snapshot)),
                ratio=3,
            ),
        )
        above = [top]
    else:
        upper = queue_lines + worker_lines + 2 * FRAME_LINES
        above = [
            Layout(
                _panel(
                    _title("queues", queue_lines, len(snapshot.queues)),
                    _queues(snapshot, queue_lines),
                ),
                size=queue_lines + FRAME_LINES,
            ),
            Layout(
                _panel("workers", _workers(snapshot.workers, worker_lines, snapshot)),
                size=worker_lines + FRAME_LINES,
            ),
        ]
    ways_in, ways_lines = _ways_in(heading.ways_in, width)
    left = height - 1 - ways_lines - upper
    log_size = max(4, left // 3)
    job_lines = max(0, left - log_size - FRAME_LINES)
    screen = Layout()
    screen.split_column(
        Layout(_heading(heading, snapshot), size=1),
        *([Layout(ways_in, size=ways_lines)] if ways_lines else []),
        *above,
        Layout(
            _panel("jobs", _jobs(snapshot, job_lines, wide=wide, with_ids=width >= WITH_IDS)),
            size=job_lines + FRAME_LINES,
        ),
        Layout(_panel("log", _log(lines, log_size - 2)), size=log_size),
    )
    return screen


def _panel(title: str, body: RenderableType) -> Panel:
    return Panel(
        body,
        title=Text.from_markup(f"[bold]{title}[/]"),
        title_align="left",
        border_style="bright_black",
        box=box.ROUNDED,
        padding=(0, 1),
    )


def _title(name: str, shown: int, there: int) -> str:
    return f"{name} [not bold](the {shown} busiest of {there})[/]" if shown < there else name


def _table() -> Table:
    return Table(
        box=None,
        expand=True,
        pad_edge=False,
        header_style="bright_black",
        show_edge=False,
        padding=(0, 2, 0, 0),
    )


def _heading(heading: Heading, snapshot: Snapshot) -> Table:
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    row.add_column(no_wrap=True, justify="right")
    name = Text(f" {heading.title} ", style="bold black on cyan")
    if heading.stopping is not None:
        row.add_row(name, Text(heading.stopping, style="bold yellow"), Text())
        return row
    minutes, seconds = divmod(int(heading.up_seconds), 60)
    facts = Text.assemble(
        (f"{snapshot.rate:.1f} jobs/s", "bold green"),
        f"  up {minutes}:{seconds:02}  ",
        ("Ctrl-C stops ", "bright_black"),
    )
    row.add_row(name, Text(heading.place, style="bright_black"), facts)
    return row


def _ways_in(ways: Sequence[tuple[str, str]], width: int) -> tuple[Text, int]:
    """Each on lines of its own and whole, so that it can be copied; and how many lines that is."""
    text = Text(overflow="crop", no_wrap=True)
    lines = 0
    for name, value in ways:
        label = f" {name:<8} "
        line = label + value
        pieces = [line[start : start + width] for start in range(0, len(line), width)]
        text.append(label, style="bright_black").append(pieces[0][len(label) :] + "\n", "bold")
        for piece in pieces[1:]:
            text.append(piece + "\n", style="bold")
        lines += len(pieces)
    return text, lines


def _queues(snapshot: Snapshot, most: int) -> Table:
    rows = _table()
    rows.add_column("queue", no_wrap=True, overflow="ellipsis", ratio=1, min_width=10)
    columns = ("pending", "scheduled", "processing", "succeeded", "failed")
    for name in (*columns, "oldest", "per second"):
        rows.add_column(name, no_wrap=True, justify="right")
    shown = snapshot.queues
    if len(shown) > most:
        shown = sorted(
            shown,
            key=lambda one: (-snapshot.rates.get(one.queue_id, 0.0), -one.processing - one.pending),
        )[:most]
    for one in shown:
        title = Text(one.queue, style="" if one.is_active else "yellow")
        if not one.is_active:
            title.append(" paused")
        if one.queue_id in snapshot.dead_letter_queues:
            title.append(" dead letters", style="red" if one.pending else "bright_black")
        rate = snapshot.rates.get(one.queue_id, 0.0)
        counts = [_count(getattr(one, column), STYLES[column]) for column in columns]
        rows.add_row(
            title,
            *counts,
            span(one.oldest_pending_seconds) if one.pending else "",
            Text(f"{rate:.1f}", style="" if rate else "bright_black"),
        )
    return rows


def _count(count: int, style: str) -> Text:
    return Text(f"{count:,}", style=style if count else "bright_black")


def _workers(workers: Sequence[Worker], most: int, snapshot: Snapshot) -> Table:
    rows = _table()
    rows.add_column("worker", no_wrap=True, overflow="ellipsis", ratio=1, min_width=8)
    for name in ("status", "slots"):
        rows.add_column(name, no_wrap=True)
    for name in ("cpu", "memory", "heard"):
        rows.add_column(name, no_wrap=True, justify="right")
    if not workers:
        rows.add_row(Text("starting …", style="bright_black"))
    for worker in workers[:most]:
        heard = worker.last_heartbeat
        rows.add_row(
            worker.name,
            status(worker.status),
            _bar(
                min(1.0, (worker.active_jobs + worker.stuck_slots) / worker.max_concurrent_jobs),
                slots(worker.active_jobs, worker.stuck_slots, worker.max_concurrent_jobs),
            ),
            "" if worker.cpu_percent is None else f"{worker.cpu_percent:.0f} %",
            "" if worker.memory_bytes is None else f"{worker.memory_bytes / 1e6:.0f} MB",
            "" if heard is None else span(max(0.0, (snapshot.at - heard).total_seconds())),
        )
    return rows


def _jobs(snapshot: Snapshot, most: int, *, wide: bool, with_ids: bool) -> Table:
    rows = _table()
    rows.add_column("time", no_wrap=True, min_width=8)
    if with_ids:
        rows.add_column("id", no_wrap=True)
    rows.add_column("type", no_wrap=True, overflow="ellipsis", max_width=24 if wide else 16)
    rows.add_column("queue", no_wrap=True, overflow="ellipsis", max_width=16 if wide else 10)
    rows.add_column("status", no_wrap=True, min_width=10)
    rows.add_column("try", no_wrap=True, justify="right", min_width=3)
    rows.add_column("took", no_wrap=True, justify="right", min_width=6)
    rows.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for job in _chosen(snapshot, most):
        identifier = [str(job.id)] if with_ids else []
        rows.add_row(
            f"{job.created_at.astimezone():%H:%M:%S}",
            *identifier,
            Text(job.job_type),
            Text(job.queue, style="bright_black"),
            status(job.status),
            f"{job.attempt_count}/{job.max_attempts}",
            span(_took(job, snapshot)),
            _note(job, snapshot),
        )
    return rows


def _chosen(snapshot: Snapshot, most: int) -> list[StoredJob]:
    """Long runners first, in at most half of the rows, then failures, in at most a third, because
    they would drop off a list of the newest; then the newest."""
    long = [
        job
        for job in snapshot.jobs
        if job.status is JobStatus.PROCESSING and (_took(job, snapshot) or 0) >= LONG_SECONDS
    ]
    failed = sorted(
        (job for job in snapshot.jobs if job.status is JobStatus.FAILED),
        key=lambda job: job.completed_at or job.created_at,
    )
    pinned = [
        *sorted(long, key=lambda job: job.id)[: most // 2],
        *failed[max(0, len(failed) - most // 3) :],
    ]
    shown = {job.id for job in pinned}
    newest = sorted(
        (job for job in snapshot.jobs if job.id not in shown), key=lambda job: job.id, reverse=True
    )
    return [*pinned, *newest][:most]


def _took(job: StoredJob, snapshot: Snapshot) -> float | None:
    if job.started_at is None or job.status in (JobStatus.PENDING, JobStatus.SCHEDULED):
        return None
    return max(0.0, ((job.completed_at or snapshot.at) - job.started_at).total_seconds())


def _note(job: StoredJob, snapshot: Snapshot) -> Text:
    if job.status is JobStatus.PROCESSING and job.progress is not None:
        return Text(f"{job.progress:4.0%} ") + _bar(job.progress, job.progress_message or "")
    return Text(note(job, snapshot.at), style="red" if job.error is not None else "bright_black")


def _bar(part: float, label: str) -> Text:
    filled = round(max(0.0, min(1.0, part)) * BAR)
    return Text.assemble(
        ("━" * filled, "yellow"), ("━" * (BAR - filled), "bright_black"), f" {label}"
    )


def _log(lines: Sequence[ViewLine], most: int) -> Table:
    rows = Table.grid(expand=True, padding=(0, 1, 0, 0))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True, min_width=5)
    rows.add_column(no_wrap=True, overflow="ellipsis", max_width=20)
    rows.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for line in lines[-most:] if most > 0 else []:
        rows.add_row(
            Text(line.at, style="bright_black"),
            Text(line.level, style=STYLES.get(line.level, "")),
            Text(line.source, style="bright_black"),
            Text(line.message),
        )
    return rows
