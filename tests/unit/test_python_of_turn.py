"""Each Python that the project names gets its turn."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TURNS
from tools import python_of_turn


def test_the_project_names_those_that_it_runs_on() -> None:
    assert python_of_turn.versions()[:3] == ["3.11", "3.12", "3.13"]


def test_those_that_are_here_take_turns() -> None:
    assert [python_of_turn.of_turn(["a", "b"], commits) for commits in range(8)] == [
        "a",
        "a",
        "a",
        "b",
        "b",
        "b",
        "a",
        "a",
    ]
    assert python_of_turn.TURNS == TURNS, "or a row would always meet the same Python"
    assert python_of_turn.of_turn(["only"], 7) == "only"


def test_one_that_does_not_run_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyenv leaves commands on the path for versions that are not switched on."""
    (tmp_path / "python3.99").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.99").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert python_of_turn.interpreter("3.99") is None
    kept = tmp_path / "versions" / "3.99.1" / "bin" / "python3.99"
    kept.parent.mkdir(parents=True)
    kept.symlink_to(sys.executable)
    assert python_of_turn.interpreter("3.99") == str(kept)


def test_what_is_chosen_can_be_run() -> None:
    command = [sys.executable, str(Path(python_of_turn.__file__))]
    chosen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    told = subprocess.run(
        [chosen, "-c", "import sys; print(sys.version_info >= (3, 11))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "True\n"
