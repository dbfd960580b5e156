"""A password in --url leaves the process list at once, and still reaches the database."""

import time
from pathlib import Path

import pytest

from taskforge.cli.hiding import split_password
from tests.support.shell import Shell


@pytest.mark.parametrize(
    ("url", "bare", "password"),
    [
        ("postgresql://ada:s%40cret@db:5432/jobs", "postgresql://ada@db:5432/jobs", "s@cret"),
        ("postgres://ada:@db/jobs", "postgres://ada@db/jobs", ""),
        ("postgresql://ada@db/jobs", "postgresql://ada@db/jobs", None),
        ("postgresql://db/jobs?password=x&ssl=on", "postgresql://db/jobs?ssl=on", "x"),
        ("postgresql://a:b@one:1,two:2/jobs", "postgresql://a@one:1,two:2/jobs", "b"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db", None),
        ("postgresql://[", "postgresql://[", None),
    ],
)
def test_a_url_is_split_from_its_password(url: str, bare: str, password: str | None) -> None:
    assert split_password(url) == (bare, password)


@pytest.mark.parametrize("joined", [True, False])
def test_a_password_does_not_stay_in_the_process_list(
    shell: Shell,
    joined: bool,
) -> None:
    (shell.folder / "app.py").write_text(
        'from taskforge import TaskForge\nforge = TaskForge("sqlite:///jobs.db")\n'
    )
    url = "postgresql://ada:canary77@127.0.0.1:1/jobs"
    words = [f"--url={url}"] if joined else ["--url", url]
    with shell.started("worker", "app:forge", *words) as process:
        place = Path(f"/proc/{process.pid}")
        until = time.monotonic() + 20
        # Between two programs a process has no command line at all.
        while (said := (place / "cmdline").read_bytes()) == b"" or b"canary77" in said:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert b"postgresql://ada@127.0.0.1:1/jobs" in said
        assert b"PGPASSWORD=canary77" in (place / "environ").read_bytes()
