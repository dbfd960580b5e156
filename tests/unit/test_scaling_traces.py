"""Traces of real queues from their rollups, and pictures of what policies make of them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from taskforge.cli.ui.scaling_picture import Curve, CurvePoint, draw, write_picture
from taskforge.domain.errors import Invalid
from taskforge.domain.metrics import Figures, Metrics, Point, figures_of
from taskforge.domain.rollup import Cell, SpreadFigures
from taskforge.domain.scaling import ScalingPolicy
from taskforge.domain.scaling_trace import check_trace, simulate
from taskforge.operations.scaling import traced

SINCE = datetime(2030, 1, 1, tzinfo=UTC)


def figures(arrived: int, average: float | None) -> Figures:
    spread = msgspec.structs.replace(SpreadFigures(), avg=average)
    return msgspec.structs.replace(figures_of(Cell(), 1.0), arrived=arrived, duration_ms=spread)


def metrics(*minutes: Figures, total: Figures) -> Metrics:
    points = [Point(SINCE + timedelta(minutes=place), one) for place, one in enumerate(minutes)]
    return Metrics(SINCE, SINCE + timedelta(minutes=len(minutes)), 60, total, points)


def test_a_trace_has_the_jobs_of_each_minute_and_how_long_they_ran() -> None:
    found = metrics(figures(600, 50.0), figures(0, 80.0), figures(60, None), total=figures(660, 60))
    trace = check_trace(traced(found, 4))
    assert [(one.at_seconds, one.jobs, one.job_seconds) for one in trace.arrivals] == [
        (0.0, 600, 0.05),
        (120.0, 60, 0.06),
    ]
    assert (trace.slots, trace.arrivals[0].over_seconds) == (4, 60.0)
    outcome = simulate(ScalingPolicy(max_workers=3), trace)
    assert (outcome.jobs, outcome.has_finished) == (660, True)
    assert max(point.workers for point in outcome.series) == outcome.most_workers
    with pytest.raises(Invalid, match="nothing to tell"):
        traced(metrics(total=figures(0, None)), 1)


def test_a_picture_has_a_band_for_each_policy_and_is_written_where_it_can_be(
    tmp_path: Path,
) -> None:
    places = [
        CurvePoint(0, 0, 0, 0),
        CurvePoint(5, 4, 0, 500),
        CurvePoint(10, 4, 4, 200),
        CurvePoint(60, 0, 0, 0),
    ]
    curves = [Curve("few <b>", places), Curve("many", places[:2]), Curve("none", [])]
    drawing = ET.fromstring(draw(curves))
    words = [each.text for each in drawing.iter() if each.tag.endswith("text")]
    assert {"few <b>", "many", "none", "60 s", "4", "500"} <= set(words)
    write_picture(tmp_path / "p.svg", curves)
    assert (tmp_path / "p.svg").read_text() == draw(curves)
    with pytest.raises(Invalid, match="--picture"):
        write_picture(tmp_path / "none" / "p.svg", curves)
