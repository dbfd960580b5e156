"""PostgreSQL that stands still: what is said of it is true."""

import asyncio
import contextlib
import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from taskforge.domain.errors import StoreUnavailable
from taskforge.storage.postgres import connection_pool
from taskforge.storage.postgres.engine import PostgresEngine
from taskforge.testing.postgres import LocalServer

FROZEN_SECONDS = 4.0


async def test_a_freeze_is_told_with_what_was_waited_for_and_how_long_it_was(
    server_directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_pool, "ACQUIRE_SECONDS", 2.0)
    with LocalServer.start(server_directory, settings={"fsync": "off"}) as server:
        engine = PostgresEngine(server.url())
        await engine.open()
        try:
            await engine.queues([1])
            postmaster = psutil.Process(
                int((server.directory / "cluster" / "postmaster.pid").read_text().split()[0])
            )
            frozen = [postmaster.pid, *(one.pid for one in postmaster.children())]
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            try:
                # some wait for an answer on connections of before, the last for a new one
                calls = [asyncio.create_task(engine.queues([1])) for _ in range(5)]
                done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                with pytest.raises(StoreUnavailable, match="TimeoutError: no connection within 2"):
                    await done.pop()
                await asyncio.sleep(FROZEN_SECONDS - (time.monotonic() - began))
            finally:
                for pid in frozen:
                    os.kill(pid, signal.SIGCONT)
            await asyncio.gather(*calls, return_exceptions=True)
            with contextlib.suppress(StoreUnavailable):
                await engine.queues([1])
            lasted = time.monotonic() - began
        finally:
            await engine.close()
    [told] = re.findall(r"the store serves again, after ([\d.]+) s", caplog.text)
    assert FROZEN_SECONDS - 0.1 <= float(told) <= lasted + 0.1
    assert "trying again until it does: PostgreSQL does not serve just now: TimeoutError: no" in (
        caplog.text
    )
