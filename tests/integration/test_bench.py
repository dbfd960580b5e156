"""The benchmark still runs against the engines as they are. It says nothing about speed: the sizes
are too small for that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import Pairs, Row, Target

ROOT = Path(__file__).parents[2]
FLOOR = Target(ratio_at_least=0.8, rate_at_least=60_000)


@pytest.mark.rotates
def test_measures_everything_on_both_engines(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "bench.engine",
        "--quick",
        "--scale",
        "0.02",
        "--rounds",
        "1",
        "--layouts",
        "--json",
        str(file),
    ]
    # Sizes this small may well fall below half of a target: 1 is an answer, a traceback is not.
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(file.read_text())
    measured = [(row["engine"], row["what"]) for row in told["rows"]]
    both = (
        "bulk insert",
        "single inserts",
        "claim + finish",
        "mixed load",
        "behind 1,000 unhandled",
        "behind 2,000 finished",
    )
    expected = [(engine, name) for engine in ("sqlite", "postgres") for name in both]
    expected += [
        ("sqlite", "a write while"),
        ("postgres", "insert + claim + finish, snapshot held"),
    ]
    for engine, name in expected:
        assert any(each[0] == engine and each[1].startswith(name) for each in measured), (
            engine,
            name,
        )
    assert all(row["ours"] > 0 for row in told["rows"])
    assert [len(rows) for rows in told["tables"].values()] == [3]


@pytest.mark.rotates
def test_measures_growth_on_both_engines(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench.growth", "--quick", "--queues", "100"]
    command += ["--jobs", "500", "--rounds", "1", "--json", str(file)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert [row["engine"] for row in rows] == ["sqlite"] * 11 + ["postgres"] * 11
    assert all(row["ours"] > 0 for row in rows)


def row(ratio: float, ours: float = 1_000, target: Target = FLOOR) -> Row:
    return Row(
        engine="sqlite",
        what="it",
        against="floor",
        base=1_000,
        ours=ours,
        ratio=ratio,
        target=target,
    )


def test_a_miss_fails_the_full_form_and_only_a_collapse_the_quick_one() -> None:
    short, collapsed = row(0.7), row(0.39)
    assert not row(0.39, ours=31_000).fails(quick=True)
    assert (short.fails(quick=False), short.fails(quick=True)) == (True, False)
    assert (collapsed.fails(quick=False), collapsed.fails(quick=True)) == (True, True)
    assert not row(0.8).fails(quick=False)


def test_a_rate_will_do_where_the_ratio_does_not_and_never_fails_alone() -> None:
    assert row(0.1, ours=60_000).is_met
    alone = row(0.1, target=Target(rate_at_least=12_000))
    assert not alone.is_met
    assert not alone.fails(quick=False)


def test_a_cost_may_be_so_many_times_what_it_was_and_a_stall_so_many_milliseconds() -> None:
    cost = Target(ratio_at_most=1.5)
    assert row(1.5, target=cost).is_met
    assert row(1.6, target=cost).fails(quick=False)
    assert not row(2.9, target=cost).fails(quick=True)
    assert row(3.1, target=cost).fails(quick=True)
    assert row(1, ours=51, target=Target(ms_at_most=50)).fails(quick=False)


def test_pairs_are_compared_one_by_one() -> None:
    pairs = Pairs(((100.0, 50.0), (10.0, 5.0), (100.0, 90.0)))
    assert pairs.ratio == 0.5
