"""A server in a process of its own: what it takes of memory can be measured, and what it does to
others."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import psutil

MIB = 2**20
JOB = {"queue": "mail", "job_type": "send"}


class Target:
    """A server in a process of its own, and a key to it."""

    def __init__(self, address: str, key: str, process: psutil.Process) -> None:
        self.address, self.key, self.process = address, key, process
        self.host, self.port = address.removeprefix("http://").split(":")

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.address, headers={"authorization": f"Bearer {self.key}"}, timeout=60
        )

    def memory(self) -> int:
        return int(self.process.memory_info().rss)


@asynccontextmanager
async def serve_alone(store_url: str, tmp_path: Path) -> AsyncIterator[Target]:
    command = [
        str(Path(sys.executable).with_name("taskforge")),
        "server",
        "--json",
        "--port",
        "0",
        "--url",
        store_url,
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TASKFORGE_")
    }
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        told = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        target = Target(told["address"], told["api_key"], psutil.Process(process.pid))
        async with target.client() as client:
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get("/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.05)
            assert (await client.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
            # What a server takes once, whoever asks: its document, gzip, a first batch.
            await client.get("/api/v1/openapi.json")
            await client.post("/api/v1/jobs/bulk", json=[JOB | {"payload": "x" * 4_000}] * 500)
        yield target
    finally:
        process.terminate()
        await process.wait()


class Growth:
    """The most that a server's memory grew by."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._before = target.memory()
        self.most = 0

    def look(self) -> None:
        self.most = max(self.most, self._target.memory() - self._before)


@asynccontextmanager
async def growth_of(target: Target) -> AsyncIterator[Growth]:
    growth = Growth(target)

    async def watch() -> None:
        while True:
            growth.look()
            await asyncio.sleep(0.01)

    task = asyncio.create_task(watch())
    try:
        yield growth
        growth.look()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
