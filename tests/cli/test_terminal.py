"""S15, F7: no stored text steers the terminal of whoever looks at it."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from taskforge.domain.claim import Claim
from taskforge.domain.job import ErrorInfo, NewJob, new_job
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import Finish, ToFailed, ToSucceeded
from taskforge.domain.queue import CreateQueue
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Sample
from taskforge.ports.engine import Engine
from tests.cli.conftest import make_store
from tests.support.shell import Shell

MARKER = "ZQX"
# A title, a cleared screen, both again by C1, and text that runs backwards.
HOSTILE = "\x1b]0;PWNED\x1b\\\x1b[2J\x9d0;PWNED\x9c\x9b2J\u202eevil"
IN_JSON = HOSTILE.replace("\x1b", "\x9b").replace("\\", "")
STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# What rich itself writes: colours, and the cursor hidden and shown.
STYLES = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AGK]|\?1049[lh]|H)")


async def _fill(engine: Engine) -> None:
    """Every text that a user, a worker or a handler can leave, with the marker in it."""
    await engine.change_queue(
        FIRST_PROJECT, CreateQueue(name=f"{MARKER}queue", description=f"{MARKER} letters")
    )
    worker = NewWorker(name=f"{MARKER}anna", max_concurrent_jobs=4, host=f"{MARKER}host", pid=1)
    registered = await engine.register(FIRST_PROJECT, worker, 600)
    await engine.renew(registered.incarnation, 600, Sample(12.5, 64_000_000))

    def make(kind: str) -> NewJob:
        payload = {"n": f"{MARKER}p"}
        return new_job(f"{MARKER}queue", f"{MARKER}{kind}", payload, tags=(f"{MARKER}tag",))

    await engine.insert(FIRST_PROJECT, [make("good"), make("bad")])
    good, bad = await engine.claim(Claim(registered.incarnation, 2))
    await engine.insert(FIRST_PROJECT, [make("waits")])
    metadata = f'{{"k":"{MARKER}v"}}'.encode()
    await engine.log([NewLine(bad.fence, Level.WARN, f"{MARKER} says", metadata)])
    error = ErrorInfo(f"{MARKER}Error", f"{MARKER} failed", f"{MARKER} Traceback")
    await engine.finish(
        [
            Finish(good.fence, ToSucceeded(f'"{MARKER}result"'.encode()), 0.1),
            Finish(bad.fence, ToFailed(error, f"{MARKER} reason"), 0.1),
        ]
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Shell:
    """The marker is replaced in the file itself: names would refuse it at every door."""
    shell = make_store(tmp_path, _fill)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        tables = connection.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
        ).fetchall()
        changed = 0
        for (table,) in tables:
            for _, column, *_ in connection.execute(f"pragma table_info({table})").fetchall():
                for is_json, text in ((1, IN_JSON), (0, HOSTILE)):
                    changed += connection.execute(
                        f"update {table} set {column} = replace(cast({column} as text), ?, ?)"
                        f" where instr({column}, ?) and json_valid(cast({column} as text)) = ?",
                        (MARKER, text, MARKER, is_json),
                    ).rowcount
    assert changed >= 15
    return shell


def test_no_command_lets_stored_text_steer_the_terminal(hostile: Shell) -> None:
    ids = {job["job_type"][-4:]: job["id"] for job in hostile.json("jobs", "list")["jobs"]}
    commands = [
        ("jobs", "list"),
        *(("jobs", "show", identifier) for identifier in ids.values()),
        *(("jobs", "explain", identifier) for identifier in ids.values()),
        ("queues", "list"),
        ("queues", "stats"),
        ("workers", "list", "--all"),
    ]
    shown = 0
    for words in commands:
        for form in ((), ("--json",)):
            with hostile.on_terminal(*words, *form, columns=250) as terminal:
                assert terminal.ended() == 0, (words, terminal.raw)
            left = STYLES.sub("", terminal.raw)
            assert "\x1b" not in left, (words, form, left)
            assert STEERING.search(left) is None, (words, form, left)
            shown += "PWNED" in left
    assert shown >= 15  # what does not show the text proves nothing
    print(f"S15: n = {shown} outputs with hostile text, 0 with a raw control character")


def test_an_error_that_repeats_hostile_text_is_shown_plainly(hostile: Shell) -> None:
    with hostile.on_terminal("jobs", "list", "--queue", f"no{HOSTILE}", columns=250) as terminal:
        assert terminal.ended() == 2
    left = STYLES.sub("", terminal.raw)
    assert "\x1b" not in left
    assert STEERING.search(left) is None
    assert "PWNED" in left


@pytest.mark.parametrize("name", ["[/]", "[bold]x", "[red"])
def test_what_looks_like_markup_in_a_name_is_text(shell: Shell, name: str) -> None:
    assert name in shell.run("queues", "create", name).stdout
    assert name in shell.run("queues", "pause", name).stdout
    assert name in shell.run("queues", "list").stdout
    assert name in shell.run("queues", "stats").stdout
