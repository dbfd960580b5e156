"""The API benchmark: `python -m bench.api`. What a POST of one job costs a server beside a bare
ASGI echo, and how far bulk enqueue through the API stays behind the engine's own. CPU time of the
server's process counts, not the clock.

It brings its own PostgreSQL (fsync on) and its own files, listens on the loopback address only, and
ends what it started.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from bench.grounds import SETTINGS
from taskforge.domain.alike import Alike
from taskforge.domain.job import new_job
from taskforge.domain.queue import CreateQueue
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.ports.engine import Engine
from taskforge.settings import Settings
from taskforge.testing.postgres import LocalServer, make_directory
from taskforge.wiring import make_store

CONNECTIONS = 32
POST_LIMIT, BULK_LIMIT = 2.5, 0.7
BULK, CALLERS = 1_000, 4
ECHO = """
import sys, uvicorn
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
import socket
made = socket.socket(); made.bind(("127.0.0.1", 0)); made.listen(128)
print(made.getsockname()[1], flush=True)
uvicorn.run(app, fd=made.fileno(), log_level="error", access_log=False,
            server_header=False, loop="uvloop", http="httptools")
"""


class Target(msgspec.Struct):
    process: psutil.Process
    port: int
    key: str


async def posts(target: Target, path: str, body: bytes, count: int) -> float:
    """Send so many requests over 32 connections; the server's CPU seconds."""
    request = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer "
        f"{target.key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body
    before = _cpu(target.process)
    left = iter(range(count))
    await asyncio.gather(
        *(_connection(target.port, request, left) for _ in range(min(CONNECTIONS, count)))
    )
    return _cpu(target.process) - before


async def _connection(port: int, request: bytes, left: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in left:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 20",)):
            raise RuntimeError(head.decode() + (await reader.read(1_000)).decode())
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def echo() -> Iterator[Target]:
    process = subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        time.sleep(0.5)
        yield Target(psutil.Process(process.pid), port, "none")
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def server(url: str) -> Iterator[Target]:
    command = [
        sys.executable,
        "-m",
        "taskforge.cli",
        "server",
        "--json",
        "--port",
        "0",
        "--url",
        url,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        text = b""
        while not text.strip().endswith(b"}"):
            text += process.stdout.readline()
        told = msgspec.json.decode(text)
        yield Target(
            psutil.Process(process.pid), int(told["address"].rsplit(":", 1)[1]), told["api_key"]
        )
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def store(name: str) -> Iterator[str]:
    """An empty store of this kind; gone with the run."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/bench.db"
        return
    directory = make_directory()
    try:
        with LocalServer.start(directory, settings=SETTINGS) as made:
            yield made.url()
    finally:
        shutil.rmtree(directory)


async def measure(name: str, url: str, rounds: int, count: int, table: Table) -> bool:
    engine = make_store(Settings(url=url))
    await engine.open()
    await engine.change_queue(FIRST_PROJECT, CreateQueue(name="bench"))
    one = msgspec.json.encode(
        {"queue": "bench", "job_type": "noop", "payload": {"n": 1, "text": "x" * 64}}
    )
    many = msgspec.json.encode(
        [
            {"queue": "bench", "job_type": "noop", "payload": {"n": n, "text": "x" * 64}}
            for n in range(BULK)
        ]
    )
    made = [new_job("bench", "noop", {"n": n, "text": "x" * 64}) for n in range(BULK)]
    # the quickest that the engine can be asked
    jobs = Alike(made[0], [job.payload for job in made])
    costs: list[tuple[float, float]] = []
    rates: list[tuple[float, float]] = []
    with echo() as bare, server(url) as ours:
        for target, path in ((bare, "/"), (ours, "/api/v1/jobs")):
            await posts(target, path, one, count // 4)  # warm
        for _ in range(rounds):
            floor = await posts(bare, "/", one, count) / count
            costs.append((floor, await posts(ours, "/api/v1/jobs", one, count) / count))
        calls = 4 * count // BULK
        for _ in range(rounds):
            began = time.perf_counter()
            await asyncio.gather(*(_insert(engine, jobs, calls // CALLERS) for _ in range(CALLERS)))
            direct = calls * BULK / (time.perf_counter() - began)
            began = time.perf_counter()
            await asyncio.gather(*(_bulk(ours, many, calls // CALLERS) for _ in range(CALLERS)))
            rates.append((direct, calls * BULK / (time.perf_counter() - began)))
    await engine.close()
    ratio = statistics.median(cost / floor for floor, cost in costs)
    share = statistics.median(through / direct for direct, through in rates)
    table.add_row(
        name,
        "POST one job, CPU of the server",
        f"{statistics.median(cost for _, cost in costs) * 1e6:.0f} µs",
        f"echo {statistics.median(floor for floor, _ in costs) * 1e6:.0f} µs",
        f"{ratio:.2f} ×",
        f"≤ {POST_LIMIT}" + ("" if name == "postgres" else " on PostgreSQL"),
    )
    table.add_row(
        name,
        f"bulk enqueue, {BULK:,} a call, {CALLERS} callers",
        f"{statistics.median(through for _, through in rates):,.0f}/s",
        f"engine {statistics.median(direct for direct, _ in rates):,.0f}/s",
        f"{share:.2f} ×",
        f"≥ {BULK_LIMIT}",
    )
    # The store's own work is part of the process on SQLite, so its cost has no limit there.
    return share >= BULK_LIMIT and (ratio <= POST_LIMIT or name == "sqlite")


async def _insert(engine: Engine, jobs: Alike, calls: int) -> None:
    for _ in range(calls):
        await engine.insert(FIRST_PROJECT, jobs)


async def _bulk(target: Target, body: bytes, calls: int) -> None:
    """Call after call, as the engine was asked."""
    request = (
        f"POST /api/v1/jobs/bulk HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer "
        f"{target.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
    await _connection(target.port, request, iter(range(calls)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small numbers; fails only on a collapse"
    )
    parser.add_argument("--engine", choices=("sqlite", "postgres"), action="append")
    given = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 140)
    out.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    table = Table("engine", "what", "ours", "beside", "ratio", "wanted")
    good = True
    for name in given.engine or ("sqlite", "postgres"):
        rounds, count = (2, 8_000) if given.quick else (5, 12_000)
        with store(name) as url:
            good = uvloop.run(measure(name, url, rounds, count, table)) and good
    out.print(table)
    return 0 if good or given.quick else 1


if __name__ == "__main__":
    sys.exit(main())
