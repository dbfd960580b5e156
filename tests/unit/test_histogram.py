"""Percentiles read from histograms, beside the exact ones."""

import math
import random
from uuid import UUID

import pytest

from taskforge.domain.execution import ExecutionStatus
from taskforge.domain.histogram import (
    ACCURACY,
    bucket_of,
    buckets_in,
    middle_of,
    pack,
    unpack,
    unpack_lanes,
)
from taskforge.domain.rollup import (
    ANY_WORKER,
    Cell,
    Delta,
    Gauge,
    Scope,
    Spread,
    decode_cell,
    scopes_of,
    sum_deltas,
    summed_up,
)

WORKER = UUID(int=7)
CHANCE = random.Random(18)
SHAPES = {
    "lognormal": lambda: CHANCE.lognormvariate(5, 1.5),
    "bimodal": lambda: CHANCE.gauss(2, 0.1) if CHANCE.random() < 0.7 else CHANCE.gauss(90_000, 99),
    "constant": lambda: 250.0,
}


def nearest_rank(times: list[float], share: float) -> float:
    return sorted(times)[max(1, math.ceil(share * len(times))) - 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_percentiles_are_off_by_one_percent_at_most(shape: str) -> None:
    times = [max(0.0, SHAPES[shape]()) for _ in range(20_000)]
    # as they come: over lanes and minutes, packed and merged
    parts = []
    for begin in range(0, len(times), 700):
        cell = Cell()
        part = times[begin : begin + 700]
        cell.add(Delta(Scope(1), 0, ExecutionStatus.SUCCEEDED, len(part), part, part))
        parts.append(decode_cell(cell.encode()))
    figures = summed_up(parts).durations.figures()
    for share, found in ((0.5, figures.p50), (0.95, figures.p95), (0.99, figures.p99)):
        exact = nearest_rank(times, share)
        assert found is not None
        assert abs(found - exact) <= ACCURACY * exact
    assert figures.min == pytest.approx(min(times), abs=0.001)
    assert figures.max == pytest.approx(max(times), abs=0.001)
    assert figures.avg == pytest.approx(sum(times) / len(times), rel=1e-6)


def test_the_middle_of_a_bucket_is_near_all_of_it() -> None:
    time = 0.001
    while time < 400 * 86_400_000:
        assert abs(middle_of(bucket_of(time)) - time) <= ACCURACY * time
        time *= 1.0037


def test_buckets_are_packed_and_unpacked() -> None:
    buckets = {0: 1, 1: 2, 40: 1, 900: 70_000, 901: 1}
    assert unpack(pack(buckets)) == buckets
    assert unpack(pack({})) == {}
    assert unpack(pack({0: 5})) == {0: 5}
    for most in (3, 300, 70_000):
        many = {bucket: bucket % most + 1 for bucket in range(5, 1_900, 7)}
        packed = pack(many)
        assert isinstance(packed, bytes)
        assert unpack(packed) == many
        assert buckets_in(unpack_lanes(packed)) == many
        twice = unpack_lanes(packed) + unpack_lanes(packed)
        assert buckets_in(twice) == {bucket: 2 * count for bucket, count in many.items()}


def test_a_time_that_a_clock_made_negative_counts_as_none() -> None:
    spread = Spread()
    spread.add([-5.0, 10.0])
    assert (spread.total, spread.least, spread.most) == (10_000, 0, 10_000)


def test_a_delta_counts_in_every_scope_that_it_belongs_to() -> None:
    whole = Scope(1, 4, "mail", WORKER)
    delta = Delta(whole, 9, ExecutionStatus.FAILED, 2, [1.0, 2.0], [3.0, 4.0])
    cells = sum_deltas([delta, delta])
    assert {scope for scope, _ in cells} == {
        Scope(1),
        Scope(1, 4),
        Scope(1, job_type="mail"),
        Scope(1, worker=WORKER),
        Scope(1, 4, worker=WORKER),
    }
    assert {cell.ended(ExecutionStatus.FAILED) for cell in cells.values()} == {4}
    assert {cell.durations.count for cell in cells.values()} == {0}  # of those that succeeded
    assert {cell.waits.count for cell in cells.values()} == {4}
    assert list(scopes_of(Scope(1, worker=ANY_WORKER))) == [Scope(1)]


def test_a_cell_keeps_what_was_seen() -> None:
    cell = Cell()
    for pending in (5.0, 9.0, 2.0):
        cell.add(Delta(Scope(1, 4), 9, None, 0, gauges={Gauge.PENDING: pending}))
    assert decode_cell(cell.encode()).gauges == {Gauge.PENDING: (3, 16.0, 9.0)}
