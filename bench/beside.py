"""Our figures beside those of peers: rounds of runs, the rows they make, and the peers that could not take part."""

import os
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence

from rich.table import Table

from bench.processes import Failed
from bench.report import Pairs, Report, Row, Target, percentile

Run = Callable[[], Awaitable[float]]
PERCENTILES = ((0.50, "p50"), (0.95, "p95"), (0.99, "p99"))


class Comparison(Report):
    """A report whose rows name peers. What could not be measured is a failure of the full form, never left out in silence."""

    def missing(self, peer: str, why: object) -> None:
        rows = self.tables.setdefault("missing", [])
        rows.append({"peer": peer, "why": str(why)})
        self.say(f"[red]missing[/red]: {peer}: {why}")

    def show(self) -> None:
        shown = Table(title=f"TaskForge beside its peers, {os.cpu_count()} cores", title_justify="left", title_style="bold")
        for name in ("what", "peer", "peer's", "ours", "ratio", "target", ""):
            shown.add_column(name, justify="right" if name in {"peer's", "ours", "ratio"} else "left")
        for row in self.rows:
            mark = "" if row.target is None else "[green]ok[/green]" if row.is_met else "[red]short[/red]"
            ratio = "" if row.ratio is None else f"{row.ratio:.2f} ×"
            shown.add_row(
                f"{row.engine}: {row.what}", row.against, _figure(row, row.base), _figure(row, row.ours), ratio, _text(row), mark
            )
        self.console.print(shown)
        for one in self.tables.get("missing", []):
            self.console.print(f"[red]missing[/red]: {one['peer']}: {one['why']}", highlight=False)

    # --- Rows ---

    def rates(
        self, engine: str, what: str, peer: str, theirs: Sequence[float], ours: Sequence[float], target: Target | None
    ) -> None:
        """One figure a round of each side; the median of the rounds' ratios counts."""
        if theirs and len(theirs) == len(ours):
            self.pairs(engine, what, peer, Pairs(tuple(zip(theirs, ours, strict=True))), target)

    def rate(self, engine: str, what: str, ours: Sequence[float], target: Target) -> None:
        if ours:
            self.add(Row(engine=engine, what=what, against="", base=None, ours=statistics.median(ours), ratio=None, target=target))

    def delays(
        self, engine: str, what: str, peer: str, theirs: list[float], ours: list[float], targets: Mapping[str, Target]
    ) -> None:
        """Percentiles over all rounds, in milliseconds. Without a peer the targets are fixed figures."""
        for share, name in PERCENTILES:
            mine = percentile(ours, share)
            base = percentile(theirs, share) if theirs else None
            self.add(
                Row(
                    engine=engine,
                    what=f"{what}, {name}",
                    against=peer,
                    base=base,
                    ours=mine,
                    ratio=mine / base if base else None,
                    unit="ms",
                    target=targets.get(name),
                )
            )


async def interleaved(report: Comparison, what: str, rounds: int, runs: Mapping[str, Run]) -> dict[str, list[float]]:
    """Each run once a round, so that a noisy neighbour slows all of them down. One that failed is not tried again."""
    figures: dict[str, list[float]] = {name: [] for name in runs}
    failed: set[str] = set()
    for number in range(rounds):
        for name, run in runs.items():
            if name in failed:
                continue
            try:
                figures[name].append(await run())
            except Failed as error:
                report.missing(name, error)
                failed.add(name)
            else:
                report.say(f"{what}, round {number + 1} of {rounds}: {name}: {figures[name][-1]:,.0f}/s")
    return {name: values for name, values in figures.items() if name not in failed}


def _figure(row: Row, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}/s" if row.unit == "jobs/s" else f"{value:,.2f} ms"


def _text(row: Row) -> str:
    target = row.target
    if target is None:
        return ""
    if target.ratio_at_least is not None:
        return f"≥ {target.ratio_at_least:g} ×"
    return f"≤ {target.ratio_at_most:g} ×" if target.ratio_at_most is not None else str(target)
