import subprocess
from pathlib import Path

import pytest

from tools.root_files import main, unnamed


def test_a_file_or_folder_at_the_root_has_to_be_named() -> None:
    assert unnamed(["README.md", "src/taskforge/__init__.py", "log", "notes/a.md"]) == [
        "log",
        "notes",
    ]


def test_a_tracked_stray_fails_and_an_untracked_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "README.md").touch()
    (tmp_path / "log").touch()
    subprocess.run(["git", "add", "README.md"], cwd=tmp_path, check=True)
    assert main(tmp_path) == 0
    subprocess.run(["git", "add", "log"], cwd=tmp_path, check=True)
    assert main(tmp_path) == 1
    assert "log" in capsys.readouterr().err


def test_outside_a_checkout_there_is_nothing_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert main(tmp_path) == 0


def test_a_checkout_that_git_does_not_read_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "log").touch()
    assert main(tmp_path) == 0
    assert "not checked" in capsys.readouterr().out
