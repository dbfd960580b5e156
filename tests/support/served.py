"""Servers on SQLite in a process of their own: tests block their event loop and hold the GIL, which
a server must not notice.

`python -m tests.support.served` reads one command a line and answers with one: {"start": folder}
with the URL and a token, {"keep": url} starts its upkeep, {"key": url} makes a worker key, {"stop":
url} ends it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from taskforge.domain.access import WORKER_PERMISSIONS, Permission
from taskforge.domain.audit import Note
from taskforge.node import Node, server_services
from taskforge.operations.access import secret
from taskforge.operations.upkeep import Upkeep
from taskforge.ports.engine import Engine
from taskforge.settings import Settings
from taskforge.storage.records.api_keys import ApiKeys
from taskforge.wiring import make_engine, make_server

NOTE = Note("system", "test.setup", 1)


class Servers:
    """The tests' side."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.served"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, folder: Path, port: int = 0) -> dict[str, str]:
        """What to give to TaskForge(): the URL, and a token that may do everything in the first
        project."""
        return self._ask({"start": str(folder), "port": port})

    def keep(self, url: str) -> None:
        """Start the upkeep, which a server usually runs from the start."""
        self._ask({"keep": url})

    def worker_key(self, url: str) -> str:
        """A token that may work, and nothing else."""
        return self._ask({"key": url})["token"]

    def stop(self, url: str) -> None:
        self._ask({"stop": url})

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer: dict[str, str] = json.loads(self._process.stdout.readline())
        return answer


class Running:
    def __init__(self, folder: str, port: int) -> None:
        self.told: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.keep, self.stop = asyncio.Event(), asyncio.Event()
        self.api_keys: ApiKeys | None = None
        self.task = asyncio.create_task(_serve(folder, port, self))


async def _serve(folder: str, port: int, server: Running) -> None:
    settings = Settings(url=f"sqlite:///{folder}/served.db", port=port)
    engine = make_engine(settings)
    await engine.open()
    made = await make_server(engine, settings)
    address = made.server.bind()
    running = asyncio.create_task(Node(server_services(made.platform), server=made.server).run())
    keeping = asyncio.create_task(_keep_when_told(engine, server.keep))
    await made.server.started.wait()
    server.api_keys = ApiKeys(engine)
    token = await _make_key(
        server.api_keys, "key", secret.API_KEY, frozenset(Permission) - {Permission.PLATFORM}
    )
    server.told.set_result({"url": address, "token": token})
    await server.stop.wait()
    keeping.cancel()
    made.server.stop()
    await asyncio.gather(running, keeping, return_exceptions=True)
    await engine.close()


async def _make_key(
    api_keys: ApiKeys, kind: str, prefix: str, permissions: frozenset[Permission]
) -> str:
    token = secret.fresh(prefix)
    await api_keys.create(
        1,
        1,
        kind,
        f"k{token[-8:]}",
        secret.visible(token),
        secret.hashed(token),
        permissions,
        None,
        NOTE,
    )
    return token


async def _keep_when_told(engine: Engine, told: asyncio.Event) -> None:
    await told.wait()
    await Upkeep(engine, interval=0.05).run()


async def _main() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    servers: dict[str, Running] = {}
    while line := await reader.readline():
        command = json.loads(line)
        if "start" in command:
            server = Running(command["start"], command["port"])
            begun: list[asyncio.Future[Any]] = [server.told, server.task]
            await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
            if server.task.done():
                server.task.result()
            answer = server.told.result()
            servers[answer["url"]] = server
        elif "key" in command:
            api_keys = servers[command["key"]].api_keys
            assert api_keys is not None
            answer = {
                "token": await _make_key(api_keys, "worker", secret.WORKER_KEY, WORKER_PERMISSIONS)
            }
        elif "keep" in command:
            servers[command["keep"]].keep.set()
            answer = {"url": command["keep"]}
        else:
            server = servers.pop(command["stop"])
            server.stop.set()
            await server.task
            answer = {"url": command["stop"]}
        print(json.dumps(answer), flush=True)
    for server in servers.values():
        server.stop.set()
        await server.task


if __name__ == "__main__":
    asyncio.run(_main())
