"""Where contenders keep their jobs: the same PostgreSQL server for all of them, a private Redis, a
file of SQLite."""

import asyncio
import contextlib
import shutil
import socket
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

import asyncpg

from bench import installing, processes
from bench.grounds import PostgresGround

READY_SECONDS = 10.0


class Store(ABC):
    """Emptied before each run. `ask` counts what is not finished yet, by whatever statement the
    contender's layout needs."""

    url: str

    @abstractmethod
    async def empty(self) -> None: ...

    @abstractmethod
    async def ask(self, statement: str) -> int: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def settle(self) -> None:  # noqa: B027 - most stores have nothing to do
        """Called between filling and draining, so that no run pays for what another left to do."""


class PostgresStore(Store):
    DATABASE = "contest"

    def __init__(self) -> None:
        self._ground = PostgresGround()
        self.url = self._ground.server.url(self.DATABASE)

    async def empty(self) -> None:
        await self._ground.execute(f"drop database if exists {self.DATABASE} with (force)")
        await self._ground.execute(f"create database {self.DATABASE}")

    async def settle(self) -> None:
        await self._ground.execute("vacuum analyze", self.DATABASE)
        await self._ground.execute("checkpoint", self.DATABASE)

    async def ask(self, statement: str) -> int:
        connection = await asyncpg.connect(self.url)
        try:
            return int(await connection.fetchval(statement))
        finally:
            await connection.close()

    async def close(self) -> None:
        self._ground.close()


class SqliteStore(Store):
    """`url` is the path; whoever wants a URL puts a scheme before it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="taskforge-"))
        self._made = 0
        self.url = ""

    async def empty(self) -> None:
        for file in self._folder.iterdir():
            file.unlink()
        self._made += 1
        self.url = str(self._folder / f"contest-{self._made}.db")

    async def ask(self, statement: str) -> int:
        with contextlib.closing(sqlite3.connect(self.url, timeout=10)) as connection:
            return int(connection.execute(statement).fetchone()[0])

    async def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class RedisStore(Store):
    """Appends to its log on disk and syncs that once a second, as Redis advises."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process, port: int) -> None:
        self._folder, self._process, self._port = folder, process, port
        self.url = f"redis://127.0.0.1:{port}/0"

    @classmethod
    async def start(cls) -> "RedisStore":
        program = installing.redis_server()
        folder = Path(tempfile.mkdtemp(prefix="taskforge-"))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        options = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
        command = [
            program,
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ]
        store = cls(folder, await processes.start(command, {}, folder / "log"), port)
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await store._answers():  # noqa: ASYNC110 - it tells nobody when it is ready
                    await asyncio.sleep(0.05)
        except BaseException:
            await store.close()
            raise
        return store

    async def _answers(self) -> bool:
        try:
            return (await self._command("ping"))[0] == "+PONG"
        except ConnectionError:
            return False

    async def _command(self, text: str) -> list[str]:
        """Redis takes commands as plain lines; of the answer, at most one array deep, every line
        comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(text.encode() + b"\r\nquit\r\n")
            answer = (await reader.read(-1)).decode(errors="replace").split("\r\n")
        finally:
            writer.close()
        return answer[:-2]  # the answer to quit, and what follows the last line end

    async def empty(self) -> None:
        await self._command("flushall")

    async def ask(self, statement: str) -> int:
        """The sum over commands that answer with a number each, separated by semicolons."""
        answers = [await self._command(part.strip()) for part in statement.split(";")]
        return sum(int(answer[0].removeprefix(":")) for answer in answers)

    async def close(self) -> None:
        await processes.end([self._process])
        shutil.rmtree(self._folder, ignore_errors=True)
