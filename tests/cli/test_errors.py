import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskforge.cli import main
from taskforge.cli.store import problem_with
from taskforge.settings import Settings
from tests.support.shell import COMMAND, Shell


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
        ("worker :forge", "such as app:forge"),
        ("up :forge --reload", "such as app:forge"),
        ("worker nowhere:forge --processes -1", "--processes: is -1"),
        ("worker nowhere:forge --processes -3", "use a whole number from 0"),
        ("worker nowhere:forge --slots 0", "--slots: is 0"),
        ("up --slots 0", "--slots: is 0"),
        ("worker nowhere:forge --queues=", "leave it out"),
        ("jobs tail --lines -1", "--lines: is -1"),
        ("keys create robot --permissions=", "--permissions: is empty"),
    ],
)
def test_every_error_ends_with_a_next_step(
    full: Shell,
    words: str,
    wanted: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
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


def test_the_way_to_make_a_missing_store_repeats_its_url(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert "`taskforge migrate --url sqlite:///mine.db`" in shell.error(
        "jobs", "list", "--url", "sqlite:///mine.db"
    )
    assert "`taskforge migrate`" in shell.error("jobs", "list")


@pytest.mark.parametrize("command", ["jobs list", "migrate", "server", "worker app:forge"])
def test_what_is_no_store_is_named(tmp_path: Path, command: str) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "app.py").write_text("from taskforge import TaskForge\nforge = TaskForge()\n")
    (tmp_path / "text.db").write_text(
        "this is no database, but it is long enough to look at\n" * 20
    )
    (tmp_path / "folder.db").mkdir()
    for name, wanted in (
        ("text.db", "text.db is not a SQLite file"),
        ("folder.db", "folder.db is a folder"),
    ):
        told = shell.error(*command.split(), "--url", f"sqlite:///{name}")
        assert wanted in told
        assert "try again" not in told


def test_a_store_that_may_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permissions are made up, because tests may run as root."""
    path = tmp_path / "jobs.db"
    monkeypatch.setattr(os, "access", lambda place, _: place != tmp_path)
    assert f"the folder {tmp_path} of jobs.db cannot be written" in str(problem_with(path))
    path.write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda place, _: place != path)
    assert f"{path} cannot be read and written" in str(problem_with(path))
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert problem_with(path) is None


@pytest.mark.parametrize(
    "command",
    ["jobs list", "migrate", "config check", "worker app:forge", "up app:forge", "up", "server"],
)
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:99999",
        "http://127.0.0.1:abc",
        "http://[::1",
        "postgresql://u@127.0.0.1:abc/x",
        "postgresql://u@127.0.0.1:99999/x",
        "postgresql://u@[::1/x",
        "postgresql://u:geheim/geheim@here/x",
        "postgresql://u:12/geheim@here/x",
        "postgresql://u:12#geheim@here/x",
        "postgresql://u:12?geheim@here/x",
        "postgresql://u:geheim@geheim@here/x",
        "https://u:12/geheim@here",
    ],
)
def test_a_mistyped_url_is_told_in_words(
    tmp_path: Path,
    command: str,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "app.py").write_text("from taskforge import TaskForge\nforge = TaskForge()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["taskforge", *command.split(), "--url", url])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    _, told = capsys.readouterr()
    assert told.startswith("error url: it")
    assert told.splitlines()[-1].startswith("next  write it like ")
    assert "geheim" not in told


def test_a_mistyped_url_of_the_environment_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from taskforge import TaskForge\nforge = TaskForge()\n")
    shell = Shell(tmp_path, "http://[::1")
    assert "error TASKFORGE_URL: it cannot be read" in shell.error("jobs", "list")
    assert "error TASKFORGE_URL: it cannot be read" in shell.error("worker", "app:forge")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:1,b:2/x",
        "postgresql://u:p%5Bw@[::1]:5432/x",
        "https://[::1]:80",
        "sqlite:///a.db",
        "sqlite:///a@b.db",
        "postgresql://a/x?user=a@b",
    ],
)
def test_a_good_url_passes(url: str) -> None:
    assert Settings.load({"url": url}).url == url


@pytest.mark.parametrize("words", ["jobs list", "jobs list --json", "--help"])
def test_output_that_cannot_be_written_is_told(full: Shell, words: str) -> None:
    for buffered in ("", "1"):
        with Path("/dev/full").open("wb") as sink:
            done = subprocess.run(
                [*COMMAND, *words.split()],
                env=full.environment | {"PYTHONUNBUFFERED": buffered},
                stdout=sink,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert [line.partition(" ")[0] for line in done.stderr.splitlines()] == ["error", "next"]
        assert "No space left" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "--json >&-", "<&- >&- 2>&-"])
def test_a_closed_output_is_no_error(full: Shell, closed: str) -> None:
    command = f"{' '.join(COMMAND)} jobs list {closed}"
    done = subprocess.run(
        ["bash", "-c", command], env=full.environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_while_loading_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "cyclopts.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    )
    assert Shell(tmp_path).run("jobs", "list", status=130, PYTHONPATH=str(tmp_path)).stderr == ""


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
    assert (
        "did you mean 'default'?"
        in shell.error("worker", "good:forge", "--queues", "defaul").splitlines()[0]
    )


def test_a_reader_that_leaves_early_is_no_error(full: Shell) -> None:
    command = f"{' '.join(COMMAND)} jobs list --json | head -c 20"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=full.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_a_setting_that_does_not_exist_is_named(tmp_path: Path) -> None:
    (tmp_path / "taskforge.toml").write_text('ulr = "sqlite:///a.db"\n')
    assert "did you mean 'url'?" in Shell(tmp_path).error("config", "check")


@pytest.mark.parametrize(
    "url", ["sqlite:///a.db", "postgresql://nowhere.invalid/jobs", "https://nowhere.invalid"]
)
def test_a_bound_on_silence_that_no_worker_could_keep_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "taskforge.toml").write_text(
        f'url = "{url}"\nworker_heartbeat_timeout_seconds = 4\n'
    )
    told = Shell(tmp_path).error("config", "check")
    assert "worker_heartbeat_timeout_seconds: is 4, and workers are heard of every 5 s" in told
    assert "make it longer, shorten heartbeat_seconds, or use 0" in told


def test_passwords_are_never_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "postgresql://anna:geheim@nowhere.invalid/jobs?sslpassword=geheim")
    checked = shell.run("config", "check", "--json").stdout
    assert (
        json.loads(checked)["settings"]["url"]["value"]
        == "postgresql://anna:***@nowhere.invalid/jobs?sslpassword=***"
    )
    assert "geheim" not in shell.run("config", "check").stdout


@pytest.mark.parametrize(
    ("words", "mistake", "wanted"),
    [
        ("jobs list", "postgres@{place}/nodb", "create the database"),
        ("migrate", "nobody_knows@{place}/postgres", "create that role"),
        ("jobs list", "postgres@{place}/postgres?foo=bar", "behind the ? of the URL"),
        ("config check --connect", "postgres@{place}/nodb", "create the database"),
    ],
)
def test_a_postgres_that_refuses_a_newcomer_is_two_lines(
    tmp_path: Path, postgres_url: str, words: str, mistake: str, wanted: str
) -> None:
    place = postgres_url.rpartition("@")[2].partition("/")[0]
    shell = Shell(tmp_path, f"postgresql://{mistake.format(place=place)}")
    told = shell.error(*words.split())
    assert len(told.splitlines()) == 2, told
    assert wanted in told
    assert shell.json(*words.split(), status=2)["error"]["kind"] == "StoreUnsuitable"
