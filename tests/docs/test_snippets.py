"""Every command and snippet in README and the guides runs, in order, in an empty folder."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    "README.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs" / "guides").glob("*.md"))),
]

# Debian's package of each is in tools/debian_packages.py.
NEEDED = {
    "docs/guides/api.md": ("curl",),
    "docs/guides/monitoring.md": ("curl",),
    "docs/guides/scaling-providers.md": ("curl",),
    "docs/guides/webhooks.md": ("curl",),
    "docs/guides/proxy.md": ("nginx", "openssl", "curl"),
}


@pytest.fixture
def environment(postgres_url: str) -> dict[str, str]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("drop schema if exists taskforge cascade")
        connection.execute("drop table if exists orders")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "DATABASE_URL": postgres_url, "PYTHONPATH": "."}


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_shows_runs(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    for program in NEEDED.get(page, ()):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    background: list[subprocess.Popen[bytes]] = []
    ran = 0
    try:
        for language, info, body in FENCE.findall((ROOT / page).read_text()):
            named = re.search(r"file=(\S+)", info)
            if named:
                (tmp_path / named[1]).write_text(body)
                if "__main__" in body:
                    run(f"python {named[1]}", tmp_path, environment)
            elif language == "bash" and "background" in info:
                background.append(
                    subprocess.Popen(["bash", "-c", f"exec {body}"], cwd=tmp_path, env=environment)
                )
            elif language == "bash":
                run(body, tmp_path, environment)
            elif language == "sql":
                with psycopg.connect(environment["DATABASE_URL"]) as connection:
                    for one in body.split(";"):
                        if one.strip():
                            connection.execute(one)
            else:
                assert language == "text", f"a {language} block without a file name is never run"
            ran += 1
        # The page itself waits for what it starts, as its reader has to; what went on goes on.
        assert [process.poll() for process in background] == [None] * len(background)
    finally:
        for process in background:
            process.send_signal(signal.SIGTERM)
        for process in background:
            assert process.wait(40) == 0
    assert ran >= 3


def run(script: str, folder: Path, environment: dict[str, str]) -> None:
    command = ["bash", "-ec", script]
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
