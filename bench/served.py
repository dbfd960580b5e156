"""Our workers behind a server: the same contender, its workers reaching their jobs over HTTP."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import processes
from bench.contenders import STUCK_SECONDS, Contender
from bench.processes import Failed, tail


class Served(Contender, frozen=True, kw_only=True):
    """The driver enqueues straight into the store; a server of one process stands between it and
    the workers."""

    @asynccontextmanager
    async def working(self, count: int, folder: Path) -> AsyncIterator[None]:
        direct, log = self._environment(folder), folder / "server"
        command = [
            sys.executable,
            "-m",
            "taskforge.cli",
            "server",
            "--json",
            "--port",
            "0",
            "--url",
            direct["BENCH_URL"],
        ]
        async with processes.running([command], {}, log):
            told = await _told(log)
            behind = direct | {"BENCH_URL": told["address"], "TASKFORGE_TOKEN": told["api_key"]}
            async with processes.running([self.worker] * count, behind, folder / "log"):
                yield


async def _told(log: Path) -> dict[str, str]:
    """What the server prints when it first starts on a store."""
    give_up = time.monotonic() + STUCK_SECONDS
    while time.monotonic() < give_up:
        for line in _lines(log):
            if line.startswith("{") and line.endswith("}"):
                told: dict[str, str] = json.loads(line)
                return told
        await asyncio.sleep(0.05)
    raise Failed(f"the server did not start: {tail(' '.join(_lines(log)))}")


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []
