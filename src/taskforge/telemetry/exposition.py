"""The text format that Prometheus reads."""

from collections.abc import Iterable, Mapping

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricFamily(msgspec.Struct, frozen=True):
    """One metric with all its series: labels and value of each."""

    name: str
    kind: str  # gauge, counter or histogram
    help: str
    series: list[tuple[Mapping[str, str], float]]
    # of a histogram, with what comes behind the name: _bucket, _sum or _count
    parts: list[tuple[str, Mapping[str, str], float]] = []


def render(families: Iterable[MetricFamily]) -> str:
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape_help(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        parts = [("", labels, value) for labels, value in family.series] + family.parts
        for behind, labels, value in parts:
            named = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
            head = f"{family.name}{behind}{{{named}}}" if named else f"{family.name}{behind}"
            lines.append(f"{head} {float(value):.15g}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
