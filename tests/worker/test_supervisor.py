"""The supervisor of worker processes."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from taskforge.worker.processes.supervisor import RESTART, START, Supervisor


async def test_a_process_that_starts_while_the_stop_comes_is_told_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    supervisor = Supervisor([sys.executable, "-c", "import time; time.sleep(60)"], processes=1)
    start = asyncio.create_subprocess_exec

    async def stopped_meanwhile(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **options)
        supervisor.stop()  # it runs, and the supervisor does not know it yet
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", stopped_meanwhile)
    async with asyncio.timeout(10):
        await supervisor.run()


@pytest.mark.parametrize(
    ("words", "waits"),
    [
        (["READY", "FINISHED"], [0.5, 0.5, 0.5]),
        (["READY"], [0.5, 1.0, 2.0]),
        ([], [0.5, 1.0, 2.0]),
    ],
    ids=["finished jobs", "was ready", "never ready"],
)
async def test_waits_grow_unless_jobs_were_finished(
    words: list[str], waits: list[float], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """And each process is told whether there was one before it that had its store."""
    caplog.set_level("INFO", "taskforge.supervisor")
    said = "".join(f"mine.tell(supervision.{word}); " for word in words)
    program = (
        "from taskforge.worker.processes import supervision; "
        "mine = supervision.take_supervision(); "
        f"print(mine.was_ready, file=open({str(tmp_path / 'told')!r}, 'a')); "
        f"{said}raise SystemExit(3)"
    )
    supervisor = Supervisor([sys.executable, "-c", program], processes=1)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(30):
        while len(told := re.findall(r"starting another in ([\d.]+) s", caplog.text)) < 3:
            await asyncio.sleep(0.05)
        supervisor.stop()
        await running
    assert [float(wait) for wait in told] == waits
    was_ready = (tmp_path / "told").read_text().split()[:3]
    assert was_ready == ["False", *[str("READY" in words)] * 2]


def test_a_crash_loop_waits_half_a_minute_and_at_most_five_seconds_once_it_has_worked() -> None:
    assert START.wait(20, 0.0) == 30
    assert RESTART.wait(20, 0.0) == 5
    assert sum(RESTART.wait(deaths, 0.0) for deaths in range(1, 10)) < 35
