"""taskforge simulate, from files to table and JSON."""

import json
import re
from pathlib import Path

import pytest

from taskforge.cli.commands.simulate import scaling
from taskforge.cli.store import Store
from taskforge.domain.errors import Invalid

TRACE = {"arrivals": [{"at_seconds": 0, "jobs": 400, "job_seconds": 0.5}]}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    paths = tuple(tmp_path / name for name in ("trace.json", "few.json", "many.json"))
    for path, value in zip(paths, (TRACE, {"max_workers": 1}, {"max_workers": 4}), strict=True):
        path.write_text(json.dumps(value))
    return paths[0], paths[1], paths[2]


def test_policies_are_compared_side_by_side(
    files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    trace, *policies = files
    scaling(trace=trace, policy=tuple(policies), store=Store(json=True))
    few, many = json.loads(capsys.readouterr().out)["outcomes"]
    assert (few["policy"], few["most_workers"], many["most_workers"]) == (str(policies[0]), 1, 4)
    assert few["wait_p95_seconds"] > 2 * many["wait_p95_seconds"]


def test_a_file_that_does_not_fit_is_refused_by_its_option(
    files: tuple[Path, Path, Path],
) -> None:
    trace, policy, _ = files
    with pytest.raises(Invalid, match="cannot be read"):
        scaling(trace=trace, policy=(policy.parent / "none.json",))
    policy.write_text('{"max_workers": 2, "min_worker": 1}')
    with pytest.raises(Invalid, match="min_worker"):
        scaling(trace=trace, policy=(policy,))
    policy.write_text('{"max_workers": 2, "min_workers": 3}')
    with pytest.raises(Invalid, match="max_workers is 2"):
        scaling(trace=trace, policy=(policy,))


def test_the_files_of_the_guide_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guide = Path(__file__).parents[2] / "docs/guides/autoscaling.md"
    for name, body in re.findall(r"```json file=(\S+)\n(.*?)```", guide.read_text(), re.DOTALL):
        (tmp_path / name).write_text(body)
    policy, trace = tmp_path / "policy.json", tmp_path / "trace.json"
    scaling(trace=trace, policy=(policy,), store=Store(json=True))
    [found] = json.loads(capsys.readouterr().out)["outcomes"]
    assert (found["jobs"], found["direction_changes"]) == (5_000, 1)
