"""The supervisor of worker processes."""

import asyncio
import sys
from typing import Any

import pytest

from taskforge.worker.supervisor import Supervisor


async def test_a_process_that_starts_while_the_stop_comes_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor([sys.executable, "-c", "import time; time.sleep(60)"], processes=1)
    start = asyncio.create_subprocess_exec

    async def stopped_meanwhile(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **options)
        supervisor.stop()  # it runs, and the supervisor does not know it yet
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", stopped_meanwhile)
    async with asyncio.timeout(10):
        await supervisor.run()
