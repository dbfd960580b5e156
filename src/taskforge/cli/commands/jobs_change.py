"""taskforge jobs cancel, taskforge jobs retry, taskforge jobs redrive"""

import time
from typing import Annotated
from uuid import UUID

import msgspec
from cyclopts import Parameter
from rich.text import Text

from taskforge.cli import shapes
from taskforge.cli.failure import FAILED, CommandError
from taskforge.cli.selection import SELECTION, Selection
from taskforge.cli.store import STORE, Store, job_id, opened
from taskforge.cli.ui.screen import console, error_console, styled
from taskforge.cli.ui.terminal import PATIENCE_SECONDS, confirm, emit, status
from taskforge.domain import bulk
from taskforge.domain.changes import CancelJob, Changed, JobChange, RedriveJob, RetryJob
from taskforge.domain.job import FINAL, JobStatus
from taskforge.domain.query import JobFilter
from taskforge.operations import jobs as operations
from taskforge.ports.engine import AnyEngine

_UNFINISHED = tuple(one for one in JobStatus if one not in FINAL)
Ids = Annotated[tuple[str, ...], Parameter(help="Ids of jobs; or none, and filters.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.")]
DryRun = Annotated[
    bool,
    Parameter(
        name="--dry-run", help="Say how many jobs would change, and change none.", negative=""
    ),
]


async def cancel(
    jobs: Ids = (),
    /,
    *,
    selection: Selection = SELECTION,
    all_: Annotated[
        bool, Parameter(name="--all", help="Every unfinished job, when no filter is given.")
    ] = False,
    reason: str = "cancelled by request",
    yes: Yes = False,
    dry_run: DryRun = False,
    store: Store = STORE,
) -> int:
    """Cancel jobs, by id or by filter. Pending and scheduled ones end at once, processing ones are
    asked to stop."""
    return await _change(
        "cancel",
        CancelJob(reason),
        jobs,
        selection,
        _UNFINISHED,
        store,
        all_=all_,
        yes=yes,
        dry_run=dry_run,
    )


async def retry(
    jobs: Ids = (),
    /,
    *,
    selection: Selection = SELECTION,
    all_: Annotated[
        bool, Parameter(name="--all", help="Every failed job, when no filter is given.")
    ] = False,
    attempts: Annotated[
        int | None, Parameter(help="Grant this many attempts; otherwise those left, or one.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    store: Store = STORE,
) -> int:
    """Run failed jobs again, by id or by filter; cancelled ones when their id or --status cancelled
    is given."""
    return await _change(
        "retry",
        RetryJob(attempts),
        jobs,
        selection,
        (JobStatus.FAILED,),
        store,
        all_=all_,
        yes=yes,
        dry_run=dry_run,
    )


async def redrive(
    jobs: Ids = (),
    /,
    *,
    selection: Selection = SELECTION,
    all_: Annotated[
        bool, Parameter(name="--all", help="Every dead letter, when no filter is given.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    store: Store = STORE,
) -> int:
    """Send dead letters back to the queues they came from, by id or by filter, with a fresh
    budget."""
    waiting = (JobStatus.PENDING, JobStatus.SCHEDULED, JobStatus.FAILED)
    return await _change(
        "redrive",
        RedriveJob(),
        jobs,
        selection,
        waiting,
        store,
        all_=all_,
        yes=yes,
        dry_run=dry_run,
    )


async def _change(
    verb: str,
    change: JobChange,
    jobs: tuple[str, ...],
    selection: Selection,
    default: tuple[JobStatus, ...],
    store: Store,
    *,
    all_: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    identifiers = [job_id(text) for text in jobs]
    if bool(identifiers) + (not selection.is_empty or all_) != 1:
        what = "both ids and filters are given" if identifiers else "no job is named"
        raise CommandError(
            what,
            f"name ids, or filters such as --queue and --status, or --all: `taskforge jobs "
            f"{verb} --help`",
        )
    async with opened(store) as engine:
        if identifiers and dry_run:
            would = await operations.dry_run_named(engine, [engine.home], identifiers, change)
            return _say_what_would(would, store)
        if identifiers:
            return await _change_named(engine, identifiers, change, store)
        wanted = await selection.filter(engine, default=default)
        if dry_run:
            would = await operations.dry_run(engine, [engine.home], wanted, change)
            return _say_what_would(would, store)
        counted = await engine.count_jobs([engine.home], wanted)
        count = counted.count
        shown = f"{count:,}{' or more' if counted.more else ''} job{'' if count == 1 else 's'}"
        if (count or counted.more) and not confirm(f"{verb.capitalize()} {shown}?", yes=yes):
            console().print("nothing was changed", style="yellow")
            return FAILED
        return await _change_matching(engine, wanted, change, store, shown)


async def _change_named(
    engine: AnyEngine, identifiers: list[UUID], change: JobChange, store: Store
) -> int:
    answers = await engine.change([engine.home], identifiers, change)
    refused = sum(not isinstance(answer, Changed) for answer in answers)
    if store.json:
        rows = [
            shapes.answer(identifier, answer)
            for identifier, answer in zip(identifiers, answers, strict=True)
        ]
        emit({"changed": len(answers) - refused, "refused": refused, "jobs": rows})
        return FAILED if refused else 0
    out, complaints = console(), error_console(soft_wrap=True)
    for identifier, answer in zip(identifiers, answers, strict=True):
        if isinstance(answer, Changed):
            out.print(
                identifier,
                status(answer.status or "deleted"),
                f"({answer.note})" if answer.note else "",
            )
        else:
            complaints.print(Text("error ", style="bold red") + Text(str(answer.error), style=""))
    if refused:
        complaints.print(
            Text("next  ", style="cyan") + Text("see how they stand with `taskforge jobs show ID`")
        )
    return FAILED if refused else 0


async def _change_matching(
    engine: AnyEngine, wanted: JobFilter, change: JobChange, store: Store, shown: str
) -> int:
    progress = bulk.Progress(0, 0)
    screen = error_console()
    said = time.monotonic()
    with screen.status(f"0 of {shown}") as spinner:
        async for progress in operations.change_where(engine, [engine.home], wanted, change):
            how_far = f"{progress.changed + progress.refused:,} of {shown}"
            spinner.update(how_far)
            if not screen.is_terminal and time.monotonic() - said > PATIENCE_SECONDS:
                screen.print(how_far)
                said = time.monotonic()
    if store.json:
        emit({"changed": progress.changed, "refused": progress.refused, "jobs": []})
    else:
        why = (
            "were no dead letters, or had moved on"
            if isinstance(change, RedriveJob)
            else "had moved on"
        )
        left = f", {progress.refused:,} {why}" if progress.refused else ""
        console().print(styled("[green]{n} changed[/]{left}", n=f"{progress.changed:,}", left=left))
    return 0


def _say_what_would(would: bulk.DryRun, store: Store) -> int:
    if store.json:
        emit({"dry_run": True, **msgspec.structs.asdict(would)})
        return 0
    more = " or more" if would.more else ""
    left = f", {would.refused:,} do not allow it" if would.refused else ""
    text = "{n}{more} would be changed{left}; nothing was"
    console().print(styled(text, n=f"{would.changed:,}", more=more, left=left))
    return 0
