"""`taskforge up` where nobody watches, and on a terminal."""

import re
import signal
import time
from pathlib import Path

import pytest

from taskforge.cli import main
from tests.support.shell import Shell, plain, until

APP = """
from taskforge import TaskForge
forge = TaskForge("sqlite:///mine.db")
@forge.job()
async def greet(name: str) -> str:
    return "GREETING " + name
"""


def test_the_demo_runs_where_nobody_watches(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("up", "--seconds", "3")
    assert re.search(
        r"pending \d+ +scheduled \d+ +processing \d+ +succeeded \d+ .*jobs/s", done.stdout
    ), done.stdout
    assert re.search(r"stopped cleanly in [\d.]+ s: [1-9]\d* succeeded", done.stdout), done.stdout
    assert "\x1b" not in done.stdout
    assert len(list(tmp_path.glob(".taskforge/demo-*/taskforge.db"))) == 1


def test_a_bounded_run_ends_in_one_document(tmp_path: Path) -> None:
    ended = Shell(tmp_path, "sqlite:///in-use.db").json("up", "--seconds", "3")
    assert ended["how"] == "stopped cleanly"
    assert ended["jobs"]["succeeded"] > 0
    assert not (tmp_path / "in-use.db").exists()  # the demo keeps away from a store that is in use


@pytest.mark.parametrize(("columns", "lines"), [(100, 30), (160, 50)])
def test_the_live_view_fits_its_terminal_and_ctrl_c_stops_it(
    tmp_path: Path, columns: int, lines: int
) -> None:
    with Shell(tmp_path).on_terminal("up", columns=columns, lines=lines) as terminal:
        for wanted in ("send_email", "succeeded", "online"):
            terminal.until(wanted)
        frames = [frame for frame in terminal.raw.split("\x1b[H")[:-1] if "queues" in frame]
        assert frames
        for frame in frames:
            rows = plain(frame).splitlines()
            assert len(rows) <= lines
            assert max(len(row) for row in rows) <= columns
        time.sleep(1)
        terminal.type(b"\x03")
        terminal.until("look at them")
        assert terminal.ended() == 0
    assert "\x1b[?1049l" in terminal.raw  # the screen that was there before is back
    assert "stopped cleanly" in terminal.text
    assert "Traceback" not in terminal.text


def test_an_app_runs_beside_the_view_of_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    shell = Shell(tmp_path)
    with shell.started("up", "app:forge") as process:
        process.until("taskforge up: app:forge on http://127.0.0.1:")
        process.until("· sqlite:///mine.db\n")
        done = shell.run(
            "enqueue",
            "greet",
            "--payload",
            '{"name": "anna"}',
            "--wait",
            "--url",
            "sqlite:///mine.db",
        )
        assert "GREETING anna" in done.stdout
        process.signal(signal.SIGINT)
        assert process.ended() == 0
        assert "stopped cleanly" in process.text


def test_reload_starts_anew_when_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    shell = Shell(tmp_path)
    words = (
        "enqueue",
        "greet",
        "--payload",
        '{"name": "anna"}',
        "--wait",
        "--url",
        "sqlite:///mine.db",
    )
    with shell.started("up", "app:forge", "--reload") as process:
        process.until("taskforge up: app:forge on http://127.0.0.1:")
        process.until("· sqlite:///mine.db\n")
        (tmp_path / "app.py").write_text(APP.replace("GREETING", "HELLO"))
        process.until("app.py changed")
        until(lambda: process.text.count("app:forge on") == 2, lambda: process.text)
        assert "HELLO anna" in shell.run(*words).stdout
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
    assert "no app to watch" in shell.error("up", "--reload")
    refused = shell.json("up", "app:forge", "--reload", status=2)
    assert "--reload is given together with --json" in refused["error"]["message"]


@pytest.mark.parametrize("form", ["--reload", "--reload=true"])
def test_a_child_of_the_reloader_does_not_reload_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(
        "taskforge.cli.commands.up.reload_on_change",
        lambda command, _, **__: commands.append(command),
    )
    monkeypatch.setattr("taskforge.cli.commands.up.folder_of", lambda _: tmp_path)
    monkeypatch.setattr("sys.argv", ["taskforge", "up", "app:forge", form, "--seconds", "3"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert [command[3:] for command in commands] == [["up", "app:forge", "--seconds", "3"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_reloader_alone_reaches_the_app(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Shell(tmp_path).started("up", "app:forge", "--reload") as process:
        process.until("taskforge up: app:forge on http://127.0.0.1:")
        process.until("· sqlite:///mine.db\n")
        process.signal(number)
        process.until("stopped cleanly")
        assert process.ended() == 0
    assert "stopping at once" not in process.text


def test_ctrl_c_on_a_terminal_stops_a_reloaded_app_once(tmp_path: Path) -> None:
    """The terminal tells reloader and app; two signals would hand back what runs."""
    (tmp_path / "app.py").write_text(APP)
    with Shell(tmp_path).on_terminal("up", "app:forge", "--reload") as terminal:
        terminal.until("queues")
        time.sleep(0.5)
        terminal.type(b"\x03")
        terminal.until("stopped cleanly")
        assert terminal.ended() == 0
    assert "at once" not in terminal.text
