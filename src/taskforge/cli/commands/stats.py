"""taskforge stats, taskforge top"""

import asyncio
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.live import Live
from rich.table import Table

from taskforge.cli.moments import seconds
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import emit, table
from taskforge.domain import rules
from taskforge.domain.durations import span
from taskforge.domain.metrics import Figures, Metrics, NamedMetrics, Period, Subject
from taskforge.domain.snapshot import ProjectSnapshot
from taskforge.operations.naming import subject_named
from taskforge.ports.engine import AnyEngine
from taskforge.wiring import metrics_of

Last = Annotated[str, Parameter(help="How far back: 15m, 24h, 30d.")]
_COLUMNS = (
    *("executions", "succeeded", "failed", "success", "p50", "p95", "p99"),
    *("wait p95", "a minute"),
)
MOST_SHOWN = 50


async def stats(
    *,
    queue: Annotated[str | None, Parameter(help="Of this queue: a name or an id.")] = None,
    job_type: Annotated[str | None, Parameter(help="Of this job type.")] = None,
    worker: Annotated[str | None, Parameter(help="Of this worker: a name or an id.")] = None,
    by: Annotated[
        str, Parameter(help="Each queue, job-type or worker, where none is named.")
    ] = "queue",
    last: Last = "1h",
    step: Annotated[str | None, Parameter(help="Also a series, with --json.")] = None,
    custom: Annotated[
        bool, Parameter(help="What handlers counted with update_metrics instead.")
    ] = False,
    store: Store = STORE,
) -> None:
    """Tell how executions went over a period, in all and for each queue, job type or worker."""
    period = Period(
        last_seconds=seconds("--last", last),
        step_seconds=None if step is None else seconds("--step", step),
    )
    rules.choice("--by", by, ("queue", "job-type", "worker"))
    if custom:
        await _tell_customs(period, job_type, store)
        return
    async with opened(store) as engine:
        subject = await subject_named(engine, queue=queue, job_type=job_type, worker=worker)
        total = await metrics_of(engine).metrics(subject, period)
        is_named = (queue, job_type, worker) != (None, None, None)
        each = [] if is_named else await _each(engine, by, period)
    if store.json:
        emit(
            {
                **msgspec.to_builtins(total),
                "each": [{"name": one.name, **msgspec.to_builtins(one.metrics)} for one in each],
            }
        )
        return
    console().print(_table(by, each, total))


async def _tell_customs(period: Period, job_type: str | None, store: Store) -> None:
    async with opened(store) as engine:
        found = await metrics_of(engine).customs(period, job_type, "", MOST_SHOWN)
    if store.json:
        emit(msgspec.to_builtins(found))
        return
    columns = ("count", "sum", "avg", "min", "max", "last")
    rows = table("job type", "name", *columns, right=columns)
    for one in found.items:
        rows.add_row(
            one.job_type, one.name, *(f"{getattr(one.totals, name):,.10g}" for name in columns)
        )
    console().print(rows)


async def top(
    *,
    last: Last = "5m",
    every: Annotated[str, Parameter(help="How often to look: 2s.")] = "2s",
    once: Annotated[bool, Parameter(help="Show it once and end.")] = False,
    store: Store = STORE,
) -> None:
    """Watch what runs, waits and fails: active jobs, queue sizes, workers, and how executions went
    lately. Ctrl-C ends it."""
    rest = max(0.5, seconds("--every", every))
    period = Period(last_seconds=seconds("--last", last))
    async with opened(store) as engine:
        if store.json or once:
            seen = await _look(engine, period)
            if store.json:
                emit(seen.shape())
            else:
                console().print(seen.shown())
            return
        with Live((await _look(engine, period)).shown(), console=console(), screen=True) as live:
            while True:
                await asyncio.sleep(rest)
                live.update((await _look(engine, period)).shown())


class _Seen(msgspec.Struct, frozen=True):
    """The live snapshot: what runs and waits now, and how the last minutes went."""

    now: ProjectSnapshot
    each: list[NamedMetrics]
    total: Metrics

    def shape(self) -> dict[str, object]:
        return {
            **msgspec.to_builtins(self.now),
            "metrics": msgspec.to_builtins(self.total),
        }

    def shown(self) -> Table:
        made = _table("queue", self.each, self.total)
        made.title = ", ".join(
            f"{value:,} {name.replace('_', ' ')}"
            for name, value in msgspec.structs.asdict(self.now).items()
        )
        return made


async def _look(engine: AnyEngine, period: Period) -> _Seen:
    source = metrics_of(engine)
    return _Seen(
        now=await source.snapshot(),
        each=await source.by_queue(period, "", MOST_SHOWN),
        total=await source.metrics(Subject(), period),
    )


async def _each(engine: AnyEngine, by: str, period: Period) -> list[NamedMetrics]:
    source = metrics_of(engine)
    if by == "queue":
        return await source.by_queue(period, "", MOST_SHOWN)
    if by == "job-type":
        return await source.by_job_type(period, "", MOST_SHOWN)
    return await source.by_worker(period, MOST_SHOWN)


def _table(by: str, each: list[NamedMetrics], total: Metrics) -> Table:
    rows = table(by, *_COLUMNS, right=_COLUMNS, spare=("p99", "succeeded", "wait p95"))
    for one in each:
        if one.metrics.totals.executions:
            rows.add_row(one.name, *_cells(one.metrics.totals))
    rows.add_section()
    rows.add_row("total", *_cells(total.totals), style="bold")
    return rows


def _cells(figures: Figures) -> tuple[str, ...]:
    def time(milliseconds: float | None) -> str:
        return "" if milliseconds is None else span(milliseconds / 1000)

    duration = figures.duration_ms
    return (
        f"{figures.executions:,}",
        f"{figures.succeeded:,}",
        f"{figures.failed:,}",
        f"{figures.success_rate:.1f} %",
        time(duration.p50),
        time(duration.p95),
        time(duration.p99),
        time(figures.wait_ms.p95),
        f"{figures.throughput_per_minute:,.1f}",
    )
