"""A thousand workers that wait for jobs cost an idle server next to nothing, and one of them still
gets a job at once."""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = pytest.mark.rotates

SECONDS = 6.0
MOST_CORE = 0.05
MOST_PICKUP_SECONDS = 0.2
HEARTBEAT_SECONDS = 5.0


class Line:
    """One connection that speaks just enough HTTP: a thousand of a full client would cost more than
    what is measured."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str
    ) -> None:
        self._reader, self._writer, self._key = reader, writer, key

    async def call(self, verb: str, body: dict[str, Any]) -> Any:
        content = json.dumps(body).encode()
        head = (
            f"POST /api/v1/worker/{verb} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer "
            f"{self._key}\r\n"
        )
        self._writer.write(
            (
                f"{head}content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
            ).encode()
            + content
        )
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length:")[1].split("\r\n")[0])
        told = await self._reader.readexactly(length)
        assert answer.split()[1] in ("200", "201"), answer + told.decode()
        return json.loads(told)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def served(url: str, directory: Path) -> AsyncIterator[tuple[psutil.Process, str, str]]:
    """A server in a process of its own: the process, its address, and a key to it."""
    command = [
        str(Path(sys.executable).with_name("taskforge")),
        "server",
        "--json",
        "--port",
        "0",
        "--url",
        url,
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TASKFORGE_")
    }
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=directory, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        told = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        yield psutil.Process(process.pid), told["address"], told["api_key"]
    finally:
        process.kill()
        await process.wait()


@contextmanager
def many_files() -> Iterator[None]:
    """A connection is an open file; the server, which is started within, gets the same room."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(before[1], 8_192) if before[1] > 0 else 8_192, before[1])
    )
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def spent(process: psutil.Process) -> float:
    """Which part of a core it takes."""
    before, began = process.cpu_times(), time.monotonic()
    await asyncio.sleep(SECONDS)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.monotonic() - began)


@pytest.mark.parametrize("count", [400, pytest.param(1_000, marks=pytest.mark.long)])
async def test_waiting_workers_cost_an_idle_server_next_to_nothing(
    store_url: str, tmp_path: Path, figure: Callable[[str], None], count: int
) -> None:
    store = store_url.partition(":")[0]
    with many_files():
        async with (
            served(store_url, tmp_path) as (process, address, key),
            httpx.AsyncClient(base_url=address, timeout=30) as root,
        ):
            root.headers["authorization"] = f"Bearer {key}"
            assert (await root.post("/api/v1/queues", json={"name": "mail"})).status_code == 201
            made = await root.post(
                "/api/v1/keys",
                json={"name": "w", "permissions": [], "project": "default", "kind": "worker"},
            )
            secret = made.json()["secret"]
            host, port = httpx.URL(address).host, httpx.URL(address).port
            idle = await spent(process)

            async def line() -> Line:
                return Line(*await asyncio.open_connection(host, port), secret)

            lines = [await line() for _ in range(count)]
            incarnations = []
            for number, one in enumerate(lines):
                body = {"name": f"w{number}", "types": ["send"], "lease_seconds": 600}
                incarnations.append((await one.call("register", body))["incarnation"])
            picked: asyncio.Queue[tuple[float, str]] = asyncio.Queue()

            async def work(one: Line, incarnation: str) -> None:
                while True:
                    for job in (
                        await one.call(
                            "claim", {"incarnation": incarnation, "limit": 1, "wait_seconds": 60}
                        )
                    )["jobs"]:
                        picked.put_nowait((time.monotonic(), job["job"]))

            async def beat(one: Line, mine: list[str]) -> None:
                while True:
                    began = time.monotonic()
                    for incarnation in mine:
                        await one.call(
                            "heartbeat",
                            {
                                "incarnation": incarnation,
                                "cpu_percent": 1.0,
                                "memory_bytes": 1 << 26,
                            },
                        )
                        await asyncio.sleep(HEARTBEAT_SECONDS / len(mine) * 0.9)
                    await asyncio.sleep(max(0.0, began + HEARTBEAT_SECONDS - time.monotonic()))

            async def pickup() -> float:
                """The second worst of five."""
                waits = []
                for _ in range(5):
                    began = time.monotonic()
                    answer = await root.post(
                        "/api/v1/jobs", json={"queue": "mail", "job_type": "send"}
                    )
                    at, job = await asyncio.wait_for(picked.get(), 10)
                    assert job == answer.json()["id"]
                    waits.append(at - began)
                    await asyncio.sleep(0.3)
                return sorted(waits)[-2]

            tasks = [
                asyncio.create_task(work(*one)) for one in zip(lines, incarnations, strict=True)
            ]
            await asyncio.sleep(2)
            waiting = await spent(process)
            quiet = await pickup()
            beaters = [await line() for _ in range(20)]
            tasks += [
                asyncio.create_task(beat(one, incarnations[n::20])) for n, one in enumerate(beaters)
            ]
            await asyncio.sleep(1)
            beating = await spent(process)
            busy = await pickup()
            over = [task.exception() for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for one in lines + beaters:
                await one.close()
    assert over == []
    figure(
        f"{store}: {count:,} waiting workers cost {waiting:.1%} of a core (none: {idle:.1%}), "
        f"with their heartbeats {beating:.1%};"
        f" a job is picked up in {quiet * 1000:.0f} ms, {busy * 1000:.0f} ms"
    )
    assert waiting < MOST_CORE
    assert max(quiet, busy) < MOST_PICKUP_SECONDS
