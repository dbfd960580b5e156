"""Real worker processes on one store, to be killed, frozen and stopped; and the load they work
on."""

import asyncio
import contextlib
import os
import random
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import psutil
import pytest

from taskforge import TaskForge
from taskforge.domain.query import QueueStats
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.operations.access.first_start import make_key
from taskforge.sdk.jobs import JobFunction
from taskforge.wiring import make_server, sqlite_path
from tests.chaos.history import History

LEASE = 1.0
GRACE = 2.0
Figure = Callable[[str], None]
ROOT = Path(__file__).parents[2]


class Fleet:
    def __init__(
        self,
        folder: Path,
        twin: str = "",
        served: str = "",
        lease: float = LEASE,
        upkeep: float = 0.1,
        leader: float = 10.0,
        **store: str,
    ) -> None:
        """`store` says where the jobs are: url, and schema on PostgreSQL. `served`: an address to
        serve them on; workers then reach them through that server, or through whatever `reach`
        says."""
        self.folder = folder
        self.served = served
        self.server: subprocess.Popen[bytes] | None = None
        self._token = ""
        settings: dict[str, Any] = {
            **store,
            "lease_seconds": lease,
            "grace_seconds": GRACE,
            "upkeep_seconds": upkeep,
            "leader_seconds": leader,
            "poll_seconds": 0.3,
            # Processes die here, never the machine: as little as the tests' PostgreSQL need SQLite
            # wait for the disk, which on some machines stands still for longer than these leases
            # last. R8 and R9 see to that the product does wait.
            "durable": False,
        }
        self.forge = TaskForge(**settings)
        flags = {f"TASKFORGE_{name.upper()}": str(value) for name, value in settings.items()}
        self._direct = {**os.environ, **flags, "CHAOS_FOLDER": str(folder), "CHAOS_TWIN": twin}
        # what a test patches in every process, also in those that do not know the app
        if (folder / "sitecustomize.py").exists():
            self._direct["PYTHONPATH"] = os.pathsep.join(
                [str(folder), os.environ.get("PYTHONPATH", "")]
            )
        self.label = "http" if served else self.forge.settings.url.partition(":")[0]
        self.alive: list[subprocess.Popen[bytes]] = []
        self.history = History(folder)
        self.acknowledged: set[UUID] = set()
        self._log = (folder / "workers.log").open("ab")

    async def __aenter__(self) -> Self:
        from tests.chaos import app

        # The same handlers and queues, without the app's witness: this side only enqueues and
        # looks.
        self.forge.registry, self.forge._connections._declared = (
            app.forge.registry,
            app.forge._declared,
        )
        engine = await self.forge.engine()
        if self.served:
            made = await make_server(engine, self.forge.settings)
            self._token = await make_key(made.platform, "workers")
            await self.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in [*self.alive, *([self.server] if self.server else [])]:
            kill_whole(process)
        await self.forge.close()
        self._log.close()

    def function(self, name: str) -> JobFunction[..., Any, ..., Any]:
        handler = self.forge.registry.get(name)
        assert handler is not None
        return JobFunction(self.forge, handler)

    # --- Processes ---

    async def start_server(self) -> None:
        host, _, port = self.served.rpartition(":")
        command = [sys.executable, "-m", "taskforge.cli", "server", "--host", host, "--port", port]
        self.server = subprocess.Popen(
            command, cwd=ROOT, env=self._direct, stdout=self._log, stderr=self._log
        )
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    async def roll_server(self) -> None:
        """Stop the server as a deployment does, and start it again."""
        if self.server is not None:
            self.server.terminate()
            await asyncio.to_thread(self.server.wait, 60)
            await self.start_server()

    def start(
        self,
        *options: str,
        slots: int = 8,
        reach: str = "",
        within: tuple[str, ...] = (),
        app: str = "tests.chaos.app:forge",
        direct: bool = False,
    ) -> subprocess.Popen[bytes]:
        """`reach`: another way to the server; `within`: a command that runs it somewhere else;
        `direct`: past the server, on the store itself."""
        command = [
            sys.executable,
            "-m",
            "taskforge.cli",
            "worker",
            app,
            "--slots",
            str(slots),
            *options,
        ]
        environment = self._direct
        if self.served and not direct:
            environment = {
                name: value for name, value in self._direct.items() if name != "TASKFORGE_SCHEMA"
            }
            environment |= {
                "TASKFORGE_URL": f"http://{reach or self.served}",
                "TASKFORGE_TOKEN": self._token,
            }
        process = subprocess.Popen(
            [*within, *command], cwd=ROOT, env=environment, stdout=self._log, stderr=self._log
        )
        self.alive.append(process)
        return process

    async def ready(self) -> None:
        """Until every process that was started has claimed or could."""
        engine = await self.forge.engine()
        async with asyncio.timeout(40):
            while True:
                online = {
                    worker.pid
                    for worker in await engine.workers([FIRST_PROJECT])
                    if worker.status == "online"
                }
                if {process.pid for process in self.alive} <= online:
                    return
                await asyncio.sleep(0.05)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        self.history.kills[process.pid] = time.time()
        process.wait()
        self.alive.remove(process)

    async def restarting(self, *options: str, slots: int) -> None:
        """As a service manager does: whoever ends is started again, until cancelled."""
        mine = [self.start(*options, slots=slots)]
        while True:
            await asyncio.sleep(0.05)
            for process in mine:
                if process.poll() is not None:
                    self.alive.remove(process)
                    mine.remove(process)
                    mine.append(self.start(*options, slots=slots))

    # --- Load ---

    async def load(self, per_second: int, seconds: tuple[float, ...]) -> None:
        """Enqueue at this rate until cancelled; what was acknowledged is remembered."""
        work = self.function("work")
        number = 0
        began = time.monotonic()
        while True:
            wanted = int((time.monotonic() - began) * per_second) - number
            if wanted > 0:
                calls = [(seconds[(number + index) % len(seconds)],) for index in range(wanted)]
                self.acknowledged |= {
                    handle.id for handle in await asyncio.shield(work.enqueue_many(calls))
                }
                number += wanted
            await asyncio.sleep(0.05)

    async def enqueue(self, name: str, *calls: tuple[Any, ...]) -> list[UUID]:
        handles = [handle.id for handle in await self.function(name).enqueue_many(calls)]
        self.acknowledged |= set(handles)
        return handles

    async def stats(self, queue: str = "default") -> QueueStats:
        [found] = [
            one
            for one in await (await self.forge.engine()).stats([FIRST_PROJECT])
            if one.queue == queue
        ]
        return found

    async def drained(self, patience: float = 40.0) -> bool:
        """Whether every job of the default queue ended in time."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            stats = await self.stats()
            if not stats.pending and not stats.scheduled and not stats.processing:
                return True
            await asyncio.sleep(0.1)
        return False

    async def violations(self) -> list[str]:
        return await self.history.violations(await self.forge.engine(), self.acknowledged)


@pytest.fixture(params=["sqlite", "postgres", "http"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if request.param == "sqlite":
        yield {"url": f"sqlite:///{tmp_path}/jobs.db"}
    elif request.param == "http":
        yield {"url": f"sqlite:///{tmp_path}/jobs.db", "served": free_address()}
    else:
        yield {
            "url": request.getfixturevalue("postgres_url"),
            "schema": f"chaos_{secrets.token_hex(6)}",
        }


def free_address(host: str = "127.0.0.1") -> str:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


@contextlib.asynccontextmanager
async def beside(*tasks: Any) -> AsyncIterator[None]:
    """Run these while the body does; should one fail, so does the body's test."""
    running = [asyncio.ensure_future(task) for task in tasks]
    try:
        yield
        for task in running:
            if task.done():
                task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def kill_whole(process: subprocess.Popen[bytes]) -> None:
    """With its lease keeper, which would otherwise go on and tell of it, and all else that it
    started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGSTOP)  # it would start another
        for one in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    process.kill()
    process.wait()


def freeze(process: subprocess.Popen[bytes], url: str) -> None:
    """The worker process alone, not its lease keeper: that one must notice. On SQLite not in the
    middle of a commit: it would hold the file's only write lock, and everyone would wait for it to
    go on."""
    for _ in range(50):
        process.send_signal(signal.SIGSTOP)
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)
        if not url.startswith("sqlite:") or _is_writable(sqlite_path(url)):
            return
        thaw(process)
        time.sleep(random.uniform(0.01, 0.1))
    raise AssertionError("the worker is always in the middle of a commit")


def _is_writable(path: Path) -> bool:
    connection = sqlite3.connect(path, timeout=0.5, isolation_level=None)
    try:
        connection.execute("begin immediate")
        connection.execute("rollback")
    except sqlite3.OperationalError:
        return False
    else:
        return True
    finally:
        connection.close()


def thaw(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGCONT)


def bound(n: int) -> str:
    """What a zero among n means: the 95 % bound."""
    return f"0 of {n:,} (95 %: < {min(1, 3 / max(n, 1)):.2%})"
