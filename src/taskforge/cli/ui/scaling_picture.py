"""Workers and the length of a queue over time, as an SVG file: one band for each policy or run."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from taskforge.domain.errors import Invalid

WIDTH, BAND = 640, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, WIDTH - 60, 46, 34
_INK, _SOFT, _GRID, _WORKERS, _WANTED, _JOBS = (
    "#1f2933",
    "#7b8794",
    "#e4e7eb",
    "#3a7ca5",
    "#d1495b",
    "#cbd2d9",
)


class CurvePoint(NamedTuple):
    """What there was from this second on."""

    seconds: float
    wanted: int
    workers: int
    jobs: int


class Curve(NamedTuple):
    name: str
    places: Sequence[CurvePoint]


def write_picture(file: Path, curves: Sequence[Curve]) -> None:
    try:
        file.write_text(draw(curves), encoding="utf-8")
    except OSError as error:
        problem = f"cannot be written ({error.strerror}: {file})"
        raise Invalid("--picture", problem, "name a file in a folder that is there") from None


def draw(curves: Sequence[Curve]) -> str:
    height = BAND * len(curves)
    font = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
    most_seconds = max((place.seconds for one in curves for place in one.places), default=0) or 1
    most_workers = max(
        (max(place.workers, place.wanted) for one in curves for place in one.places), default=0
    )
    bands = [
        _band(one, BAND * place, most_seconds, most_workers or 1)
        for place, one in enumerate(curves)
    ]
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                f'width="{WIDTH}" height="{height}" role="img" font-family="{font}">'
            ),
            "<title>Workers and jobs over time</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff" stroke="{_GRID}"/>',
            *bands,
            "</svg>",
            "",
        ]
    )


def _band(curve: Curve, begin: int, most_seconds: float, most_workers: int) -> str:
    top, bottom = begin + _TOP, begin + BAND - _BOTTOM
    most_jobs = max((place.jobs for place in curve.places), default=0) or 1

    def x(seconds: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * seconds / most_seconds

    def y(share: float) -> float:
        return bottom - (bottom - top) * share

    def steps(values: Sequence[float]) -> str:
        """Each value holds until the next."""
        points, before = [], 0.0
        for place, value in zip(curve.places, values, strict=True):
            points += [(x(place.seconds), y(before)), (x(place.seconds), y(value))]
            before = value
        return " ".join(f"{one:.1f},{other:.1f}" for one, other in points)

    jobs = [place.jobs / most_jobs for place in curve.places]
    end = x(curve.places[-1].seconds) if curve.places else _LEFT
    parts = [
        _text(_LEFT, begin + 22, curve.name, size=14, weight=600),
        _text(_LEFT - 8, top - 8, "workers", color=_WORKERS, anchor="end"),
        _text(_RIGHT + 8, top - 8, "jobs", color=_SOFT),
        (
            f'<polygon points="{_LEFT},{bottom} {steps(jobs)} {end:.1f},{bottom}" fill="{_JOBS}" '
            f'fill-opacity="0.6"/>'
        ),
    ]
    for value in sorted({0, math.ceil(most_workers / 2), most_workers}):
        height = y(value / most_workers)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{height:.1f}" y2="{height:.1f}" '
            f'stroke="{_GRID}"/>'
        )
        parts.append(_text(_LEFT - 8, height + 4, f"{value:,}", color=_SOFT, anchor="end"))
    parts.append(_text(_RIGHT + 8, top + 4, f"{most_jobs:,}", color=_SOFT))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        seconds = most_seconds * share
        parts.append(
            _text(x(seconds), bottom + 16, f"{seconds:.0f} s", color=_SOFT, anchor="middle")
        )
    for values, color, dash in (
        ([place.wanted / most_workers for place in curve.places], _WANTED, ' stroke-dasharray="4"'),
        ([place.workers / most_workers for place in curve.places], _WORKERS, ""),
    ):
        parts.append(
            f'<polyline points="{steps(values)}" fill="none" stroke="{color}" '
            f'stroke-width="1.8"{dash}/>'
        )
    parts.append(_text(_RIGHT, begin + 22, "wanted", color=_WANTED, anchor="end"))
    parts.append(_text(_RIGHT - 54, begin + 22, "there", color=_WORKERS, anchor="end"))
    return "\n".join(parts)


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 11,
    color: str = _INK,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
    )
