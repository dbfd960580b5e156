import json
import subprocess
import sys
from pathlib import Path

import pytest

from taskforge.cli import main
from tests.cli.shell import COMMAND, Shell


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("enqueue letter --queue defualt", "did you mean 'default'?"),
        ("queues pause nothing-like-it", "taskforge queues create nothing-like-it"),
        ("workers drain ana", "did you mean 'anna'?"),
        ("jobs show 12", "use an id from `taskforge jobs list`"),
        ("jobs show 01a1dec0-acc3-727d-8697-9c2a82000000", "see `taskforge jobs list`"),
        ("jobs list --status faild", "did you mean 'failed'?"),
        ("jobs list --since yesterday", "use how long ago (15m, 2h, 3d)"),
        ("jobs cancel", "name ids, or filters"),
        ("enqueue letter --payload {", "use an object such as"),
        ("queues create a --set max_concurent_jobs=3", "did you mean 'max_concurrent_jobs'?"),
        ("queues create default", "taskforge queues list"),
        ("queues crate a", "taskforge queues --help"),
        ("jobs list --limit many", "taskforge jobs list --help"),
        ("jobs list --url mysql://here/db", "use sqlite:///path/to/file.db, postgresql://"),
        ("worker nowhere:forge", "nowhere.py"),
    ],
)
def test_every_error_ends_with_a_next_step(
    full: Shell, words: str, wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, because there are many: that a real one fails alike is shown below."""
    monkeypatch.setenv("TASKFORGE_URL", full.environment["TASKFORGE_URL"])
    monkeypatch.setattr(sys, "argv", ["taskforge", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert [line.partition(" ")[0] for line in told.splitlines()] == ["error", "next"]
    assert wanted in told


def test_a_missing_store_is_not_made_by_looking_at_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert "taskforge migrate" in shell.error("jobs", "list")
    assert list(tmp_path.glob("*.db*")) == []


def test_errors_are_json_too(full: Shell) -> None:
    error = full.json("queues", "stats", "emals", status=2)["error"]
    assert error["kind"] == "NotFound"
    assert error["next_step"].startswith("use 'emails'")


def test_an_app_that_cannot_be_used_says_why(shell: Shell) -> None:
    (shell.folder / "broken.py").write_text("import nothing_like_it\n")
    (shell.folder / "empty.py").write_text("x = 1\n")
    (shell.folder / "good.py").write_text("from taskforge import TaskForge\nforge = TaskForge()\n")
    assert "nothing_like_it" in shell.error("worker", "broken:forge")
    assert "make one there" in shell.error("worker", "empty")
    assert "use good:forge" in shell.error("up", "good:forg")
    assert "did you mean 'default'?" in shell.error("worker", "good:forge", "--queues", "defaul").splitlines()[0]


def test_a_reader_that_leaves_early_is_no_error(full: Shell) -> None:
    command = f"{' '.join(COMMAND)} jobs list --json | head -c 20"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=full.environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_a_setting_that_does_not_exist_is_named(tmp_path: Path) -> None:
    (tmp_path / "taskforge.toml").write_text('ulr = "sqlite:///a.db"\n')
    assert "did you mean 'url'?" in Shell(tmp_path).error("config", "check")


def test_passwords_are_never_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "postgresql://anna:geheim@nowhere.invalid/jobs?sslpassword=geheim")
    checked = shell.run("config", "check", "--json").stdout
    assert json.loads(checked)["settings"]["url"]["value"] == "postgresql://anna:***@nowhere.invalid/jobs?sslpassword=***"
    assert "geheim" not in shell.run("config", "check").stdout
