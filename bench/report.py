"""Figures beside what they are measured against, and whether they are good enough."""

import json
import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.table import Table

Unit = Literal["jobs/s", "ms", "µs"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio_at_least` and `rate_at_least` together: either will do."""

    ratio_at_least: float | None = None
    ratio_at_most: float | None = None
    rate_at_least: float | None = None
    ms_at_most: float | None = None

    @property
    def has_ratio(self) -> bool:
        return self.ratio_at_least is not None or self.ratio_at_most is not None

    def __str__(self) -> str:
        parts = []
        if self.rate_at_least is not None:
            parts.append(f"≥ {self.rate_at_least / 1000:g}k/s")
        if self.ratio_at_least is not None:
            parts.append(f"≥ {self.ratio_at_least:.0%}")
        if self.ratio_at_most is not None:
            parts.append(f"≤ {self.ratio_at_most:g}×")
        if self.ms_at_most is not None:
            parts.append(f"≤ {self.ms_at_most:g} ms")
        return " or ".join(parts)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    engine: str
    what: str
    against: str  # what `base` is
    base: float | None
    ours: float
    ratio: float | None
    unit: Unit = "jobs/s"
    target: Target | None = None
    pairs: tuple[tuple[float, float], ...] = ()

    @property
    def is_met(self) -> bool:
        target, ratio = self.target, self.ratio
        if target is None:
            return True
        if target.ms_at_most is not None and self.ours > target.ms_at_most:
            return False
        if target.ratio_at_most is not None and (ratio is None or ratio > target.ratio_at_most):
            return False
        least = []
        if target.ratio_at_least is not None:
            least.append(ratio is not None and ratio >= target.ratio_at_least)
        if target.rate_at_least is not None:
            least.append(self.ours >= target.rate_at_least)
        return not least or any(least)

    @property
    def is_collapsed(self) -> bool:
        """Missed by more than a shared machine can explain: twice over, and where a rate would do
        too, that as well."""
        target, ratio = self.target, self.ratio
        if target is None or ratio is None or self.is_met:
            return False
        if target.ratio_at_least is not None:
            return (
                ratio < target.ratio_at_least / 2
                and self.ours < (target.rate_at_least or float("inf")) / 2
            )
        return target.ratio_at_most is not None and ratio > target.ratio_at_most * 2

    def fails(self, *, quick: bool) -> bool:
        """A rate alone never fails a run: absolute figures move by a quarter from one run to the
        next."""
        if quick:
            return self.is_collapsed
        return (
            not self.is_met
            and self.target is not None
            and (self.target.has_ratio or self.target.ms_at_most is not None)
        )


class Pairs(msgspec.Struct, frozen=True):
    """What was measured in turns, so that a noisy neighbour slows both sides down."""

    values: tuple[tuple[float, float], ...]

    @property
    def ratio(self) -> float:
        return statistics.median(ours / base for base, ours in self.values)

    @property
    def base(self) -> float:
        return statistics.median(base for base, _ in self.values)

    @property
    def ours(self) -> float:
        return statistics.median(ours for _, ours in self.values)


async def in_turns(
    rounds: int, base: Callable[[], Awaitable[float]], ours: Callable[[], Awaitable[float]]
) -> Pairs:
    return Pairs(tuple([(await base(), await ours()) for _ in range(rounds)]))


class Report:
    def __init__(self, console: Console) -> None:
        self.console = console
        self.rows: list[Row] = []
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._started = time.monotonic()
        self._load_before = os.getloadavg()

    def say(self, text: str) -> None:
        self.console.print(
            f"[dim]{time.monotonic() - self._started:6.1f} s[/dim]  {text}", highlight=False
        )

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.say(
            f"{row.engine}: {row.what}: {_figure(row.base, row.unit)} → "
            f"{_figure(row.ours, row.unit)} {_ratio(row)}"
        )

    def pairs(
        self,
        engine: str,
        what: str,
        against: str,
        pairs: Pairs,
        target: Target | None = None,
        unit: Unit = "jobs/s",
    ) -> None:
        self.add(
            Row(
                engine=engine,
                what=what,
                against=against,
                base=pairs.base,
                ours=pairs.ours,
                ratio=pairs.ratio,
                unit=unit,
                target=target,
                pairs=pairs.values,
            )
        )

    def table(self, title: str, rows: list[dict[str, Any]]) -> None:
        """Figures of another shape than floor and ours."""
        self.tables[title] = rows

    def show(self) -> None:
        for engine in dict.fromkeys(row.engine for row in self.rows):
            shown = Table(title=engine, title_justify="left", title_style="bold")
            for name in ("what", "against", "base", "ours", "ratio", "target", ""):
                shown.add_column(
                    name, justify="right" if name in {"base", "ours", "ratio"} else "left"
                )
            for row in self.rows:
                if row.engine == engine:
                    mark = (
                        ""
                        if row.target is None
                        else "[green]ok[/green]"
                        if row.is_met
                        else "[red]short[/red]"
                    )
                    figures = (
                        _figure(row.base, row.unit),
                        _figure(row.ours, row.unit),
                        _ratio(row),
                    )
                    shown.add_row(row.what, row.against, *figures, str(row.target or ""), mark)
            self.console.print(shown)
        for title, rows in self.tables.items():
            shown = Table(title=title, title_justify="left", title_style="bold")
            for name in rows[0]:
                shown.add_column(
                    name, justify="left" if isinstance(rows[0][name], str) else "right"
                )
            for values in rows:
                shown.add_row(
                    *(
                        value if isinstance(value, str) else f"{value:,.0f}"
                        for value in values.values()
                    )
                )
            self.console.print(shown)

    def save(self, file: Path, arguments: dict[str, Any]) -> None:
        rows = [msgspec.to_builtins(row) | {"met": row.is_met} for row in self.rows]
        told = {
            "arguments": arguments,
            "seconds": round(time.monotonic() - self._started, 1),
            "machine": {
                "cores": os.cpu_count(),
                "system": platform.platform(),
                "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version,
                "load_before": self._load_before,
                "load_after": os.getloadavg(),
            },
            "rows": rows,
            "tables": self.tables,
        }
        file.write_text(json.dumps(told, indent=1, default=str) + "\n")

    def failures(self, *, quick: bool) -> list[Row]:
        return [row for row in self.rows if row.fails(quick=quick)]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _figure(value: float | None, unit: Unit) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}/s" if unit == "jobs/s" else f"{value:,.2f} {unit}"


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio:.0%}" if row.unit == "jobs/s" else f"{row.ratio:.2f}×"
