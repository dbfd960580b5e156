import resource
import subprocess
import sys
from pathlib import Path

import pytest

from taskforge.version import __version__
from tests.support.shell import COMMAND, Shell


def test_help_takes_less_than_200_ms(tmp_path: Path) -> None:
    """Processor time, and the best of several: other tests share the machine. Where a bare
    interpreter takes more than its 12.5 ms to start, all take more."""

    def spend(command: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    spent = [(spend([sys.executable, "-c", ""]), spend([*COMMAND, "--help"])) for _ in range(4)]
    bare, help_ = map(min, zip(*spent, strict=True))
    assert help_ < max(0.2, 16 * bare), spent


def test_help_loads_nothing_that_a_command_needs() -> None:
    code = (
        "import sys; sys.argv = ['taskforge', '--help']\nfrom taskforge.cli import main\ntry: "
        "main()\nexcept SystemExit: pass\n"
    )
    code += (
        "print([name for name in sys.modules if name.startswith(('taskforge.sdk', "
        "'taskforge.storage', 'asyncpg', 'sqlite3'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Begin with" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", ["keys create robot", "keys list", "login-link"])
def test_keys_are_made_without_a_web_server(tmp_path: Path, words: str) -> None:
    url = f"sqlite:///{tmp_path}/keys.db"
    Shell(tmp_path, url).run("migrate")
    code = (
        f"import sys; sys.argv = ['taskforge', *{words.split()}, '--url', {url!r}]\n"
        "from taskforge.cli import main\ntry: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print([name for name in sys.modules if name.startswith(('taskforge.api', 'litestar', "
        "'uvicorn', 'httptools'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_version(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.run("version").stdout.startswith(f"taskforge {__version__} on Python")
    assert shell.json("version")["taskforge"] == __version__
    assert shell.run("--version").stdout.strip() == __version__


def test_migrate_makes_a_store(tmp_path: Path) -> None:
    shell = Shell(tmp_path, f"sqlite:///{tmp_path}/new.db")
    assert "up to date" in shell.run("migrate").stdout
    assert shell.json("migrate")["status"] == "up to date"
    assert shell.json("queues", "list") == {"queues": []}


def test_config_check_tells_where_each_setting_came_from(shell: Shell) -> None:
    (shell.folder / "taskforge.toml").write_text("lease_seconds = 20\npoll_seconds = 3\n")
    shell.environment["TASKFORGE_POLL_SECONDS"] = "2"
    settings = shell.json("config", "check", "--schema", "mine", "--connect")
    found = {name: (one["value"], one["source"]) for name, one in settings["settings"].items()}
    assert found["schema"] == ("mine", "flag")
    assert found["poll_seconds"] == (2, "environment")
    assert found["lease_seconds"] == (20, "file")
    assert found["grace_seconds"] == (25, "default")
    assert found["url"][1] == "environment"
    assert settings["store_answered_ms"] >= 0
    assert "environment" in shell.run("config", "check").stdout


@pytest.mark.parametrize("name", ["token", "oidc_client_secret", "audit_key"])
def test_config_check_shows_no_secret(shell: Shell, name: str) -> None:
    value = "c2VjcmV0IG9mIDMyIGJ5dGVzIGFuZCBtb3JlIHRoYW4="
    shell.environment[f"TASKFORGE_{name.upper()}"] = value
    if name == "oidc_client_secret":
        shell.environment["TASKFORGE_OIDC_ISSUER"] = "https://login.example"
        shell.environment["TASKFORGE_OIDC_CLIENT_ID"] = "taskforge"
    done = shell.run("config", "check")
    assert value not in done.stdout + done.stderr
    assert shell.json("config", "check")["settings"][name]["value"] == "***"
