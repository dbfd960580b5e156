"""taskforge failures …"""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from cyclopts import App, Parameter

from taskforge.cli.failure import FAILED
from taskforge.cli.moments import ago
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import clock, confirm, emit, status, table
from taskforge.domain import rules
from taskforge.domain.changes import DeleteJob, RetryJob
from taskforge.domain.errors import Invalid
from taskforge.domain.failure_group import FailureDetails, FailureGroup, GroupQuery, GroupSort
from taskforge.domain.job_page import Counted
from taskforge.domain.words import counted
from taskforge.wiring import failures_of

app = App(name="failures", help="See what fails alike, run its jobs again, or delete them.")
Group = Annotated[str, Parameter(help="Its id: `taskforge failures list`.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.")]
DryRun = Annotated[
    bool,
    Parameter(
        name="--dry-run", help="Say how many jobs would change, and change none.", negative=""
    ),
]


@app.command(name="list")
async def list_(
    *,
    type_: Annotated[str | None, Parameter(name="--type", help="Of this job type.")] = None,
    since: Annotated[
        str | None, Parameter(help="In which something failed since: 15m, 2h, 3d, or a time.")
    ] = None,
    sort: Annotated[str, Parameter(help="last_seen or count: newest or largest first.")] = (
        "last_seen"
    ),
    limit: Annotated[int, Parameter(help="How many.")] = 50,
    store: Store = STORE,
) -> None:
    """List groups of failures: attempts that failed alike."""
    order = GroupSort(rules.choice("--sort", sort, tuple(one.value for one in GroupSort)))
    async with opened(store) as engine:
        seen_after = None if since is None else ago("--since", since)
        query = GroupQuery(job_type=type_, seen_after=seen_after, sort=order, limit=limit)
        page = await failures_of(engine).groups([engine.home], query)
    if store.json:
        emit({"failures": [_shape(one) for one in page.groups]})
        return
    if not page.groups:
        if type_ is None and since is None:
            console().print("nothing has failed", style="green")
        else:
            told = "no failures that fit; `taskforge failures list` tells of all"
            console().print(told, style="yellow")
        return
    rows = table(
        *("count", "last", "trend", "job type", "error", "message", "id"),
        right=("count",),
        flexible=("message", "error"),
        spare=("trend", "last"),
    )
    for one in page.groups:
        error, message = (one.error_type, one.message) if not one.is_rest else ("", _REST)
        last = clock(one.last_seen)
        rows.add_row(
            f"{one.count:,}", last, str(one.trend), one.job_type, error, message, str(one.id)
        )
    console().print(rows)


_REST = "failures for which the day had no room for groups of their own"


@app.command
async def show(group: Group, /, *, store: Store = STORE) -> None:
    """Show a group: how many jobs are in it now, and one failure as it was."""
    async with opened(store) as engine:
        found = await failures_of(engine).details([engine.home], _id(group))
    if store.json:
        emit({"failure": _whole(found)})
        return
    out, one = console(), found.group
    named = _REST if one.is_rest else f"{one.job_type}: {one.error_type}: {one.message}"
    out.print(styled("[bold]{what}[/]", what=named))
    out.print(
        styled(
            "failed {n} from {first} to {last}, {trend}",
            n=counted(one.count, "time", "times"),
            first=clock(one.first_seen),
            last=clock(one.last_seen),
            trend=str(one.trend),
        )
    )
    out.print(styled("queues  {queues}", queues=", ".join(one.queues)))
    out.print(status("failed"), styled("{n}", n=_many(found.failed, "job", "jobs")))
    if found.dead_letters.count:
        waiting = _many(found.dead_letters, "dead letter waits", "dead letters wait")
        out.print(styled("{n}", n=waiting))
    if found.example is not None:
        shown = found.example
        out.print(styled("job     {job}", job=str(shown.job_id)))
        out.print(styled("[red]{error}[/]", error=f"{shown.error_type}: {shown.message}"))
        out.print(styled("{traceback}", traceback=shown.traceback))


@app.command
async def retry(
    group: Group,
    /,
    *,
    attempts: Annotated[
        int | None, Parameter(help="Grant this many attempts; otherwise those left, or one.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    store: Store = STORE,
) -> int:
    """Run the jobs of a group again; dead letters go back to the queues they came from."""
    return await _change(group, RetryJob(attempts), "Retry", store, yes=yes, dry_run=dry_run)


@app.command
async def delete(
    group: Group, /, *, yes: Yes = False, dry_run: DryRun = False, store: Store = STORE
) -> int:
    """Delete the jobs of a group with their history."""
    return await _change(group, DeleteJob(), "Delete", store, yes=yes, dry_run=dry_run)


async def _change(
    group: str,
    change: RetryJob | DeleteJob,
    verb: str,
    store: Store,
    *,
    yes: bool,
    dry_run: bool,
) -> int:
    identifier, out = _id(group), console()
    async with opened(store) as engine:
        failures, projects = failures_of(engine), [engine.home]
        would = await failures.try_change(projects, identifier)
        many = f"{would.changed:,}{' or more' if would.more else ''}"
        if dry_run:
            if store.json:
                emit({"dry_run": True, **msgspec.structs.asdict(would)})
            else:
                out.print(styled("{n} would be changed; nothing was", n=many))
            return 0
        jobs = "job" if many == "1" else "jobs"
        if would.changed and not confirm(f"{verb} {many} {jobs}?", yes=yes):
            out.print("nothing was changed", style="yellow")
            return FAILED
        came = await failures.change(projects, identifier, change)
    if store.json:
        emit({"changed": came.changed, "refused": came.refused})
        return 0
    left = f", {came.refused:,} did not allow it" if came.refused else ""
    out.print(styled("[green]{n} changed[/]{left}", n=f"{came.changed:,}", left=left))
    return 0


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(
            "group", f"{text!r} is not the id of a group", "see `taskforge failures list`"
        ) from None


def _many(found: Counted, one: str, many: str) -> str:
    if found.more:
        return f"{found.count:,} or more {many}"
    return counted(found.count, one, many)


def _shape(group: FailureGroup) -> dict[str, Any]:
    """Without the store's own numbers."""
    hidden = ("number", "project", "epoch")
    return {
        name: value for name, value in msgspec.structs.asdict(group).items() if name not in hidden
    }


def _whole(found: FailureDetails) -> dict[str, Any]:
    example = None if found.example is None else msgspec.structs.asdict(found.example)
    counts = {
        name: msgspec.structs.asdict(getattr(found, name)) for name in ("failed", "dead_letters")
    }
    return _shape(found.group) | counts | {"example": example}
