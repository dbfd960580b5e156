"""Our figures beside those of peers: rounds of runs, the rows they make, and the peers that could
not take part."""

import os
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from rich.table import Table

from bench.processes import Failed
from bench.report import Pairs, Report, Row, Target, percentile

Run = Callable[[], Awaitable[float]]
Rounds = list[list[float]]
T = TypeVar("T")
PERCENTILES = ((0.50, "p50"), (0.95, "p95"), (0.99, "p99"))


class Comparison(Report):
    """A report whose rows name peers. What could not be measured is a failure of the full form,
    never left out in silence."""

    def missing(self, peer: str, why: object) -> None:
        rows = self.tables.setdefault("missing", [])
        rows.append({"peer": peer, "why": str(why)})
        self.say(f"[red]missing[/red]: {peer}: {why}")

    def show(self) -> None:
        shown = Table(
            title=f"TaskForge beside its peers, {os.cpu_count()} cores",
            title_justify="left",
            title_style="bold",
        )
        for name in ("what", "peer", "peer's", "ours", "ratio", "target", ""):
            shown.add_column(
                name, justify="right" if name in {"peer's", "ours", "ratio"} else "left"
            )
        for row in self.rows:
            mark = (
                ""
                if row.target is None
                else "[green]ok[/green]"
                if row.is_met
                else "[red]short[/red]"
            )
            ratio = "" if row.ratio is None else f"{row.ratio:.2f} ×"
            shown.add_row(
                f"{row.engine}: {row.what}",
                row.against,
                _figure(row, row.base),
                _figure(row, row.ours),
                ratio,
                _text(row),
                mark,
            )
        self.console.print(shown)
        for one in self.tables.get("missing", []):
            self.console.print(f"[red]missing[/red]: {one['peer']}: {one['why']}", highlight=False)

    # --- Rows ---

    def rates(
        self,
        engine: str,
        what: str,
        peer: str,
        theirs: Sequence[float],
        ours: Sequence[float],
        target: Target | None,
    ) -> None:
        """One figure a round of each side; the median of the rounds' ratios counts."""
        if theirs and len(theirs) == len(ours):
            self.pairs(engine, what, peer, Pairs(tuple(zip(theirs, ours, strict=True))), target)

    def rate(self, engine: str, what: str, ours: Sequence[float], target: Target) -> None:
        if ours:
            self.add(
                Row(
                    engine=engine,
                    what=what,
                    against="",
                    base=None,
                    ours=statistics.median(ours),
                    ratio=None,
                    target=target,
                )
            )

    def delays(
        self,
        engine: str,
        what: str,
        peer: str,
        theirs: Rounds,
        ours: Rounds,
        targets: Mapping[str, Target],
    ) -> None:
        """Percentiles over all rounds, in milliseconds; the median of the rounds' ratios counts.
        Without a peer the targets are fixed figures."""
        for share, name in PERCENTILES:
            pairs = [
                (percentile(one, share), percentile(two, share))
                for one, two in zip(theirs, ours, strict=False)
            ]
            self.add(
                Row(
                    engine=engine,
                    what=f"{what}, {name}",
                    against=peer,
                    base=percentile(list(chain(*theirs)), share) if theirs else None,
                    ours=percentile(list(chain(*ours)), share),
                    ratio=statistics.median(mine / base for base, mine in pairs) if pairs else None,
                    unit="ms",
                    target=targets.get(name),
                    pairs=tuple(pairs),
                )
            )


async def interleaved(
    report: Comparison,
    what: str,
    rounds: int,
    runs: Mapping[str, Callable[[], Awaitable[T]]],
    tell: Callable[[T], str],
) -> dict[str, list[T]]:
    """Each run once a round, so that a noisy neighbour slows all of them down. One that failed is
    not tried again."""
    figures: dict[str, list[T]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(figures):
            try:
                figures[name].append(await runs[name]())
            except Failed as error:
                report.missing(f"{name} ({what})", error)
                del figures[name]
            else:
                report.say(
                    f"{what}, round {number + 1} of {rounds}: {name}: {tell(figures[name][-1])}"
                )
    return figures


def rate_text(rate: float) -> str:
    return f"{rate:,.0f}/s"


def delays_text(delays: list[float]) -> str:
    return " · ".join(f"{name} {percentile(delays, share):.2f} ms" for share, name in PERCENTILES)


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
